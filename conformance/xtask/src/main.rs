//! Tasks of this repository: `cargo xtask import`, `book`, `ci`, `deny`, `goldens`, `mutants`, `packages`, `pgo`,
//! `schedulers`, `semver` and `commits`.

mod book;
mod ci;
mod commits;
mod deny;
mod goldens;
mod import;
mod mutants;
mod packages;
mod pgo;
mod published;
mod schedulers;
mod semver;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write every embedded data file from a checkout of Kubernetes and a running API server.
    Import(import::Args),
    /// Change links of pages for mdBook, which starts this task.
    Book(book::Args),
    /// Run everything that a change has to pass.
    Ci(ci::Args),
    /// Check licenses, versions and sources of dependencies by deny.toml.
    Deny,
    /// Review the goldens that differ, one by one.
    Goldens(goldens::Args),
    /// Change the controllers in one place at a time, and see whether a scenario notices.
    Mutants(mutants::Args),
    /// Build the packages from a built program and from the crates, and run their tests.
    Packages(packages::Args),
    /// Build the program for a release, optimized by a profile of its own work.
    Pgo(pgo::Args),
    /// Compare the simulated scheduler with a real kube-scheduler on generated clusters.
    Schedulers(schedulers::Args),
    /// Compare the public interface of the crates with that of a released version, by cargo-semver-checks.
    Semver(semver::Args),
    /// Check the messages of commits.
    Commits(commits::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Import(args) => import::run(&args),
        Task::Book(args) => book::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::Deny => deny::run(),
        Task::Goldens(args) => goldens::run(&args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Packages(args) => packages::run(&args),
        Task::Pgo(args) => pgo::run(&args),
        Task::Schedulers(args) => schedulers::run(&args),
        Task::Semver(args) => semver::run(&args),
        Task::Commits(args) => commits::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The root of the workspace.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.ancestors().nth(2);
    root.expect("xtask is two directories below the root")
        .to_owned()
}

//! `cargo xtask semver`: compares the public interface of the crates with that of a released version, by
//! cargo-semver-checks. A change that breaks users needs a new minor version, until there is a version 1.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail, ensure};

use crate::ci::cargo;
use crate::published::{flags, names, names_at};
use crate::root;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The revision to compare with [default: the newest tag of a version].
    #[arg(long, value_name = "REVISION")]
    baseline_rev: Option<String>,
    /// Only these crates [default: all that are published].
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
}

/// Runs the comparison, whose exit code says whether the version has to rise by more than a patch. Crates that are newer
/// than the revision have nothing to be compared with, at which cargo-semver-checks stops; they are named and left out.
///
/// # Errors
/// cargo-semver-checks is not installed, or there is no revision to compare with.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_installed = cargo().args(["semver-checks", "--version"]).output();
    let is_installed = is_installed.is_ok_and(|output| output.status.success());
    ensure!(
        is_installed,
        "this needs cargo-semver-checks; `cargo install --locked cargo-semver-checks` installs it"
    );
    let baseline = match &args.baseline_rev {
        Some(revision) => revision.clone(),
        None => newest_release()?,
    };
    println!("semver: comparing with {baseline}");
    let crates = match args.crates.is_empty() {
        true => names()?,
        false => args.crates.clone(),
    };
    let before = names_at(&baseline)?;
    let (crates, new): (Vec<String>, Vec<String>) =
        crates.into_iter().partition(|name| before.contains(name));
    if !new.is_empty() {
        println!("semver: new since {baseline}: {}", new.join(", "));
    }
    if crates.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = cargo();
    command.args(comparison(&baseline, &crates));
    // Crates of the baseline may lack the feature that chooses a version, which k8s-openapi needs to be documented.
    command.env("K8S_OPENAPI_ENABLED_VERSION", "1.36");
    let status = command.status().context("cannot start cargo")?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The arguments of cargo that compare these crates with a revision.
fn comparison<'a>(baseline: &'a str, crates: &'a [String]) -> Vec<&'a str> {
    let fixed = ["semver-checks", "check-release", "--baseline-rev", baseline];
    fixed.into_iter().chain(flags(crates)).collect()
}

/// The newest tag of a version, such as `v0.1.0`, in the history of the checkout.
fn newest_release() -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.current_dir(root());
    git.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]);
    let output = git.output().context("cannot start git")?;
    if !output.status.success() {
        bail!("no version is tagged; name a revision with --baseline-rev");
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_has_the_crates_that_were_published_then() {
        // A checkout without history has this revision at least.
        let now = names_at("HEAD").unwrap();
        assert!(now.iter().any(|name| name == "kubeproof"), "{now:?}");
        let error = names_at("no-such-revision").unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read Cargo.toml of no-such-revision"),
            "{error}"
        );
    }

    #[test]
    fn every_published_crate_is_compared_with_the_baseline() {
        let crates = names().unwrap();
        let arguments = comparison("v0.1.0", &crates);
        let fixed = ["semver-checks", "check-release", "--baseline-rev", "v0.1.0"];
        assert_eq!(arguments[..4], fixed);
        for name in ["kubeproof", "kubeproof-apiserver", "kubeproof-tracer"] {
            assert!(
                arguments.windows(2).any(|two| two == ["--package", name]),
                "{name}"
            );
        }
    }
}

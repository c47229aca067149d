//! `cargo xtask ci`: everything that a change has to pass.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

/// A step, which is a cargo command.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const STEPS: [Step; 6] = [
    Step {
        name: "fmt",
        args: &["fmt", "--check"],
        env: &[],
    },
    Step {
        name: "clippy",
        args: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        env: &[],
    },
    // As a test of a controller depends on it.
    Step {
        name: "library",
        args: &["check", "-p", "kubeproof", "--no-default-features"],
        env: &[],
    },
    Step {
        name: "doc",
        args: &["doc", "--no-deps", "--workspace"],
        env: &[("RUSTDOCFLAGS", "-Dwarnings")],
    },
    Step {
        name: "test",
        args: &["test", "--workspace"],
        env: &[],
    },
    Step {
        name: "scenarios",
        args: &["run", "--release", "-p", "kubeproof", "--", "run"],
        env: &[],
    },
];

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps: fmt, clippy, library, doc, test, scenarios.
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
}

/// Runs the steps one after another, until one fails.
///
/// # Errors
/// A step is unknown, or cargo cannot be started.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for step in chosen(&args.steps)? {
        println!("ci: {}: cargo {}", step.name, step.args.join(" "));
        let mut command = cargo();
        command.args(step.args).env("CI", "true");
        let status = command.envs(step.env.iter().copied()).status();
        if !status.context("cannot start cargo")?.success() {
            println!("ci: {} failed", step.name);
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The cargo that runs this task, at the root of the workspace.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::root());
    command
}

/// The steps with these names, in the order of [`STEPS`]; all if none is named.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Step>> {
    for name in names {
        let known = STEPS.iter().any(|step| step.name == name);
        ensure!(known, "there is no step {name}");
    }
    let is_chosen = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(STEPS.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_and_run_in_their_order() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let steps = chosen(&names)?;
            anyhow::Ok(steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["test", "fmt"]).unwrap(), ["fmt", "test"]);
        assert_eq!(names(&[]).unwrap().len(), STEPS.len());
        assert!(names(&["tset"]).is_err());
    }
}

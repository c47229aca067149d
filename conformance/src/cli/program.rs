//! The flags for programs as the controllers under test.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use kubeproof::runner::RunOptions;
use kubeproof::runner::remote::unfit_for_program;
use kubeproof::scenario::{HumanDuration, ScenarioFile};
use kubeproof::testbed::ExternalPrograms;

use super::{out, threads};

/// The number of runs at once in real time: they wait most of the time.
const AT_ONCE: usize = 8;
/// A cluster with a program counts as settled after this long without a write.
const QUIET: Duration = Duration::from_secs(3);

#[derive(Args)]
pub(super) struct ProgramArgs {
    /// Start this program as the controller under test when the objects of `given` exist, with KUBECONFIG,
    /// KUBEPROOF_URL and KUBEPROOF_NAMESPACE set; everything then happens in real time. It is killed and restarted
    /// where controllers crash. Several programs may be given.
    #[arg(long, value_name = "COMMAND", alias = "controller", value_parser = command)]
    program: Vec<String>,
    /// In real time: the cluster counts as settled after this long without a write [default: 3s with --program, 4s
    /// with --kubeconfig].
    #[arg(long, value_name = "DURATION", alias = "quiet")]
    pub(super) settle_after: Option<HumanDuration>,
}

fn command(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a command is expected".to_owned()),
        false => Ok(text.to_owned()),
    }
}

impl ProgramArgs {
    /// Returns the programs; `None` without `--program`.
    pub(super) fn programs(&self) -> Option<ExternalPrograms> {
        (!self.program.is_empty()).then(|| ExternalPrograms {
            commands: self.program.clone(),
            quiet: self.settle_after.map_or(QUIET, |quiet| quiet.0),
        })
    }

    /// Returns the scenarios that can run with a program as the controller; prints the reason for each of the others.
    pub(super) fn fitting(&self, paths: Vec<PathBuf>, json: bool) -> anyhow::Result<Vec<PathBuf>> {
        if self.program.is_empty() {
            return Ok(paths);
        }
        let mut fitting = Vec::new();
        for path in paths {
            let file = ScenarioFile::read(&path)?;
            match unfit_for_program(&file.scenario) {
                None => fitting.push(path),
                Some(why) if !json => out::say(&format!("skip {}  ({why})", file.name))?,
                Some(_) => {}
            }
        }
        ensure!(
            !fitting.is_empty(),
            "none of these scenarios can be run with a program as the controller"
        );
        Ok(fitting)
    }
}

/// Runs `work` on each of `jobs`, with as many threads as [`at_once`] returns for these options.
pub(super) fn each<J: Send, R: Send>(
    options: &RunOptions,
    jobs: Vec<J>,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    threads::at_once(at_once(options, None), jobs, work)
}

/// Returns the number of runs at once: `asked`, or the default for these options.
pub(super) fn at_once(options: &RunOptions, asked: Option<NonZeroUsize>) -> usize {
    match (asked, &options.programs) {
        (Some(asked), _) => asked.get(),
        (None, None) => std::thread::available_parallelism().map_or(1, usize::from),
        (None, Some(_)) => AT_ONCE,
    }
}

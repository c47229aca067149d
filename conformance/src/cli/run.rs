//! `kubeproof run`.

mod remote;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;
use kubeproof::runner::RunOptions;
use kubeproof::suite::{self, Verdict};
use kubeproof_apiserver::Clock;
use serde_json::json;

use super::threads;

#[derive(Args)]
pub(super) struct RunArgs {
    /// Scenario files, or directories of them.
    #[arg(value_name = "SCENARIO.yaml|DIR")]
    paths: Vec<PathBuf>,
    /// The controllers that run: all, none, or names between commas [default: the scenario's; with
    /// --kubeconfig none but the cluster's own].
    #[arg(long, value_name = "all|none|NAME,...")]
    controllers: Option<String>,
    /// Print one JSON object a scenario.
    #[arg(long)]
    json: bool,
    /// Run the scenarios in the order that this number determines, not in that of their names.
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Not built yet: refused.
    #[arg(long, value_name = "DIR", hide = true)]
    report: Option<PathBuf>,
    /// Not built yet: refused.
    #[arg(long, value_name = "COMMAND", hide = true)]
    controller: Option<String>,
    /// Run the portable scenarios on the cluster of this kubeconfig, with its own controllers, and
    /// compare their outcomes.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

struct Finished {
    name: String,
    verdict: Verdict,
    took: Duration,
}

pub(super) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    refuse_unbuilt(&args)?;
    let options = RunOptions {
        controllers: args
            .controllers
            .as_deref()
            .map(super::controller_names)
            .transpose()?,
        ..RunOptions::default()
    };
    let mut paths = scenario_paths(args.paths)?;
    if let Some(seed) = args.shuffle {
        suite::shuffle(&mut paths, seed);
    }
    let finished = match &args.kubeconfig {
        Some(kubeconfig) => {
            let controllers = options.controllers.unwrap_or_default();
            remote::run(&paths, kubeconfig, controllers, args.json)?
        }
        None => {
            let progress = progress_bar(paths.len(), args.json);
            let finished = run_all(paths, &options, &progress, args.json);
            progress.finish_and_clear();
            finished
        }
    };
    let failed = finished
        .iter()
        .filter(|one| one.verdict != Verdict::Passed)
        .count();
    println!("{} passed, {failed} failed", finished.len() - failed);
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn refuse_unbuilt(args: &RunArgs) -> anyhow::Result<()> {
    let unbuilt = [
        ("--report", args.report.is_some()),
        ("--controller", args.controller.is_some()),
    ];
    for (flag, given) in unbuilt {
        anyhow::ensure!(!given, "run has no {flag} in this version");
    }
    Ok(())
}

pub(super) fn scenario_paths(paths: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    let given = !paths.is_empty();
    let roots = if given {
        paths
    } else {
        vec![suite::scenarios_dir()]
    };
    let mut found = Vec::new();
    for root in roots {
        anyhow::ensure!(
            given || root.is_dir(),
            "the scenarios this program was built with are gone; name a file or directory"
        );
        let below = suite::find(&root);
        found.extend(below.with_context(|| format!("cannot list {}", root.display()))?);
    }
    anyhow::ensure!(
        !found.is_empty(),
        "there is no scenario file (*.yaml) there"
    );
    Ok(found)
}

fn progress_bar(scenarios: usize, json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")
        .expect("the template has only known keys");
    ProgressBar::new(scenarios as u64).with_style(style)
}

/// Runs the scenarios, a thread for each processor; prints each as it ends.
fn run_all(
    paths: Vec<PathBuf>,
    options: &RunOptions,
    progress: &ProgressBar,
    json: bool,
) -> Vec<Finished> {
    let clock = Clock::real();
    threads::each(paths, |path| {
        let began = clock.now();
        let (name, verdict) = suite::check(&path, options);
        let took: SignedDuration = clock.now().duration_since(began);
        let one = Finished {
            name,
            verdict,
            took: took.unsigned_abs(),
        };
        let line = if json { in_json(&one) } else { in_words(&one) };
        progress.suspend(|| println!("{line}"));
        progress.inc(1);
        one
    })
}

fn in_words(one: &Finished) -> String {
    let millis = one.took.as_millis();
    match &one.verdict {
        Verdict::Passed => format!("ok   {}  ({millis} ms)", one.name),
        Verdict::Failed(why) => format!("FAIL {}  ({millis} ms)\n{}", one.name, why.trim_end()),
    }
}

fn in_json(one: &Finished) -> String {
    let millis = u64::try_from(one.took.as_millis()).unwrap_or(u64::MAX);
    let (passed, why) = match &one.verdict {
        Verdict::Passed => (true, None),
        Verdict::Failed(why) => (false, Some(why)),
    };
    json!({"scenario": one.name, "passed": passed, "milliseconds": millis, "failure": why})
        .to_string()
}

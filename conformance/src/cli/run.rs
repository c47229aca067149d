//! `kubeproof run`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;
use kubeproof::runner::{RunOptions, remote};
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite::{self, Verdict};
use kubeproof_apiserver::Clock;
use serde_json::json;

use super::threads;

/// How many scenarios run at once on a cluster that is there already.
const REMOTE_AT_ONCE: usize = 8;

#[derive(Args)]
pub(super) struct RunArgs {
    /// Scenario files, or directories of them.
    #[arg(value_name = "SCENARIO.yaml|DIR")]
    paths: Vec<PathBuf>,
    /// The controllers that run: all, none, or names between commas [default: the scenario's].
    #[arg(long, value_name = "all|none|NAME,...")]
    controllers: Option<String>,
    /// Print one JSON object a scenario.
    #[arg(long)]
    json: bool,
    /// Not built yet: refused.
    #[arg(long, value_name = "DIR", hide = true)]
    report: Option<PathBuf>,
    /// Not built yet: refused.
    #[arg(long, value_name = "COMMAND", hide = true)]
    controller: Option<String>,
    /// Run the portable scenarios on the cluster of this kubeconfig, with its own controllers, and
    /// compare their outcomes.
    #[arg(long, value_name = "FILE", conflicts_with = "controllers")]
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
    let paths = scenario_paths(args.paths)?;
    let finished = match &args.kubeconfig {
        Some(kubeconfig) => run_remote(&paths, kubeconfig, args.json)?,
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

/// Runs the portable ones of the scenarios on the cluster of a kubeconfig, several at a time: they
/// wait most of the time, and each has a namespace of its own.
fn run_remote(paths: &[PathBuf], kubeconfig: &Path, json: bool) -> anyhow::Result<Vec<Finished>> {
    let mut files = Vec::new();
    for path in paths {
        let file = ScenarioFile::read(path)?;
        match remote::unportable(&file.scenario) {
            None => files.push(file),
            Some(why) if !json => println!("skip {}  ({why})", file.name),
            Some(_) => {}
        }
    }
    let clock = Clock::real();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = super::kubeconfig::client(kubeconfig).await?;
        let runs = stream::iter(files).map(|file| {
            let (client, clock) = (client.clone(), clock.clone());
            async move {
                let began = clock.now();
                let verdict = suite::check_remote(&file, client).await;
                let took: SignedDuration = clock.now().duration_since(began);
                Finished {
                    name: file.name,
                    verdict,
                    took: took.unsigned_abs(),
                }
            }
        });
        let told = runs.buffer_unordered(REMOTE_AT_ONCE).inspect(|one| {
            println!("{}", if json { in_json(one) } else { in_words(one) });
        });
        Ok(told.collect().await)
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

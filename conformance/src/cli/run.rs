//! `kubeproof run`.

pub(super) mod leave;
mod remote;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;
use kubeproof::report::{self, Page, ScenarioReport};
use kubeproof::runner::RunOptions;
use kubeproof::suite::{self, Verdict};
use kubeproof_apiserver::Clock;
use serde_json::json;

use super::outside::{self, OutsideArgs};
use leave::Leave;

#[derive(Args)]
pub(super) struct RunArgs {
    /// Scenario files, or directories of them.
    #[arg(value_name = "SCENARIO.yaml|DIR")]
    paths: Vec<PathBuf>,
    /// The controllers that run: all, none, or names between commas [default: the scenario's; with
    /// --kubeconfig none but the cluster's own, with --controller none but that].
    #[arg(long, value_name = "all|none|NAME,...")]
    controllers: Option<String>,
    /// Print one JSON object a scenario.
    #[arg(long)]
    json: bool,
    /// Run the scenarios in the order that this number determines, not in that of their names.
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Let what happens in one instant happen in the order that this number determines, and compare
    /// outcomes; 0 is the order of goldens.
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 0,
        conflicts_with = "seeds"
    )]
    seed: u64,
    /// Run each scenario in the orders of the seeds 1 to N besides.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seeds: u64,
    /// Write the log of the run, for `kubeproof replay`; needs one scenario.
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    log: Option<PathBuf>,
    /// Write a log of each run there.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Write a page there that shows the runs, and the logs of those that failed.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    outside: OutsideArgs,
    /// Run the portable scenarios on the cluster of this kubeconfig, with its own controllers, and
    /// compare their outcomes.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

struct Finished {
    name: String,
    verdict: Verdict,
    took: Duration,
    /// The command that runs it again, when it takes more than its name.
    again: Option<String>,
    shown: Option<ScenarioReport>,
}

pub(super) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    refuse_mixtures(&args)?;
    let options = RunOptions {
        controllers: args
            .controllers
            .as_deref()
            .map(super::controller_names)
            .transpose()?,
        outside: args.outside.program(),
        ..RunOptions::default()
    };
    let mut paths = args
        .outside
        .fitting(scenario_paths(args.paths)?, args.json)?;
    if let Some(seed) = args.shuffle {
        suite::shuffle(&mut paths, seed);
    }
    let finished = match &args.kubeconfig {
        Some(kubeconfig) => {
            let controllers = options.controllers.unwrap_or_default();
            remote::run(&paths, kubeconfig, controllers, args.json)?
        }
        None => {
            ensure!(
                args.log.is_none() || paths.len() == 1,
                "--log takes one scenario; --logs DIR takes any number"
            );
            let leave = Leave::new(args.log, args.logs, args.report.clone())?;
            let orders = args.seed..=args.seed.max(args.seeds);
            let jobs = paths.iter();
            let jobs = jobs.flat_map(|path| orders.clone().map(|order| (path.clone(), order)));
            let jobs: Vec<_> = jobs.collect();
            let progress = progress_bar(jobs.len(), args.json);
            let finished = run_all(jobs, &options, (&leave, &progress), args.json)?;
            progress.finish_and_clear();
            finished
        }
    };
    let failed = finished
        .iter()
        .filter(|one| one.verdict != Verdict::Passed)
        .count();
    let ran = finished.len();
    if let Some(dir) = &args.report {
        let scenarios = finished.into_iter().filter_map(|one| one.shown).collect();
        let page = Page {
            scenarios,
            matrix: None,
        };
        let written = report::write(dir, &page);
        written.with_context(|| format!("cannot write a report into {}", dir.display()))?;
    }
    println!("{} passed, {failed} failed", ran - failed);
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Refuses flags that say nothing together.
fn refuse_mixtures(args: &RunArgs) -> anyhow::Result<()> {
    let is_outside = args.outside.program().is_some();
    let leaves_logs = args.log.is_some() || args.logs.is_some();
    let has_order = args.seed + args.seeds > 0;
    let is_remote = args.kubeconfig.is_some();
    ensure!(
        !(is_remote && (leaves_logs || has_order || is_outside || args.report.is_some())),
        "logs, reports, seeds and programs are for runs of their own, not for those with --kubeconfig"
    );
    ensure!(
        !(is_outside && (leaves_logs || has_order)),
        "what a program does in real time has no order that a seed decides, and no replay"
    );
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

/// Runs the scenarios, each in an order, a thread for each processor; prints each as it ends.
fn run_all(
    jobs: Vec<(PathBuf, u64)>,
    options: &RunOptions,
    (leave, progress): (&Leave, &ProgressBar),
    json: bool,
) -> anyhow::Result<Vec<Finished>> {
    let clock = Clock::real();
    let finished = outside::each(options, jobs, |(path, order)| {
        let began = clock.now();
        let options = RunOptions {
            order,
            notes: leave.every_log(),
            ..options.clone()
        };
        let mut checked = suite::check(&path, &options);
        let took: SignedDuration = clock.now().duration_since(began);
        let log = leave.log(&mut checked, &options)?;
        let shown = leave.report.as_ref().map(|_| ScenarioReport {
            log,
            ..ScenarioReport::of(&checked, order)
        });
        let again = format!("kubeproof run {} --seed {order}", path.display());
        let one = Finished {
            name: match order {
                0 => checked.name,
                order => format!("{} (seed {order})", checked.name),
            },
            verdict: checked.verdict,
            took: took.unsigned_abs(),
            again: (order > 0).then_some(again),
            shown,
        };
        let line = if json { in_json(&one) } else { in_words(&one) };
        progress.suspend(|| println!("{line}"));
        progress.inc(1);
        anyhow::Ok(one)
    });
    finished.into_iter().collect()
}

fn in_words(one: &Finished) -> String {
    let millis = one.took.as_millis();
    match &one.verdict {
        Verdict::Passed => format!("ok   {}  ({millis} ms)", one.name),
        Verdict::Failed(why) => {
            let again = one.again.iter().map(|again| format!("\nreplay: {again}"));
            let again: String = again.collect();
            format!(
                "FAIL {}  ({millis} ms)\n{}{again}",
                one.name,
                why.trim_end()
            )
        }
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

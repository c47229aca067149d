//! `kubeproof explore`.

#[cfg(unix)]
mod branching;
mod found;
mod jobs;
mod page;

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kubeproof::explore::{self, Kind, Options, Plan, Reference};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::{log, report};

use super::outside::{self, OutsideArgs};
use super::run::leave::{file_name, write};
use super::run::scenario_paths;
use super::threads;
use found::Found;
use jobs::Done;

#[derive(Args)]
pub(super) struct ExploreArgs {
    /// Scenario files, or directories of them.
    #[arg(value_name = "SCENARIO.yaml|DIR")]
    paths: Vec<PathBuf>,
    /// The kinds of faults, between commas [default: all].
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    faults: Vec<Kind>,
    /// Whose requests and events, by user agent, between commas [default: all controllers].
    #[arg(long, value_name = "AGENT,...", value_delimiter = ',')]
    from: Vec<String>,
    /// At most so many runs with two faults a scenario, spread evenly over all pairs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pairs: usize,
    /// Replay this plan, and nothing else; needs one scenario.
    #[arg(long, value_name = "PLAN")]
    plan: Option<Plan>,
    /// With --plan: the order of what happens in one instant.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "plan")]
    seed: u64,
    /// Do every run in the orders of the seeds 1 to N besides.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seeds: u64,
    #[command(flatten)]
    outside: OutsideArgs,
    /// Write a page there that shows the scenarios and what was found.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write a log of each difference there; with --plan, of the run.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Print one JSON object a divergence.
    #[arg(long)]
    json: bool,
}

pub(super) fn explore(args: ExploreArgs) -> anyhow::Result<ExitCode> {
    let base = RunOptions {
        outside: args.outside.program(),
        ..RunOptions::default()
    };
    ensure!(
        base.outside.is_none() || (args.seed + args.seeds == 0 && args.logs.is_none()),
        "what a program does in real time has no order that a seed decides, and no replay"
    );
    let paths = args
        .outside
        .fitting(scenario_paths(args.paths)?, args.json)?;
    let read = paths.iter().map(|path| ScenarioFile::read(path));
    let files = read.collect::<Result<Vec<_>, _>>()?;
    if let Some(plan) = args.plan {
        let [file] = <[ScenarioFile; 1]>::try_from(files)
            .map_err(|_| anyhow::anyhow!("a plan is replayed in one scenario"))?;
        let options = RunOptions {
            plan,
            order: args.seed,
            ..base
        };
        return replay(file, &options, args.logs.as_deref());
    }
    let options = Options {
        kinds: args.faults.into_iter().collect(),
        from: args.from.into_iter().collect(),
        pairs_max: args.pairs,
    };
    if let Some(dir) = &args.logs {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let progress = progress_bar(files.len());
    let mut found = Found::new(args.json, args.logs, args.report.is_some(), &progress);
    let shown = args.report.as_ref().map(|_| files.clone());
    let told = each(files, &base, (&options, args.seeds), |done| {
        match found.take(done) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    });
    progress.finish_and_clear();
    if let ControlFlow::Break(error) = told {
        return Err(error);
    }
    if let Some((dir, files)) = args.report.as_ref().zip(shown) {
        let page = page::of(files, found.matrix(), &base);
        let written = report::write(dir, &page);
        written.with_context(|| format!("cannot write a report into {}", dir.display()))?;
    }
    found.tell_numbers();
    Ok(match found.diverged() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Does all runs; `tell` is given each in its order.
fn each<B>(
    files: Vec<ScenarioFile>,
    base: &RunOptions,
    (options, seeds): (&Options, u64),
    tell: impl FnMut(Done) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let at_once = outside::at_once(base);
    #[cfg(unix)]
    if base.outside.is_none() {
        return branching::each(files, (base, at_once), (options, seeds), tell);
    }
    let jobs = jobs::of(files, base, options, seeds);
    threads::in_order(at_once, jobs, |job| job.run(base), tell)
}

fn progress_bar(scenarios: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} scenarios, {msg}")
        .expect("the template has only known keys");
    ProgressBar::new(scenarios as u64).with_style(style)
}

fn write_log(path: &Path, file: &ScenarioFile, options: &RunOptions) -> anyhow::Result<()> {
    write(path, &log::record(file, options).1)
}

/// Runs one plan and shows how the timelines differ.
fn replay(
    file: ScenarioFile,
    options: &RunOptions,
    logs: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    ensure!(!options.plan.faults().is_empty(), "the plan has no fault");
    if let Some(dir) = logs {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        write_log(
            &dir.join(file_name(&file.name, options.order)),
            &file,
            options,
        )?;
    }
    let without = RunOptions {
        plan: Plan::default(),
        order: 0,
        ..options.clone()
    };
    let reference = Reference::with(&file.scenario, &without)?;
    let divergence = explore::explore_with(&file.scenario, &reference, options);
    let Some(divergence) = divergence else {
        println!("the same outcome");
        println!("1 runs, 0 diverged");
        return Ok(ExitCode::SUCCESS);
    };
    println!("{}\n{}", divergence.outcome, divergence.timelines);
    println!("1 runs, 1 diverged");
    Ok(ExitCode::FAILURE)
}

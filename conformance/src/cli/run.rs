//! `kubeproof run`.

mod finished;
pub(super) mod junit;
pub(super) mod leave;
mod remote;
mod rerun;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;
use kubeproof::explore::Part;
use kubeproof::report::{self, Page, ScenarioReport};
use kubeproof::runner::RunOptions;
use kubeproof::scenario;
use kubeproof::suite::{self, Update, Verdict};
use kubeproof::threads;
use kubeproof_apiserver::Clock;
use kubeproof_machinery::json::{Value, json};

use super::chosen::Chosen;
use super::manual;
use super::out;
use super::program::{self, ProgramArgs};
use super::scheduler_config::SchedulerConfigArgs;
use super::shard::Shard;
use super::shard::record::Record;
use super::values;
use finished::{Finished, in_json, in_words};
use junit::Case;
use leave::Leave;
use remote::ClusterArgs;

#[derive(Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// Write the golden of each scenario whose golden is missing or differs.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "kubeconfig"])]
    accept: bool,
    /// Write goldens that are missing or differ as NAME.snap.new next to the accepted ones, for `cargo insta review`.
    #[arg(long, conflicts_with_all = ["accept", "seed", "seeds", "kubeconfig"])]
    review: bool,
    /// Wait for changes after the run, and run scenarios again whose files have changed, or all of them when a file
    /// that the command of a program names has changed. Ctrl-C ends.
    #[arg(long, conflicts_with_all = ["kubeconfig", "fail_fast", "json", "shard"])]
    watch: bool,
    /// The number of scenarios at once [default: the number of processors; 8 in real time].
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    /// Run only this part of the scenarios, the I-th of N, and leave a record for `kubeproof merge` in what --json prints and
    /// --report writes. With `job/N` the pod of an Indexed Job is number JOB_COMPLETION_INDEX, from 0.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["record", "fail_fast"])]
    shard: Option<Shard>,
    /// End after the first failure.
    #[arg(long)]
    fail_fast: bool,
    /// Write the results into this file as JUnit XML: a case for each scenario.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The controllers that run: all, none, or names between commas; *,-NAME are all but one [default: the scenario's;
    /// with --kubeconfig only the cluster's own, with --program only the program].
    #[arg(long, value_name = "all|none|NAME,...")]
    controllers: Option<String>,
    #[command(flatten)]
    scheduler_config: SchedulerConfigArgs,
    /// Print a JSON object for each scenario, then one with a summary; the summary in words goes to standard error.
    #[arg(long)]
    json: bool,
    /// Run the scenarios in an order drawn from this number instead of by name.
    #[arg(long, value_name = "SEED", value_parser = values::number::<u64>, allow_negative_numbers = true)]
    shuffle: Option<u64>,
    /// Draw the order of simultaneous requests from this number, and compare only outcomes; 0 is the order of goldens.
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 0,
        value_parser = values::number::<u64>, allow_negative_numbers = true,
        conflicts_with = "seeds"
    )]
    seed: u64,
    /// Run each scenario also in the orders of the seeds 1 to N.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::number::<u64>, allow_negative_numbers = true)]
    seeds: u64,
    /// Write the log of the run into this file, for `kubeproof replay` and `serve --from-log`; needs one scenario. With
    /// --kubeconfig, where it takes no FILE: write next to the golden of each scenario what the cluster's controllers
    /// did, and compare that with a run in process.
    #[arg(
        long,
        value_name = "FILE",
        alias = "log",
        conflicts_with = "seeds",
        num_args = 0..=1
    )]
    record: Option<Option<PathBuf>>,
    /// Write a log of each run into this directory.
    #[arg(long, value_name = "DIR", alias = "logs")]
    record_dir: Option<PathBuf>,
    /// Write a page into this directory that shows the runs, with the logs of failed runs.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Run the kubectl steps of scenarios with this program instead of simulating it. Goldens have the output of
    /// kubectl 1.36.
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        default_missing_value = "kubectl",
        require_equals = true,
        conflicts_with_all = ["kubeconfig", "program"]
    )]
    kubectl: Option<PathBuf>,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(mut args: RunArgs) -> anyhow::Result<ExitCode> {
    if args.cluster.kubeconfig.is_some()
        && let Some(file) = &mut args.record
        && let Some(path) = file.take()
    {
        // The path that follows the flag is that of a scenario.
        args.chosen.add(path);
    }
    refuse_mixtures(&args)?;
    args.chosen.complete()?;
    if args.watch {
        return rerun::run(&args);
    }
    once(&args, args.chosen.present()?)
}

/// Runs the scenarios of these files.
fn once(args: &RunArgs, paths: Vec<PathBuf>) -> anyhow::Result<ExitCode> {
    let controllers = args.controllers.as_deref();
    let options = RunOptions {
        controllers: controllers.map(super::controller_names).transpose()?,
        scheduler_config: args.scheduler_config.read()?,
        programs: args.program.programs(),
        kubectl: args.kubectl.clone(),
        ..RunOptions::default()
    };
    let again = finished::again(args);
    let flags = flags(args);
    let mut paths = args.program.fitting(paths, args.json)?;
    let what = ("run", flags, options.programs.is_none());
    let mut record = Record::begin(args.shard, what, &paths, args.json)?;
    if let Some(shard) = args.shard {
        paths = shard.of_paths(&paths);
    }
    if let Some(seed) = args.shuffle {
        suite::shuffle(&mut paths, seed);
    }
    let finished = match args.cluster.kubeconfig.is_some() {
        true => {
            let controllers = options.controllers.unwrap_or_default();
            let reporting = remote::Reporting {
                json: args.json,
                fail_fast: args.fail_fast,
                jobs: args.jobs,
                records: args.record.is_some(),
            };
            let quiet = args.program.settle_after.map(|quiet| quiet.0);
            remote::run(&paths, &args.cluster, quiet, controllers, reporting)?
        }
        false => in_process(args, &paths, &options)?,
    };
    if let Some(path) = &args.junit {
        let cases: Vec<Case> = finished.iter().map(Case::of).collect();
        leave::write(path, &junit::of(&cases))?;
    }
    let (failed, ran) = (
        finished.iter().filter(|one| one.has_failed()).count(),
        finished.len(),
    );
    if failed > 0 && !args.json {
        out::say(&finished::failures(&finished, &again))?;
    }
    let summary = json!({"summary": {"passed": ran - failed, "failed": failed}}).to_string();
    if let Some(dir) = &args.report {
        for one in &finished {
            record.add(in_json(one));
            one.shown.iter().for_each(|shown| record.add_page(shown));
        }
        record.add(&*summary);
        record.leave(dir)?;
        let scenarios = finished.into_iter().filter_map(|one| one.shown).collect();
        let page = Page {
            scenarios,
            matrix: None,
            made_by: Some(manual::made_by()),
        };
        let written = report::write(dir, &page);
        written.with_context(|| format!("cannot write a report into {}", dir.display()))?;
    }
    let numbers = format!("{} passed, {failed} failed", ran - failed);
    if args.json {
        out::say(&summary)?;
        out::note(&numbers);
    } else {
        out::say(&numbers)?;
    }
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The flags that change results.
fn flags(args: &RunArgs) -> Value {
    json!({
        "controllers": args.controllers,
        "schedulerConfig": args.scheduler_config.path(),
        "seed": args.seed,
        "seeds": args.seeds,
        "kubectl": args.kubectl.is_some(),
        "cluster": args.cluster.kubeconfig.is_some(),
        "programs": args.program.again(),
    })
}

/// Runs the scenarios on servers of this process, each in all orders.
fn in_process(
    args: &RunArgs,
    paths: &[PathBuf],
    options: &RunOptions,
) -> anyhow::Result<Vec<Finished>> {
    let record = match args.record.clone() {
        Some(None) => bail!("--record needs a file; with --kubeconfig it takes none"),
        record => record.flatten(),
    };
    ensure!(
        record.is_none() || paths.len() == 1,
        "--record takes one scenario; --record-dir DIR takes any number"
    );
    let orders = args.seed..=args.seed.max(args.seeds);
    let jobs = paths.iter().flat_map(|path| {
        orders
            .clone()
            .map(|schedule_seed| (path.clone(), schedule_seed))
    });
    let jobs: Vec<_> = jobs.collect();
    let update = match (args.accept, args.review) {
        (true, _) => Some(Update::Accept),
        (_, true) => Some(Update::Review),
        _ => None,
    };
    let reporting = Reporting {
        leave: Leave::new(record, args.record_dir.clone(), args.report.clone())?,
        update,
        progress: progress_bar(jobs.len(), args.json),
        json: args.json,
        fail_fast: args.fail_fast,
        at_once: program::at_once(options, args.jobs),
        seeds: args.seeds,
        program_output: args.program.output_directory(args.report.as_deref())?,
    };
    run_all(jobs, options, &reporting)
}

/// Returns an error for flags that make no sense together.
fn refuse_mixtures(args: &RunArgs) -> anyhow::Result<()> {
    let has_program = args.program.programs().is_some();
    let leaves_logs = matches!(args.record, Some(Some(_))) || args.record_dir.is_some();
    let has_order = args.seed + args.seeds > 0;
    let is_remote = args.cluster.kubeconfig.is_some();
    ensure!(
        !(is_remote && (leaves_logs || has_order || has_program || args.report.is_some())),
        "logs, reports, seeds and programs are not supported with --kubeconfig"
    );
    ensure!(
        !(is_remote && args.scheduler_config.path().is_some()),
        "--scheduler-config is for the simulated scheduler, not for that of a cluster (--kubeconfig)"
    );
    ensure!(
        args.program.settle_after.is_none() || is_remote || has_program,
        "--settle-after needs real time: --kubeconfig or --program"
    );
    ensure!(
        !(has_program && (leaves_logs || has_order)),
        "seeds and logs are not supported with --program, which runs in real time"
    );
    Ok(())
}

fn progress_bar(scenarios: usize, json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")
        .expect("the template has only known keys");
    ProgressBar::new(scenarios as u64).with_style(style)
}

/// The reporting of runs as they end.
struct Reporting {
    leave: Leave,
    update: Option<Update>,
    progress: ProgressBar,
    json: bool,
    fail_fast: bool,
    at_once: usize,
    /// The seed of the last order of each scenario, beginning with 0.
    seeds: u64,
    /// The directory for the output of programs.
    program_output: Option<PathBuf>,
}

/// Runs the scenarios, each in an order; prints each in turn as it ends.
fn run_all(
    jobs: Vec<(PathBuf, u64)>,
    options: &RunOptions,
    reporting: &Reporting,
) -> anyhow::Result<Vec<Finished>> {
    let (mut finished, mut used) = (Vec::new(), BTreeSet::new());
    let work = |(path, schedule_seed)| run_one(path, schedule_seed, options, reporting);
    let ended = threads::in_order(reporting.at_once, jobs.into_iter(), work, |one| {
        let mut one = match one {
            Ok(one) => one,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        judge_orders(&mut one, &mut used, options, reporting.seeds);
        let line = if reporting.json {
            in_json(&one)
        } else {
            in_words(&one)
        };
        let said = reporting.progress.suspend(|| out::say(&line));
        if let Err(closed) = said {
            return ControlFlow::Break(Err(closed));
        }
        reporting.progress.inc(1);
        let is_last = reporting.fail_fast && one.has_failed();
        finished.push(one);
        match is_last {
            true => ControlFlow::Break(Ok(())),
            false => ControlFlow::Continue(()),
        }
    });
    reporting.progress.finish_and_clear();
    if let ControlFlow::Break(result) = ended {
        result?;
    }
    Ok(finished)
}

/// Lets the last of the orders up to seed `seeds` fail if a part of `differs` explains nothing in any order. `used` has the
/// parts that the orders before needed, and is empty after the last.
fn judge_orders(one: &mut Finished, used: &mut BTreeSet<Part>, options: &RunOptions, seeds: u64) {
    let Some((file, own)) = one.differs.take() else {
        return;
    };
    used.extend(own);
    if one.schedule_seed < seeds {
        return;
    }
    let used = std::mem::take(used);
    if seeds == 0 || one.has_failed() {
        return;
    }
    let stale = suite::stale_orders(&file, options, used, seeds + 1);
    if !stale.is_empty() {
        let stale = stale.join("\n  ");
        let why = format!("this explains nothing in any order:\n  {stale}");
        if let Some(shown) = &mut one.shown {
            shown.has_passed = false;
            shown.failure = Some(why.clone());
        }
        one.verdict = Verdict::Failed(why);
    }
}

fn run_one(
    path: PathBuf,
    schedule_seed: u64,
    options: &RunOptions,
    reporting: &Reporting,
) -> anyhow::Result<Finished> {
    let (clock, leave) = (Clock::real(), &reporting.leave);
    let began = clock.now();
    let name = scenario::name(&path);
    let options = RunOptions {
        schedule_seed,
        notes: leave.every_log(),
        ..program::with_output(options, reporting.program_output.as_deref(), (&name, None))
    };
    let mut checked = suite::check(&path, &options);
    let took: SignedDuration = clock.now().duration_since(began);
    let log = leave.log(&mut checked, &options)?;
    let mut shown = leave.report.as_ref().map(|_| ScenarioReport {
        log,
        ..ScenarioReport::of(&checked, schedule_seed)
    });
    let wrote = reporting
        .update
        .map(|update| suite::update(&checked, update));
    let wrote = wrote
        .transpose()
        .context("cannot write a golden")?
        .flatten();
    if wrote.is_some() && reporting.update == Some(Update::Accept) {
        checked.verdict = Verdict::Passed;
        shown = shown.map(ScenarioReport::accepted);
    }
    let file = checked.file.map(Box::new);
    let differs = file.filter(|file| file.scenario.differs_in_order());
    let differs = differs.map(|file| (file, checked.used));
    Ok(Finished {
        offers: checked.offered.is_some() && wrote.is_none(),
        name: match schedule_seed {
            0 => checked.name,
            schedule_seed => format!("{} (seed {schedule_seed})", checked.name),
        },
        path,
        schedule_seed,
        verdict: checked.verdict,
        took: took.unsigned_abs(),
        wrote,
        shown,
        differs,
    })
}

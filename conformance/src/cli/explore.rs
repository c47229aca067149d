//! `kubeproof explore`.

#[cfg(unix)]
mod branching;
mod finished;
pub(super) mod found;
mod jobs;
pub(super) mod page;
mod reproducers;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kubeproof::explore::{self, Kind, Options, Plan, Planned, Points, Reference};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::threads;
use kubeproof::{replay, report};
use kubeproof_machinery::json::{Value, json};

use super::chosen::Chosen;
use super::program::{self, ProgramArgs};
use super::run::junit;
use super::run::leave::{file_name, write};
use super::shard::record::Record;
use super::shard::{Deal, Shard};
use super::{known, out, values};
use finished::Finished;
use found::Found;
use jobs::{Done, Ran, Subject};
use reproducers::Reproducers;

/// The maximum number of points that an error suggests.
const POINTS_SHOWN: usize = 8;

#[derive(Args)]
pub(super) struct ExploreArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// The number of runs at once [default: the number of processors; 8 in real time].
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    /// Do only this part of the runs, the I-th of N, and leave a record for `kubeproof merge` in what --json prints and --report
    /// writes. With `job/N` the pod of an Indexed Job is number JOB_COMPLETION_INDEX, from 0.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["plan", "fail_fast"])]
    shard: Option<Shard>,
    /// End after the first run with a different outcome.
    #[arg(long, conflicts_with = "plan")]
    fail_fast: bool,
    /// Write the results into this file as JUnit XML: a case for each scenario and kind of fault.
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    junit: Option<PathBuf>,
    /// The kinds of faults, between commas [default: crashes, refusals, lost answers, and watches that break off, expire or
    /// miss events].
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    faults: Vec<Kind>,
    /// Only faults that meet requests and events of these user agents, between commas [default: all controllers].
    #[arg(long, value_name = "AGENT,...", value_delimiter = ',')]
    from: Vec<String>,
    /// The requests and events that faults meet: `all`; `covering`, one in each situation, which is the verb or type of event,
    /// the resource, the condition of the object and whether the client knows its last state; or at most N runs for each
    /// scenario, of which all situations come first [default: all; covering with --program].
    #[arg(long, value_name = "all|covering|N")]
    points: Option<Points>,
    /// Do at most N runs with two faults for each scenario, spread evenly over all pairs.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::number::<usize>, allow_negative_numbers = true)]
    pairs: usize,
    /// Run with the faults of this plan, and nothing else; needs one scenario.
    #[arg(long, value_name = "PLAN")]
    plan: Option<Plan>,
    /// With --plan: the seed of the order of simultaneous requests.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "plan", value_parser = values::number::<u64>, allow_negative_numbers = true)]
    seed: u64,
    /// Do every run also in the orders of the seeds 1 to N.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::number::<u64>, allow_negative_numbers = true)]
    seeds: u64,
    #[command(flatten)]
    program: ProgramArgs,
    /// The controllers of kubeproof that run: all, none, or names between commas; *,-NAME are all but one [default: the
    /// scenario's; with --program only the program].
    #[arg(long, value_name = "all|none|NAME,...")]
    controllers: Option<String>,
    /// Note finished runs in this file, and take those that it has as done, so that an exploration that was interrupted goes
    /// on.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "plan",
        requires = "program"
    )]
    resume: Option<PathBuf>,
    /// Write a page into this directory that shows the scenarios and the findings.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write a log of each difference into this directory; with --plan, of the run.
    #[arg(long, value_name = "DIR", alias = "logs")]
    record_dir: Option<PathBuf>,
    /// Shrink each difference to the faults, steps and objects that it needs, and write it into this directory as a scenario
    /// with its faults, which `kubeproof run` fails until the bug is mended.
    #[arg(long, value_name = "DIR")]
    reproducers: Option<PathBuf>,
    /// Print a JSON object for each divergence, then one with a summary; the summary in words goes to standard error.
    #[arg(long)]
    json: bool,
}

pub(super) fn explore(args: ExploreArgs) -> anyhow::Result<ExitCode> {
    let controllers = args.controllers.as_deref();
    let base = RunOptions {
        controllers: controllers.map(super::controller_names).transpose()?,
        programs: args.program.programs(),
        ..RunOptions::default()
    };
    ensure!(
        base.programs.is_none() || (args.seed + args.seeds == 0 && args.record_dir.is_none()),
        "seeds and logs are not supported with --program, which runs in real time"
    );
    let flags = flags(&args);
    let paths = args.program.fitting(args.chosen.files()?, args.json)?;
    let read = paths.iter().map(|path| ScenarioFile::read(path));
    let files = read.collect::<Result<Vec<_>, _>>()?;
    if let Some(plan) = args.plan {
        let [file] = <[ScenarioFile; 1]>::try_from(files)
            .map_err(|_| anyhow::anyhow!("--plan needs exactly one scenario"))?;
        let options = RunOptions {
            plan,
            schedule_seed: args.seed,
            ..base
        };
        let output = args.program.output_directory(args.report.as_deref())?;
        let options = program::with_output(&options, output.as_deref(), (&file.name, Some(1)));
        let at_once = program::at_once(&options, args.jobs);
        let reproducers = Reproducers::of(args.reproducers, (&options, at_once))?;
        let leave = (args.record_dir.as_deref(), reproducers.as_ref());
        return replay(file, &options, leave, args.json);
    }
    let repeats = base.programs.is_none();
    let record = Record::begin(args.shard, ("explore", flags, repeats), &paths, args.json)?;
    let options = Options {
        kinds: args.faults.into_iter().collect(),
        from: args.from.into_iter().collect(),
        pairs_max: args.pairs,
    };
    if let Some(dir) = &args.record_dir {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let progress = progress_bar(args.json);
    let keeps = args.report.is_some() || args.junit.is_some();
    let judged = judges_differs(&base, args.points).then(|| options.clone());
    let mut found = Found::new(args.json, args.record_dir, keeps, judged, &progress);
    found.record = record;
    let at_once = program::at_once(&base, args.jobs);
    found.reproducers = Reproducers::of(args.reproducers, (&base, at_once))?;
    let is_shown = |place: &usize| args.shard.is_none_or(|shard| shard.is_dealt(*place));
    let shown = args.report.as_ref().map(|_| {
        let places = (0..files.len()).filter(is_shown);
        places.map(|place| files[place].clone()).collect()
    });
    let output = args.program.output_directory(args.report.as_deref())?;
    let controllers = controllers.map(|names| format!(" --controllers {names}"));
    let programs = controllers.unwrap_or_default() + &args.program.again();
    let resumed = args.resume.as_deref();
    let resumed = resumed.map(|path| finished(path, &args.program, &programs, &files));
    let finished = resumed.transpose()?;
    let points = match base.programs {
        Some(_) => Points::Covering,
        None => Points::All,
    };
    let how = How {
        base: &base,
        points: args.points.unwrap_or(points),
        finished: finished.as_ref(),
        at_once,
        fail_fast: args.fail_fast,
        progress: &progress,
        program_output: output.as_deref(),
        programs: &programs,
        shard: args.shard,
    };
    let ended = each(files, how, (&options, args.seeds), |done| {
        match done.and_then(|done| found.take(done)) {
            Ok(()) if args.fail_fast && found.diverged() > 0 => ControlFlow::Break(Ok(())),
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    });
    progress.finish_and_clear();
    if let ControlFlow::Break(result) = ended {
        result?;
        found.break_off()?;
    }
    if let Some(path) = &args.junit {
        write(path, &junit::of(&found.cases()))?;
    }
    if let Some((dir, files)) = args.report.as_ref().zip(shown) {
        let page = page::of(files, found.matrix(), &base);
        let written = report::write(dir, &page);
        written.with_context(|| format!("cannot write a report into {}", dir.display()))?;
        found.leave_record(dir, &page)?;
    }
    report_numbers(&found, &options, args.shard.is_some())?;
    Ok(match found.diverged() + found.stale() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The runs in the file of `--resume`. Prints which of them are done again, as the program or a scenario has changed.
fn finished(
    path: &Path,
    program: &ProgramArgs,
    programs: &str,
    files: &[ScenarioFile],
) -> anyhow::Result<Finished> {
    let digest = program::digest(program.commands())?;
    let finished = Finished::open(path, &digest, programs)?;
    for why in finished.outdated(files) {
        out::note(&format!("{}: {why}", path.display()));
    }
    Ok(finished)
}

/// The conditions of the runs.
#[derive(Clone, Copy)]
struct How<'h> {
    base: &'h RunOptions,
    points: Points,
    /// The runs that are not done again.
    finished: Option<&'h Finished>,
    at_once: usize,
    /// Whether only the first difference may be needed.
    fail_fast: bool,
    progress: &'h ProgressBar,
    /// The directory for the output of programs.
    program_output: Option<&'h Path>,
    /// The flags that say which programs and controllers run, each with a blank before it.
    programs: &'h str,
    /// The shard that this process does.
    shard: Option<Shard>,
}

impl How<'_> {
    /// Which plans are done.
    fn deal(&self) -> Deal {
        Deal::of(self.shard, self.base.programs.is_some())
    }
}

/// The flags that change results.
fn flags(args: &ExploreArgs) -> Value {
    let kinds = args.faults.iter().map(|kind| kind.as_str());
    json!({
        "faults": kinds.collect::<BTreeSet<_>>(),
        "from": args.from.iter().collect::<BTreeSet<_>>(),
        "pairs": args.pairs,
        "points": args.points.map(|points| format!("{points:?}")),
        "seeds": args.seeds,
        "programs": args.program.again(),
    })
}

/// Does all runs; `report` receives each result in the order of the jobs.
fn each<B>(
    files: Vec<ScenarioFile>,
    how: How<'_>,
    (options, seeds): (&Options, u64),
    mut report: impl FnMut(anyhow::Result<Done>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    #[cfg(unix)]
    if how.base.programs.is_none() {
        return branching::each(files, how, (options, seeds), |done| report(Ok(done)));
    }
    let jobs = jobs::of(files, &how, options, seeds);
    let work = |job: jobs::Job| job.run((how.base, how.program_output), how.finished);
    threads::in_order(how.at_once, jobs, work, report)
}

/// Whether entries of `differs` that explain nothing are reported. Runs in real time are not the same each time, and an
/// entry may be about a point that is left out.
fn judges_differs(base: &RunOptions, points: Option<Points>) -> bool {
    base.programs.is_none() && matches!(points, None | Some(Points::All))
}

/// Prints the numbers of the exploration, if it had runs. An exploration of nothing, or of a client that does not exist, is
/// an error.
fn report_numbers(found: &Found<'_>, options: &Options, is_shard: bool) -> anyhow::Result<()> {
    let explored = refuse_nothing(found, options, is_shard);
    if found.runs() > 0 || explored.is_ok() {
        found.report_numbers()?;
    }
    explored
}

/// Returns an error when nothing was explored, so that this does not count as success.
fn refuse_nothing(found: &Found<'_>, options: &Options, is_shard: bool) -> anyhow::Result<()> {
    let agents = found.agents();
    for from in &options.from {
        ensure!(
            agents.contains(from),
            "{}",
            known::unknown("user agent", from, agents.iter().map(String::as_str))
        );
    }
    ensure!(
        found.runs() > 0 || is_shard,
        "nothing was explored: these scenarios have no request or event that such a fault could meet; \
         controllers: {}",
        match agents.is_empty() {
            true => "none".to_owned(),
            false => agents.iter().cloned().collect::<Vec<_>>().join(", "),
        }
    );
    Ok(())
}

/// A bar whose length grows as scenarios are planned.
fn progress_bar(json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs{msg}, {eta} left")
        .expect("the template has only known keys");
    ProgressBar::new(0).with_style(style)
}

fn write_log(path: &Path, file: &ScenarioFile, options: &RunOptions) -> anyhow::Result<()> {
    write(path, &replay::record(file, options).1)
}

/// Runs one plan and shows how the timelines differ.
fn replay(
    file: ScenarioFile,
    options: &RunOptions,
    (logs, reproducers): (Option<&Path>, Option<&Reproducers>),
    json: bool,
) -> anyhow::Result<ExitCode> {
    ensure!(!options.plan.faults().is_empty(), "the plan has no fault");
    if let Some(dir) = logs {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        write_log(
            &dir.join(file_name(&file.name, options.schedule_seed)),
            &file,
            options,
        )?;
    }
    let without = RunOptions {
        plan: Plan::default(),
        schedule_seed: 0,
        ..options.clone()
    };
    let reference = Reference::with(&file.scenario, &without)?;
    let carried = explore::carry_out(&file.scenario, &reference, options);
    refuse_unmet(&reference, &carried.unmet)?;
    let Some(divergence) = carried.divergence else {
        if !json {
            out::say("the same outcome")?;
        }
        found::report_numbers(1, 0, 0, json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let reproducer = match reproducers {
        Some(reproducers) => {
            let plan = (&options.plan, options.schedule_seed);
            Some(reproducers.write((&file, plan, 1), &divergence, &|| ())?)
        }
        None => None,
    };
    if json {
        let ran = Ran {
            subject: Arc::new(Subject {
                file,
                reference,
                programs: String::new(),
            }),
            plan: options.plan.clone(),
            schedule_seed: options.schedule_seed,
        };
        out::say(&found::in_json(&ran, &divergence).to_string())?;
    } else {
        let (outcome, timelines) = (&divergence.outcome, &divergence.timelines);
        let differences = format!("{}\n{}", out::diff(outcome), out::diff(timelines));
        out::say(format!("{differences}\n{}", divergence.program_output).trim_end())?;
    }
    if let Some(written) = reproducer {
        out::say(&written.said(json))?;
    }
    found::report_numbers(1, 1, 0, json)?;
    Ok(ExitCode::FAILURE)
}

/// Returns an error for a plan with a fault that struck nowhere, listing the actual points.
fn refuse_unmet(reference: &Reference, unmet: &[Planned]) -> anyhow::Result<()> {
    let Some(planned) = unmet.first() else {
        return Ok(());
    };
    let options = Options {
        kinds: BTreeSet::from([planned.kind()]),
        ..Options::default()
    };
    let plans = reference.plans(&options);
    let plans: Vec<String> = plans.iter().map(ToString::to_string).collect();
    let known: Vec<&str> = plans.iter().map(String::as_str).collect();
    let mut listed = known::closest(&planned.to_string(), &known, POINTS_SHOWN);
    if listed.is_empty() {
        listed.extend(known.iter().take(POINTS_SHOWN));
    }
    let listed: Vec<String> = listed.iter().map(|plan| format!("\n  {plan}")).collect();
    anyhow::bail!(
        "`{planned}` does not strike: no such point occurs; {} points fit this kind of fault, the nearest:{}",
        plans.len(),
        listed.concat()
    )
}

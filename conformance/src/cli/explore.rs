//! `kubeproof explore`.

mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;
use kubeproof::explore::{self, Divergence, Kind, Options, Plan, Reference};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::{log, report, suite};
use serde_json::json;

use super::outside::{self, OutsideArgs};
use super::run::leave::{file_name, write};
use super::run::scenario_paths;
use page::cells;

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

/// A scenario with its run without faults.
struct Subject {
    file: ScenarioFile,
    reference: Reference,
}

/// A run that came to another outcome.
struct Diverged<'a> {
    subject: &'a Subject,
    plan: Plan,
    /// The seed of its order.
    order: u64,
    divergence: Divergence,
}

impl Diverged<'_> {
    /// Whether its scenario says so.
    fn is_explained(&self) -> bool {
        let scenario = &self.subject.file.scenario;
        let by_order = self.order > 0 && scenario.explains_order();
        by_order || scenario.explains(&self.plan.to_string())
    }

    /// The command that runs it again.
    fn replay(&self) -> String {
        let path = self.subject.file.path.display();
        let plan = match self.plan.faults() {
            [] => format!("kubeproof run {path}"),
            _ => format!("kubeproof explore {path} --plan '{}'", self.plan),
        };
        match self.order {
            0 => plan,
            order => format!("{plan} --seed {order}"),
        }
    }
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
    let subjects = outside::each(&base, files, |file| {
        let reference = Reference::with(&file.scenario, &base);
        reference.map(|reference| Subject { file, reference })
    });
    let subjects = subjects.into_iter().collect::<Result<Vec<_>, _>>();
    let subjects = subjects.context("a scenario does not run without faults either")?;
    let with_plans = subjects.iter().flat_map(|subject| {
        let singles = subject.reference.plans(&options);
        let pairs = explore::pairs(&singles, options.pairs_max);
        let plans: Vec<Plan> = singles.into_iter().chain(pairs).collect();
        let plans_of_seed_0 = plans.clone().into_iter();
        let others = (1..=args.seeds).flat_map(move |order| {
            let plans = std::iter::once(Plan::default()).chain(plans.clone());
            plans.map(move |plan| (plan, order))
        });
        let plans = plans_of_seed_0.map(|plan| (plan, 0)).chain(others);
        plans.map(move |(plan, order)| (subject, plan, order))
    });
    let jobs: Vec<(&Subject, Plan, u64)> = with_plans.collect();
    let ran = args.report.as_ref().map(|_| cells(&jobs));
    let runs = jobs.len();
    let diverged = outside::each(&base, jobs, |(subject, plan, order)| {
        let options = RunOptions {
            plan: plan.clone(),
            order,
            ..base.clone()
        };
        let (scenario, reference) = (&subject.file.scenario, &subject.reference);
        let divergence = explore::explore_with(scenario, reference, &options)?;
        Some(Diverged {
            subject,
            plan,
            order,
            divergence,
        })
    });
    let diverged: Vec<Diverged<'_>> = diverged.into_iter().flatten().collect();
    let (explained, unexplained): (Vec<_>, Vec<_>) =
        diverged.into_iter().partition(Diverged::is_explained);
    if let Some(dir) = &args.logs {
        leave_logs(dir, &unexplained)?;
    }
    if let Some((dir, ran)) = args.report.as_ref().zip(ran) {
        let page = page::of(&subjects, (ran, &base), (&unexplained, &explained));
        let written = report::write(dir, &page);
        written.with_context(|| format!("cannot write a report into {}", dir.display()))?;
    }
    if args.json {
        tell_json(&unexplained);
    } else {
        tell(&unexplained);
    }
    if !explained.is_empty() && !args.json {
        println!("{} differ as their scenarios say", explained.len());
    }
    println!("{runs} runs, {} diverged", unexplained.len());
    Ok(match unexplained.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Writes a log of each difference, of the run with the shortest plan.
fn leave_logs(dir: &Path, diverged: &[Diverged<'_>]) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (index, (one, _)) in shortest(diverged).into_iter().enumerate() {
        let file = &one.subject.file;
        let name = format!(
            "{}.{}.log.jsonl",
            suite::snapshot_name(&file.name),
            index + 1
        );
        let options = RunOptions {
            plan: one.plan.clone(),
            order: one.order,
            ..RunOptions::default()
        };
        write_log(&dir.join(name), file, &options)?;
    }
    Ok(())
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

/// Tells of each scenario's differences once, with the shortest plan that leads to it.
fn tell(diverged: &[Diverged<'_>]) {
    for (one, others) in shortest(diverged) {
        println!("DIFF {}: {}", one.subject.file.name, one.plan);
        for line in one.divergence.outcome.lines() {
            println!("     {line}");
        }
        if others > 0 {
            println!("     the same with {others} other plans");
        }
        println!("     replay: {}", one.replay());
    }
}

fn tell_json(diverged: &[Diverged<'_>]) {
    for one in diverged {
        let told = json!({
            "scenario": one.subject.file.name,
            "plan": one.plan.to_string(),
            "seed": one.order,
            "outcome": one.divergence.outcome,
            "timelines": one.divergence.timelines,
        });
        println!("{told}");
    }
}

/// The first of those with the fewest faults among equal divergences, with how many others there are.
fn shortest<'a, 'b>(diverged: &'b [Diverged<'a>]) -> Vec<(&'b Diverged<'a>, usize)> {
    let mut found: BTreeMap<(&str, &str), (usize, &Diverged<'_>, usize)> = BTreeMap::new();
    for (index, one) in diverged.iter().enumerate() {
        let key = (&*one.subject.file.name, &*one.divergence.outcome);
        let entry = found.entry(key).or_insert((index, one, 0));
        if one.plan.faults().len() < entry.1.plan.faults().len() {
            entry.1 = one;
        }
        entry.2 += 1;
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|(index, _, _)| *index);
    let told = found.into_iter().map(|(_, one, times)| (one, times - 1));
    told.collect()
}

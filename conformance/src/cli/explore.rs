//! `kubeproof explore`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;
use kubeproof::explore::{self, Divergence, Kind, Options, Plan, Reference};
use kubeproof::scenario::ScenarioFile;
use serde_json::json;

use super::run::scenario_paths;
use super::threads;

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
    divergence: Divergence,
}

pub(super) fn explore(args: ExploreArgs) -> anyhow::Result<ExitCode> {
    let paths = scenario_paths(args.paths)?;
    let read = paths.iter().map(|path| ScenarioFile::read(path));
    let files = read.collect::<Result<Vec<_>, _>>()?;
    if let Some(plan) = args.plan {
        let [file] = <[ScenarioFile; 1]>::try_from(files)
            .map_err(|_| anyhow::anyhow!("a plan is replayed in one scenario"))?;
        return replay(file, &plan);
    }
    let options = Options {
        kinds: args.faults.into_iter().collect(),
        from: args.from.into_iter().collect(),
        pairs_max: args.pairs,
    };
    let subjects = threads::each(files, |file| {
        let reference = Reference::of(&file.scenario);
        reference.map(|reference| Subject { file, reference })
    });
    let subjects = subjects.into_iter().collect::<Result<Vec<_>, _>>();
    let subjects = subjects.context("a scenario does not run without faults either")?;
    let with_plans = subjects.iter().flat_map(|subject| {
        let singles = subject.reference.plans(&options);
        let pairs = explore::pairs(&singles, options.pairs_max);
        let plans = singles.into_iter().chain(pairs);
        plans.map(move |plan| (subject, plan))
    });
    let jobs: Vec<(&Subject, Plan)> = with_plans.collect();
    let runs = jobs.len();
    let diverged = threads::each(jobs, |(subject, plan)| {
        let divergence = explore::explore(&subject.file.scenario, &subject.reference, &plan)?;
        Some(Diverged {
            subject,
            plan,
            divergence,
        })
    });
    let diverged: Vec<Diverged<'_>> = diverged.into_iter().flatten().collect();
    let (explained, unexplained): (Vec<_>, Vec<_>) = diverged
        .into_iter()
        .partition(|one| one.subject.file.scenario.explains(&one.plan.to_string()));
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

/// Runs one plan and shows how the timelines differ.
fn replay(file: ScenarioFile, plan: &Plan) -> anyhow::Result<ExitCode> {
    ensure!(!plan.faults().is_empty(), "the plan has no fault");
    let reference = Reference::of(&file.scenario)?;
    let Some(divergence) = explore::explore(&file.scenario, &reference, plan) else {
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
        let path = one.subject.file.path.display();
        println!(
            "     replay: kubeproof explore {path} --plan '{}'",
            one.plan
        );
    }
}

fn tell_json(diverged: &[Diverged<'_>]) {
    for one in diverged {
        let told = json!({
            "scenario": one.subject.file.name,
            "plan": one.plan.to_string(),
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

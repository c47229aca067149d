//! `cargo xtask mutants`: changes the controllers in one place at a time, and runs the scenarios, which have to notice.
//!
//! All mutants are compiled into one program, where an environment variable chooses one of them: a build for each would
//! take longer than its runs. So a mutant is text around the code it changes ([`mutant::Splice`]), in a copy of the
//! workspace under `target/mutants`. With no mutant chosen the program has to pass all scenarios.

mod areas;
mod compile;
mod find;
mod mutant;
mod reach;
mod report;
mod results;
mod run;
mod scenarios;
// Compiled here for its test; builds of the program have it in another crate.
#[cfg(test)]
#[allow(unreachable_pub, reason = "it is public where it is built")]
mod switch;
mod threads;
mod tree;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use regex_lite::Regex;

use mutant::Mutant;
use results::{Outcome, Results};

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose name, FILE: CHANGE in FUNCTION, matches.
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// Only the mutants of workload controllers, also in the program, which then takes less time to build.
    #[arg(long)]
    workloads: bool,
    /// Only the part K, from 0, of N.
    #[arg(long, value_name = "K/N", value_parser = parse_shard)]
    shard: Option<(usize, usize)>,
    /// The number of runs at once.
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: NonZeroUsize,
    /// Only the N likeliest scenarios for each mutant.
    #[arg(long, value_name = "N")]
    first: Option<NonZeroUsize>,
    /// Only scenarios whose name matches.
    #[arg(long, value_name = "REGEX")]
    scenarios: Option<Regex>,
    /// Print the mutants, and what came of those that were run.
    #[arg(long, conflicts_with_all = ["report", "build"])]
    list: bool,
    /// Only build the program with all mutants.
    #[arg(long, conflicts_with = "report")]
    build: bool,
    /// Only write the report, from the results there are.
    #[arg(long)]
    report: bool,
    /// Run survivors again with scenarios that they passed.
    #[arg(long)]
    again: bool,
}

fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(index, count)| {
        let numbers = (index.parse().ok()?, count.parse().ok()?);
        (numbers.0 < numbers.1).then_some(numbers)
    });
    numbers.ok_or_else(|| "it is K/N, with K from 0 and less than N".to_owned())
}

/// Runs the task.
///
/// # Errors
/// The program cannot be built or run, a scenario fails without a mutant, or a reason for a survivor is out of date.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = crate::root();
    let dir = root.join("target").join("mutants");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mutants = find_all(&root)?;
    let shard = args
        .shard
        .map(|(index, count)| format!("-{index}-of-{count}"));
    let mut results = Results::open(&dir, &shard.unwrap_or_default())?;
    if args.list {
        list(args, &mutants, &results);
        return Ok(ExitCode::SUCCESS);
    }
    if !args.report {
        let sources = build(args, &root, &dir, &mutants, &mut results)?;
        if args.build {
            return Ok(ExitCode::SUCCESS);
        }
        let program = run::program(&dir);
        let jobs = args.jobs.get();
        let limits = run::Limits {
            jobs,
            first: args.first.map_or(usize::MAX, NonZeroUsize::get),
            scenarios: args.scenarios.clone(),
        };
        let reach = reach::measure(&program, sources, &dir.join("reach.json"), jobs)?;
        let numbered = compiled(args, &mutants, &results);
        let tasks = numbered.into_iter().filter_map(|(number, mutant)| {
            let only = args.only.as_ref();
            let is_wanted = only.is_none_or(|only| only.is_match(&mutant.name()));
            let passed = match results.of(mutant) {
                Some(Outcome::Survived { passed, .. }) if !args.again => passed.clone(),
                Some(Outcome::Survived { .. }) | None => BTreeSet::new(),
                Some(_) => return None,
            };
            let is_new = results.of(mutant).is_none();
            let is_open = is_new || !run::open(number, &passed, &reach, &limits).is_empty();
            (is_wanted && is_open).then_some(run::Task {
                number,
                mutant,
                passed,
            })
        });
        let (index, count) = args.shard.unwrap_or((0, 1));
        let chosen = run::shard(tasks.collect(), index, count);
        let chosen = spread(chosen, |task| task.mutant.file.clone());
        println!("mutants: {} of {} to run", chosen.len(), mutants.len());
        let near = near(&mutants);
        let all = (mutants.as_slice(), near.as_slice());
        run::run(&program, &chosen, all, &reach, &mut results, &limits)?;
    }
    report::write(&root, &mutants, &results)?;
    Ok(ExitCode::SUCCESS)
}

/// The mutants of all areas, in their order.
fn find_all(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for file in areas::files(root)? {
        mutants.extend(find::find(&file, &tree::read(&root.join(&file))?)?);
    }
    ensure!(!mutants.is_empty(), "there are no mutants");
    Ok(mutants)
}

/// The mutants of the program: those of its areas that are not known to be refused by the compiler, each with its
/// number. Numbers begin with 1.
fn compiled<'a>(args: &Args, mutants: &'a [Mutant], results: &Results) -> Vec<(u32, &'a Mutant)> {
    let is_compiled = |mutant: &Mutant| {
        let is_wanted = !args.workloads || areas::is_workload(&mutant.file);
        is_wanted && results.of(mutant) != Some(&Outcome::Uncompiled)
    };
    let numbered = (1..).zip(mutants);
    numbered.filter(|(_, mutant)| is_compiled(mutant)).collect()
}

/// These tasks in an order in which the files advance evenly: a run that is stopped has mutants of each.
fn spread<T>(tasks: Vec<T>, file: impl Fn(&T) -> String) -> Vec<T> {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for task in &tasks {
        *sizes.entry(file(task)).or_default() += 1;
    }
    let mut ranks: BTreeMap<String, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, T)> = Vec::new();
    for task in tasks {
        let file = file(&task);
        let size = sizes[&file];
        let rank = ranks.entry(file).or_default();
        ranked.push((*rank * 1_000_000 / size, task));
        *rank += 1;
    }
    ranked.sort_by_key(|(progress, _)| *progress);
    ranked.into_iter().map(|(_, task)| task).collect()
}

/// How many mutants from one on are next to it.
const NEXT: u32 = 8;

/// The mutants near each one, in the order of their numbers.
fn near(mutants: &[Mutant]) -> Vec<run::Near> {
    let mut files: BTreeMap<&str, Range<u32>> = BTreeMap::new();
    let mut functions: BTreeMap<(&str, &str), Range<u32>> = BTreeMap::new();
    for (number, mutant) in (1..).zip(mutants) {
        let (file, function) = (mutant.file.as_str(), mutant.function.as_str());
        let new = number..number;
        files.entry(file).or_insert(new.clone()).end = number + 1;
        functions.entry((file, function)).or_insert(new).end = number + 1;
    }
    let of = |(number, mutant): (u32, &Mutant)| {
        let (file, function) = (mutant.file.as_str(), mutant.function.as_str());
        let function = functions[&(file, function)].clone();
        run::Near {
            next: number..function.end.min(number + NEXT),
            function,
            file: files[file].clone(),
        }
    };
    (1..).zip(mutants).map(of).collect()
}

/// Builds the program, without the mutants that do not compile. Returns a hash of its sources.
fn build(
    args: &Args,
    root: &Path,
    dir: &Path,
    mutants: &[Mutant],
    results: &mut Results,
) -> anyhow::Result<u64> {
    let tree = dir.join(run::TREE);
    loop {
        let numbered = compiled(args, mutants, results);
        println!("mutants: the program is built with {}", numbered.len());
        let sources = tree::copy(root, &tree, &numbered)?;
        let hash = hash_of(&tree)?;
        if run::is_built(dir, hash) {
            return Ok(hash);
        }
        let errors = compile::build(&tree, &dir.join("build"))?;
        if errors.is_empty() {
            run::keep(dir, hash)?;
            return Ok(hash);
        }
        let refused = compile::blame(&errors, &sources)?;
        println!("mutants: {} do not compile", refused.len());
        for number in refused {
            let mutant = &mutants[number as usize - 1];
            results.add(mutant, Outcome::Uncompiled)?;
        }
    }
}

/// The parts of a tree on which a run depends, except for the scenario and its golden.
const RUN: [&str; 5] = [
    "Cargo.lock",
    "apiserver/",
    "conformance/src/",
    "controller/",
    "fixtures/",
];

/// A hash of these parts.
fn hash_of(tree: &Path) -> anyhow::Result<u64> {
    let mut hashes = Vec::new();
    for file in tree::files(tree)? {
        if RUN.iter().any(|path| file.starts_with(path)) {
            let content = std::fs::read(tree.join(&file))?;
            hashes.extend(mutant::hash(&content).to_le_bytes());
        }
    }
    Ok(mutant::hash(&hashes))
}

fn list(args: &Args, mutants: &[Mutant], results: &Results) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for mutant in mutants {
        let name = mutant.name();
        if args.only.as_ref().is_some_and(|only| !only.is_match(&name)) {
            continue;
        }
        let outcome = match results.of(mutant) {
            None => "not run".to_owned(),
            Some(Outcome::Uncompiled) => "does not compile".to_owned(),
            Some(Outcome::Noticed { scenario }) => format!("noticed by {scenario}"),
            Some(Outcome::Hung { scenario }) => format!("hangs in {scenario}"),
            Some(Outcome::Crashed { scenario }) => format!("crashes in {scenario}"),
            Some(Outcome::Survived {
                scenarios,
                reaching,
                ..
            }) => format!("survives {scenarios} of {reaching} scenarios"),
        };
        println!("{name} (line {}): {outcome}", mutant.line);
        let kind = outcome.split(' ').next().unwrap_or_default().to_owned();
        *counts.entry(kind).or_default() += 1;
    }
    println!("{counts:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mutant_is_active_unless_it_is_chosen() {
        assert!(!switch::is(1));
    }

    #[test]
    fn files_advance_evenly() {
        let tasks = spread(vec![10, 11, 12, 13, 20, 21], |task| (task / 10).to_string());
        assert_eq!(tasks, [10, 20, 11, 12, 21, 13]);
    }

    #[test]
    fn a_shard_is_a_part_of_a_number() {
        assert_eq!(parse_shard("0/4"), Ok((0, 4)));
        assert!(parse_shard("4/4").is_err());
        assert!(parse_shard("1").is_err());
        let parts: Vec<Vec<u32>> = (0..3)
            .map(|index| run::shard(vec![0, 1, 2, 3, 4], index, 3))
            .collect();
        assert_eq!(parts, [vec![0, 3], vec![1, 4], vec![2]]);
    }
}

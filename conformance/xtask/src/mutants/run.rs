//! Runs each mutant with the scenarios that reach it, until one fails.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use regex_lite::Regex;

use super::mutant::Mutant;
use super::reach::Reach;
use super::results::{Outcome, Results};
use super::scenarios::{End, Program};
use super::threads;
use super::words::Words;

/// How many scenarios the processes of a mutant run, one process after another; the last runs all that are left.
const CHUNKS: [usize; 3] = [1, 6, 36];
/// How many scenarios come first because they noticed other mutants of the function.
const KNOWN: usize = 2;
/// How many scenarios come next because they noticed the most mutants of the file.
const KNOWN_BY_FILE: usize = 4;
/// How many scenarios come next because they have the most words in common with the mutant.
const ALIKE: usize = 3;
/// A run hangs that uses this much processor time for each of its scenarios, and this much more: on average a scenario
/// takes a fifth of it, and the longest takes half of both.
const HANG_SCENARIO: Duration = Duration::from_millis(500);
const HANG: Duration = Duration::from_secs(3);

/// The scenarios that noticed mutants, for guesses about others.
#[derive(Default)]
struct Noticed<'a> {
    by_function: BTreeMap<(&'a str, &'a str), BTreeMap<&'a str, usize>>,
    by_file: BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
}

impl<'a> Noticed<'a> {
    fn add(&mut self, mutant: &'a Mutant, scenario: &'a str) {
        let function = (mutant.file.as_str(), mutant.function.as_str());
        let of_function = self.by_function.entry(function).or_default();
        *of_function.entry(scenario).or_default() += 1;
        let of_file = self.by_file.entry(&mutant.file).or_default();
        *of_file.entry(scenario).or_default() += 1;
    }
}

/// How much is run.
pub(crate) struct Limits {
    /// At once.
    pub(crate) jobs: usize,
    /// For each mutant, of the scenarios that reach it.
    pub(crate) first: usize,
    /// Only those with such a name.
    pub(crate) scenarios: Option<Regex>,
}

/// The numbers of the mutants near one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Near {
    /// The next mutants of its function: of what is inside of it, or depends on it.
    pub(crate) next: Range<u32>,
    /// The mutants of its function.
    pub(crate) function: Range<u32>,
    /// The mutants of its file.
    pub(crate) file: Range<u32>,
}

/// A mutant to run.
pub(crate) struct Task<'a> {
    pub(crate) number: u32,
    pub(crate) mutant: &'a Mutant,
    /// The hashes of the scenarios that it passed before.
    pub(crate) passed: BTreeSet<u64>,
}

/// Runs these mutants, and adds what comes of them to the results. `near` has what is near each of `mutants`, all that
/// there are, in the order of their numbers.
///
/// # Errors
/// The program cannot be run, or a result not be written.
pub(crate) fn run(
    program: &Program,
    tasks: &[Task<'_>],
    (mutants, near): (&[Mutant], &[Near]),
    reach: &BTreeMap<String, Reach>,
    results: &mut Results,
    limits: &Limits,
) -> anyhow::Result<()> {
    let words = Words::read(&program.root, reach.keys())?;
    let mut noticed = Noticed::default();
    for mutant in mutants {
        let scenario = results.of(mutant).and_then(Outcome::scenario);
        if let Some((name, _)) = scenario.and_then(|name| reach.get_key_value(name)) {
            noticed.add(mutant, name);
        }
    }
    let noticed = parking_lot::Mutex::new(noticed);
    // How many scenarios reach each mutant.
    let mut popularity: BTreeMap<u32, u64> = BTreeMap::new();
    for number in reach.values().flat_map(|one| &one.mutants) {
        *popularity.entry(*number).or_default() += 1;
    }
    let work = |index: usize| {
        let Task {
            number,
            mutant,
            passed,
        } = &tasks[index];
        let near = &near[*number as usize - 1];
        let open = open(*number, passed, reach, limits);
        let mut order = order(open, near, &popularity, mutant, (&noticed.lock(), &words));
        order.truncate(limits.first);
        let outcome = match run_until_noticed(program, *number, &order)? {
            Some(outcome) => outcome,
            None => {
                let now = order.iter().map(|name| reach[*name].scenario);
                let passed = passed.iter().copied().chain(now).collect();
                survived(*number, passed, reach)
            }
        };
        if let Some(name) = outcome.scenario()
            && let Some((name, _)) = reach.get_key_value(name)
        {
            noticed.lock().add(mutant, name);
        }
        anyhow::Ok(outcome)
    };
    let mut survivors = 0;
    let mut done = 0;
    threads::each(tasks.len(), limits.jobs, work, |index, outcome| {
        let mutant = tasks[index].mutant;
        let outcome = outcome?;
        done += 1;
        if let Outcome::Survived { .. } = outcome {
            survivors += 1;
            let (line, of) = (mutant.line, tasks.len());
            println!("{done}/{of} survives: {} (line {line})", mutant.name());
        }
        results.add(mutant, outcome)
    })?;
    println!("mutants: {done} run, {survivors} survive");
    Ok(())
}

/// Those scenarios that reach a mutant, are wanted, and were not passed by it.
pub(crate) fn open<'a>(
    number: u32,
    passed: &BTreeSet<u64>,
    reach: &'a BTreeMap<String, Reach>,
    limits: &Limits,
) -> Vec<(&'a str, &'a Reach)> {
    let reaching = reach
        .iter()
        .filter(|(_, one)| one.mutants.contains(&number));
    let all: Vec<(&str, &Reach)> = reaching.map(|(name, one)| (name.as_str(), one)).collect();
    let is_passed = |one: &Reach| passed.contains(&one.scenario);
    if all.iter().filter(|(_, one)| is_passed(one)).count() >= limits.first {
        return Vec::new();
    }
    let is_open = |(name, one): &(&str, &Reach)| {
        let only = limits.scenarios.as_ref();
        !is_passed(one) && only.is_none_or(|only| only.is_match(name))
    };
    all.into_iter().filter(is_open).collect()
}

/// What came of a mutant that no scenario noticed.
fn survived(number: u32, passed: BTreeSet<u64>, reach: &BTreeMap<String, Reach>) -> Outcome {
    let reaching = reach.values().filter(|one| one.mutants.contains(&number));
    let reaching: Vec<u64> = reaching.map(|one| one.scenario).collect();
    let scenarios = reaching.iter().filter(|one| passed.contains(*one)).count();
    Outcome::Survived {
        passed,
        scenarios,
        reaching: reaching.len(),
    }
}

/// These scenarios, likely ones first: a few that noticed others of its function, a few that noticed others of its file,
/// a few that are about the same things, then those that differ most in what else they reach of its file, for their
/// time. Of the last two, those come first whose directory noticed others of the file.
fn order<'a>(
    mut left: Vec<(&'a str, &Reach)>,
    near: &Near,
    popularity: &BTreeMap<u32, u64>,
    mutant: &Mutant,
    (noticed, words): (&Noticed<'_>, &Words),
) -> Vec<&'a str> {
    let function = (mutant.file.as_str(), mutant.function.as_str());
    let times_by_function = noticed.by_function.get(&function);
    let times_by_file = noticed.by_file.get(mutant.file.as_str());
    let times = |of: Option<&BTreeMap<&str, usize>>, name: &str| {
        let times = of.and_then(|times| times.get(name));
        Reverse(times.copied().unwrap_or(0))
    };
    left.sort_by_key(|(name, one)| {
        (
            times(times_by_function, name),
            times(times_by_file, name),
            one.mutants.len(),
        )
    });
    let known = left
        .iter()
        .take_while(|(name, _)| times(times_by_function, name) > Reverse(0));
    let known = known.take(KNOWN).count();
    let mut rest = left.split_off(known);
    // Stable, as are the others: those that reach the least stay first.
    rest.sort_by_key(|(name, _)| times(times_by_file, name));
    let by_file = rest
        .iter()
        .take_while(|(name, _)| times(times_by_file, name) > Reverse(0));
    let by_file = by_file.take(KNOWN_BY_FILE).count();
    let others = rest.split_off(by_file);
    left.append(&mut rest);
    let directories: BTreeSet<&str> = times_by_file
        .into_iter()
        .flat_map(BTreeMap::keys)
        .map(|name| directory(name))
        .collect();
    let is_near = |(name, _): &(&str, &Reach)| directories.contains(directory(name));
    let (mut rest, far): (Vec<_>, Vec<_>) = others.into_iter().partition(is_near);
    rest.sort_by_cached_key(|(name, _)| Reverse(words.in_common(name, mutant)));
    let others = rest.split_off(ALIKE.min(rest.len()));
    left.append(&mut rest);
    let mut order: Vec<&str> = left.into_iter().map(|(name, _)| name).collect();
    order.extend(diverse(others, near, popularity));
    order.extend(diverse(far, near, popularity));
    order
}

/// The part of a scenario's name before the slash.
fn directory(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

/// Scenarios in an order in which each reaches the most mutants that those before it do not reach: first of the next
/// ones, then of the function, then of the file. What few scenarios reach counts most.
fn diverse<'a>(
    mut left: Vec<(&'a str, &Reach)>,
    near: &Near,
    popularity: &BTreeMap<u32, u64>,
) -> Vec<&'a str> {
    let mut order = Vec::new();
    for numbers in [&near.next, &near.function, &near.file] {
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        loop {
            let gain = |one: &Reach| {
                let mutants = one.mutants.range(numbers.clone());
                let new = mutants.filter(|mutant| !seen.contains(*mutant));
                new.map(|mutant| 1_000_000 / popularity.get(mutant).copied().unwrap_or(1))
                    .sum::<u64>()
            };
            let gains = left.iter().enumerate();
            let best = gains.map(|(index, (_, one))| (gain(one), Reverse(index)));
            let Some((1.., Reverse(index))) = best.max() else {
                break;
            };
            let (name, one) = left.remove(index);
            seen.extend(one.mutants.range(numbers.clone()));
            order.push(name);
        }
    }
    order.extend(left.into_iter().map(|(name, _)| name));
    order
}

/// Runs a mutant until a scenario notices it, which none does in `None`.
fn run_until_noticed(
    program: &Program,
    number: u32,
    order: &[&str],
) -> anyhow::Result<Option<Outcome>> {
    let mut left = order;
    let mut chunks = CHUNKS.into_iter();
    while !left.is_empty() {
        let size = chunks.next().unwrap_or(usize::MAX).min(left.len());
        let (chunk, rest) = left.split_at(size);
        left = rest;
        let limit = HANG_SCENARIO * u32::try_from(size).unwrap_or(u32::MAX) + HANG;
        let variable = ("KUBEPROOF_MUTANT", number.to_string().into());
        let (lines, end) = program.run(chunk, limit, variable)?;
        if let Some(failed) = lines.iter().find(|line| !line.passed) {
            let scenario = failed.scenario.clone();
            return Ok(Some(Outcome::Noticed { scenario }));
        }
        let scenario = chunk.get(lines.len()).copied().unwrap_or_default();
        let scenario = scenario.to_owned();
        match end {
            End::Finished => {}
            End::Hung => return Ok(Some(Outcome::Hung { scenario })),
            End::Crashed => return Ok(Some(Outcome::Crashed { scenario })),
        }
    }
    Ok(None)
}

/// The part of the mutants that shard `index` of `count` has.
pub(crate) fn shard<T>(mutants: Vec<T>, index: usize, count: usize) -> Vec<T> {
    let numbered = mutants.into_iter().enumerate();
    let of_shard = numbered.filter(|(number, _)| number % count == index);
    of_shard.map(|(_, mutant)| mutant).collect()
}

/// The copy of the workspace, the file of the program with all mutants, and the file with the hash of its sources.
pub(crate) const TREE: &str = "tree";
const PROGRAM: &str = "mutants";
const SOURCES: &str = "sources";

/// Whether the program is of these sources.
pub(crate) fn is_built(dir: &Path, sources: u64) -> bool {
    let known = std::fs::read_to_string(dir.join(SOURCES));
    known.is_ok_and(|known| known == sources.to_string()) && dir.join(PROGRAM).is_file()
}

/// Keeps the program that was built from these sources in a file of its own: a build must not replace it while it runs.
///
/// # Errors
/// It cannot be copied.
pub(crate) fn keep(dir: &Path, sources: u64) -> anyhow::Result<()> {
    let built = dir.join("build").join("debug").join("kubeproof");
    let (path, copy) = (dir.join(PROGRAM), dir.join("mutants.new"));
    let copied = std::fs::copy(&built, &copy);
    copied.with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&copy, &path).with_context(|| format!("cannot write {}", path.display()))?;
    let path = dir.join(SOURCES);
    let written = std::fs::write(&path, sources.to_string());
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The program with all mutants. It runs in the copy of the workspace, so that changes of the workspace do not disturb it.
pub(crate) fn program(dir: &Path) -> Program {
    Program {
        path: dir.join(PROGRAM),
        root: dir.join(TREE),
    }
}

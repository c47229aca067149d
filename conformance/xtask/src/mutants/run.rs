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

/// How many scenarios the processes of a mutant run, one process after another; the last runs all that are left.
const CHUNKS: [usize; 3] = [1, 6, 36];
/// How many scenarios come first because they noticed other mutants of the function.
const KNOWN: usize = 4;
/// A run hangs that uses this many times the time of its scenarios, and this much more.
const HANG_FACTOR: u32 = 5;
const HANG: Duration = Duration::from_secs(5);

/// The scenarios that noticed mutants, for guesses about others.
#[derive(Default)]
struct Noticed<'a> {
    by_function: BTreeMap<(&'a str, &'a str), BTreeMap<&'a str, usize>>,
    by_file: BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
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

/// A mutant to run.
pub(crate) struct Task<'a> {
    pub(crate) number: u32,
    pub(crate) mutant: &'a Mutant,
    /// The hashes of the scenarios that it passed before.
    pub(crate) passed: BTreeSet<u64>,
}

/// Runs these mutants, and adds what comes of them to the results. `files` has the numbers of all mutants of each file.
///
/// # Errors
/// The program cannot be run, or a result not be written.
pub(crate) fn run(
    program: &Program,
    tasks: &[Task<'_>],
    files: &BTreeMap<&str, Range<u32>>,
    reach: &BTreeMap<String, Reach>,
    results: &mut Results,
    limits: &Limits,
) -> anyhow::Result<()> {
    let noticed = parking_lot::Mutex::new(Noticed::default());
    let work = |index: usize| {
        let Task {
            number,
            mutant,
            passed,
        } = &tasks[index];
        let of_file = &files[mutant.file.as_str()];
        let open = open(*number, passed, reach, limits);
        let mut order = order(open, of_file, mutant, &noticed.lock());
        order.truncate(limits.first);
        let outcome = match run_until_noticed(program, *number, &order, reach)? {
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
            let mut noticed = noticed.lock();
            let function = (mutant.file.as_str(), mutant.function.as_str());
            let of_function = noticed.by_function.entry(function).or_default();
            *of_function.entry(name).or_default() += 1;
            let of_file = noticed.by_file.entry(&mutant.file).or_default();
            *of_file.entry(name).or_default() += 1;
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

/// These scenarios, likely ones first: a few that noticed others of its function, then those that
/// differ most in what else they reach of its file, for their time.
fn order<'a>(
    mut left: Vec<(&'a str, &Reach)>,
    of_file: &Range<u32>,
    mutant: &Mutant,
    noticed: &Noticed<'_>,
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
            one.milliseconds,
        )
    });
    let known = left
        .iter()
        .take_while(|(name, _)| times(times_by_function, name) > Reverse(0));
    let known = known.take(KNOWN).count();
    let rest = left.split_off(known);
    let mut order: Vec<&str> = left.into_iter().map(|(name, _)| name).collect();
    order.extend(diverse(rest, of_file));
    order
}

/// Scenarios in an order in which each reaches the most mutants of a file, for its time, that those before it do not
/// reach.
fn diverse<'a>(mut left: Vec<(&'a str, &Reach)>, of_file: &Range<u32>) -> Vec<&'a str> {
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut order = Vec::new();
    while !left.is_empty() {
        let news = |one: &Reach| {
            let mutants = one.mutants.range(of_file.clone());
            mutants.filter(|mutant| !seen.contains(*mutant)).count() as u64
        };
        let gains = left.iter().enumerate().map(|(index, (_, one))| {
            let gain = news(one) * 1000 / one.milliseconds.max(1);
            (gain, Reverse(index))
        });
        let Some((gain, Reverse(index))) = gains.max() else {
            break;
        };
        if gain == 0 {
            order.extend(left.iter().map(|(name, _)| *name));
            break;
        }
        let (name, one) = left.remove(index);
        seen.extend(one.mutants.range(of_file.clone()));
        order.push(name);
    }
    order
}

/// Runs a mutant until a scenario notices it, which none does in `None`.
fn run_until_noticed(
    program: &Program,
    number: u32,
    order: &[&str],
    reach: &BTreeMap<String, Reach>,
) -> anyhow::Result<Option<Outcome>> {
    let mut left = order;
    let mut chunks = CHUNKS.into_iter();
    while !left.is_empty() {
        let size = chunks.next().unwrap_or(usize::MAX).min(left.len());
        let (chunk, rest) = left.split_at(size);
        left = rest;
        let time: u64 = chunk.iter().map(|name| reach[*name].milliseconds).sum();
        let limit = Duration::from_millis(time) * HANG_FACTOR + HANG;
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

/// The program with all mutants, in a file of its own: a build must not replace it while it runs.
///
/// # Errors
/// It cannot be copied.
pub(crate) fn program(root: &Path, dir: &Path) -> anyhow::Result<Program> {
    let built = dir.join("build").join("release").join("kubeproof");
    let (path, copy) = (dir.join("mutants"), dir.join("mutants.new"));
    let copied = std::fs::copy(&built, &copy);
    copied.with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&copy, &path).with_context(|| format!("cannot write {}", path.display()))?;
    let root = root.to_owned();
    Ok(Program { path, root })
}

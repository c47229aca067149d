//! The report, `conformance/mutants.md`, with reasons for survivors from `conformance/mutants.toml`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::areas::{self, AREAS};
use super::mutant::Mutant;
use super::results::{Outcome, Results};
use super::tree;

const REPORT: &str = "conformance/mutants.md";
const REASONS: &str = "conformance/mutants.toml";
/// The text before the numbers.
const INTRODUCTION: &str = include_str!("introduction.md");

/// Why nothing notices some mutants.
#[derive(Debug, Default, Deserialize)]
struct Reasons {
    #[serde(default)]
    reasons: Vec<Reason>,
}

impl Reasons {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let path = root.join(REASONS);
        let text = match path.is_file() {
            true => tree::read(&path)?,
            false => String::new(),
        };
        basic_toml::from_str(&text).with_context(|| format!("cannot read {REASONS}"))
    }
}

#[derive(Debug, Deserialize)]
struct Reason {
    /// Names of mutants. In a name `*` stands for any text.
    mutants: Vec<String>,
    because: String,
}

/// What came of the mutants of an area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Numbers {
    all: usize,
    uncompiled: usize,
    noticed: usize,
    hung: usize,
    survived: usize,
    /// Survivors that no scenario reaches.
    unreached: usize,
    /// Survivors that were not run with all scenarios that reach them.
    partial: usize,
    /// Survivors that have a reason.
    explained: usize,
    not_run: usize,
}

impl Numbers {
    fn count(&mut self, outcome: Option<&Outcome>, is_explained: bool) {
        self.all += 1;
        match outcome {
            None => self.not_run += 1,
            Some(Outcome::Uncompiled) => self.uncompiled += 1,
            Some(Outcome::Noticed { .. }) => self.noticed += 1,
            Some(Outcome::Hung { .. } | Outcome::Crashed { .. }) => self.hung += 1,
            Some(Outcome::Survived {
                scenarios,
                reaching,
                ..
            }) => {
                self.survived += 1;
                self.unreached += usize::from(*reaching == 0);
                self.partial += usize::from(scenarios < reaching);
                self.explained += usize::from(is_explained);
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.uncompiled += other.uncompiled;
        self.noticed += other.noticed;
        self.hung += other.hung;
        self.survived += other.survived;
        self.unreached += other.unreached;
        self.partial += other.partial;
        self.explained += other.explained;
        self.not_run += other.not_run;
    }

    /// The share that is noticed of those that were run.
    fn share(self) -> String {
        self.share_beside(self.survived)
    }

    /// The share that is noticed of those that were run and do not survive for a reason.
    fn share_without_reason(self) -> String {
        self.share_beside(self.survived - self.explained)
    }

    /// The share that is noticed of those and these survivors.
    fn share_beside(self, survivors: usize) -> String {
        let noticed = self.noticed + self.hung;
        match noticed + survivors {
            0 => "–".to_owned(),
            // Tenths of a percent, rounded down: 100 % means all.
            all => {
                let tenths = noticed * 1000 / all;
                format!("{}.{} %", tenths / 10, tenths % 10)
            }
        }
    }

    fn row(self, title: &str, deletions: Self) -> String {
        let Self {
            all,
            uncompiled,
            noticed,
            hung,
            survived,
            unreached,
            partial,
            explained,
            not_run,
        } = self;
        let (share, of_deletions) = (self.share(), deletions.share());
        let without_reason = self.share_without_reason();
        format!(
            "| {title} | {all} | {uncompiled} | {not_run} | {noticed} | {hung} | {survived} | {unreached} | {partial} \
             | {explained} | {share} | {without_reason} | {of_deletions} |\n"
        )
    }
}

/// Writes the report, and prints its sums.
///
/// # Errors
/// A reason is for a mutant that is noticed or does not exist; or a file cannot be read or written.
pub(crate) fn write(root: &Path, mutants: &[Mutant], results: &Results) -> anyhow::Result<()> {
    let reasons = Reasons::read(root)?;
    let outcomes: Vec<(&Mutant, Option<&Outcome>)> = mutants
        .iter()
        .map(|mutant| (mutant, results.of(mutant)))
        .collect();
    let (report, outdated) = report(&outcomes, &reasons);
    let path = root.join(REPORT);
    std::fs::write(&path, report).with_context(|| format!("cannot write {REPORT}"))?;
    println!("mutants: wrote {REPORT}");
    if !outdated.is_empty() {
        bail!(
            "in {REASONS} these are no surviving mutants:\n{}",
            outdated.join("\n")
        );
    }
    Ok(())
}

/// The text of the report, and the names in reasons that are no survivors'.
fn report(outcomes: &[(&Mutant, Option<&Outcome>)], reasons: &Reasons) -> (String, Vec<String>) {
    let survivors: Vec<&Mutant> = outcomes
        .iter()
        .filter(|(_, outcome)| matches!(outcome, Some(Outcome::Survived { .. })))
        .map(|(mutant, _)| *mutant)
        .collect();
    let mut outdated = Vec::new();
    let mut explained: BTreeMap<String, usize> = BTreeMap::new();
    for (index, reason) in reasons.reasons.iter().enumerate() {
        for pattern in &reason.mutants {
            let fits = |mutant: &&Mutant| matches(pattern, &mutant.name());
            let fitting = survivors.iter().copied().filter(fits);
            let before = explained.len();
            explained.extend(fitting.map(|mutant| (mutant.name(), index)));
            let is_open = outcomes
                .iter()
                .any(|(mutant, outcome)| outcome.is_none() && fits(mutant));
            if explained.len() == before && !is_open {
                outdated.push(pattern.clone());
            }
        }
    }
    let mut text = INTRODUCTION.to_owned();
    text.push_str(&tables(outcomes, &explained));
    let (with, without): (Vec<&Mutant>, Vec<&Mutant>) = survivors
        .into_iter()
        .partition(|mutant| explained.contains_key(&mutant.name()));
    let _ = write!(
        text,
        "\n## Survivors with a reason\n\n{} mutants.\n",
        with.len()
    );
    for (index, reason) in reasons.reasons.iter().enumerate() {
        let of_reason = |mutant: &&&Mutant| explained.get(&mutant.name()) == Some(&index);
        let of_reason: Vec<&Mutant> = with.iter().filter(of_reason).copied().collect();
        if !of_reason.is_empty() {
            let _ = write!(text, "\n{}\n\n", reason.because);
            text.push_str(&by_function(&of_reason));
        }
    }
    let _ = write!(
        text,
        "\n## Survivors without a reason\n\n{} mutants.\n",
        without.len()
    );
    for (index, area) in AREAS.iter().enumerate() {
        let of_area = |mutant: &&&Mutant| areas::of(&mutant.file) == Some(index);
        let of_area: Vec<&Mutant> = without.iter().filter(of_area).copied().collect();
        if !of_area.is_empty() {
            let _ = write!(text, "\n### {}\n\n", area.title);
            text.push_str(&by_function(&of_area));
        }
    }
    (text, outdated)
}

/// The table of numbers; `explained` has the names of the survivors with a reason.
fn tables(outcomes: &[(&Mutant, Option<&Outcome>)], explained: &BTreeMap<String, usize>) -> String {
    let mut numbers = vec![(Numbers::default(), Numbers::default()); AREAS.len()];
    for (mutant, outcome) in outcomes {
        let Some(area) = areas::of(&mutant.file) else {
            continue;
        };
        let is_explained = explained.contains_key(&mutant.name());
        numbers[area].0.count(*outcome, is_explained);
        if mutant.change.starts_with("delete `") {
            numbers[area].1.count(*outcome, is_explained);
        }
    }
    let mut text = "| | mutants | do not compile | not run | noticed by a golden | noticed by a hang or crash | survive | \
         of these reached by no scenario | of these run with some scenarios | of these with a reason | noticed | noticed of those without a reason \
         | deleted statements noticed |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    let mut sum = |title: &str, is_workload: bool| {
        let mut sums = (Numbers::default(), Numbers::default());
        for (area, (all, deletions)) in AREAS.iter().zip(&numbers) {
            if area.is_workload == is_workload {
                text.push_str(&all.row(area.title, *deletions));
                sums.0.add(*all);
                sums.1.add(*deletions);
            }
        }
        if !title.is_empty() {
            text.push_str(&sums.0.row(title, sums.1));
        }
    };
    sum("**all workload controllers**", true);
    sum("", false);
    let mut all = Numbers::default();
    numbers.iter().for_each(|(of_area, _)| all.add(*of_area));
    let run = all.noticed + all.hung + all.survived;
    let _ = write!(
        text,
        "\n{run} of {} mutants that compile were run. Shares are of those.\n",
        run + all.not_run
    );
    text
}

/// Mutants as a list, by file and function.
fn by_function(mutants: &[&Mutant]) -> String {
    let mut text = String::new();
    let mut groups: Vec<((&str, &str), Vec<&Mutant>)> = Vec::new();
    for mutant in mutants {
        let function = (mutant.file.as_str(), mutant.function.as_str());
        match groups.last_mut() {
            Some((last, group)) if *last == function => group.push(mutant),
            _ => groups.push((function, vec![mutant])),
        }
    }
    for ((file, function), group) in groups {
        let _ = writeln!(text, "- `{file}`, `{function}`");
        for mutant in group {
            let ordinal = match mutant.ordinal {
                1 => String::new(),
                ordinal => format!(" ({ordinal})"),
            };
            let change = mutant.change.replace('`', "");
            let _ = writeln!(text, "  - `{change}`{ordinal}");
        }
    }
    text
}

/// Whether a name fits a pattern, where `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    if pattern == name {
        return true;
    }
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return false;
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;

//! Reports the findings of an exploration as they arrive. Of several equal differences only the first is kept, and
//! after the end of a scenario only the data of a report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar};
use kubeproof::explore::{self, Divergence, Options, Part, Plan};
use kubeproof::report::matrix::{self, Cell};
use kubeproof::report::{Matrix, Page};
use kubeproof::runner::RunOptions;
use kubeproof::suite;
use kubeproof_machinery::json::{Value, json};

use super::jobs::{Done, Ran, Subject};
use super::page::{self, Cells};
use super::reproducers::Reproducers;
use super::write_log;
use crate::cli::out;
use crate::cli::run::junit::Case;
use crate::cli::shard::record::Record;

/// The findings of an exploration so far.
pub(super) struct Found<'p> {
    json: bool,
    logs: Option<PathBuf>,
    /// Shrinks differences, if that was asked for.
    pub(super) reproducers: Option<Reproducers>,
    /// The record for `kubeproof merge` if this is a shard.
    pub(super) record: Record,
    /// The number of runs of the present scenario in all shards.
    planned: usize,
    /// The data of a report; `None` when no report or other file of results was asked for.
    shown: Option<Shown>,
    progress: &'p ProgressBar,
    runs: usize,
    diverged: usize,
    explained: usize,
    /// The user agents that faults could meet in any of the scenarios.
    agents: BTreeSet<String>,
    /// The differences of the present scenario, by their text.
    open: BTreeMap<String, Open>,
    cells: Cells,
    /// The parts of `differs` that explained something in the present scenario.
    used: BTreeSet<Part>,
    /// The faults that are tried, by which `differs` is judged; `None` if not all are, or if runs are not the same each time.
    judged: Option<Options>,
    /// The number of parts of `differs` that explain nothing.
    stale: usize,
    /// When the progress was noted.
    noted: Instant,
}

/// The key of a transcript with faults, in the record of a shard.
pub(in crate::cli) const WITH_FAULTS: &str = "withFaults";
/// The key of the transcript without faults, in the record of a shard.
pub(in crate::cli) const WITHOUT_FAULTS: &str = "withoutFaults";
/// The period in which the progress is noted.
const NOTE_PERIOD: Duration = Duration::from_secs(60);

/// A difference, with the run in which it was found first.
struct Open {
    /// The number of differences found before.
    place: usize,
    ran: Ran,
    divergence: Divergence,
    others: usize,
}

#[derive(Default)]
struct Shown {
    cases: Vec<Case>,
    rows: Vec<(String, Cells)>,
    divergences: Vec<matrix::Diverged>,
}

impl<'p> Found<'p> {
    pub(super) fn new(
        json: bool,
        logs: Option<PathBuf>,
        keeps: bool,
        judged: Option<Options>,
        progress: &'p ProgressBar,
    ) -> Self {
        Self {
            json,
            logs,
            reproducers: None,
            record: Record::default(),
            planned: 0,
            shown: keeps.then(Shown::default),
            progress,
            runs: 0,
            diverged: 0,
            explained: 0,
            agents: BTreeSet::new(),
            open: BTreeMap::new(),
            cells: Cells::new(),
            used: BTreeSet::new(),
            judged,
            stale: 0,
            noted: Instant::now(),
        }
    }

    /// Returns the number of parts of `differs` that explain nothing though all runs that they are about were done.
    pub(super) fn stale(&self) -> usize {
        self.stale
    }

    /// Returns the number of runs with a different outcome that no scenario explains.
    pub(super) fn diverged(&self) -> usize {
        self.diverged
    }

    /// Takes the result of one job, in the order of the jobs.
    ///
    /// # Errors
    /// When a scenario fails even without faults, or a log cannot be written.
    pub(super) fn take(&mut self, done: Done) -> anyhow::Result<()> {
        match done {
            Done::Failed(file, error) => {
                let error = anyhow::Error::new(error).context(file.name);
                return Err(error.context("a scenario fails even without faults"));
            }
            Done::Length(runs) => self.progress.inc_length(runs as u64),
            Done::Planned(of_all) => self.planned = of_all,
            Done::Ran(ran, divergence) => self.take_run(ran, divergence)?,
            Done::End(subject) => {
                let stale = self.stale_of(&subject)?;
                self.end(&subject, stale)?;
            }
        }
        Ok(())
    }

    /// Returns the number of runs.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the user agents that faults could meet.
    pub(super) fn agents(&self) -> &BTreeSet<String> {
        &self.agents
    }

    /// Notes the progress each minute where no bar shows it.
    fn note_progress(&mut self) {
        if !self.progress.is_hidden() || self.noted.elapsed() < NOTE_PERIOD {
            return;
        }
        self.noted = Instant::now();
        let (diverged, left) = (self.diverged, HumanDuration(self.progress.eta()));
        let (done, all) = (self.progress.position(), self.progress.length());
        let all = all.unwrap_or_default();
        out::note(&format!(
            "{done} of {all} runs, {diverged} diverged, {left} left"
        ));
    }

    fn take_run(&mut self, ran: Ran, divergence: Option<Divergence>) -> anyhow::Result<()> {
        self.runs += 1;
        // Branches have been counted as they ended.
        let counted = self.progress.position().max(self.runs as u64);
        self.progress.set_position(counted);
        self.progress
            .set_message(format!(", {} diverged", self.diverged));
        self.note_progress();
        let cell = self.cells.entry(page::kind(&ran.plan)).or_default();
        cell.runs += 1;
        let Some(mut divergence) = divergence else {
            return Ok(());
        };
        let explained = ran.explained(&divergence);
        if explained.left.is_empty() {
            cell.explained += 1;
            self.explained += 1;
            self.used.extend(explained.used);
            return Ok(());
        }
        if !explained.used.is_empty() {
            let left = explained.left.join("\n  ");
            let _ = write!(
                divergence.outcome,
                "\n`differs` does not explain:\n  {left}"
            );
        }
        cell.diverged += 1;
        self.diverged += 1;
        self.used.extend(explained.used);
        if self.json || self.record.is_kept() {
            let mut line = in_json(&ran, &divergence);
            if self.json {
                self.say(&line.to_string())?;
            }
            // A page shows the first of several equal differences.
            if !self.open.contains_key(&divergence.outcome) {
                line[WITH_FAULTS] = divergence.with_faults.as_str().into();
            }
            self.record.add(line.to_string());
        }
        if let Some(open) = self.open.get_mut(&divergence.outcome) {
            open.others += 1;
            return Ok(());
        }
        if !self.json {
            self.say(&in_words(&in_json(&ran, &divergence)))?;
        }
        let open = Open {
            place: self.open.len(),
            ran,
            others: 0,
            divergence,
        };
        self.open.insert(open.divergence.outcome.clone(), open);
        Ok(())
    }

    /// Reports what explained nothing of a scenario of which all runs were done.
    fn stale_of(&mut self, subject: &Subject) -> anyhow::Result<Vec<String>> {
        let used = std::mem::take(&mut self.used);
        let Some(options) = &self.judged else {
            return Ok(Vec::new());
        };
        let stale = explore::stale_faults(&subject.file.scenario, &used, options);
        // Another shard may need them.
        if self.record.is_kept() {
            return Ok(stale);
        }
        let name = &subject.file.name;
        for part in &stale {
            self.stale += 1;
            self.say(&stale_line(name, part, self.json))?;
        }
        Ok(stale)
    }

    /// Closes the differences of a scenario; `stale` are the parts of its `differs` that explain nothing.
    fn end(&mut self, subject: &Subject, stale: Vec<String>) -> anyhow::Result<()> {
        let name = &subject.file.name;
        self.agents.extend(subject.reference.agents());
        let open = std::mem::take(&mut self.open).into_iter();
        let mut closed: Vec<(String, Open)> = open.collect();
        closed.sort_by_key(|(_, one)| one.place);
        for (_, one) in &closed {
            if one.others > 0 && !self.json {
                let plan = words(&one.ran.plan, one.ran.schedule_seed);
                self.say(&format!(
                    "SAME {name}: {plan}\n     with {} other plans",
                    one.others
                ))?;
            }
            self.leave_log(one)?;
            self.leave_reproducer(one)?;
        }
        let cells = std::mem::take(&mut self.cells);
        self.record_end(subject, &cells, &stale)?;
        if let Some(shown) = &mut self.shown {
            shown.cases.extend(cases(subject, &cells, &closed));
            if !self.record.is_kept() {
                shown.cases.extend(stale_case(subject, stale));
            }
            shown.rows.push((name.clone(), cells));
            let diverged = closed.into_iter().map(|(outcome, one)| matrix::Diverged {
                scenario: name.clone(),
                plan: words(&one.ran.plan, one.ran.schedule_seed),
                others: one.others,
                outcome,
                replay: one.ran.replay(),
                timelines: timelines(
                    subject.reference.seen.timeline(),
                    one.divergence.with_faults,
                ),
            });
            shown.divergences.extend(diverged);
        }
        Ok(())
    }

    /// Records that all runs of a scenario were done.
    fn record_end(
        &mut self,
        subject: &Subject,
        cells: &Cells,
        stale: &[String],
    ) -> anyhow::Result<()> {
        if !self.record.is_kept() {
            return Ok(());
        }
        let name = &subject.file.name;
        let mut line =
            json!({"explored": name, "planned": self.planned, "cells": cells, "stale": stale});
        if self.json {
            self.say(&line.to_string())?;
        }
        line[WITHOUT_FAULTS] = subject.reference.seen.timeline().into();
        self.record.add(line.to_string());
        Ok(())
    }

    /// Writes the record into the directory of a report, with the scenarios of its page.
    pub(super) fn leave_record(&mut self, dir: &Path, page: &Page) -> anyhow::Result<()> {
        page.scenarios
            .iter()
            .for_each(|one| self.record.add_page(one));
        self.record
            .add(summary(self.runs, self.diverged, self.stale));
        self.record.leave(dir)
    }

    /// Closes the differences of the scenario in which exploring ends early.
    pub(super) fn break_off(&mut self) -> anyhow::Result<()> {
        let subject = self.open.values().next();
        match subject.map(|open| Arc::clone(&open.ran.subject)) {
            Some(subject) => self.end(&subject, Vec::new()),
            None => Ok(()),
        }
    }

    /// The results for JUnit.
    pub(super) fn cases(&mut self) -> Vec<Case> {
        let shown = self.shown.as_mut();
        shown.map_or_else(Vec::new, |shown| std::mem::take(&mut shown.cases))
    }

    /// Writes a log of the run, if there is to be one.
    fn leave_log(&self, one: &Open) -> anyhow::Result<()> {
        let Some(dir) = &self.logs else {
            return Ok(());
        };
        let file = &one.ran.subject.file;
        let (name, number) = (suite::snapshot_name(&file.name), one.place + 1);
        let options = RunOptions {
            plan: one.ran.plan.clone(),
            schedule_seed: one.ran.schedule_seed,
            ..RunOptions::default()
        };
        write_log(
            &dir.join(format!("{name}.{number}.log.jsonl")),
            file,
            &options,
        )
    }

    /// Shrinks a difference, if that was asked for.
    fn leave_reproducer(&self, one: &Open) -> anyhow::Result<()> {
        let Some(reproducers) = &self.reproducers else {
            return Ok(());
        };
        let name = &one.ran.subject.file.name;
        let tried = || self.progress.set_message(format!(", shrinking {name}"));
        let plan = (&one.ran.plan, one.ran.schedule_seed);
        let found = (&one.ran.subject.file, plan, one.place + 1);
        let written = reproducers.write(found, &one.divergence, &tried)?;
        self.say(&written.said(self.json))
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        self.progress.suspend(|| out::say(text))
    }

    /// Prints the number of runs.
    pub(super) fn report_numbers(&self) -> anyhow::Result<()> {
        if self.explained > 0 && !self.json {
            out::say(&format!(
                "{} differ as their scenarios expect",
                self.explained
            ))?;
        }
        report_numbers(self.runs, self.diverged, self.stale, self.json)
    }

    /// Returns the data of a report's table.
    pub(super) fn matrix(&mut self) -> Matrix {
        let shown = self.shown.take().unwrap_or_default();
        page::matrix(shown.rows, shown.divergences)
    }
}

/// The timelines for a page; `None` when the run with faults came to no end.
pub(in crate::cli) fn timelines(without: &str, with: String) -> Option<[String; 2]> {
    (!with.is_empty()).then(|| [without.to_owned(), with])
}

/// A case for each kind of fault that a scenario was given.
fn cases(subject: &Subject, cells: &Cells, closed: &[(String, Open)]) -> Vec<Case> {
    let of_kind = |(kind, cell): (&&str, &Cell)| {
        let own = closed
            .iter()
            .filter(|(_, one)| page::kind(&one.ran.plan) == *kind);
        let of_kind = own.map(|(outcome, one)| {
            let plan = words(&one.ran.plan, one.ran.schedule_seed);
            format!("{plan}\n{outcome}\nreplay: {}\n", one.ran.replay())
        });
        let of_kind: Vec<String> = of_kind.collect();
        let differences = match of_kind.is_empty() {
            true => "as with faults of another kind".to_owned(),
            false => of_kind.join("\n"),
        };
        let Cell { runs, diverged, .. } = cell;
        let failure = format!("{diverged} of {runs} runs came to another outcome\n\n{differences}");
        Case {
            class: subject.file.name.clone(),
            name: (*kind).to_owned(),
            file: subject.file.path.display().to_string(),
            took: None,
            failure: (cell.diverged > 0).then_some(failure),
        }
    };
    cells.iter().map(of_kind).collect()
}

/// A case for what explains nothing, if there is any.
fn stale_case(subject: &Subject, stale: Vec<String>) -> Option<Case> {
    (!stale.is_empty()).then(|| Case {
        class: subject.file.name.clone(),
        name: "differs".to_owned(),
        file: subject.file.path.display().to_string(),
        took: None,
        failure: Some(format!("this explains no run:\n{}", stale.join("\n"))),
    })
}

/// A part of `differs` that explains nothing, in words or JSON.
pub(in crate::cli) fn stale_line(name: &str, part: &str, json: bool) -> String {
    match json {
        true => json!({"scenario": name, "stale": part}).to_string(),
        false => format!("{} {name}: {part}: this explains no run", out::bad("STALE")),
    }
}

/// Prints the number of runs in words; on standard error when standard output is JSON.
pub(in crate::cli) fn report_numbers(
    runs: usize,
    diverged: usize,
    stale: usize,
    json: bool,
) -> anyhow::Result<()> {
    let mut numbers = format!("{runs} runs, {diverged} diverged");
    if stale > 0 {
        let _ = write!(numbers, ", {stale} unneeded in `differs`");
    }
    if !json {
        return out::say(&numbers);
    }
    out::say(&summary(runs, diverged, stale))?;
    out::note(&numbers);
    Ok(())
}

/// The last line of JSON.
fn summary(runs: usize, diverged: usize, stale: usize) -> String {
    json!({"summary": {"runs": runs, "diverged": diverged, "stale": stale}}).to_string()
}

/// A plan, with the seed of its order.
fn words(plan: &Plan, schedule_seed: u64) -> String {
    match (plan.faults(), schedule_seed) {
        (_, 0) => plan.to_string(),
        ([], schedule_seed) => format!("seed {schedule_seed}"),
        (_, schedule_seed) => format!("{plan} (seed {schedule_seed})"),
    }
}

/// A difference in words, from that in JSON.
pub(in crate::cli) fn in_words(line: &Value) -> String {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let outcome = out::diff(text("outcome"));
    let lines = outcome.lines().chain(text("programOutput").lines());
    let lines: Vec<String> = lines.map(|line| format!("     {line}")).collect();
    format!(
        "{} {}: {}\n{}\n     replay: {}",
        out::bad("DIFF"),
        text("scenario"),
        plan_of(line),
        lines.join("\n"),
        text("replay")
    )
}

/// The plan of a difference in JSON, in words.
pub(in crate::cli) fn plan_of(line: &Value) -> String {
    let plan = line["plan"].as_str().unwrap_or_default().parse();
    words(
        &plan.unwrap_or_default(),
        line["seed"].as_u64().unwrap_or(0),
    )
}

pub(super) fn in_json(ran: &Ran, divergence: &Divergence) -> Value {
    let mut line = json!({
        "scenario": ran.subject.file.name,
        "plan": ran.plan.to_string(),
        "seed": ran.schedule_seed,
        "outcome": divergence.outcome,
        "timelines": divergence.timelines,
        "replay": ran.replay(),
    });
    if !divergence.program_output.is_empty() {
        line["programOutput"] = divergence.program_output.as_str().into();
    }
    line
}

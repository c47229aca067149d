//! The results of all shards.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{bail, ensure};
use kubeproof::explore::Plan;
use kubeproof::report::Matrix;
use kubeproof::report::matrix::{Cell, Diverged};
use kubeproof_machinery::json::{Value, from_value, json};

use crate::cli::explore::found;
use crate::cli::explore::page;
use crate::cli::shard::record::Runs;
use crate::cli::{out, upgrade_test};

/// The results, in the order of the scenarios.
pub(super) enum Joined {
    /// A line of JSON for each run or test.
    Results {
        lines: Vec<Value>,
        is_upgrade: bool,
    },
    Exploration(Exploration),
}

pub(super) struct Exploration {
    /// The runs with a different outcome.
    lines: Vec<Value>,
    /// Each difference once, with the number of other runs that have it.
    differences: Vec<(Value, usize)>,
    rows: Vec<(String, BTreeMap<String, Cell>)>,
    /// What `differs` of a scenario explains in no shard.
    stale: Vec<(String, String)>,
}

impl Joined {
    /// Joins the lines of shards, each with its path.
    ///
    /// # Errors
    /// When a result is missing or there twice.
    pub(super) fn of(runs: &Runs, shards: Vec<(&Path, Vec<Value>)>) -> anyhow::Result<Self> {
        match runs.command.as_str() {
            "explore" => Exploration::of(runs, shards).map(Self::Exploration),
            "run" | "upgrade-test" => results(runs, shards),
            other => bail!("shards of the command {other:?} are unknown"),
        }
    }

    pub(super) fn has_passed(&self) -> bool {
        match self {
            Self::Results { lines, .. } => lines.iter().all(|line| line["passed"] == true),
            Self::Exploration(found) => found.lines.is_empty() && found.stale.is_empty(),
        }
    }

    /// Prints the results as the command does that does everything; of runs in words only those that failed.
    pub(super) fn say(&self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::Results { lines, is_upgrade } => {
                let failed = lines.iter().filter(|line| line["passed"] != true).count();
                for line in lines {
                    match (json, is_upgrade, line["passed"] == true) {
                        (true, ..) => out::say(&line.to_string())?,
                        (false, true, _) => out::say(&upgrade_test::in_words(line))?,
                        (false, false, false) => out::say(&failure(line))?,
                        (false, false, true) => {}
                    }
                }
                let passed = lines.len() - failed;
                let numbers = format!("{passed} passed, {failed} failed");
                if json {
                    let summary = json!({"summary": {"passed": passed, "failed": failed}});
                    out::say(&summary.to_string())?;
                    out::note(&numbers);
                    return Ok(());
                }
                out::say(&numbers)
            }
            Self::Exploration(found) => found.say(json),
        }
    }

    /// The table of an exploration.
    pub(super) fn matrix(&self) -> Option<Matrix> {
        match self {
            Self::Results { .. } => None,
            Self::Exploration(found) => Some(found.matrix()),
        }
    }
}

/// A failed run in words.
fn failure(line: &Value) -> String {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let why = out::diff(text("failure").trim_end());
    format!("{} {}\n{why}", out::bad("FAIL"), text("scenario"))
}

/// The name of a result's scenario, without the seed of its order.
fn scenario(line: &Value) -> &str {
    let name = line["scenario"].as_str().unwrap_or_default();
    name.split(" (seed").next().unwrap_or_default()
}

/// The results of runs and of upgrade tests: each scenario is one shard's.
fn results(runs: &Runs, shards: Vec<(&Path, Vec<Value>)>) -> anyhow::Result<Joined> {
    let mut of: BTreeMap<String, (&Path, Vec<Value>)> = BTreeMap::new();
    for (path, lines) in shards {
        for line in lines {
            let name = scenario(&line).to_owned();
            let (first, known) = of.entry(name.clone()).or_insert((path, Vec::new()));
            ensure!(
                *first == path,
                "{} and {} both have {name}",
                first.display(),
                path.display()
            );
            known.push(line);
        }
    }
    let mut lines = Vec::new();
    for name in &runs.scenarios {
        let Some((_, own)) = of.remove(name) else {
            bail!("no shard has a result of {name}");
        };
        lines.extend(own);
    }
    Ok(Joined::Results {
        lines,
        is_upgrade: runs.command == "upgrade-test",
    })
}

impl Exploration {
    fn of(runs: &Runs, shards: Vec<(&Path, Vec<Value>)>) -> anyhow::Result<Self> {
        let mut rows: BTreeMap<String, BTreeMap<String, Cell>> = BTreeMap::new();
        let mut stale: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut planned: BTreeMap<String, u64> = BTreeMap::new();
        let mut lines = Vec::new();
        for (path, mut of_shard) in shards {
            add_references(&mut of_shard);
            let mut ended = 0;
            for line in of_shard {
                let Some(name) = line["explored"].as_str().map(str::to_owned) else {
                    // Written reproducers have no outcome.
                    if line["outcome"].is_string() {
                        lines.push(line);
                    }
                    continue;
                };
                ended += 1;
                let cells: BTreeMap<String, Cell> = from_value(line["cells"].clone())?;
                let row = rows.entry(name.clone()).or_default();
                for (kind, cell) in cells {
                    let sum = row.entry(kind).or_default();
                    *sum = sum.plus(cell);
                }
                let own: Vec<String> = from_value(line["stale"].clone())?;
                match stale.get_mut(&name) {
                    // What one shard needs is needed.
                    Some(all) => all.retain(|part| own.contains(part)),
                    None => drop(stale.insert(name.clone(), own)),
                }
                let of_all = line["planned"].as_u64().unwrap_or(0);
                let known = *planned.entry(name.clone()).or_insert(of_all);
                ensure!(
                    known == of_all || !runs.repeats,
                    "{}: the exploration of {name} has {of_all} runs here, and {known} in another shard",
                    path.display()
                );
            }
            ensure!(
                ended == runs.scenarios.len(),
                "{}: {ended} of {} scenarios were explored",
                path.display(),
                runs.scenarios.len()
            );
        }
        if runs.repeats {
            for (name, row) in &rows {
                let (done, of) = (
                    row.values().map(|cell| cell.runs).sum::<usize>(),
                    planned[name],
                );
                ensure!(
                    u64::try_from(done).is_ok_and(|done| done == of),
                    "{done} of {of} runs of {name} were done"
                );
            }
        }
        let place = |name: &str| runs.scenarios.iter().position(|one| one == name);
        let faults = |line: &Value| {
            let plan = line["plan"].as_str().unwrap_or_default();
            plan.parse().map_or(0, |plan: Plan| plan.faults().len())
        };
        lines.sort_by_key(|line| (place(scenario(line)), faults(line)));
        let rows = runs
            .scenarios
            .iter()
            .filter_map(|name| rows.remove_entry(name));
        let stale = stale.into_iter().flat_map(|(name, parts)| {
            let parts = parts.into_iter();
            parts.map(move |part| (name.clone(), part))
        });
        let mut stale: Vec<_> = match runs.repeats {
            true => stale.collect(),
            false => Vec::new(),
        };
        stale.sort_by_key(|(name, _)| place(name));
        let differences = differences(&lines);
        // They are for the page alone.
        for line in lines.iter_mut().filter_map(Value::as_object_mut) {
            line.remove(found::WITH_FAULTS);
            line.remove(found::WITHOUT_FAULTS);
        }
        Ok(Self {
            differences,
            rows: rows.collect(),
            lines,
            stale,
        })
    }

    fn say(&self, json: bool) -> anyhow::Result<()> {
        if json {
            self.lines
                .iter()
                .try_for_each(|line| out::say(&line.to_string()))?;
        } else {
            for (line, others) in &self.differences {
                out::say(&found::in_words(line))?;
                if *others > 0 {
                    out::say(&format!("     with {others} other plans"))?;
                }
            }
        }
        for (name, part) in &self.stale {
            out::say(&found::stale_line(name, part, json))?;
        }
        let all = self.rows.iter().flat_map(|(_, cells)| cells.values());
        let all = all.fold(Cell::default(), |sum, cell| sum.plus(*cell));
        if all.explained > 0 && !json {
            out::say(&format!(
                "{} differ as their scenarios expect",
                all.explained
            ))?;
        }
        found::report_numbers(all.runs, all.diverged, self.stale.len(), json)
    }

    fn matrix(&self) -> Matrix {
        let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let divergences = self.differences.iter().map(|(line, others)| Diverged {
            scenario: text(line, "scenario"),
            plan: found::plan_of(line),
            others: *others,
            outcome: text(line, "outcome"),
            timelines: found::timelines(
                &text(line, found::WITHOUT_FAULTS),
                text(line, found::WITH_FAULTS),
            ),
            replay: text(line, "replay"),
        });
        page::matrix(self.rows.clone(), divergences.collect())
    }
}

/// Gives the lines that have a transcript with faults that without them, of the same shard: runs in real time are not the
/// same in each shard.
fn add_references(lines: &mut [Value]) {
    let references = lines.iter().filter_map(|line| {
        let name = line["explored"].as_str()?.to_owned();
        Some((name, line[found::WITHOUT_FAULTS].clone()))
    });
    let references: BTreeMap<String, Value> = references.collect();
    for line in lines {
        if line.get(found::WITH_FAULTS).is_some()
            && let Some(reference) = references.get(scenario(line))
        {
            line[found::WITHOUT_FAULTS] = reference.clone();
        }
    }
}

/// Each difference of a scenario once, with the number of other runs that have it.
fn differences(lines: &[Value]) -> Vec<(Value, usize)> {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut found: Vec<(Value, usize)> = Vec::new();
    for line in lines {
        let key = (scenario(line), line["outcome"].as_str().unwrap_or_default());
        match places.get(&key) {
            Some(place) => {
                let (shown, others) = &mut found[*place];
                *others += 1;
                let has_timeline = |line: &Value| line.get(found::WITH_FAULTS).is_some();
                if !has_timeline(shown) && has_timeline(line) {
                    *shown = line.clone();
                }
            }
            None => {
                places.insert(key, found.len());
                found.push((line.clone(), 0));
            }
        }
    }
    found
}

//! Which mutants each scenario reaches, and how long it takes: from a run of each without an active mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::mutant::hash;
use super::scenarios::{self, End, Program};
use super::tree::read;

/// Enough for any scenario.
const LIMIT: Duration = Duration::from_secs(120);
/// After how many scenarios the results are written: a run can be stopped and started again.
const KEPT_EACH: usize = 20;

/// The result of running a scenario without an active mutant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// A hash of the program's sources, the scenario and its golden.
    of: u64,
    /// A hash of the scenario and its golden.
    pub(crate) scenario: u64,
    pub(crate) milliseconds: u64,
    pub(crate) mutants: BTreeSet<u32>,
}

/// Runs each scenario, unless its result in the file `kept` is of the same program, scenario and golden.
///
/// # Errors
/// A scenario fails: the program must not differ from that without mutants.
pub(crate) fn measure(
    program: &Program,
    sources: u64,
    kept: &Path,
    jobs: usize,
) -> anyhow::Result<BTreeMap<String, Reach>> {
    let mut known: BTreeMap<String, Reach> = match kept.is_file() {
        true => serde_json::from_str(&read(kept)?).unwrap_or_default(),
        false => BTreeMap::new(),
    };
    let mut wanted = BTreeMap::new();
    for name in scenarios::all(&program.root)? {
        let golden = format!("conformance/snapshots/{}.snap", name.replace('/', "__"));
        let mut text = std::fs::read(program.root.join(scenarios::path_of(&name)))?;
        text.extend(std::fs::read(program.root.join(golden)).unwrap_or_default());
        let scenario = hash(&text);
        text.extend(sources.to_le_bytes());
        wanted.insert(name, (hash(&text), scenario));
    }
    known.retain(|name, reach| wanted.get(name) == Some(&(reach.of, reach.scenario)));
    let missing: Vec<(&String, &(u64, u64))> = wanted
        .iter()
        .filter(|(name, _)| !known.contains_key(*name))
        .collect();
    let count = missing.len();
    if count > 0 {
        println!("mutants: {count} scenarios run without a mutant");
    }
    let mut failed = Vec::new();
    let work = |index: usize| one(program, missing[index].0, kept, index);
    super::threads::each(missing.len(), jobs, work, |index, reached| {
        let (name, (of, scenario)) = missing[index];
        let (of, scenario) = (*of, *scenario);
        match reached {
            Ok(reach) => {
                let reach = Reach {
                    of,
                    scenario,
                    ..reach
                };
                known.insert(name.clone(), reach);
            }
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
        match index % KEPT_EACH {
            0 => keep(&known, kept),
            _ => Ok(()),
        }
    })?;
    keep(&known, kept)?;
    ensure!(
        failed.is_empty(),
        "without an active mutant these scenarios fail:\n{}",
        failed.join("\n")
    );
    Ok(known)
}

/// Writes the results. A write that fails leaves what was there.
fn keep(known: &BTreeMap<String, Reach>, kept: &Path) -> anyhow::Result<()> {
    let new = kept.with_extension("new");
    let written = std::fs::write(&new, serde_json::to_string(known)?);
    let written = written.and_then(|()| std::fs::rename(&new, kept));
    written.with_context(|| format!("cannot write {}", kept.display()))
}

fn one(program: &Program, name: &str, kept: &Path, index: usize) -> anyhow::Result<Reach> {
    let file = kept.with_extension(format!("{index}.txt"));
    let variable = ("KUBEPROOF_REACHED", file.clone().into_os_string());
    let (lines, end) = program.run(&[name], LIMIT, variable)?;
    ensure!(end == End::Finished, "{end:?}");
    let line = lines.last().context("a scenario has a result")?;
    let why = line.failure.as_deref().unwrap_or("failed");
    ensure!(line.passed, "{why}");
    // A scenario without a controller reaches nothing.
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let numbers: Result<BTreeSet<u32>, _> = text.lines().map(str::parse).collect();
    let _ = std::fs::remove_file(&file);
    Ok(Reach {
        of: 0,
        scenario: 0,
        milliseconds: line.milliseconds,
        mutants: numbers.context("numbers of mutants")?,
    })
}

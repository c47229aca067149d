//! What came of mutants, kept between runs as lines of JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::mutant::Mutant;
use super::tree;

/// What came of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The compiler refuses it.
    Uncompiled,
    /// A scenario differs from its golden.
    Noticed { scenario: String },
    /// A scenario does not end.
    Hung { scenario: String },
    /// The process ended in a scenario.
    Crashed { scenario: String },
    /// All scenarios pass that it was run with.
    Survived {
        /// The hashes of these.
        passed: BTreeSet<u64>,
        /// How many of those that reach it passed, and how many reach it.
        scenarios: usize,
        reaching: usize,
    },
}

impl Outcome {
    /// The scenario that noticed the mutant.
    pub(crate) fn scenario(&self) -> Option<&str> {
        match self {
            Self::Noticed { scenario } | Self::Hung { scenario } | Self::Crashed { scenario } => {
                Some(scenario)
            }
            Self::Uncompiled | Self::Survived { .. } => None,
        }
    }
}

/// A line of a file of results.
#[derive(Serialize, Deserialize)]
struct Line {
    mutant: String,
    /// A hash of the function: a result is of this text.
    function: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

/// The results of all runs in a directory, and the file that those of this run are added to.
pub(crate) struct Results {
    known: BTreeMap<(String, u64), Outcome>,
    file: File,
}

const PREFIX: &str = "results";
const SUFFIX: &str = ".jsonl";

impl Results {
    /// Reads all results in `dir`; those that are added go to the file of this shard.
    ///
    /// # Errors
    /// A file cannot be read, or the shard's not be opened.
    pub(crate) fn open(dir: &Path, shard: &str) -> anyhow::Result<Self> {
        let mut known = BTreeMap::new();
        let entries = std::fs::read_dir(dir);
        let entries = entries.with_context(|| format!("cannot list {}", dir.display()))?;
        let mut paths = BTreeSet::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
                paths.insert(entry.path());
            }
        }
        for path in paths {
            for line in tree::read(&path)?.lines() {
                // The last line may be incomplete: its run was stopped.
                if let Ok(line) = serde_json::from_str::<Line>(line) {
                    known.insert((line.mutant, line.function), line.outcome);
                }
            }
        }
        let path = dir.join(format!("{PREFIX}{shard}{SUFFIX}"));
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { known, file })
    }

    pub(crate) fn of(&self, mutant: &Mutant) -> Option<&Outcome> {
        self.known.get(&mutant.key())
    }

    /// Adds a result, and writes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn add(&mut self, mutant: &Mutant, outcome: Outcome) -> anyhow::Result<()> {
        let (name, function) = mutant.key();
        let line = Line {
            mutant: name.clone(),
            function,
            outcome: outcome.clone(),
        };
        // In one piece, so that a run that is stopped leaves whole lines.
        let text = format!("\n{}\n", serde_json::to_string(&line)?);
        self.file.write_all(text.as_bytes())?;
        self.known.insert((name, function), outcome);
        Ok(())
    }
}

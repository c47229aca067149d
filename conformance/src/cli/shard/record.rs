//! The record of a shard: lines of JSON. The first says which shard of which runs it is, the last is the summary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kubeproof::report::ScenarioReport;
use kubeproof::scenario;
use kubeproof_machinery::json::{Value, json};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Shard;
use crate::cli::{manual, out};

/// The name of the file in the directory of a report.
pub(in crate::cli) const FILE: &str = "shard.jsonl";

/// The first line: what all shards of the same runs agree on, and which of them this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Head {
    /// The number of the shard, from 1.
    pub(in crate::cli) number: usize,
    /// The number of shards.
    pub(in crate::cli) of: usize,
    #[serde(flatten)]
    pub(in crate::cli) runs: Runs,
}

/// The runs of all shards together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct Runs {
    /// `run`, `explore` or `upgrade-test`.
    pub(in crate::cli) command: String,
    /// The version of kubeproof.
    pub(in crate::cli) version: String,
    /// The flags that change results.
    pub(in crate::cli) flags: Value,
    /// Whether a run is the same each time.
    pub(in crate::cli) repeats: bool,
    /// The names of the scenarios, in their order.
    pub(in crate::cli) scenarios: Vec<String>,
    /// The SHA-256 of the files of the scenarios.
    pub(in crate::cli) files: String,
}

/// The record of this process; empty and silent if it is no shard.
#[derive(Debug, Default)]
pub(in crate::cli) struct Record {
    lines: Option<Vec<String>>,
}

impl Record {
    /// Begins the record of `shard`; prints its first line if `prints`. `repeats` says whether a run is the same each
    /// time.
    pub(in crate::cli) fn begin(
        shard: Option<Shard>,
        (command, flags, repeats): (&str, Value, bool),
        paths: &[PathBuf],
        prints: bool,
    ) -> anyhow::Result<Self> {
        let Some(shard) = shard else {
            return Ok(Self::default());
        };
        let mut digest = Sha256::new();
        for path in paths {
            let text = std::fs::read(path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            digest.update(text.len().to_be_bytes());
            digest.update(text);
        }
        let files = digest
            .finalize()
            .iter()
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
        let head = Head {
            number: shard.index + 1,
            of: shard.of,
            runs: Runs {
                command: command.to_owned(),
                version: manual::version().to_owned(),
                flags,
                repeats,
                scenarios: paths.iter().map(|path| scenario::name(path)).collect(),
                files,
            },
        };
        let mut record = Self {
            lines: Some(Vec::new()),
        };
        let line = json!({ "shard": head }).to_string();
        if prints {
            out::say(&line)?;
        }
        record.add(line);
        Ok(record)
    }

    /// Whether this process is a shard.
    pub(in crate::cli) fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// Adds a line.
    pub(in crate::cli) fn add(&mut self, line: impl Into<String>) {
        if let Some(lines) = &mut self.lines {
            lines.push(line.into());
        }
    }

    /// Adds the part of a page about a scenario.
    pub(in crate::cli) fn add_page(&mut self, one: &ScenarioReport) {
        if self.is_kept() {
            self.add(json!({ "page": one.to_record() }).to_string());
        }
    }

    /// Writes the record into the directory of a report.
    pub(in crate::cli) fn leave(&self, dir: &Path) -> anyhow::Result<()> {
        match &self.lines {
            Some(lines) => {
                let path = dir.join(FILE);
                let written = std::fs::write(&path, lines.join("\n") + "\n");
                written.with_context(|| format!("cannot write {}", path.display()))
            }
            None => Ok(()),
        }
    }
}

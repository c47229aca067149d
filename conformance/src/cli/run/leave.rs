//! The files that runs leave: logs and reports. A report comes with the logs of the failed runs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use kubeproof::replay;
use kubeproof::runner::RunOptions;
use kubeproof::suite::{self, Checked, Verdict};

/// The directory of the logs of failed runs, below the directory of a report.
const FAILED: &str = "logs";

/// The files to write, and their paths.
pub(super) struct Leave {
    log: Option<PathBuf>,
    logs: Option<PathBuf>,
    pub(super) report: Option<PathBuf>,
}

impl Leave {
    /// Makes the directories.
    pub(super) fn new(
        log: Option<PathBuf>,
        logs: Option<PathBuf>,
        report: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        for dir in [&logs, &report].into_iter().flatten() {
            let made = std::fs::create_dir_all(dir);
            made.with_context(|| format!("cannot make {}", dir.display()))?;
        }
        Ok(Self { log, logs, report })
    }

    /// Whether there is a log of each run, not only of those that fail.
    pub(super) fn every_log(&self) -> bool {
        self.log.is_some() || self.logs.is_some()
    }

    /// Writes the log of a run, if there is to be one; returns where it is from the report.
    pub(super) fn log(
        &self,
        checked: &mut Checked,
        options: &RunOptions,
    ) -> anyhow::Result<Option<String>> {
        let name = file_name(&checked.name, options.schedule_seed);
        let has_failed = checked.verdict != Verdict::Passed;
        if checked.log.is_none()
            && has_failed
            && options.programs.is_none()
            && self.report.is_some()
            && let Some(file) = &checked.file
        {
            // A run is the same each time: the few that fail are run again for their logs.
            checked.log = Some(replay::record(file, options).1);
        }
        let Some(text) = &checked.log else {
            return Ok(None);
        };
        if let Some(path) = &self.log {
            write(path, text)?;
        }
        if let Some(dir) = &self.logs {
            write(&dir.join(&name), text)?;
        }
        let Some(dir) = self.report.as_ref().filter(|_| has_failed) else {
            return Ok(None);
        };
        let dir = dir.join(FAILED);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        write(&dir.join(&name), text)?;
        Ok(Some(format!("{FAILED}/{name}")))
    }
}

/// Returns the name of a log, `area__name.log.jsonl`; with a nonzero order seed `area__name.seed-N.log.jsonl`.
pub(in crate::cli) fn file_name(scenario: &str, schedule_seed: u64) -> String {
    let name = suite::snapshot_name(scenario);
    match schedule_seed {
        0 => format!("{name}.log.jsonl"),
        schedule_seed => format!("{name}.seed-{schedule_seed}.log.jsonl"),
    }
}

pub(in crate::cli) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

//! Finished runs in a file, so that an exploration that was interrupted goes on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use kubeproof::explore::{Divergence, Plan};
use kubeproof::scenario::ScenarioFile;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The runs that are finished, and the file that notes them: a JSON object a line.
pub(super) struct Finished {
    known: BTreeMap<Key, Option<Divergence>>,
    file: File,
}

/// A run.
#[derive(Clone, Copy)]
pub(super) struct Run<'r> {
    pub(super) file: &'r ScenarioFile,
    /// The flags that say what runs.
    pub(super) programs: &'r str,
    pub(super) plan: &'r Plan,
    /// The seed of its order.
    pub(super) schedule_seed: u64,
}

/// The identity of a run: of two with the same key only one is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    scenario: String,
    /// A digest of the scenario, of the files that it names, and of the flags that say what runs.
    of: String,
    plan: String,
    seed: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    run: Key,
    divergence: Option<Divergence>,
}

impl Finished {
    /// Reads the file, if it exists. The interruption may have cut off its last line.
    ///
    /// # Errors
    /// When the file cannot be read or written, or has something else in it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot use {}", path.display());
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.with_context(cannot)?,
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines = text[..whole].lines().map(|line| {
            let Line { run, divergence } = serde_json::from_str(line)?;
            Ok((run, divergence))
        });
        let known = lines.collect::<serde_json::Result<_>>();
        let known = known.with_context(|| format!("{} is no file of --resume", path.display()))?;
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(cannot)?;
        file.set_len(whole as u64).with_context(cannot)?;
        Ok(Self { known, file })
    }

    /// Returns the divergence of a run that is finished.
    pub(super) fn get(&self, run: Run<'_>) -> Option<&Option<Divergence>> {
        self.known.get(&Key::of(run))
    }

    /// Notes that a run is finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn note(&self, run: Run<'_>, divergence: Option<&Divergence>) -> anyhow::Result<()> {
        let line = Line {
            run: Key::of(run),
            divergence: divergence.cloned(),
        };
        // One write, so that lines of runs at once stay whole.
        let line = format!("{}\n", serde_json::to_string(&line)?);
        (&self.file)
            .write_all(line.as_bytes())
            .context("cannot note a finished run")
    }
}

impl Key {
    fn of(run: Run<'_>) -> Self {
        let file = run.file;
        let mut digest = Sha256::new();
        let texts = file.files.iter().flat_map(|(name, text)| [name, text]);
        let texts = texts.map(String::as_str);
        for text in texts.chain([file.text.as_str(), run.programs]) {
            digest.update(text.len().to_le_bytes());
            digest.update(text);
        }
        let mut of = String::new();
        for byte in &digest.finalize()[..8] {
            let _ = write!(of, "{byte:02x}");
        }
        Self {
            scenario: file.name.clone(),
            of,
            plan: run.plan.to_string(),
            seed: run.schedule_seed,
        }
    }
}

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
    /// The programs that run now.
    programs: Digest,
}

/// A run.
#[derive(Clone, Copy)]
pub(super) struct Run<'r> {
    pub(super) file: &'r ScenarioFile,
    pub(super) plan: &'r Plan,
    /// The seed of its order.
    pub(super) schedule_seed: u64,
}

/// A digest of texts, in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
struct Digest(String);

/// The identity of a run: of two with the same key only one is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    scenario: String,
    /// Of the scenario and of the files that it names.
    of: Digest,
    /// Of the programs and of the flags that say what runs. A file of an older version does not have it.
    #[serde(default)]
    programs: Digest,
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
    /// Reads the file at `path`, if it exists. Lines that an interruption or a full disk has cut off are left out. `programs`
    /// is the digest of the files of the programs, and `flags` say what else runs.
    ///
    /// # Errors
    /// When the file cannot be read or written, or has something else in it.
    pub(super) fn open(path: &Path, programs: &[u8], flags: &str) -> anyhow::Result<Self> {
        let cannot = || format!("cannot use {}", path.display());
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.with_context(cannot)?,
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let (mut known, mut broken) = (BTreeMap::new(), None);
        for line in text[..whole].lines() {
            match serde_json::from_str(line) {
                Ok(Line { run, divergence }) => drop(known.insert(run, divergence)),
                Err(error) => broken = broken.or(Some(error)),
            }
        }
        if let Some(error) = broken.filter(|_| known.is_empty()) {
            let what = format!("{} is no file of --resume", path.display());
            return Err(anyhow::Error::new(error).context(what));
        }
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(cannot)?;
        file.set_len(whole as u64).with_context(cannot)?;
        Ok(Self {
            known,
            file,
            programs: Digest::of([programs, flags.as_bytes()]),
        })
    }

    /// Says why finished runs of these scenarios are not reused, a line for each reason.
    pub(super) fn outdated(&self, files: &[ScenarioFile]) -> Vec<String> {
        let present: BTreeMap<&str, Digest> = files
            .iter()
            .map(|file| (file.name.as_str(), Digest::of_scenario(file)))
            .collect();
        let (mut of_programs, mut of_scenarios) = (0, BTreeMap::<&str, usize>::new());
        for key in self.known.keys() {
            match present.get(key.scenario.as_str()) {
                Some(_) if key.programs != self.programs => of_programs += 1,
                Some(of) if key.of != *of => *of_scenarios.entry(&key.scenario).or_default() += 1,
                _ => {}
            }
        }
        let of_programs = (of_programs > 0).then(|| {
            format!(
                "{} not reused: the files or the flags of the program were different",
                runs(of_programs, "")
            )
        });
        let of_scenarios = of_scenarios.into_iter().map(|(scenario, number)| {
            let of = format!(" of {scenario}");
            format!("{} not reused: the scenario has changed", runs(number, &of))
        });
        of_programs.into_iter().chain(of_scenarios).collect()
    }

    /// Returns the divergence of a run that is finished.
    pub(super) fn get(&self, run: Run<'_>) -> Option<&Option<Divergence>> {
        self.known.get(&self.key(run))
    }

    /// Notes that a run is finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn note(&self, run: Run<'_>, divergence: Option<&Divergence>) -> anyhow::Result<()> {
        let line = Line {
            run: self.key(run),
            divergence: divergence.cloned(),
        };
        // One write, so that lines of runs at once stay whole.
        let line = format!("{}\n", serde_json::to_string(&line)?);
        (&self.file)
            .write_all(line.as_bytes())
            .context("cannot note a finished run")
    }

    fn key(&self, run: Run<'_>) -> Key {
        Key {
            scenario: run.file.name.clone(),
            of: Digest::of_scenario(run.file),
            programs: self.programs.clone(),
            plan: run.plan.to_string(),
            seed: run.schedule_seed,
        }
    }
}

impl Digest {
    fn of<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> Self {
        let mut digest = Sha256::new();
        for text in texts {
            digest.update(text.len().to_le_bytes());
            digest.update(text);
        }
        let mut of = String::new();
        for byte in &digest.finalize()[..8] {
            let _ = write!(of, "{byte:02x}");
        }
        Self(of)
    }

    fn of_scenario(file: &ScenarioFile) -> Self {
        let texts = file.files.iter().flat_map(|(name, text)| [name, text]);
        Self::of(texts.chain([&file.text]).map(String::as_bytes))
    }
}

/// Finished runs with their verb: "1 finished run of a/b is".
fn runs(number: usize, of: &str) -> String {
    match number {
        1 => format!("1 finished run{of} is"),
        number => format!("{number} finished runs{of} are"),
    }
}

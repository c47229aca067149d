//! Known differences between derived and recorded goldens, each with its reason.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use regex::Regex;
use serde::Deserialize;

/// The name of the file with the list, in the directory of the recordings.
const FILE: &str = "differences.yaml";

/// The known differences of a directory of recordings.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    of_scenarios: Vec<Difference>,
    everywhere: Vec<(Everywhere, Vec<Regex>)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Entry {
    Of(Difference),
    Everywhere(Everywhere),
}

/// Lines that rightly are in one of two recordings only.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// The name of the scenario.
    scenario: String,
    /// The whole lines, as they are compared.
    lines: Vec<String>,
    /// Why both are right.
    because: String,
}

/// Text that recordings of one program rightly have otherwise, in whichever scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Everywhere {
    /// The program with its version, as the origin of its recordings begins.
    program: String,
    /// A scenario that has the difference.
    shown_by: String,
    /// Regular expressions for what is left out of the lines of both; a line of which nothing remains is left out itself.
    texts: Vec<String>,
    /// Why both are right.
    because: String,
}

/// A list that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ListedError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// The text is not a list.
    #[error("{FILE}: {0}")]
    Parse(String),
}

impl Listed {
    /// Reads the list in `directory`; without the file it is empty. A text that is the same as at the last call is not
    /// parsed again.
    ///
    /// # Errors
    /// [`ListedError`] when the file cannot be read, is no list, or has an entry without a reason.
    pub fn read(directory: &Path) -> Result<Arc<Self>, ListedError> {
        static LAST: Mutex<Option<(String, Arc<Listed>)>> = Mutex::new(None);
        let text = match std::fs::read_to_string(directory.join(FILE)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Arc::default());
            }
            text => text?,
        };
        let mut last = LAST.lock();
        if let Some((_, listed)) = last.as_ref().filter(|(known, _)| *known == text) {
            return Ok(Arc::clone(listed));
        }
        let listed = Arc::new(Self::parse(&text)?);
        *last = Some((text, Arc::clone(&listed)));
        Ok(listed)
    }

    /// Parses a list.
    ///
    /// # Errors
    /// [`ListedError::Parse`] when the text is no list, has an entry without a reason, or a text that is no regular
    /// expression.
    pub fn parse(text: &str) -> Result<Self, ListedError> {
        let entries: Vec<Entry> =
            serde_saphyr::from_str(text).map_err(|error| ListedError::Parse(error.to_string()))?;
        let mut listed = Self::default();
        for entry in entries {
            let (name, because) = match &entry {
                Entry::Of(one) => (&one.scenario, &one.because),
                Entry::Everywhere(one) => (&one.program, &one.because),
            };
            if because.trim().is_empty() {
                return Err(ListedError::Parse(format!("{name} has no reason")));
            }
            match entry {
                Entry::Of(one) => listed.of_scenarios.push(one),
                Entry::Everywhere(one) => {
                    let texts = one.texts.iter().map(|text| Regex::new(text));
                    let texts = texts.collect::<Result<_, _>>();
                    let texts = texts.map_err(|error| ListedError::Parse(error.to_string()))?;
                    listed.everywhere.push((one, texts));
                }
            }
        }
        Ok(listed)
    }

    /// The names of the scenarios with an entry.
    pub fn scenarios(&self) -> impl Iterator<Item = &str> {
        let own = self.of_scenarios.iter().map(|one| one.scenario.as_str());
        let everywhere = self.everywhere.iter();
        own.chain(everywhere.map(|(one, _)| one.shown_by.as_str()))
    }

    /// Returns what remains of a line of `scenario` without what a recording of `origin` rightly has otherwise.
    pub(super) fn rest(&self, scenario: &str, origin: &str, line: String) -> Option<String> {
        if self.lines_of(scenario).any(|known| known == line) {
            return None;
        }
        let texts = self.texts_of(origin);
        let rest = texts.fold(line, |line, (_, text)| match text.is_match(&line) {
            true => text.replace_all(&line, "").into_owned(),
            false => line,
        });
        (!rest.is_empty()).then_some(rest)
    }

    /// Returns the lines and texts listed for `scenario` and `origin` that both recordings have equally often.
    pub(super) fn stale(
        &self,
        (scenario, origin): (&str, &str),
        derived: &[String],
        recorded: &[String],
    ) -> Vec<&str> {
        let count = |lines: &[String], line: &str| lines.iter().filter(|own| *own == line).count();
        let lines = self
            .lines_of(scenario)
            .filter(|line| count(derived, line) == count(recorded, line));
        let found = |lines: &[String], text: &Regex| {
            lines.iter().filter(|line| text.is_match(line)).count()
        };
        let texts = self
            .texts_of(origin)
            .filter(|(one, text)| {
                one.shown_by == scenario && found(derived, text) == found(recorded, text)
            })
            .map(|(_, text)| text.as_str());
        lines.chain(texts).collect()
    }

    fn lines_of<'a>(&'a self, scenario: &str) -> impl Iterator<Item = &'a str> {
        let of_scenarios = self.of_scenarios.iter();
        let own = of_scenarios.filter(move |one| one.scenario == scenario);
        own.flat_map(|one| one.lines.iter().map(String::as_str))
    }

    fn texts_of<'a>(&'a self, origin: &str) -> impl Iterator<Item = (&'a Everywhere, &'a Regex)> {
        let everywhere = self.everywhere.iter();
        let own = everywhere.filter(move |(one, _)| origin.starts_with(&one.program));
        own.flat_map(|(one, texts)| texts.iter().map(move |text| (one, text)))
    }
}

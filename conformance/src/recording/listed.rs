//! Known differences between derived and recorded goldens, each with its reason.

use std::path::Path;

use serde::Deserialize;

/// The name of the file with the list, in the directory of the recordings.
const FILE: &str = "differences.yaml";

/// The known differences of a directory of recordings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Listed(Vec<Difference>);

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
    /// Reads the list in `directory`; without the file it is empty.
    ///
    /// # Errors
    /// [`ListedError`] when the file cannot be read, is no list, or has an entry without a reason.
    pub fn read(directory: &Path) -> Result<Self, ListedError> {
        match std::fs::read_to_string(directory.join(FILE)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            text => Self::parse(&text?),
        }
    }

    /// Parses a list.
    ///
    /// # Errors
    /// [`ListedError::Parse`] when the text is no list, or has an entry without a reason.
    pub fn parse(text: &str) -> Result<Self, ListedError> {
        let listed: Self =
            serde_saphyr::from_str(text).map_err(|error| ListedError::Parse(error.to_string()))?;
        match listed.0.iter().find(|one| one.because.trim().is_empty()) {
            Some(one) => Err(ListedError::Parse(format!(
                "{} has no reason",
                one.scenario
            ))),
            None => Ok(listed),
        }
    }

    /// The names of the scenarios with an entry.
    pub fn scenarios(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| one.scenario.as_str())
    }

    /// Whether `line` rightly is in one recording of `scenario` only.
    pub(super) fn explains(&self, scenario: &str, line: &str) -> bool {
        self.lines_of(scenario).any(|known| known == line)
    }

    /// Returns the lines listed for `scenario` that both recordings have equally often.
    pub(super) fn stale(
        &self,
        scenario: &str,
        derived: &[String],
        recorded: &[String],
    ) -> Vec<&str> {
        let count = |lines: &[String], line: &str| lines.iter().filter(|own| *own == line).count();
        self.lines_of(scenario)
            .filter(|line| count(derived, line) == count(recorded, line))
            .collect()
    }

    fn lines_of<'a>(&'a self, scenario: &str) -> impl Iterator<Item = &'a str> {
        let own = self.0.iter().filter(move |one| one.scenario == scenario);
        own.flat_map(|one| one.lines.iter().map(String::as_str))
    }
}

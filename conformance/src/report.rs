//! One page that shows runs: every scenario with its lanes, its golden and its difference from that, and the findings
//! of an exploration. It needs only a browser: style, program, pictures and data are all in it.
//!
//! The data of a scenario is text that is read when the scenario is opened, so that the page stays fast with hundreds
//! of them. Nothing in it depends on the machine, except for the line that names the program: equal runs give equal
//! bytes.
//!
//! - [`chart`]: a run as lanes
//! - [`matrix`]: the result of an exploration
//! - [`served`]: a server that programs have used
//! - `html`: escaping, and the page's parts

pub mod chart;
mod html;
pub mod matrix;
pub mod served;
mod state;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::suite::{Checked, Verdict};

pub use chart::Chart;
pub use matrix::Matrix;
pub use state::{Phase, Shown};

/// The page's name in its directory.
const FILE: &str = "index.html";

/// The content of a page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The scenarios, in the order in which they are listed.
    pub scenarios: Vec<ScenarioReport>,
    /// The result of an exploration, if there was any.
    pub matrix: Option<Matrix>,
    /// The program that made the page, with its arguments.
    pub made_by: Option<String>,
}

/// The part of a page about one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// `area/name`, followed by the seed of its order if that is not 0.
    #[serde(skip)]
    pub name: String,
    /// The claim of the scenario, as a sentence.
    #[serde(skip)]
    pub title: String,
    /// Whether it ended as its golden says.
    #[serde(skip)]
    pub has_passed: bool,
    /// The source of the expected outcome.
    pub source: String,
    /// The failure: a diff to the golden, or a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The golden, if the transcript is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub golden: Option<String>,
    /// The transcript.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// The path of the log, relative to the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The lanes of the run.
    pub chart: Chart,
}

impl ScenarioReport {
    /// Builds the report of a run in the order of seed `order`.
    #[must_use]
    pub fn of(checked: &Checked, order: u64) -> Self {
        let scenario = checked.file.as_ref().map(|file| &file.scenario);
        let transcript = checked
            .run
            .as_ref()
            .and_then(|run| run.transcript.as_ref().ok());
        let transcript = transcript.map(|transcript| transcript.trim_end().to_owned());
        let failure = match &checked.verdict {
            Verdict::Passed => None,
            Verdict::Failed(why) => Some(why.trim_end().to_owned()),
        };
        let differing = checked.golden.as_ref();
        let differing = differing.filter(|golden| transcript.as_ref() != Some(golden));
        Self {
            name: match order {
                0 => checked.name.clone(),
                order => format!("{} (seed {order})", checked.name),
            },
            title: scenario.map_or_else(String::new, |one| one.title.trim().to_owned()),
            has_passed: checked.verdict == Verdict::Passed,
            source: scenario.map_or_else(String::new, |one| one.source.trim().to_owned()),
            failure,
            golden: differing.cloned(),
            transcript,
            log: None,
            chart: checked.run.as_ref().map(Chart::of).unwrap_or_default(),
        }
    }
}

/// A [`ScenarioReport`] with the parts that a page has in its headings.
#[derive(Deserialize)]
struct Recorded {
    name: String,
    title: String,
    passed: bool,
    report: ScenarioReport,
}

impl ScenarioReport {
    /// The whole report as JSON, for a page that another process makes: `{name, title, passed, report}`.
    #[must_use]
    pub fn to_record(&self) -> Value {
        json!({"name": self.name, "title": self.title, "passed": self.has_passed, "report": self})
    }

    /// Reads what [`Self::to_record`] returns.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_record(record: &Value) -> serde_json::Result<Self> {
        let Recorded {
            name,
            title,
            passed,
            report,
        } = Recorded::deserialize(record)?;
        Ok(Self {
            name,
            title,
            has_passed: passed,
            ..report
        })
    }
}

/// Writes the page into the directory, which is made if it is not there; returns where it is.
///
/// # Errors
/// Why it cannot be written.
pub fn write(dir: &Path, page: &Page) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(FILE);
    std::fs::write(&path, page.to_html())?;
    Ok(path)
}

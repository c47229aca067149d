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
//! - [`sides`]: two runs side by side
//! - `html`: the page's parts
//! - `escape`: text in HTML

pub mod chart;
mod escape;
mod html;
pub mod matrix;
pub mod served;
pub mod sides;
mod state;

use std::path::{Path, PathBuf};

use kubeproof_machinery::json::{Value, json};
use serde::{Deserialize, Serialize};

use crate::suite::{self, Checked, Verdict};

pub use chart::Chart;
pub use matrix::Matrix;
pub use sides::Side;
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
    /// The failure, without the diff that `compared` shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Two transcripts that differ: the golden and that of this run, or those without and with faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<[Side; 2]>,
    /// The transcript, if it is not compared with another.
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
        let compared = match (&checked.golden, &transcript, &checked.transcripts) {
            (Some(golden), Some(transcript), _) if golden != transcript => Some([
                Side::new("Golden", golden),
                Side::new("This run", transcript),
            ]),
            (_, _, Some([without, with])) => Some([
                Side::new("Without the faults", without),
                Side::new("With the faults", with),
            ]),
            _ => None,
        };
        let failure = match &checked.verdict {
            Verdict::Passed => None,
            Verdict::Failed(why) => {
                let shown = compared.as_ref().map(|[golden, run]| {
                    // The two sides show it.
                    let diff = suite::golden_diff(&golden.text, &run.text);
                    why.replacen(diff.trim_end(), "", 1)
                });
                let shown = shown.as_deref().unwrap_or(why).trim();
                (!shown.is_empty()).then(|| shown.to_owned())
            }
        };
        Self {
            name: match order {
                0 => checked.name.clone(),
                order => format!("{} (seed {order})", checked.name),
            },
            title: scenario.map_or_else(String::new, |one| one.title.trim().to_owned()),
            has_passed: checked.verdict == Verdict::Passed,
            source: scenario.map_or_else(String::new, |one| one.source.trim().to_owned()),
            failure,
            transcript: transcript.filter(|_| compared.is_none()),
            compared,
            log: None,
            chart: checked.run.as_ref().map(Chart::of).unwrap_or_default(),
        }
    }

    /// The report of a run whose transcript has become the golden.
    #[must_use]
    pub fn accepted(self) -> Self {
        let compared = self.compared.map(|[golden, run]| {
            [
                Side::new("Golden before", golden.text),
                Side::new("Golden now", run.text),
            ]
        });
        Self {
            has_passed: true,
            failure: None,
            compared,
            ..self
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

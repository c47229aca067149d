//! The lines of a log.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{EventType, JournalEntry, StateError};
use kubeproof_machinery::json::Value;
use serde::{Deserialize, Serialize};

use crate::fault_plan::PlanError;
use crate::time::EPOCH;

/// The form of logs that this program writes and reads.
const FORM: &str = "kubeproof/v1";

/// A text that is not a log, or a log that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A line that does not belong to a log.
    #[error("{}line {number}: {message}", if *number == 1 { "not a log of kubeproof: " } else { "" })]
    Line {
        /// Counted from one.
        number: usize,
        /// The error in that line.
        message: String,
    },
    /// The log is of another form.
    #[error("the log has the format {found:?}; this program reads {FORM:?}")]
    Form {
        /// The form that the first line of the log names.
        found: String,
    },
    /// A testbed's script is Rust and not in the log.
    #[error("the log was written by a test; to replay it, run the test")]
    Testbed,
    /// The scenario in it cannot be read.
    #[error("cannot read the scenario in the log: {0}")]
    Scenario(String),
    /// The plan in it cannot be read.
    #[error("cannot read the plan in the log: {0}")]
    Plan(#[from] PlanError),
    /// The configuration of the scheduler in it cannot be read.
    #[error("cannot read the scheduler's configuration in the log: {0}")]
    SchedulerConfig(#[from] kubeproof_node::BadSchedulerConfig),
    /// The state in it cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The log of a server, which many have written to.
    #[error(
        "this is the log of a server and cannot be replayed; open it with `kubeproof serve --from-log`"
    )]
    Server,
    /// A moment that the log does not have.
    #[error("{0}")]
    Moment(String),
}

/// The inputs of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Which form the log has.
    pub form: String,
    /// The version of the program that wrote it.
    pub program: String,
    /// The scenario; none in the log of a testbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<ScenarioText>,
    /// Seed of uids and generated names.
    pub seed: u64,
    /// Seed of the order of what happens in one instant.
    #[serde(rename = "order")]
    pub schedule_seed: u64,
    /// The controllers that ran instead of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controllers: Option<Vec<String>>,
    /// The configuration of the scheduler that ran instead of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_config: Option<String>,
    /// The faults, as `kubeproof explore --plan` takes them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan: String,
    /// The virtual time at the start.
    pub began: String,
}

/// A scenario with all that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioText {
    /// `area/name`.
    pub name: String,
    /// The text of its file.
    pub text: String,
    /// The texts of the files that it names.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

impl Recipe {
    /// Returns the recipe of a testbed, whose steps are not in the log.
    #[must_use]
    pub(crate) fn of_testbed(seed: u64, schedule_seed: u64) -> Self {
        Self {
            form: FORM.to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: None,
            seed,
            schedule_seed,
            controllers: None,
            scheduler_config: None,
            plan: String::new(),
            began: time_text(EPOCH),
        }
    }
}

/// One line of a log: an object with its name as the only key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line<'a> {
    Log(Recipe),
    Step(Step<'a>),
    Request(Request<'a>),
    Fault(Met<'a>),
    Commit(Commit<'a>),
    Violation(Violated<'a>),
    Transcript(Cow<'a, str>),
    Error(Cow<'a, str>),
}

/// A step begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Step<'a> {
    pub(super) after: ResourceVersion,
    pub(super) time: String,
    pub(super) words: Cow<'a, str>,
}

/// A request is sent; without a code it was never answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request<'a> {
    pub(super) after: ResourceVersion,
    pub(super) time: String,
    pub(super) by: Cow<'a, str>,
    pub(super) method: Cow<'a, str>,
    pub(super) target: Cow<'a, str>,
    #[serde(default)]
    pub(super) code: Option<u16>,
}

/// A fault meets a request or an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Met<'a> {
    pub(super) after: ResourceVersion,
    pub(super) time: String,
    pub(super) name: Cow<'a, str>,
    pub(super) met: Cow<'a, str>,
}

/// An object is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Commit<'a> {
    pub(super) rv: ResourceVersion,
    pub(super) time: String,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(super) event: Cow<'a, str>,
    /// `v1/pods`, `apps/v1/statefulsets`.
    pub(super) resource: String,
    pub(super) by: Cow<'a, str>,
    /// The object after the write; for a deletion, its last state.
    pub(super) object: Cow<'a, Value>,
}

/// A property does not hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Violated<'a> {
    pub(super) rv: ResourceVersion,
    pub(super) property: Cow<'a, str>,
    pub(super) what: Cow<'a, str>,
}

impl<'a> Commit<'a> {
    pub(super) fn of(entry: &'a JournalEntry) -> Self {
        Self {
            rv: entry.rv,
            time: time_text(entry.time),
            event: entry.event.as_str().into(),
            resource: entry.gvr.to_path(),
            by: (&*entry.user_agent).into(),
            object: Cow::Borrowed(&entry.object),
        }
    }

    /// Returns the entry of a journal, without the previous object; `None` for a line that is not valid.
    pub(super) fn to_entry(&self) -> Option<JournalEntry> {
        let types = [EventType::Added, EventType::Modified, EventType::Deleted];
        Some(JournalEntry {
            rv: self.rv,
            time: self.time.parse().ok()?,
            gvr: GroupVersionResource::from_path(&self.resource)?,
            event: types
                .into_iter()
                .find(|event| event.as_str() == self.event)?,
            user_agent: Arc::from(&*self.by),
            object: self.object.clone().into_owned().into(),
            previous: None,
        })
    }
}

impl Line<'_> {
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("all keys of a line are text")
    }
}

pub(super) fn time_text(time: Timestamp) -> String {
    time.to_string()
}

/// The lines of a text that follow `before` others, each with its number.
pub(super) fn further(
    text: &str,
    before: usize,
) -> impl Iterator<Item = Result<(usize, Line<'static>), LogError>> {
    text.lines().zip(before + 1..).map(|(line, number)| {
        let read: Result<Line<'static>, _> = serde_json::from_str(line);
        let read = read.map(|line| (number, line));
        read.map_err(|error| LogError::Line {
            number,
            message: error.to_string(),
        })
    })
}

/// Returns the recipe of a log.
///
/// # Errors
/// [`LogError`] when a line of the text does not belong to a log, or the log is of another form.
pub(crate) fn recipe(text: &str) -> Result<Recipe, LogError> {
    read(text).map(|(recipe, _)| recipe)
}

/// The recipe of a log, and its other lines.
pub(super) fn read(text: &str) -> Result<(Recipe, Vec<(usize, Line<'static>)>), LogError> {
    let mut lines = further(text, 0);
    let recipe = match lines.next().transpose()? {
        Some((_, Line::Log(recipe))) => recipe,
        _ => {
            return Err(LogError::Line {
                number: 1,
                message: "a log begins with {\"log\": …}".to_owned(),
            });
        }
    };
    if recipe.form != FORM {
        return Err(LogError::Form { found: recipe.form });
    }
    Ok((recipe, lines.collect::<Result<_, _>>()?))
}

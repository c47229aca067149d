//! Logs of runs: the inputs of a replay and the events of the run, a JSON object a line.
//!
//! The first line, `{"log": …}`, is the [`Recipe`]: scenario, files, seeds, faults. The others record the run in
//! order: `step`, `request`, `fault` and `commit`, then each `violation`, and in the end the `transcript` or an
//! `error`. A step, request or fault follows the commit named in its `after`. Nothing in a log depends on the
//! machine, so the log of a replay has the same bytes.
//!
//! A server writes a log of its own ([`Recorder`]): it begins with the present
//! [`ServerState`](kubeproof_apiserver::ServerState), followed by each commit as it happens.
//!
//! - `format`: the lines
//! - `recorder`: the log of a server
//! - `replay`: the repeated run of a log, and its first difference
//! - `state`: the state at some moment of a log

mod format;
mod recorder;
mod state;

use jiff::Timestamp;
use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::fault::Hit;
use kubeproof_apiserver::meta::ResourceVersion;

use crate::properties::Violation;
use crate::wire::Exchange;

pub(crate) use format::recipe;
pub use format::{LogError, Recipe, ScenarioText};
pub use recorder::Recorder;
pub use state::{Moment, State};

use format::{Commit, Line, Met, Request, Step, Violated, time_text};

/// A step that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Number and words: `1. delete pod web-0`.
    pub heading: String,
    /// The scenario's note on the step.
    pub note: Option<String>,
    /// The version of the last write before it.
    pub after_rv: ResourceVersion,
    /// When it began.
    pub began: Timestamp,
}

/// The events of a run, as a log records them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happened<'a> {
    pub(crate) journal: &'a [JournalEntry],
    pub(crate) steps: &'a [Taken],
    pub(crate) exchanges: &'a [Exchange],
    pub(crate) hits: &'a [Hit],
    pub(crate) violations: &'a [Violation],
}

/// Formats the log of a run; `end` is the transcript, or the reason for its absence.
pub(crate) fn write(
    recipe: &Recipe,
    happened: Happened<'_>,
    end: Option<Result<&str, String>>,
) -> String {
    let mut lines: Vec<(ResourceVersion, u8, Line<'_>)> = Vec::new();
    let steps = happened.steps.iter().map(|step| {
        let line = Step {
            after: step.after_rv,
            time: time_text(step.began),
            words: step.heading.as_str().into(),
        };
        (step.after_rv, 1, Line::Step(line))
    });
    lines.extend(steps);
    let requests = happened.exchanges.iter().map(|exchange| {
        let line = Request {
            after: exchange.after_rv,
            time: time_text(exchange.time),
            by: exchange.user_agent.as_str().into(),
            method: exchange.method.as_str().into(),
            target: exchange.target.as_str().into(),
            code: exchange.code,
        };
        (exchange.after_rv, 2, Line::Request(line))
    });
    lines.extend(requests);
    let met = happened.hits.iter().map(|hit| {
        let line = Met {
            after: hit.after_rv,
            time: time_text(hit.time),
            name: hit.fault.as_str().into(),
            met: hit.what.as_str().into(),
        };
        (hit.after_rv, 3, Line::Fault(line))
    });
    lines.extend(met);
    let commits = happened.journal.iter().map(|entry| {
        let line = Line::Commit(Commit::of(entry));
        (entry.rv, 0, line)
    });
    lines.extend(commits);
    // The sort is stable: what came after the same commit stays in its order.
    lines.sort_by_key(|(rv, place, _)| (*rv, *place));
    let violations = happened.violations.iter().map(|violation| Violated {
        rv: violation.rv,
        property: violation.property.as_str().into(),
        what: violation.what.as_str().into(),
    });
    let end = end.map(|end| match end {
        Ok(transcript) => Line::Transcript(transcript.into()),
        Err(error) => Line::Error(error.into()),
    });
    let happened = lines.into_iter().map(|(_, _, line)| line);
    let all = std::iter::once(Line::Log(recipe.clone()))
        .chain(happened)
        .chain(violations.map(Line::Violation))
        .chain(end);
    let mut text = String::new();
    for line in all {
        text.push_str(&line.to_text());
        text.push('\n');
    }
    text
}

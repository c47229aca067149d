//! Quiescence: a cluster has settled when nothing but heartbeats was written for some time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubeproof_apiserver::JournalEntry;

use crate::heartbeat::is_heartbeat;
use crate::properties::Violation;
use crate::time::HumanDuration;

/// Writes that continue past the limit of a wait.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the cluster did not settle within {after}: the last write is {object} by {user_agent}{}",
    .violations.iter().map(|one| format!("; {one}")).collect::<String>()
)]
pub struct NotSettled {
    /// The limit of the wait.
    pub after: HumanDuration,
    /// The user agent of the last writer.
    pub user_agent: String,
    /// Resource and name of the object written last.
    pub object: String,
    /// The violations of properties that were not reported before, such as a loop of writes; empty when the builder
    /// ignores violations.
    pub violations: Vec<Violation>,
}

/// A wait until nothing was written for some time. The journal decides, so that the outcome does not depend on how
/// tasks are scheduled.
#[derive(Debug)]
pub(crate) struct Quiescence {
    quiet: Duration,
    longest: Duration,
    began: Timestamp,
    last: Timestamp,
}

impl Quiescence {
    /// Begins the wait at `now`: until nothing was written for `quiet`, for at most `longest`.
    pub(crate) fn begin(now: Timestamp, quiet: Duration, longest: Duration) -> Self {
        Self {
            quiet,
            longest,
            began: now,
            last: now,
        }
    }

    /// Returns the time that is left without another write; `None` once it is over.
    pub(crate) fn remaining(&self, now: Timestamp) -> Option<Duration> {
        let remaining = later(self.last, self.quiet).duration_since(now);
        (remaining > SignedDuration::ZERO).then(|| remaining.unsigned_abs())
    }

    /// Looks at the writes so far.
    ///
    /// # Errors
    /// [`NotSettled`] when the last of them is past the limit.
    pub(crate) fn see(&mut self, journal: &[JournalEntry]) -> Result<(), NotSettled> {
        let newest = journal.iter().rev().find(|entry| !is_heartbeat(entry));
        let Some(newest) = newest.filter(|newest| newest.time > self.last) else {
            return Ok(());
        };
        self.last = newest.time;
        match self.last > later(self.began, self.longest) {
            true => Err(self.not_settled(journal, self.longest)),
            false => Ok(()),
        }
    }

    /// Returns the error of a wait that is given up `after` its beginning.
    pub(crate) fn not_settled(&self, journal: &[JournalEntry], after: Duration) -> NotSettled {
        let newest = journal.iter().rev().find(|entry| !is_heartbeat(entry));
        NotSettled {
            after: HumanDuration(after),
            user_agent: newest.map_or_else(String::new, |entry| entry.user_agent.to_string()),
            object: newest.map_or_else(String::new, named),
            violations: Vec::new(),
        }
    }

    /// Returns the time of the last write, or of the beginning.
    pub(crate) fn last(&self) -> Timestamp {
        self.last
    }
}

fn named(entry: &JournalEntry) -> String {
    let name = entry.object["metadata"]["name"].as_str();
    format!("{} {}", entry.gvr.resource, name.unwrap_or_default())
}

/// The time `by` after `time`, or the last one there is.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

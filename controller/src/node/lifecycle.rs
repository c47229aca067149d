//! How a simulated pod moves on: a pure function of what is known and of the time.

mod course;
mod stopping;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::directives::{Delay, Directives, ForcedPhase};
use super::hold::{Hold, Waiting};
use super::instance::{Halt, Instance, Stopping};
use super::part::Part;
use course::{own_ending, startable};
use stopping::{concluding, halting, stopping};

pub(super) use course::{is_initialized, readiness};

/// How far a pod has come on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Bound to the node; nothing reported yet.
    Bound,
    /// Reported as `ContainerCreating`.
    Creating { since: Timestamp },
    /// It has an address, and containers that run or have run.
    Running,
    /// All containers have ended, for good.
    Ended,
    /// The node has let go of it; what is left is the API server's business.
    Released,
}

/// What the API shows of a running pod, as far as it moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// By container name; without init containers that are not sidecars.
    pub(super) containers: BTreeMap<String, bool>,
    /// The containers that run, and whose start is over.
    pub(super) started: BTreeSet<String>,
    /// The containers whose hook postStart has not ended.
    pub(super) hooked: BTreeSet<String>,
    /// Those of which the status tells still what was before: who waits for the hook of a
    /// container that it has run anew, tells nothing.
    pub(super) kept: BTreeSet<String>,
    /// The containers that could not be made.
    pub(super) held: BTreeMap<String, Waiting>,
    /// The containers that don't run.
    pub(super) halted: BTreeMap<String, Halt>,
    /// All containers and all readiness gates.
    pub(super) pod: bool,
}

/// What a decision is made from.
pub(super) struct View<'a> {
    pub(super) directives: Directives,
    /// Every claim the pod names is bound.
    pub(super) volumes_bound: bool,
    pub(super) gates_met: bool,
    pub(super) deletion: Option<Deletion>,
    /// When the pod has been active for as long as it may.
    pub(super) deadline: Option<Timestamp>,
    /// How long its containers may take to stop, unless its deletion says otherwise.
    pub(super) grace: Duration,
    /// The containers of the spec, in the order of their start.
    pub(super) parts: &'a [Part],
    /// The containers that have been started, by name.
    pub(super) instances: &'a BTreeMap<String, Instance>,
    /// The containers that could not be made when that was tried last, by name.
    pub(super) held: &'a BTreeMap<String, Hold>,
    /// What was reported last.
    pub(super) reported: &'a Readiness,
}

impl<'a> View<'a> {
    /// The containers that have been started.
    fn runs(&self) -> impl Iterator<Item = (&'a Part, &'a Instance)> + Clone + use<'a> {
        let instances = self.instances;
        let parts = self.parts.iter();
        parts.filter_map(|part| Some((part, instances.get(&part.name)?)))
    }

    /// Until when a container waits that could not be made; None where nothing is known against it.
    fn held_until(&self, part: &Part) -> Option<Timestamp> {
        self.held.get(&part.name)?.until(&part.image)
    }
}

/// A deletion the node has heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deletion {
    pub(super) since: Timestamp,
    pub(super) grace: Duration,
}

/// How containers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Error,
    /// By SIGKILL, at the end of the grace period.
    Killed,
    /// The same, because the pod was active for longer than it may.
    Overdue,
    /// The pod was deleted before any of them ran.
    Unstarted,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing until a change or, if given, that time.
    Wait(Option<Timestamp>),
    ReportCreating,
    /// The pod gets its address, and these containers run.
    Start(Vec<String>),
    /// These containers run: for the first time, again after they have ended, or another image
    /// than before.
    Launch(Vec<String>),
    /// These containers, which are to have another image, are told to stop.
    Replace(Vec<String>, Stopping),
    /// The hooks preStop of these containers run.
    PreStop(Vec<String>),
    /// Their pod ends, and these containers are told to stop.
    Dismiss(Vec<String>, Stopping),
    /// These containers are sent SIGTERM.
    Signal(Vec<String>),
    /// These containers, told to stop, have stopped, each with an exit code.
    Halt(Vec<(String, i32)>),
    Report(Readiness),
    End(Ending),
    /// The last DELETE, with no grace.
    Release,
}

/// The next step of a pod.
pub(super) fn next(stage: Stage, view: &View<'_>, now: Timestamp) -> Step {
    if let Some(deletion) = view.deletion {
        // A silent node doesn't act on deletions.
        let Delay::After(stop) = view.directives.stop else {
            return Step::Wait(None);
        };
        return match stage {
            Stage::Released => Step::Wait(None),
            // What never ran has failed, so that nobody takes the pod for one yet to come.
            Stage::Bound | Stage::Creating { .. } => Step::End(Ending::Unstarted),
            Stage::Ended => Step::Release,
            Stage::Running => stopping(view, stop, deletion, now),
        };
    }
    let step = match stage {
        Stage::Bound => Step::ReportCreating,
        Stage::Creating { since } => creating(view, since, now),
        Stage::Running => running(view, now),
        Stage::Ended | Stage::Released => return Step::Wait(None),
    };
    match (view.deadline, step) {
        (Some(deadline), _) if now >= deadline => Step::End(Ending::Overdue),
        (Some(deadline), Step::Wait(wake)) => {
            Step::Wait(Some(wake.map_or(deadline, |wake| wake.min(deadline))))
        }
        (_, step) => step,
    }
}

fn creating(view: &View<'_>, since: Timestamp, now: Timestamp) -> Step {
    let Delay::After(start) = view.directives.start else {
        return Step::Wait(None);
    };
    if !view.volumes_bound || view.directives.phase == Some(ForcedPhase::Pending) {
        return Step::Wait(None);
    }
    let due = after(since, start);
    if now < due {
        return Step::Wait(Some(due));
    }
    match forced_ending(view) {
        Some(ending) => Step::End(ending),
        None => Step::Start(startable(view, now).0),
    }
}

fn running(view: &View<'_>, now: Timestamp) -> Step {
    if let Some(ending) = forced_ending(view) {
        return Step::End(ending);
    }
    if let Some(ending) = own_ending(view) {
        return concluding(view, ending, now);
    }
    let signals = view.directives.signals.is_some();
    let outdated = view.runs().filter(|(part, instance)| {
        let waits = view.held_until(part).is_some_and(|at| now < at);
        let leaves = signals && instance.exit.is_none() && instance.stopping.is_some();
        part.restarts_for_image() && part.image != instance.image && !waits && !leaves
    });
    // Whoever is sent a signal has time to end.
    let (alive, ended): (Vec<_>, Vec<_>) =
        outdated.partition(|(_, instance)| signals && instance.exit.is_none());
    let names = |runs: Vec<(&Part, &Instance)>| -> Vec<String> {
        runs.iter().map(|(part, _)| part.name.clone()).collect()
    };
    if !alive.is_empty() {
        let order = Stopping {
            since: now,
            grace: view.grace,
            is_foreign: false,
        };
        return Step::Replace(names(alive), order);
    }
    if !ended.is_empty() {
        return Step::Launch(names(ended));
    }
    let (readiness, wake) = readiness(view, now);
    if readiness != *view.reported {
        return Step::Report(readiness);
    }
    let halt = match halting(view, now) {
        Ok(step) => return step,
        Err(wake) => wake,
    };
    let (due, later) = startable(view, now);
    if due.is_empty() {
        return Step::Wait(later.into_iter().chain(wake).chain(halt).min());
    }
    Step::Launch(due)
}

impl Ending {
    /// The exit code of a container that did not end of itself.
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Completed => 0,
            Self::Error => 1,
            // 128 and the number of SIGKILL.
            Self::Killed | Self::Overdue | Self::Unstarted => 137,
        }
    }
}

fn forced_ending(view: &View<'_>) -> Option<Ending> {
    match view.directives.phase? {
        ForcedPhase::Failed => Some(Ending::Error),
        ForcedPhase::Succeeded => Some(Ending::Completed),
        ForcedPhase::Pending => None,
    }
}

/// `time` moved on by `delay`; past the end of time, its end.
pub(super) fn after(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;

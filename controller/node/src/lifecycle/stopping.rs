//! The stopping of containers: of a whole pod, or of one container before its next run.

use std::time::Duration;

use jiff::Timestamp;

use super::pod_phase::own_ending;
use super::{Deletion, Ending, Step, View, forced_ending, readiness};
use crate::Pace;
use crate::annotations::Delay;
use crate::container_run::{ContainerRun, Hook, Stopping};
use crate::container_spec::{ContainerSpec, Role};
use crate::pace::after;

/// The minimum grace period after a `preStop` hook.
const GRACE_MIN: Duration = Duration::from_secs(2);

/// The plan for a container that stops: the time of its end, and whether it is killed.
struct Leave<'a> {
    container_spec: &'a ContainerSpec,
    /// The time of SIGTERM, if the container receives one.
    sigterm: Option<Timestamp>,
    at: Timestamp,
    killed: bool,
    signaled: bool,
}

/// The manner in which containers stop.
#[derive(Clone, Copy)]
struct Manner {
    /// The time that containers take to stop.
    stop: Duration,
    /// Whether containers receive SIGTERM, and SIGKILL after `stop`.
    pace: Option<Pace>,
}

impl Leave<'_> {
    /// Returns the time of the next action for the container.
    fn due(&self) -> Timestamp {
        let sigterm = self.sigterm.filter(|_| !self.signaled);
        sigterm.map_or(self.at, |sigterm| sigterm.min(self.at))
    }

    fn halt(&self) -> (String, i32) {
        let ending = if self.killed {
            Ending::Killed
        } else {
            Ending::Completed
        };
        (self.container_spec.name.clone(), ending.code())
    }
}

/// Returns the next step of a pod that was deleted while it ran.
pub(super) fn stopping(
    view: &View<'_>,
    stop: Duration,
    deletion: Deletion,
    now: Timestamp,
) -> Step {
    if let Some(ending) = forced_ending(view) {
        return Step::End(ending);
    }
    let order = Stopping {
        since: deletion.since,
        grace: deletion.grace,
        is_foreign: false,
    };
    if let Some(step) = dismissal(view, order) {
        return step;
    }
    let manner = Manner {
        stop,
        pace: view.behavior.signals,
    };
    let leaves = leaves(view, manner, order);
    if let Some(step) = signal(&leaves, now) {
        return step;
    }
    // A container that receives SIGTERM can end at once.
    let soonest = match view.behavior.signals {
        Some(_) => order.since,
        None => after(order.since, stop.min(order.grace)),
    };
    let due = leaves.iter().map(|leave| leave.at).fold(soonest, Ord::max);
    if now >= due {
        let stayed = view
            .runs()
            .all(|(_, container_run)| container_run.exit.is_none());
        if !leaves.is_empty() && (!stayed || leaves.iter().any(is_sidecar)) {
            return Step::Halt(leaves.iter().map(Leave::halt).collect());
        }
        return Step::End(deletion_ending(view, stop > order.grace, &leaves));
    }
    let gone: Vec<_> = leaves.iter().filter(|leave| leave.at <= now).collect();
    if !gone.is_empty() {
        return Step::Halt(gone.into_iter().map(Leave::halt).collect());
    }
    if view.container_runs.is_empty() {
        return Step::End(Ending::Unstarted);
    }
    if leaves.is_empty()
        && let Some(ending) = own_ending(view)
    {
        return Step::End(ending);
    }
    let next = leaves.iter().map(Leave::due).min().unwrap_or(due);
    let (readiness, wake) = readiness(view, now);
    // Containers that the kubelet has stopped are reported once the pod has ended.
    if readiness != *view.reported && !view.runs().any(|(_, own)| has_left(own)) {
        return Step::Report(readiness);
    }
    Step::Wait(Some(wake.map_or(next, |wake| wake.min(next))))
}

/// Returns the step that sends SIGTERM to the containers that are due for it.
fn signal(leaves: &[Leave<'_>], now: Timestamp) -> Option<Step> {
    let due = leaves.iter().filter(|leave| {
        let is_due = leave.sigterm.is_some_and(|at| at <= now);
        is_due && !leave.signaled
    });
    let due: Vec<String> = due.map(|leave| leave.container_spec.name.clone()).collect();
    (!due.is_empty()).then_some(Step::Signal(due))
}

fn is_sidecar(leave: &Leave<'_>) -> bool {
    leave.container_spec.role == Role::Sidecar
}

fn has_left(container_run: &ContainerRun) -> bool {
    container_run.dismissed && container_run.exit.is_some()
}

fn deletion_ending(view: &View<'_>, is_slow: bool, leaves: &[Leave<'_>]) -> Ending {
    let mut main = view
        .runs()
        .filter(|(container_spec, _)| container_spec.role == Role::Main);
    if main.clone().next().is_none() {
        return Ending::Unstarted;
    }
    if leaves.is_empty() {
        // Each container has its own exit code.
        let failed = main.any(|(_, own)| own.exit.is_some_and(|exit| exit.code != 0));
        return if failed {
            Ending::Error
        } else {
            Ending::Completed
        };
    }
    match is_slow || leaves.iter().any(|leave| leave.killed) {
        true => Ending::Killed,
        false => Ending::Completed,
    }
}

/// Returns the next step of a pod whose main containers have ended for good: its sidecars stop
/// last.
pub(super) fn concluding(view: &View<'_>, ending: Ending, now: Timestamp) -> Step {
    let mut alive = view.runs().filter(|(_, own)| own.exit.is_none());
    if alive.next().is_none() {
        return Step::End(ending);
    }
    let (readiness, _) = readiness(view, now);
    let begun = view.runs().any(|(_, own)| own.dismissed);
    if !begun && readiness != *view.reported {
        return Step::Report(readiness);
    }
    let order = Stopping {
        since: now,
        grace: view.grace,
        is_foreign: false,
    };
    if let Some(step) = dismissal(view, order) {
        return step;
    }
    halting(view, now).unwrap_or_else(Step::Wait)
}

/// Returns the step that stops the containers that are not stopping yet, or runs their hooks.
fn dismissal(view: &View<'_>, order: Stopping) -> Option<Step> {
    let alive = view.runs().filter(|(_, own)| own.exit.is_none());
    let undismissed = alive.clone().filter(|(_, own)| !own.dismissed);
    let undismissed = names(undismissed);
    if !undismissed.is_empty() {
        return Some(Step::Dismiss(undismissed, order));
    }
    let hooks = names(
        alive.filter(|(container_spec, own)| container_spec.has_pre_stop && own.pre_stop.is_none()),
    );
    (!hooks.is_empty()).then_some(Step::PreStop(hooks))
}

fn names<'a>(runs: impl Iterator<Item = (&'a ContainerSpec, &'a ContainerRun)>) -> Vec<String> {
    runs.map(|(container_spec, _)| container_spec.name.clone())
        .collect()
}

/// Returns the next step for containers that are stopping, or else its time.
pub(super) fn halting(view: &View<'_>, now: Timestamp) -> Result<Step, Option<Timestamp>> {
    let Delay::After(stop) = view.behavior.stop else {
        return Err(None);
    };
    let stopping = view
        .runs()
        .filter(|(_, own)| own.exit.is_none() && own.stopping.is_some());
    let hooks = stopping
        .clone()
        .filter(|(container_spec, own)| container_spec.has_pre_stop && own.pre_stop.is_none());
    let hooks = names(hooks);
    if !hooks.is_empty() {
        return Ok(Step::PreStop(hooks));
    }
    let manner = Manner {
        stop,
        pace: view.behavior.signals,
    };
    let dismissed = stopping.clone().find(|(_, own)| own.dismissed);
    let all = match dismissed.and_then(|(_, own)| own.stopping.as_deref()) {
        Some(order) => leaves(view, manner, *order),
        None => stopping
            .filter_map(|(container_spec, own)| {
                let order = own.stopping.as_deref()?;
                Some(leave(container_spec, own, manner, *order, None))
            })
            .collect(),
    };
    if let Some(step) = signal(&all, now) {
        return Ok(step);
    }
    let (gone, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|leave| leave.at <= now);
    if !gone.is_empty() {
        return Ok(Step::Halt(gone.iter().map(Leave::halt).collect()));
    }
    Err(left.iter().map(Leave::due).min())
}

/// Plans the end of all running containers under `order`. Sidecars stop in the reverse of their
/// start order, each after the containers that started later.
fn leaves<'a>(view: &View<'a>, manner: Manner, order: Stopping) -> Vec<Leave<'a>> {
    let runs: Vec<_> = view.runs().collect();
    let mut leaves = Vec::new();
    let mut turn = None;
    for (container_spec, container_run) in runs.into_iter().rev() {
        let at = match container_run.exit {
            Some(exit) => exit.at,
            None => {
                let turn = turn.filter(|_| container_spec.role == Role::Sidecar);
                let leave = leave(container_spec, container_run, manner, order, turn);
                let at = leave.at;
                leaves.push(leave);
                at
            }
        };
        turn = Some(turn.map_or(at, |turn: Timestamp| turn.max(at)));
    }
    leaves.reverse();
    leaves
}

/// Plans the end of one container, after its hook and at its turn.
fn leave<'a>(
    container_spec: &'a ContainerSpec,
    container_run: &ContainerRun,
    manner: Manner,
    order: Stopping,
    turn: Option<Timestamp>,
) -> Leave<'a> {
    let Manner { stop, pace } = manner;
    let end = after(order.since, order.grace);
    let is_hooked =
        container_spec.has_pre_stop && !matches!(container_run.pre_stop, Some(Hook::Done(_)));
    let done = match container_run.pre_stop {
        Some(Hook::Done(at)) => Some(at),
        _ => None,
    };
    let turn = turn
        .map(|turn| turn.min(end))
        .filter(|turn| *turn > order.since);
    let (from, end) = match done.max(turn) {
        // The end of the grace period also ends the hook.
        _ if is_hooked => (end, after(end, GRACE_MIN)),
        Some(from) => (from, end.max(after(from, GRACE_MIN))),
        None => (order.since, end),
    };
    let at = match is_hooked {
        true => end,
        false => after(from, stop).min(end),
    };
    let unheard = pace.filter(|_| order.is_foreign);
    Leave {
        container_spec,
        sigterm: pace.map(|_| from),
        // The kubelet notices a container that another program has killed at the next relist.
        at: unheard.map_or(at, |pace| after(at, pace.until_relist(at))),
        killed: is_hooked || after(from, stop) > end,
        signaled: container_run.signaled,
    }
}

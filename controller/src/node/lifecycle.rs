//! How a simulated pod moves on: a pure function of what is known and of the time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::directives::{Delay, Directives, ForcedPhase};
use super::instance::{Halt, Instance, RestartPolicy};

/// How far a pod has come on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Bound to the node; nothing reported yet.
    Bound,
    /// Reported as `ContainerCreating`.
    Creating { since: Timestamp },
    /// Its containers run.
    Running,
    /// All containers have ended, for good.
    Ended,
    /// The node has let go of it; what is left is the API server's business.
    Released,
}

/// What the API shows of a running pod, as far as it moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// By container name.
    pub(super) containers: BTreeMap<String, bool>,
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
    /// Container name to image, as the spec has it.
    pub(super) images: &'a BTreeMap<String, String>,
    pub(super) restart_policy: RestartPolicy,
    /// The containers that have been started, by name.
    pub(super) instances: &'a BTreeMap<String, Instance>,
    /// What was reported last.
    pub(super) reported: &'a Readiness,
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
    /// The pod was deleted before any of them ran.
    Unstarted,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing until a change or, if given, that time.
    Wait(Option<Timestamp>),
    ReportCreating,
    Start,
    /// These containers run another image than the spec says, or have ended and are to run again.
    Restart(Vec<String>),
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
    match stage {
        Stage::Bound => Step::ReportCreating,
        Stage::Creating { since } => creating(view, since, now),
        Stage::Running => running(view, now),
        Stage::Ended | Stage::Released => Step::Wait(None),
    }
}

fn stopping(view: &View<'_>, stop: Duration, deletion: Deletion, now: Timestamp) -> Step {
    let due = after(deletion.since, stop.min(deletion.grace));
    if now >= due {
        return Step::End(if stop > deletion.grace {
            Ending::Killed
        } else {
            Ending::Completed
        });
    }
    match running(view, now) {
        Step::Wait(wake) => Step::Wait(Some(wake.map_or(due, |wake| wake.min(due)))),
        // No container of a pod on its way out is started again.
        Step::Restart(_) => Step::Wait(Some(due)),
        step => step,
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
    forced_ending(view).map_or(Step::Start, Step::End)
}

fn running(view: &View<'_>, now: Timestamp) -> Step {
    if let Some(ending) = forced_ending(view).or_else(|| own_ending(view)) {
        return Step::End(ending);
    }
    let outdated: Vec<String> = view
        .instances
        .iter()
        .filter(|(name, instance)| {
            view.images
                .get(*name)
                .is_some_and(|image| *image != instance.image)
        })
        .map(|(name, _)| name.clone())
        .collect();
    if !outdated.is_empty() {
        return Step::Restart(outdated);
    }
    let (readiness, wake) = readiness(view, now);
    if readiness != *view.reported {
        return Step::Report(readiness);
    }
    let (due, later): (Vec<_>, Vec<_>) = view
        .instances
        .iter()
        .filter_map(|(name, instance)| Some((name.clone(), restart_at(view, instance)?)))
        .partition(|(_, at)| *at <= now);
    if due.is_empty() {
        return Step::Wait(later.iter().map(|(_, at)| *at).chain(wake).min());
    }
    Step::Restart(due.into_iter().map(|(name, _)| name).collect())
}

/// When a container that has ended is to run again, if it is.
fn restart_at(view: &View<'_>, instance: &Instance) -> Option<Timestamp> {
    let exit = instance.exit.filter(|_| view.deletion.is_none())?;
    view.restart_policy
        .restarts(exit)
        .then(|| after(exit.at, instance.waits(exit).unwrap_or_default()))
}

/// How the pod ends of itself: when all containers have, and none is to run again.
fn own_ending(view: &View<'_>) -> Option<Ending> {
    let mut ending = (!view.instances.is_empty()).then_some(Ending::Completed)?;
    for instance in view.instances.values() {
        let exit = instance.exit?;
        if restart_at(view, instance).is_some() {
            return None;
        }
        if exit.code != 0 {
            ending = Ending::Error;
        }
    }
    Some(ending)
}

fn forced_ending(view: &View<'_>) -> Option<Ending> {
    match view.directives.phase? {
        ForcedPhase::Failed => Some(Ending::Error),
        ForcedPhase::Succeeded => Some(Ending::Completed),
        ForcedPhase::Pending => None,
    }
}

/// Which containers are ready at `now`, and when the next one will be.
pub(super) fn readiness(view: &View<'_>, now: Timestamp) -> (Readiness, Option<Timestamp>) {
    let (directives, instances) = (view.directives, view.instances);
    let ready_at = |instance: &Instance| match directives.ready_after {
        Delay::After(delay) if directives.ready && instance.exit.is_none() => {
            Some(after(instance.since, delay))
        }
        Delay::After(_) | Delay::Never => None,
    };
    let containers: BTreeMap<String, bool> = instances
        .iter()
        .map(|(name, instance)| {
            let probed = instance.probed.unwrap_or(true);
            let ready = probed && ready_at(instance).is_some_and(|at| now >= at);
            (name.clone(), ready)
        })
        .collect();
    let halted = instances
        .iter()
        .filter_map(|(name, instance)| {
            let exit = instance.exit?;
            // That it has ended is told before that it waits.
            let wait = instance.waits(exit).filter(|_| {
                view.reported.halted.contains_key(name)
                    && restart_at(view, instance).is_some_and(|at| now < at)
            });
            let told = view.reported.halted.get(name).copied();
            let halt = wait.map_or(told.unwrap_or(Halt::Terminated), Halt::BackOff);
            Some((name.clone(), halt))
        })
        .collect();
    let pod = view.gates_met && containers.values().all(|ready| *ready);
    let wake = instances
        .values()
        .filter_map(ready_at)
        .filter(|at| *at > now)
        .min();
    let readiness = Readiness {
        containers,
        halted,
        pod,
    };
    (readiness, wake)
}

/// `time` moved on by `delay`; past the end of time, its end.
pub(super) fn after(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;

//! The lifecycle of a simulated pod: a pure function of its state and the time.

mod pod_phase;
mod stopping;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::annotations::{Behavior, Delay, ForcedPhase};
use super::container_run::{ContainerRun, ContainerRuns, Halt, Stopping};
use super::container_spec::ContainerSpec;
use super::hold::{Hold, Waiting};
use super::pace::after;
use super::small_map::{self, SmallMap};
use pod_phase::{own_ending, startable};
use stopping::{concluding, halting, stopping};

pub(super) use pod_phase::{is_initialized, readiness};

/// The progress of a pod on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The pod is bound to the node; nothing is reported yet.
    Bound,
    /// The pod is reported as `ContainerCreating`.
    Creating { since: Timestamp },
    /// The pod has an address, and containers that run or have run.
    Running,
    /// All containers have ended for good.
    Ended,
    /// The node has released the pod; the API server removes it.
    Released,
}

/// The changing part of a running pod's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// The containers of which there is something to report, by name.
    containers: SmallMap<ContainerReadiness>,
    /// Whether the pod is ready: all containers and all readiness gates.
    pub(super) pod: bool,
}

/// The changing part of a container's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerReadiness {
    /// Whether the container is ready; init containers count only as sidecars.
    pub(super) ready: Option<bool>,
    /// Whether the container runs and its startup is complete.
    pub(super) started: bool,
    /// Whether its `postStart` hook has not ended.
    pub(super) hooked: bool,
    /// Whether its status stays that of the previous run, because the kubelet waits for the hook of
    /// the new one.
    pub(super) kept: bool,
    /// The status of a container that could not be created.
    pub(super) held: Option<Box<Waiting>>,
    /// The reason why it does not run.
    pub(super) halt: Option<Halt>,
}

/// The state of a container of which there is nothing to report.
static UNREPORTED: ContainerReadiness = ContainerReadiness {
    ready: None,
    started: false,
    hooked: false,
    kept: false,
    held: None,
    halt: None,
};

impl Readiness {
    /// Returns what is reported of a container.
    pub(super) fn of(&self, container: &str) -> &ContainerReadiness {
        self.containers.get(container).unwrap_or(&UNREPORTED)
    }

    /// Sets what is reported of a container.
    pub(super) fn set(&mut self, container: &str, own: ContainerReadiness) {
        if own == UNREPORTED {
            self.containers.remove(container);
        } else {
            small_map::insert(&mut self.containers, container, own);
        }
    }

    /// Removes the reason why a container does not run.
    pub(super) fn forget_halt(&mut self, container: &str) {
        let own = self.of(container).clone();
        self.set(container, ContainerReadiness { halt: None, ..own });
    }

    /// Returns the containers of which there is something to report, by name.
    pub(super) fn containers(&self) -> impl Iterator<Item = (&str, &ContainerReadiness)> {
        let containers = self.containers.iter();
        containers.map(|(name, own)| (name.as_str(), own))
    }

    /// Returns whether all containers are ready that have to be.
    pub(super) fn all_ready(&self) -> bool {
        self.containers.values().all(|own| own.ready != Some(false))
    }
}

/// The input of a decision about a pod.
pub(super) struct View<'a> {
    pub(super) behavior: Behavior,
    /// Whether every claim of the pod is bound.
    pub(super) volumes_bound: bool,
    pub(super) gates_met: bool,
    pub(super) deletion: Option<Deletion>,
    /// The end of `activeDeadlineSeconds`.
    pub(super) deadline: Option<Timestamp>,
    /// The grace period of the containers, unless the pod's deletion sets another.
    pub(super) grace: Duration,
    /// The containers of the spec, in the order of their start.
    pub(super) container_specs: &'a [ContainerSpec],
    /// The containers that have been started, by name.
    pub(super) container_runs: &'a ContainerRuns,
    /// The containers that could not be created on the last try, by name.
    pub(super) held: &'a BTreeMap<String, Hold>,
    /// The last reported readiness.
    pub(super) reported: &'a Readiness,
}

impl<'a> View<'a> {
    /// Returns the containers that have been started.
    fn runs(
        &self,
    ) -> impl Iterator<Item = (&'a ContainerSpec, &'a ContainerRun)> + Clone + use<'a> {
        let container_runs = self.container_runs;
        let container_specs = self.container_specs.iter();
        container_specs.filter_map(|container_spec| {
            Some((
                container_spec,
                container_runs.get(container_spec.name.as_str())?,
            ))
        })
    }

    /// Returns the end of the wait of a container that could not be created; `None` if it can be
    /// tried.
    fn held_until(&self, container_spec: &ContainerSpec) -> Option<Timestamp> {
        self.held
            .get(&container_spec.name)?
            .until(&container_spec.image)
    }
}

/// A deletion that the node has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deletion {
    pub(super) since: Timestamp,
    pub(super) grace: Duration,
}

/// The way in which containers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Error,
    /// By SIGKILL, at the end of the grace period.
    Killed,
    /// By SIGKILL, at the end of the pod's `activeDeadlineSeconds`.
    Overdue,
    /// The pod was deleted before any container ran.
    Unstarted,
}

/// The next action for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Waits for a change or, if given, until this time.
    Wait(Option<Timestamp>),
    ReportCreating,
    /// Assigns an address to the pod and starts these containers.
    Start(Vec<String>),
    /// Starts these containers: for the first time, after they have ended, or with a new image.
    Launch(Vec<String>),
    /// Stops these containers, which get a new image.
    Replace(Vec<String>, Stopping),
    /// Runs the `preStop` hooks of these containers.
    PreStop(Vec<String>),
    /// Stops these containers, because their pod ends.
    Dismiss(Vec<String>, Stopping),
    /// Sends SIGTERM to these containers.
    Signal(Vec<String>),
    /// Records the end of these containers, which were stopped, each with an exit code.
    Halt(Vec<(String, i32)>),
    Report(Readiness),
    End(Ending),
    /// Sends the final DELETE with a grace period of zero.
    Release,
}

/// Returns the next step of a pod.
pub(super) fn next(stage: Stage, view: &View<'_>, now: Timestamp) -> Step {
    if let Some(deletion) = view.deletion {
        // A silent node does not act on deletions.
        let Delay::After(stop) = view.behavior.stop else {
            return Step::Wait(None);
        };
        return match stage {
            Stage::Released => Step::Wait(None),
            // A pod that never ran is reported as failed, so that no client waits for its start.
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
    let Delay::After(start) = view.behavior.start else {
        return Step::Wait(None);
    };
    if !view.volumes_bound || view.behavior.phase == Some(ForcedPhase::Pending) {
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
    let signals = view.behavior.signals.is_some();
    let outdated = view.runs().filter(|(container_spec, container_run)| {
        let waits = view.held_until(container_spec).is_some_and(|at| now < at);
        let leaves = signals && container_run.exit.is_none() && container_run.stopping.is_some();
        container_spec.restarts_for_image()
            && container_spec.image != container_run.image
            && !waits
            && !leaves
    });
    // A container that receives SIGTERM has time to end.
    let (alive, ended): (Vec<_>, Vec<_>) =
        outdated.partition(|(_, container_run)| signals && container_run.exit.is_none());
    let names = |runs: Vec<(&ContainerSpec, &ContainerRun)>| -> Vec<String> {
        runs.iter()
            .map(|(container_spec, _)| container_spec.name.clone())
            .collect()
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
    /// Returns the exit code of a container that did not end by itself.
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Completed => 0,
            Self::Error => 1,
            // 128 plus the number of SIGKILL.
            Self::Killed | Self::Overdue | Self::Unstarted => 137,
        }
    }
}

fn forced_ending(view: &View<'_>) -> Option<Ending> {
    match view.behavior.phase? {
        ForcedPhase::Failed => Some(Ending::Error),
        ForcedPhase::Succeeded => Some(Ending::Completed),
        ForcedPhase::Pending => None,
    }
}

#[cfg(test)]
mod tests;

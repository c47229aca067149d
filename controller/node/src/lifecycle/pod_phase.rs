//! The course of a pod's containers: the next starts, the pod's end, and readiness.

use jiff::Timestamp;

use super::{ContainerReadiness, Ending, Readiness, View};
use crate::annotations::Delay;
use crate::container_run::{ContainerRun, ContainerRuns, Halt};
use crate::container_spec::{ContainerSpec, Role};
use crate::hold::Hold;
use crate::pace::after;

/// Returns whether all init containers have completed.
pub(crate) fn is_initialized(
    container_specs: &[ContainerSpec],
    container_runs: &ContainerRuns,
) -> bool {
    container_specs.iter().all(|container_spec| {
        let container_run = container_runs.get(container_spec.name.as_str());
        match container_spec.role {
            Role::Init => container_run.is_some_and(has_completed),
            Role::Sidecar => container_run.is_some_and(|own| own.is_started()),
            Role::Main | Role::Ephemeral => true,
        }
    }) || has_begun(container_specs, container_runs)
}

/// Returns whether a main container has been started; init containers are not restarted then.
fn has_begun(container_specs: &[ContainerSpec], container_runs: &ContainerRuns) -> bool {
    let mut main = container_specs
        .iter()
        .filter(|container_spec| container_spec.role == Role::Main);
    main.any(|container_spec| container_runs.contains_key(container_spec.name.as_str()))
}

fn has_completed(container_run: &ContainerRun) -> bool {
    container_run.exit.is_some_and(|exit| exit.code == 0)
}

/// Returns the containers to start now, and the times of later starts.
pub(super) fn startable(view: &View<'_>, now: Timestamp) -> (Vec<String>, Vec<Timestamp>) {
    let begun = has_begun(view.container_specs, view.container_runs);
    let (mut due, mut later) = (Vec::new(), Vec::new());
    let (ephemeral, others): (Vec<_>, Vec<_>) = view
        .container_specs
        .iter()
        .partition(|container_spec| container_spec.role == Role::Ephemeral);
    // Ephemeral containers start at once, and run only once.
    for container_spec in ephemeral {
        match view.held_until(container_spec).filter(|at| now < *at) {
            _ if view
                .container_runs
                .contains_key(container_spec.name.as_str()) => {}
            Some(at) => later.push(at),
            None => due.push(container_spec.name.clone()),
        }
    }
    for container_spec in others {
        if container_spec.role == Role::Init && begun {
            continue;
        }
        let Some(container_run) = view.container_runs.get(container_spec.name.as_str()) else {
            let held = view.held_until(container_spec).filter(|at| now < *at);
            match held {
                Some(at) => later.push(at),
                None => due.push(container_spec.name.clone()),
            }
            // The next container waits for the end, the start, or the hook of this one.
            if container_spec.role != Role::Main
                || (container_spec.has_post_start && held.is_none())
            {
                break;
            }
            continue;
        };
        if let Some(at) = restart_at(view, container_spec, container_run) {
            if at <= now {
                due.push(container_spec.name.clone());
            } else {
                later.push(at);
            }
        }
        let goes_on = match container_spec.role {
            Role::Init => has_completed(container_run),
            Role::Sidecar => begun || container_run.is_started(),
            Role::Main | Role::Ephemeral => {
                container_run.exit.is_some() || !container_run.in_post_start
            }
        };
        if !goes_on {
            break;
        }
    }
    (due, later)
}

/// Returns when an ended container is to run again; `None` if it is not.
fn restart_at(
    view: &View<'_>,
    container_spec: &ContainerSpec,
    container_run: &ContainerRun,
) -> Option<Timestamp> {
    let exit = container_run.exit.filter(|_| view.deletion.is_none())?;
    if container_spec.role == Role::Ephemeral {
        return None;
    }
    let is_foreign = container_run.is_stopped_by_another();
    let restarts = match exit.killed && !is_foreign {
        true => container_spec.restarts_when_killed(),
        false => container_spec.restarts(exit),
    };
    restarts.then(|| {
        let at = after(exit.at, container_run.waits(exit).unwrap_or_default());
        view.held_until(container_spec)
            .map_or(at, |held| held.max(at))
    })
}

/// Returns how the pod ends by itself: an init container has failed for good, or all main
/// containers have ended for good.
pub(super) fn own_ending(view: &View<'_>) -> Option<Ending> {
    let begun = has_begun(view.container_specs, view.container_runs);
    let failed = view.runs().any(|(container_spec, container_run)| {
        let is_final =
            restart_at(view, container_spec, container_run).is_none() && view.deletion.is_none();
        let failed = container_run.exit.is_some_and(|exit| exit.code != 0);
        container_spec.role == Role::Init && !begun && failed && is_final
    });
    if failed {
        return Some(Ending::Error);
    }
    if !begun {
        return None;
    }
    let mut ending = Ending::Completed;
    for container_spec in view
        .container_specs
        .iter()
        .filter(|container_spec| container_spec.role == Role::Main)
    {
        let container_run = view.container_runs.get(container_spec.name.as_str())?;
        let exit = container_run.exit?;
        if restart_at(view, container_spec, container_run).is_some() {
            return None;
        }
        if exit.code != 0 {
            ending = Ending::Error;
        }
    }
    Some(ending)
}

/// Returns the readiness at `now`, and the time of its next change.
pub(crate) fn readiness(view: &View<'_>, now: Timestamp) -> (Readiness, Option<Timestamp>) {
    let behavior = view.behavior;
    let ready_at =
        |container_spec: &ContainerSpec, container_run: &ContainerRun| match behavior.ready_after {
            Delay::After(delay) if behavior.ready && container_run.is_started() => container_spec
                .counts_for_readiness()
                .then(|| after(container_run.since, delay)),
            Delay::After(_) | Delay::Never => None,
        };
    let mut readiness = Readiness::default();
    for container_spec in view.container_specs {
        let name = container_spec.name.as_str();
        let container_run = view.container_runs.get(name);
        let mut own = ContainerReadiness::default();
        if let Some(container_run) =
            container_run.filter(|container_run| !container_run.is_reported())
        {
            let reported = view.reported.of(name);
            if was_reported(reported, container_run) {
                readiness.set(name, reported.kept());
                continue;
            }
            own.hooked = true;
        }
        own.started = container_run.is_some_and(|own| own.is_started())
            && container_spec.role != Role::Ephemeral;
        if container_spec.counts_for_readiness() {
            own.ready = Some(container_run.is_some_and(|container_run| {
                let probed = container_run.probed.unwrap_or(true);
                probed && ready_at(container_spec, container_run).is_some_and(|at| now >= at)
            }));
        }
        let hold = view.held.get(name);
        own.held = hold.map(|hold| Box::new(hold.waiting(now)));
        own.halt =
            container_run.and_then(|container_run| halt(view, container_spec, container_run, now));
        readiness.set(name, own);
    }
    readiness.pod = view.gates_met && readiness.all_ready();
    let wake = view
        .runs()
        .filter_map(|(container_spec, container_run)| ready_at(container_spec, container_run))
        .chain(view.held.values().filter_map(Hold::looked_at))
        .filter(|at| *at > now)
        .min();
    (readiness, wake)
}

/// Returns whether a container whose hook runs keeps an earlier status: of its last run, or of a
/// failure to create it.
fn was_reported(reported: &ContainerReadiness, container_run: &ContainerRun) -> bool {
    let is_known = reported.ready.is_some() || reported.halt.is_some();
    let has_run = container_run.last.is_some() && is_known;
    let is_reported = has_run || reported.held.is_some();
    reported.kept || is_reported && !reported.hooked
}

impl ContainerReadiness {
    /// Returns this state, kept as it was last reported.
    fn kept(&self) -> Self {
        Self {
            ready: self.ready,
            started: self.started,
            kept: true,
            halt: self.halt,
            ..Self::default()
        }
    }
}

/// Returns the reason why a container does not run.
fn halt(
    view: &View<'_>,
    container_spec: &ContainerSpec,
    container_run: &ContainerRun,
    now: Timestamp,
) -> Option<Halt> {
    let exit = container_run.exit?;
    // The end of a container is reported before its back-off.
    let reported = view.reported.of(&container_spec.name).halt;
    let next = restart_at(view, container_spec, container_run);
    let waits = reported.is_some() && next.is_some_and(|at| now < at);
    let wait = container_run.waits(exit).filter(|_| waits);
    let first = match (&container_run.start_error, next) {
        (Some(_), Some(_)) => Halt::Unstarted,
        _ => Halt::Terminated,
    };
    Some(wait.map_or(reported.unwrap_or(first), Halt::BackOff))
}

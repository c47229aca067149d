//! The course of a pod's containers: the next starts, the pod's end, and readiness.

use jiff::Timestamp;

use super::{Ending, Readiness, View};
use crate::annotations::Delay;
use crate::container_run::{ContainerRun, ContainerRuns, Halt, Hook};
use crate::container_spec::{ContainerSpec, Role};
use crate::hold::Hold;
use crate::pace::after;
use crate::small_map;

/// Returns whether all init containers have completed.
pub(crate) fn is_initialized(
    container_specs: &[ContainerSpec],
    container_runs: &ContainerRuns,
) -> bool {
    container_specs.iter().all(|container_spec| {
        let container_run = container_runs.get(&container_spec.name);
        match container_spec.role {
            Role::Init => container_run.is_some_and(|own| has_completed(own)),
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
    main.any(|container_spec| container_runs.contains_key(&container_spec.name))
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
            _ if view.container_runs.contains_key(&container_spec.name) => {}
            Some(at) => later.push(at),
            None => due.push(container_spec.name.clone()),
        }
    }
    for container_spec in others {
        if container_spec.role == Role::Init && begun {
            continue;
        }
        let Some(container_run) = view.container_runs.get(&container_spec.name) else {
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
                container_run.exit.is_some() || container_run.post_start != Some(Hook::Running)
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
    let is_foreign = container_run.stopping.is_some_and(|order| order.is_foreign);
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
        let container_run = view.container_runs.get(&container_spec.name)?;
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
        let container_run = view.container_runs.get(&container_spec.name);
        if let Some(container_run) =
            container_run.filter(|container_run| !container_run.is_reported())
        {
            if was_reported(view.reported, container_spec, container_run) {
                readiness.keep(&container_spec.name, view.reported);
                continue;
            }
            readiness.hooked.insert(container_spec.name.clone());
        }
        if container_run.is_some_and(|own| own.is_started())
            && container_spec.role != Role::Ephemeral
        {
            small_map::insert(&mut readiness.started, container_spec.name.clone(), ());
        }
        if container_spec.counts_for_readiness() {
            let ready = container_run.is_some_and(|container_run| {
                let probed = container_run.probed.unwrap_or(true);
                probed && ready_at(container_spec, container_run).is_some_and(|at| now >= at)
            });
            small_map::insert(
                &mut readiness.containers,
                container_spec.name.clone(),
                ready,
            );
        }
        if let Some(hold) = view.held.get(&container_spec.name) {
            readiness
                .held
                .insert(container_spec.name.clone(), hold.waiting(now));
        }
        if let Some(halt) =
            container_run.and_then(|container_run| halt(view, container_spec, container_run, now))
        {
            readiness.halted.insert(container_spec.name.clone(), halt);
        }
    }
    readiness.pod = view.gates_met && readiness.containers.values().all(|ready| *ready);
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
fn was_reported(
    reported: &Readiness,
    container_spec: &ContainerSpec,
    container_run: &ContainerRun,
) -> bool {
    let is_known = reported.containers.contains_key(&container_spec.name)
        || reported.halted.contains_key(&container_spec.name);
    let has_run = container_run.last.is_some() && is_known;
    let is_reported = has_run || reported.held.contains_key(&container_spec.name);
    reported.kept.contains(&container_spec.name)
        || is_reported && !reported.hooked.contains(&container_spec.name)
}

impl Readiness {
    /// Keeps a container's state as last reported.
    fn keep(&mut self, name: &str, reported: &Self) {
        self.kept.insert(name.to_owned());
        if let Some(ready) = reported.containers.get(name) {
            small_map::insert(&mut self.containers, name.to_owned(), *ready);
        }
        if reported.started.contains_key(name) {
            small_map::insert(&mut self.started, name.to_owned(), ());
        }
        if let Some(halt) = reported.halted.get(name) {
            self.halted.insert(name.to_owned(), *halt);
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
    let reported = view.reported.halted.get(&container_spec.name).copied();
    let next = restart_at(view, container_spec, container_run);
    let waits = reported.is_some() && next.is_some_and(|at| now < at);
    let wait = container_run.waits(exit).filter(|_| waits);
    let first = match (&container_run.start_error, next) {
        (Some(_), Some(_)) => Halt::Unstarted,
        _ => Halt::Terminated,
    };
    Some(wait.map_or(reported.unwrap_or(first), Halt::BackOff))
}

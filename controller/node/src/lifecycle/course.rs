//! The course of a pod's containers: the next starts, the pod's end, and readiness.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Ending, Readiness, View};
use crate::directives::Delay;
use crate::hold::Hold;
use crate::instance::{Halt, Hook, Instance};
use crate::pace::after;
use crate::part::{Part, Role};

/// Returns whether all init containers have completed.
pub(crate) fn is_initialized(parts: &[Part], instances: &BTreeMap<String, Instance>) -> bool {
    parts.iter().all(|part| {
        let instance = instances.get(&part.name);
        match part.role {
            Role::Init => instance.is_some_and(has_completed),
            Role::Sidecar => instance.is_some_and(Instance::is_started),
            Role::Main | Role::Ephemeral => true,
        }
    }) || has_begun(parts, instances)
}

/// Returns whether a main container has been started; init containers are not restarted then.
fn has_begun(parts: &[Part], instances: &BTreeMap<String, Instance>) -> bool {
    let mut main = parts.iter().filter(|part| part.role == Role::Main);
    main.any(|part| instances.contains_key(&part.name))
}

fn has_completed(instance: &Instance) -> bool {
    instance.exit.is_some_and(|exit| exit.code == 0)
}

/// Returns the containers to start now, and the times of later starts.
pub(super) fn startable(view: &View<'_>, now: Timestamp) -> (Vec<String>, Vec<Timestamp>) {
    let begun = has_begun(view.parts, view.instances);
    let (mut due, mut later) = (Vec::new(), Vec::new());
    let (ephemeral, others): (Vec<_>, Vec<_>) = view
        .parts
        .iter()
        .partition(|part| part.role == Role::Ephemeral);
    // Ephemeral containers start at once, and run only once.
    for part in ephemeral {
        match view.held_until(part).filter(|at| now < *at) {
            _ if view.instances.contains_key(&part.name) => {}
            Some(at) => later.push(at),
            None => due.push(part.name.clone()),
        }
    }
    for part in others {
        if part.role == Role::Init && begun {
            continue;
        }
        let Some(instance) = view.instances.get(&part.name) else {
            let held = view.held_until(part).filter(|at| now < *at);
            match held {
                Some(at) => later.push(at),
                None => due.push(part.name.clone()),
            }
            // The next container waits for the end, the start, or the hook of this one.
            if part.role != Role::Main || (part.has_post_start && held.is_none()) {
                break;
            }
            continue;
        };
        if let Some(at) = restart_at(view, part, instance) {
            if at <= now {
                due.push(part.name.clone());
            } else {
                later.push(at);
            }
        }
        let goes_on = match part.role {
            Role::Init => has_completed(instance),
            Role::Sidecar => begun || instance.is_started(),
            Role::Main | Role::Ephemeral => {
                instance.exit.is_some() || instance.post_start != Some(Hook::Running)
            }
        };
        if !goes_on {
            break;
        }
    }
    (due, later)
}

/// Returns when an ended container is to run again; `None` if it is not.
fn restart_at(view: &View<'_>, part: &Part, instance: &Instance) -> Option<Timestamp> {
    let exit = instance.exit.filter(|_| view.deletion.is_none())?;
    if part.role == Role::Ephemeral {
        return None;
    }
    let is_foreign = instance.stopping.is_some_and(|order| order.is_foreign);
    let restarts = match exit.killed && !is_foreign {
        true => part.restarts_when_killed(),
        false => part.restarts(exit),
    };
    restarts.then(|| {
        let at = after(exit.at, instance.waits(exit).unwrap_or_default());
        view.held_until(part).map_or(at, |held| held.max(at))
    })
}

/// Returns how the pod ends by itself: an init container has failed for good, or all main
/// containers have ended for good.
pub(super) fn own_ending(view: &View<'_>) -> Option<Ending> {
    let begun = has_begun(view.parts, view.instances);
    let failed = view.runs().any(|(part, instance)| {
        let is_final = restart_at(view, part, instance).is_none() && view.deletion.is_none();
        let failed = instance.exit.is_some_and(|exit| exit.code != 0);
        part.role == Role::Init && !begun && failed && is_final
    });
    if failed {
        return Some(Ending::Error);
    }
    if !begun {
        return None;
    }
    let mut ending = Ending::Completed;
    for part in view.parts.iter().filter(|part| part.role == Role::Main) {
        let instance = view.instances.get(&part.name)?;
        let exit = instance.exit?;
        if restart_at(view, part, instance).is_some() {
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
    let directives = view.directives;
    let ready_at = |part: &Part, instance: &Instance| match directives.ready_after {
        Delay::After(delay) if directives.ready && instance.is_started() => part
            .counts_for_readiness()
            .then(|| after(instance.since, delay)),
        Delay::After(_) | Delay::Never => None,
    };
    let mut readiness = Readiness::default();
    for part in view.parts {
        let instance = view.instances.get(&part.name);
        if let Some(instance) = instance.filter(|instance| !instance.is_reported()) {
            if is_told_of(view.reported, part, instance) {
                readiness.keep(&part.name, view.reported);
                continue;
            }
            readiness.hooked.insert(part.name.clone());
        }
        if instance.is_some_and(Instance::is_started) && part.role != Role::Ephemeral {
            readiness.started.insert(part.name.clone());
        }
        if part.counts_for_readiness() {
            let ready = instance.is_some_and(|instance| {
                let probed = instance.probed.unwrap_or(true);
                probed && ready_at(part, instance).is_some_and(|at| now >= at)
            });
            readiness.containers.insert(part.name.clone(), ready);
        }
        if let Some(hold) = view.held.get(&part.name) {
            readiness.held.insert(part.name.clone(), hold.waiting(now));
        }
        if let Some(halt) = instance.and_then(|instance| halt(view, part, instance, now)) {
            readiness.halted.insert(part.name.clone(), halt);
        }
    }
    readiness.pod = view.gates_met && readiness.containers.values().all(|ready| *ready);
    let wake = view
        .runs()
        .filter_map(|(part, instance)| ready_at(part, instance))
        .chain(view.held.values().filter_map(Hold::looked_at))
        .filter(|at| *at > now)
        .min();
    (readiness, wake)
}

/// Returns whether a container whose hook runs keeps an earlier status: of its last run, or of a
/// failure to create it.
fn is_told_of(reported: &Readiness, part: &Part, instance: &Instance) -> bool {
    let is_known =
        reported.containers.contains_key(&part.name) || reported.halted.contains_key(&part.name);
    let has_run = instance.last.is_some() && is_known;
    let is_told = has_run || reported.held.contains_key(&part.name);
    reported.kept.contains(&part.name) || is_told && !reported.hooked.contains(&part.name)
}

impl Readiness {
    /// Keeps a container's state as last reported.
    fn keep(&mut self, name: &str, reported: &Self) {
        self.kept.insert(name.to_owned());
        if let Some(ready) = reported.containers.get(name) {
            self.containers.insert(name.to_owned(), *ready);
        }
        if reported.started.contains(name) {
            self.started.insert(name.to_owned());
        }
        if let Some(halt) = reported.halted.get(name) {
            self.halted.insert(name.to_owned(), *halt);
        }
    }
}

/// Returns the reason why a container does not run.
fn halt(view: &View<'_>, part: &Part, instance: &Instance, now: Timestamp) -> Option<Halt> {
    let exit = instance.exit?;
    // The end of a container is reported before its back-off.
    let told = view.reported.halted.get(&part.name).copied();
    let next = restart_at(view, part, instance);
    let waits = told.is_some() && next.is_some_and(|at| now < at);
    let wait = instance.waits(exit).filter(|_| waits);
    let first = match (&instance.start_error, next) {
        (Some(_), Some(_)) => Halt::Unstarted,
        _ => Halt::Terminated,
    };
    Some(wait.map_or(told.unwrap_or(first), Halt::BackOff))
}

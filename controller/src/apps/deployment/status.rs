//! The status of a deployment: counters, and the conditions that report its progress.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::replica_sets::{ReplicaSets, actual, available, count, sum_wanted};
use super::{fenceposts, progress_deadline, replicas, stored_status};

pub(super) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// A condition that starts to hold `now`.
pub(super) fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// The condition of that type.
pub(super) fn find<'a>(
    status: &'a DeploymentStatus,
    type_: &str,
) -> Option<&'a DeploymentCondition> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Sets a condition, last of all; one with the same status and reason stays as it is.
pub(super) fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(current) = find(status, &condition.type_)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition
            .last_transition_time
            .clone_from(&current.last_transition_time);
    }
    remove(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
    }
}

/// Counts replicas and says whether enough are available.
pub(super) fn compute(
    deployment: &Deployment,
    sets: &ReplicaSets,
    now: Timestamp,
) -> DeploymentStatus {
    let shown = |count: i32| Some(count).filter(|count| *count != 0);
    let stored = stored_status(deployment);
    let all_available: i32 = sets.all().map(available).sum();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: shown(sets.all().map(actual).sum()),
        updated_replicas: shown(sets.new.as_ref().map_or(0, actual)),
        ready_replicas: shown(
            sets.all()
                .map(|set| count(set, |one| one.ready_replicas))
                .sum(),
        ),
        available_replicas: shown(all_available),
        unavailable_replicas: shown((sum_wanted(sets.all()) - all_available).max(0)),
        terminating_replicas: terminating(sets),
        collision_count: stored.collision_count,
        conditions: stored.conditions,
    };
    let (_, unavailable) = fenceposts(deployment);
    let is_available = all_available >= replicas(deployment) - unavailable;
    let (holds, reason, message) = if is_available {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set(
        &mut status,
        condition(AVAILABLE, holds, reason, message, now),
    );
    status
}

/// The number of terminating pods; unknown while any set has not reported its own.
fn terminating(sets: &ReplicaSets) -> Option<i32> {
    sets.all()
        .map(|set| set.status.as_ref()?.terminating_replicas)
        .sum()
}

/// The status with what it says about the rollout's progress and about failing replicas.
pub(super) fn compute_rollout(
    deployment: &Deployment,
    sets: &ReplicaSets,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = compute(deployment, sets, now);
    let stored = stored_status(deployment);
    let current = find(&stored, PROGRESSING);
    match progress_deadline(deployment) {
        None => remove(&mut status, PROGRESSING),
        Some(deadline) => {
            let was_complete = status.replicas == status.updated_replicas
                && current.is_some_and(|one| one.reason.as_deref() == Some(NEW_AVAILABLE));
            if !was_complete {
                set_progress(deployment, sets, &mut status, deadline, now);
            }
        }
    }
    match failure(sets) {
        Some(failed) => set(&mut status, failed),
        None => remove(&mut status, REPLICA_FAILURE),
    }
    status
}

fn set_progress(
    deployment: &Deployment,
    sets: &ReplicaSets,
    status: &mut DeploymentStatus,
    deadline: i32,
    now: Timestamp,
) {
    let stored = stored_status(deployment);
    let subject = match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.name_any()),
        None => format!("Deployment \"{}\"", deployment.name_any()),
    };
    let progressing = |holds: &str, reason: &str, message: &str| {
        condition(
            PROGRESSING,
            holds,
            reason,
            &format!("{subject} {message}"),
            now,
        )
    };
    if is_complete(deployment, status) {
        let done = progressing("True", NEW_AVAILABLE, "has successfully progressed.");
        set(status, done);
    } else if has_progressed(&stored, status) {
        let mut moved = progressing("True", "ReplicaSetUpdated", "is progressing.");
        if let Some(current) = find(&stored, PROGRESSING) {
            if current.status == "True" {
                moved
                    .last_transition_time
                    .clone_from(&current.last_transition_time);
            }
            // The update time changes although the reason does not.
            remove(status, PROGRESSING);
        }
        set(status, moved);
    } else if has_timed_out(status, deadline, now) {
        let late = progressing("False", TIMED_OUT, "has timed out progressing.");
        set(status, late);
    }
}

/// Whether all replicas are at the deployment's template and available, and none is left over.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = replicas(deployment);
    let counts = [
        status.updated_replicas,
        status.replicas,
        status.available_replicas,
    ];
    counts.iter().all(|count| count.unwrap_or(0) == desired)
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

fn has_progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(now.updated_replicas) > count(before.updated_replicas)
        || old(now) < old(before)
        || count(now.ready_replicas) > count(before.ready_replicas)
        || count(now.available_replicas) > count(before.available_replicas)
}

fn has_timed_out(status: &DeploymentStatus, deadline: i32, now: Timestamp) -> bool {
    let Some(current) = find(status, PROGRESSING) else {
        return false;
    };
    match current.reason.as_deref() {
        Some(NEW_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => due(current, deadline).is_some_and(|due| due < now),
    }
}

fn due(progressing: &DeploymentCondition, deadline: i32) -> Option<Timestamp> {
    let since = progressing.last_update_time.as_ref()?.0;
    since
        .checked_add(SignedDuration::from_secs(i64::from(deadline)))
        .ok()
}

/// A failure of the new set's replicas, or else of an old set's.
fn failure(sets: &ReplicaSets) -> Option<DeploymentCondition> {
    let failure_of = |set: &ReplicaSet| -> Option<ReplicaSetCondition> {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        let mut conditions = conditions.iter();
        conditions.find(|one| one.type_ == REPLICA_FAILURE).cloned()
    };
    let failed = sets.new.iter().chain(&sets.old).find_map(failure_of)?;
    Some(DeploymentCondition {
        type_: failed.type_,
        status: failed.status,
        reason: failed.reason,
        message: failed.message,
        last_update_time: failed.last_transition_time.clone(),
        last_transition_time: failed.last_transition_time,
    })
}

/// The condition to set because the deployment was paused or resumed: a pause stops the clock.
pub(super) fn paused_or_resumed(
    deployment: &Deployment,
    now: Timestamp,
) -> Option<DeploymentCondition> {
    progress_deadline(deployment)?;
    let stored = stored_status(deployment);
    let reason = find(&stored, PROGRESSING).and_then(|current| current.reason.as_deref());
    let progressing =
        |reason, message| Some(condition(PROGRESSING, "Unknown", reason, message, now));
    match (super::is_paused(deployment), reason) {
        // A failure is not talked over.
        (_, Some(TIMED_OUT)) | (true, Some(PAUSED)) => None,
        (true, _) => progressing(PAUSED, "Deployment is paused"),
        (false, Some(PAUSED)) => progressing("DeploymentResumed", "Deployment is resumed"),
        (false, _) => None,
    }
}

/// When a rollout without progress is looked at again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Requeue {
    /// After its deadline.
    After(Duration),
    /// As soon as the queue lets failed keys in: the deadline is near or past, but not noted.
    RateLimited,
}

/// Returns when to look at a rollout again that may exceed its deadline.
///
/// Source: `progress.go`, `requeueStuckDeployment`.
pub(super) fn requeue_stuck(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Requeue> {
    let deadline = progress_deadline(deployment)?;
    let stored = stored_status(deployment);
    let current = find(&stored, PROGRESSING)?;
    if is_complete(deployment, status) || current.reason.as_deref() == Some(TIMED_OUT) {
        return None;
    }
    let left = due(current, deadline)?.duration_since(now);
    if left < SECOND {
        return Some(Requeue::RateLimited);
    }
    // One more second, because conditions are dated in whole seconds.
    (left + SECOND).try_into().ok().map(Requeue::After)
}

#[cfg(test)]
mod tests;

//! The status of a CloneSet: what is counted, how it progresses, what is worth a write.
//!
//! Source: openkruise/kruise pkg/controller/cloneset/cloneset_status.go.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kubeproof_runtime::pod::Pod;

use super::availability::{is_available, is_update_ready};
use super::set::Set;
use crate::kruise::api::clone_set::{CloneSetCondition, CloneSetStatus};
use crate::kruise::in_place::whole_second;
use crate::kruise::revision::is_at;

const PROGRESSING: &str = "Progressing";
/// No deadline.
const NEVER: i32 = i32::MAX;

/// A status without counts.
pub(crate) fn begun(
    set: &Set,
    (current, update): (&str, &str),
    collision_count: i32,
    label_selector: String,
) -> CloneSetStatus {
    CloneSetStatus {
        observed_generation: set.meta().generation,
        current_revision: Some(current.to_owned()),
        update_revision: Some(update.to_owned()),
        collision_count: Some(collision_count),
        label_selector: Some(label_selector).filter(|text| !text.is_empty()),
        conditions: set.status().conditions,
        ..CloneSetStatus::default()
    }
}

/// Counts `pods` and sets the conditions in `status`; returns when to check the deadline again.
pub(crate) fn count(
    status: &mut CloneSetStatus,
    set: &Set,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Option<Duration> {
    let update = status.update_revision.clone().unwrap_or_default();
    let mut updated_available = 0;
    for pod in pods {
        let is_ready = is_update_ready(pod, 0, now);
        let is_available = is_ready && is_available(pod, set.min_ready_seconds(), now);
        let is_updated = is_at(pod, &update);
        status.replicas += 1;
        status.ready_replicas += i32::from(is_ready);
        status.available_replicas += i32::from(is_available);
        status.updated_replicas += i32::from(is_updated);
        status.updated_ready_replicas += i32::from(is_updated && is_ready);
        updated_available += i32::from(is_updated && is_available);
    }
    let shown = |count: i32| Some(count).filter(|count| *count != 0);
    status.updated_available_replicas = shown(updated_available);
    // Whether they are ready does not matter.
    if status.updated_replicas == status.replicas && status.replicas == set.replicas() {
        status.current_revision.clone_from(&status.update_revision);
    }
    let kept = set.rolling_update().map_or(0, |_| set.partition());
    status.expected_updated_replicas = shown(set.replicas() - kept);
    progress(status, set, now)
}

fn progress(status: &mut CloneSetStatus, set: &Set, now: Timestamp) -> Option<Duration> {
    let deadline = set.spec().progress_deadline_seconds;
    let Some(deadline) = deadline.filter(|deadline| *deadline != NEVER) else {
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != PROGRESSING);
        if conditions.is_empty() {
            status.conditions = None;
        }
        return None;
    };
    let deadline = SignedDuration::from_secs(deadline.into());
    let replicas = set.replicas();
    let expected = status.expected_updated_replicas.unwrap_or(0);
    let available = status.updated_available_replicas.unwrap_or(0);
    let is_settled = status.current_revision == status.update_revision;
    let is_complete =
        is_settled && [status.replicas, status.updated_replicas, available] == [replicas; 3];
    let (reason, message) = if is_complete {
        ("CloneSetAvailable", "CloneSet is available".to_owned())
    } else if set.is_paused() {
        ("CloneSetPaused", "CloneSet is paused".to_owned())
    } else if expected < replicas && expected <= available {
        let message = "CloneSet has been paused due to partition ready";
        ("ProgressPartitionAvailable", message.to_owned())
    } else if is_overdue(status, deadline, now) {
        let revision = status.update_revision.as_deref().unwrap_or_default();
        let message = format!("CloneSet revision {revision} has timed out progressing");
        ("ProgressDeadlineExceeded", message)
    } else {
        ("CloneSetUpdated", "CloneSet is progressing".to_owned())
    };
    let is_late = reason == "ProgressDeadlineExceeded";
    let word = if is_late { "False" } else { "True" };
    set_condition(status, PROGRESSING, (word, reason), message, now);
    if reason != "CloneSetUpdated" {
        return None;
    }
    let said = condition(status, PROGRESSING)?.last_update_time.as_ref()?.0;
    let left = deadline - now.duration_since(said);
    // A second more, as times on the wire carry no fraction.
    let left = match left < SignedDuration::from_secs(1) {
        true => left,
        false => left + SignedDuration::from_secs(1),
    };
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

fn is_overdue(status: &CloneSetStatus, deadline: SignedDuration, now: Timestamp) -> bool {
    let Some(condition) = condition(status, PROGRESSING) else {
        return false;
    };
    let said = condition.last_update_time.as_ref().map(|time| time.0);
    condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
        || said.is_some_and(|said| now.duration_since(said) > deadline)
}

fn condition<'a>(status: &'a CloneSetStatus, wanted: &str) -> Option<&'a CloneSetCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == wanted)
}

/// Notes that a part of a sync has failed.
pub(crate) fn failed(status: &mut CloneSetStatus, what: &str, message: String, now: Timestamp) {
    let known = condition(status, what);
    if known.is_some_and(|known| known.status == "True") {
        return;
    }
    push_condition(
        status,
        CloneSetCondition {
            type_: what.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(Time(whole_second(now))),
            message: Some(message).filter(|message| !message.is_empty()),
            ..CloneSetCondition::default()
        },
    );
}

fn set_condition(
    status: &mut CloneSetStatus,
    type_: &str,
    (word, reason): (&str, &str),
    message: String,
    now: Timestamp,
) {
    let time = Some(Time(whole_second(now)));
    let mut new = CloneSetCondition {
        type_: type_.to_owned(),
        status: word.to_owned(),
        last_update_time: time.clone(),
        last_transition_time: time,
        reason: Some(reason.to_owned()),
        message: Some(message),
    };
    if let Some(known) = condition(status, type_).filter(|known| known.status == word) {
        if known.reason.as_deref() == Some(reason) {
            return;
        }
        new.last_transition_time
            .clone_from(&known.last_transition_time);
    }
    push_condition(status, new);
}

fn push_condition(status: &mut CloneSetStatus, new: CloneSetCondition) {
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|known| known.type_ != new.type_);
    conditions.push(new);
}

/// Whether `stored` lacks something that warrants a write; a failure alone does not.
pub(crate) fn differs(status: &CloneSetStatus, stored: &CloneSetStatus) -> bool {
    let said = |status: &CloneSetStatus| {
        let known = condition(status, PROGRESSING);
        known.map(|known| (known.status.clone(), known.reason.clone()))
    };
    let counted = |status: &CloneSetStatus| CloneSetStatus {
        conditions: None,
        ..status.clone()
    };
    counted(status) != counted(stored) || said(status) != said(stored)
}

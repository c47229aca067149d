//! Pods of workloads, as properties look at them.

use std::collections::BTreeSet;

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::int_or_percent::{IntOrPercent, Round};
use kubeproof_machinery::json::Value;

use super::World;

const REVISION: &str = "controller-revision-hash";

/// The owner reference of a pod's controller; `None` for an object of another kind.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    (object["kind"] == "Pod").then_some(())?;
    controller_of(object)
}

/// The owner reference of an object's controller.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

pub(super) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

/// The name or the hash of the revision that the pod says it is of.
pub(super) fn revision(pod: &Value) -> Option<&str> {
    label(pod, REVISION)
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    )
}

/// Neither terminating nor finished.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_terminating(pod) && !is_finished(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The names of the claims that a pod mounts.
pub(super) fn claims(pod: &Value) -> BTreeSet<&str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    claims.collect()
}

/// The names of a set's claim templates.
pub(super) fn claim_templates(set: &Value) -> impl Iterator<Item = &str> {
    let templates = set["spec"]["volumeClaimTemplates"].as_array();
    let templates = templates.into_iter().flatten();
    templates.filter_map(|template| template["metadata"]["name"].as_str())
}

/// Whether `entry` is about a pod that is deleted by it: marked, or removed unmarked.
pub(super) fn is_deletion(entry: &JournalEntry) -> bool {
    let was_marked = entry.previous.as_deref().is_some_and(is_terminating);
    (entry.event == EventType::Deleted || is_terminating(&entry.object)) && !was_marked
}

/// Whether `entry` changes the revision of an existing pod.
pub(super) fn is_relabeled(entry: &JournalEntry) -> bool {
    let previous = entry.previous.as_deref();
    entry.event == EventType::Modified
        && previous.is_some_and(|previous| revision(previous) != revision(&entry.object))
}

/// Whether `entry` changes the containers in an existing pod's spec, so that they restart.
pub(super) fn is_changed_in_place(entry: &JournalEntry) -> bool {
    let Some(previous) = entry.previous.as_deref() else {
        return false;
    };
    entry.event == EventType::Modified
        && previous["spec"]["containers"] != entry.object["spec"]["containers"]
}

/// Returns the number or the share of `of` that a field states, `default` if it states neither.
pub(super) fn int_or_percent(value: &Value, of: i64, round: Round, default: i64) -> i64 {
    IntOrPercent::from_value(value).map_or(default, |value| value.scaled(of, round))
}

/// Returns the least of the faults found with each version of a set that the controller may act upon; `None` if one
/// of the versions shows no fault.
pub(super) fn least_fault<T: Ord>(faults: impl Iterator<Item = Option<T>>) -> Option<T> {
    let faults: Option<Vec<T>> = faults.collect();
    faults?.into_iter().min()
}

/// Pods of one owner that mount a claim in common with `pod`, among claims from its templates.
pub(super) fn shared_claims<'a>(
    (pod, set): (&'a Value, &Value),
    others: impl Iterator<Item = &'a Value>,
) -> Vec<String> {
    let templates: Vec<&str> = claim_templates(set).collect();
    let is_from_template = |claim: &&str| {
        let mut templates = templates.iter();
        templates.any(|template| claim.starts_with(&format!("{template}-")))
    };
    let own: BTreeSet<&str> = claims(pod).into_iter().filter(is_from_template).collect();
    let others = others.filter(|other| name(other) != name(pod) && !is_finished(other));
    let shared = others.flat_map(|other| {
        let shared: Vec<&str> = claims(other).intersection(&own).copied().collect();
        let claims = shared.into_iter();
        claims.map(move |claim| format!("{} and {} both have {claim}", name(other), name(pod)))
    });
    shared.collect()
}

/// Returns claims from templates that a new pod does not mount, or that do not exist.
pub(super) fn missing_claims((pod, set): (&Value, &Value), world: &World) -> Vec<String> {
    let own = claims(pod);
    let templates = claim_templates(set);
    let faults = templates.filter_map(|template| {
        let claim = format!("{template}-{}", name(pod));
        if !own.contains(claim.as_str()) {
            return Some(format!("{} is created without {claim}", name(pod)));
        }
        let found = world.get("persistentvolumeclaims", namespace(pod), &claim);
        match found {
            Some(_) => None,
            None => Some(format!(
                "{} is created, and there is no claim {claim}",
                name(pod)
            )),
        }
    });
    faults.collect()
}

//! Additional properties of OpenKruise's Advanced StatefulSets.
//!
//! Source: openkruise/kruise pkg/controller/statefulset/stateful_set_control.go.

use std::collections::BTreeSet;

use kubeproof_apiserver::JournalEntry;
use kubeproof_machinery::json::Value;

use super::super::pods::{is_active, is_relabeled, uid};
use super::super::revisions::UpdateRevision;
use super::super::{Property, World};
use super::{Family, Pod, slots};

pub(super) const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
pub(super) const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";

/// The properties of Advanced StatefulSets alone.
pub(super) fn all() -> Vec<Box<dyn Property>> {
    vec![Box::new(Reserved), Box::new(Partitioned)]
}

/// The ordinals that no pod may have. If one entry is not valid, nothing is reserved.
pub(super) fn reserved(set: &Value) -> BTreeSet<i64> {
    let stated = set["spec"]["reserveOrdinals"].as_array();
    let range = |value: &Value| match value.as_str() {
        None => value.as_i64().map(|one| one..=one),
        Some(text) => {
            let (first, last) = text.split_once('-')?;
            Some(first.parse().ok()?..=last.parse().ok()?)
        }
    };
    let ranges: Option<Vec<_>> = stated.into_iter().flatten().map(range).collect();
    ranges.unwrap_or_default().into_iter().flatten().collect()
}

/// Whether the claims of pods grow with their templates.
pub(super) fn resizes_claims(set: &Value) -> bool {
    let strategy = &set["spec"]["volumeClaimUpdateStrategy"];
    strategy["type"] == "OnPodRollingUpdate"
}

/// The pod that `entry` is about, if the controller of Advanced StatefulSets wrote it.
fn written<'a>(entry: &'a JournalEntry, world: &'a World) -> Option<Pod<'a>> {
    let pod = Pod::of(&entry.object, world)?;
    (pod.family == Family::Advanced && pod.is_written_by_controller(entry)).then_some(pod)
}

/// No pod is created at a reserved ordinal.
struct Reserved;

impl Property for Reserved {
    fn name(&self) -> &str {
        "no pod at a reserved ordinal"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let created = Pod::created(entry, world);
        let Some(pod) = created.filter(|pod| pod.family == Family::Advanced) else {
            return Vec::new();
        };
        let mut asked = world.asked(uid(pod.set));
        match asked.all(|set| reserved(set).contains(&pod.ordinal)) {
            true => vec![format!("{} is created", pod.name())],
            false => Vec::new(),
        }
    }
}

/// Property: the number of pods that the partition names stay at their revision.
struct Partitioned;

impl Partitioned {
    /// Whether `set` has `pod` stay as it is.
    fn holds_back(set: &Value, pod: &Pod<'_>, old: i64, is_created: bool) -> bool {
        let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
        let partition = rolling["partition"].as_i64().unwrap_or(0);
        if !rolling["unorderedUpdate"].is_null() {
            return old < partition;
        }
        let slots = slots(pod.family, set);
        let below = match is_created {
            // Reserved ordinals do not count for a new pod, but do for an existing one.
            true => slots.range(..pod.ordinal).count(),
            false => return pod.ordinal < partition,
        };
        slots.contains(&pod.ordinal) && i64::try_from(below).unwrap_or(i64::MAX) < partition
    }
}

impl Property for Partitioned {
    fn name(&self) -> &str {
        "no pod of the update revision below the partition"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let is_created = entry.previous.is_none();
        let Some(pod) = written(entry, world).filter(|_| is_created || is_relabeled(entry)) else {
            return Vec::new();
        };
        let update = UpdateRevision::of(pod.set, world);
        let Some(update) = update.filter(|update| update.is_new(pod.object)) else {
            return Vec::new();
        };
        let others = pod.all_of_set(world);
        let old = others.filter(|other| {
            is_active(other.object) && other.ordinal != pod.ordinal && !update.has(other.object)
        });
        let old = i64::try_from(old.count()).unwrap_or(i64::MAX);
        let mut asked = world.asked(uid(pod.set));
        let verb = if is_created { "created" } else { "updated" };
        match asked.all(|set| Self::holds_back(set, &pod, old, is_created)) {
            true => vec![format!("{} is {verb}", pod.name())],
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;

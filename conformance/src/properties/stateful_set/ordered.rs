//! The order in which pods start, stop and are updated.
//!
//! Source: pkg/controller/statefulset/stateful_set_control.go of Kubernetes (`processReplica`, `processCondemned`,
//! `updateStatefulSet`) and of openkruise/kruise (`rollingUpdateStatefulsetPods`).

use kubeproof_apiserver::{EventType, JournalEntry};

use super::super::known::{Caches, KnownPods};
use super::super::pods::{
    is_deletion, is_finished, is_relabeled, is_terminating, label, least_fault, name, namespace,
    uid,
};
use super::super::revisions::UpdateRevision;
use super::super::{Property, World};
use super::advanced::{self, LIFECYCLE_STATE, SPECIFIED_DELETE};
use super::{Family, Pod, slots};

/// The states of an Advanced StatefulSet's pod whose update or deletion has begun.
const BEGUN: [&str; 4] = ["PreparingUpdate", "Updating", "Updated", "PreparingDelete"];

/// Pods start, stop and are updated in order, and nothing goes on while a pod is not ready.
pub(super) struct Ordered {
    /// The pods as a controller knows them that remembers its own writes.
    known: KnownPods,
    /// The pods as a controller knows them that decides about several pods at once.
    known_before: KnownPods,
}

/// An action of a controller on a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Start,
    Stop,
    Update,
}

impl Ordered {
    pub(super) fn new(caches: Caches) -> Self {
        Self {
            known: KnownPods::new(caches),
            known_before: KnownPods::new(caches),
        }
    }

    /// Whether the pod that `known` has at the ordinal is ready and stays.
    fn is_up(known: &KnownPods, pod: &Pod<'_>, ordinal: i64, entry: &JournalEntry) -> bool {
        let own = format!("{}-{ordinal}", name(pod.set));
        known.is_up((namespace(pod.set), &own), entry.time)
    }

    /// The description of what `entry` does wrong, if the controller acts upon `set`.
    fn fault(&self, entry: &JournalEntry, pod: &Pod<'_>, world: &World) -> Option<String> {
        let slots = slots(pod.family, pod.set);
        let (name, own) = (pod.name(), pod.ordinal);
        let unready = |known: &KnownPods, among: &dyn Fn(i64) -> bool| {
            let mut among = slots.iter().copied().filter(|ordinal| among(*ordinal));
            among.find(|ordinal| !Self::is_up(known, pod, *ordinal, entry))
        };
        let waits =
            |verb: &str, ordinal: i64| format!("{name} {verb}, and ordinal {ordinal} is not ready");
        match act(entry, pod)? {
            Act::Start if pod.is_ordered() => {
                let waiting = unready(&self.known, &|ordinal| ordinal < own);
                waiting.map(|ordinal| waits("starts", ordinal))
            }
            Act::Stop if pod.is_ordered() => {
                let mut condemned = pod.all_of_set(world);
                let is_higher =
                    |other: &Pod<'_>| other.ordinal > own && !slots.contains(&other.ordinal);
                if let Some(higher) = condemned.find(is_higher) {
                    return Some(format!("{name} stops before {}", higher.name()));
                }
                let waiting = unready(&self.known_before, &|_| true);
                waiting.map(|ordinal| waits("stops", ordinal))
            }
            Act::Start | Act::Stop => None,
            Act::Update => {
                if let Some(other) = overtaken(pod, world) {
                    return Some(format!("{name} is updated before {other}"));
                }
                let takes_one = pod.family == Family::Native
                    && pod.set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]
                        .is_null();
                let waiting = match (takes_one, pod.is_ordered()) {
                    (true, false) => unready(&self.known, &|ordinal| ordinal > own),
                    (true, true) => unready(&self.known, &|ordinal| ordinal != own)
                        .or_else(|| unready(&self.known_before, &|ordinal| ordinal == own)),
                    (false, true) => unready(&self.known_before, &|_| true),
                    (false, false) => None,
                };
                waiting.map(|ordinal| match pod.family {
                    Family::Native => waits("is taken down", ordinal),
                    Family::Advanced => waits("is updated", ordinal),
                })
            }
        }
    }
}

/// The action of the controller in `entry`; `None` for one without an order.
fn act(entry: &JournalEntry, pod: &Pod<'_>) -> Option<Act> {
    if entry.event == EventType::Added {
        return Some(Act::Start);
    }
    let slots = slots(pod.family, pod.set);
    let has_slot = slots.contains(&pod.ordinal);
    if is_finished(pod.object) || is_terminating(pod.set) {
        return None;
    }
    if is_deletion(entry) {
        let is_asked_for =
            pod.family == Family::Advanced && label(pod.object, SPECIFIED_DELETE).is_some();
        return match has_slot {
            false => Some(Act::Stop),
            true => (!is_asked_for).then_some(Act::Update),
        };
    }
    let is_updated = pod.family == Family::Advanced && has_slot && is_relabeled(entry);
    is_updated.then_some(Act::Update)
}

/// The name of a pod that is to be updated before `pod` and is not yet.
fn overtaken(pod: &Pod<'_>, world: &World) -> Option<String> {
    let rolling = &pod.set["spec"]["updateStrategy"]["rollingUpdate"];
    // A pod whose claims grow is updated later, and those below it need not wait.
    let has_no_order = !rolling["unorderedUpdate"].is_null() || advanced::resizes_claims(pod.set);
    if pod.family == Family::Advanced && has_no_order {
        return None;
    }
    let update = UpdateRevision::of(pod.set, world)?;
    let slots = slots(pod.family, pod.set);
    let partition = rolling["partition"].as_i64().unwrap_or(0);
    let start = pod.set["spec"]["ordinals"]["start"].as_i64().unwrap_or(0);
    let is_due = |other: &Pod<'_>| {
        let state = label(other.object, LIFECYCLE_STATE);
        let has_begun =
            pod.family == Family::Advanced && state.is_some_and(|state| BEGUN.contains(&state));
        other.ordinal > pod.ordinal
            && other.ordinal >= start + partition
            && slots.contains(&other.ordinal)
            && !is_terminating(other.object)
            && !is_finished(other.object)
            && !update.has(other.object)
            && !has_begun
    };
    let mut others = pod.all_of_set(world);
    others.find(is_due).map(|other| other.name().to_owned())
}

impl Property for Ordered {
    fn name(&self) -> &str {
        "ordered start, stop and update"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let pod = Pod::of(&entry.object, world);
        let pod = pod.filter(|pod| pod.is_written_by_controller(entry));
        self.known.take(entry, pod.is_some());
        self.known_before.take(entry, false);
        let Some(pod) = pod else {
            return Vec::new();
        };
        let asked = world.asked(uid(pod.set));
        let faults = asked.map(|set| self.fault(entry, &Pod { set, ..pod }, world));
        least_fault(faults).into_iter().collect()
    }
}

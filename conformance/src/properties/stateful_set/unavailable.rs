//! How many pods of a StatefulSet may be down at a time.
//!
//! Source: pkg/controller/statefulset/stateful_set_control.go of Kubernetes (`updateStatefulSetAfterInvariantEstablished`)
//! and of openkruise/kruise (`rollingUpdateStatefulsetPods`).

use std::collections::BTreeSet;

use kubeproof_apiserver::JournalEntry;
use kubeproof_machinery::int_or_percent::Round;

use super::super::known::{Caches, KnownPods};
use super::super::pods::{int_or_percent, is_terminating, least_fault, namespace, uid};
use super::super::{Property, World};
use super::{Family, Pod, slots};

/// No pod that is up is taken down, by deletion or by an update in place, when as many are down already as may be.
///
/// A pod counts as down when it is missing, terminating or not ready. A set of Kubernetes without `maxUnavailable` waits for
/// each pod, as [`Ordered`](super::ordered::Ordered) demands.
pub(super) struct MaxUnavailable(KnownPods);

impl MaxUnavailable {
    pub(super) fn new(caches: Caches) -> Self {
        Self(KnownPods::new(caches))
    }
}

impl Property for MaxUnavailable {
    fn name(&self) -> &str {
        "no more unavailable than maxUnavailable"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let pod = Pod::of(&entry.object, world);
        let pod = pod.filter(|pod| pod.is_written_by_controller(entry));
        let is_up = self.0.is_taken_from_up(entry, pod.is_some());
        let Some(pod) = pod.filter(|pod| is_up && !is_terminating(pod.set)) else {
            return Vec::new();
        };
        let others = pod.all_of_set(world);
        let is_up = |other: &Pod<'_>| {
            let key = (namespace(pod.set), other.name());
            self.0.is_up(key, entry.time)
        };
        let up: BTreeSet<i64> = others.filter(is_up).map(|other| other.ordinal).collect();
        let excess = world.asked(uid(pod.set)).map(|set| {
            let slots = slots(pod.family, set);
            if !slots.contains(&pod.ordinal) {
                return None;
            }
            let replicas = set["spec"]["replicas"].as_i64().unwrap_or(1);
            let stated = &set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
            if pod.family == Family::Native && stated.is_null() {
                return None;
            }
            let max = int_or_percent(stated, replicas, Round::Down, 1).max(1);
            let others = slots.iter().filter(|slot| **slot != pod.ordinal);
            let down = others.filter(|slot| !up.contains(*slot)).count();
            (i64::try_from(down).unwrap_or(i64::MAX) >= max).then_some((down, max))
        });
        let violation = least_fault(excess).map(|(down, max)| {
            format!(
                "{} is taken down, {down} are down already, and maxUnavailable is {max}",
                pod.name()
            )
        });
        violation.into_iter().collect()
    }
}

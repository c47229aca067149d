//! The guarantees of StatefulSets, Kubernetes' and OpenKruise's.
//!
//! A controller decides upon the state of its caches, so the states of a pod within the present instant count, too, and
//! the controller may act upon any generation since its observed one.

mod advanced;
mod ordered;
mod unavailable;

use std::collections::BTreeSet;

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::known::Caches;
use super::pods::{controller, least_fault, missing_claims, name, namespace, shared_claims, uid};
use super::revisions::UpdateRevision;
use super::{Property, World};
use ordered::Ordered;
use unavailable::MaxUnavailable;

/// The properties of StatefulSets.
pub(super) fn all(caches: Caches) -> Vec<Box<dyn Property>> {
    let mut all: Vec<Box<dyn Property>> = vec![
        Box::new(OneClaimOnePod),
        Box::new(OnePodPerOrdinal),
        Box::new(OwnClaims),
        Box::new(Ordered::new(caches)),
        Box::new(MaxUnavailable::new(caches)),
        Box::new(Partitioned),
    ];
    all.extend(advanced::all());
    all
}

/// The project that a StatefulSet belongs to: Kubernetes or OpenKruise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Native,
    Advanced,
}

impl Family {
    fn of(api_version: &str) -> Option<Self> {
        match api_version.split_once('/')?.0 {
            "apps" => Some(Self::Native),
            "apps.kruise.io" => Some(Self::Advanced),
            _ => None,
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::Native => "statefulsets.apps",
            Self::Advanced => "statefulsets.apps.kruise.io",
        }
    }

    fn controller(self) -> &'static str {
        match self {
            Self::Native => "statefulset-controller",
            Self::Advanced => "asts-controller",
        }
    }
}

/// A pod of a StatefulSet.
#[derive(Clone, Copy)]
struct Pod<'a> {
    object: &'a Value,
    set: &'a Value,
    ordinal: i64,
    family: Family,
}

impl<'a> Pod<'a> {
    /// `None` for an object that is not a pod of an existing set.
    fn of(object: &'a Value, world: &'a World) -> Option<Self> {
        let owner = controller(object).filter(|owner| owner["kind"] == "StatefulSet")?;
        let family = Family::of(owner["apiVersion"].as_str()?)?;
        let set = world.get(
            family.resource(),
            namespace(object),
            owner["name"].as_str()?,
        )?;
        let ordinal = name(object).rsplit_once('-')?.1;
        (set["metadata"]["uid"] == owner["uid"]).then_some(())?;
        Some(Self {
            object,
            set,
            ordinal: ordinal.parse().ok()?,
            family,
        })
    }

    /// The pod that `entry` creates, by any writer.
    fn added(entry: &'a JournalEntry, world: &'a World) -> Option<Self> {
        (entry.event == EventType::Added).then(|| Pod::of(&entry.object, world))?
    }

    /// The pod that `entry` creates, if the writer is the controller.
    fn created(entry: &'a JournalEntry, world: &'a World) -> Option<Self> {
        Self::added(entry, world).filter(|pod| pod.is_written_by_controller(entry))
    }

    fn name(&self) -> &'a str {
        name(self.object)
    }

    /// The pods of the same set, this one included.
    fn all_of_set(&self, world: &'a World) -> impl Iterator<Item = Pod<'a>> {
        let owner = uid(self.set);
        let pods = world.in_namespace("pods", namespace(self.set));
        let pods = pods.filter_map(|object| Pod::of(object, world));
        pods.filter(move |pod| uid(pod.set) == owner)
    }

    fn is_written_by_controller(&self, entry: &JournalEntry) -> bool {
        entry.user_agent.starts_with(self.family.controller())
    }

    /// Whether pods start and stop one after the other, and it is known which there are to be.
    fn is_ordered(&self) -> bool {
        let spec = &self.set["spec"];
        let is_gated = self.family == Family::Advanced && !spec["ordinals"]["start"].is_null();
        spec["podManagementPolicy"] != "Parallel" && !is_gated
    }
}

/// Returns the ordinals of the pods that should exist.
///
/// Whether an Advanced StatefulSet respects `ordinals.start` depends on a feature gate that no stored object shows;
/// with a start, all ordinals of both readings are returned.
fn slots(family: Family, set: &Value) -> BTreeSet<i64> {
    let spec = &set["spec"];
    let replicas = usize::try_from(spec["replicas"].as_i64().unwrap_or(1)).unwrap_or(0);
    let start = spec["ordinals"]["start"].as_i64().unwrap_or(0);
    let reserved = advanced::reserved(set);
    let from = |start: i64| {
        let free = (start..).filter(|ordinal| !reserved.contains(ordinal));
        free.take(replicas)
    };
    match family {
        Family::Native => (start..).take(replicas).collect(),
        Family::Advanced => from(0).chain(from(start)).collect(),
    }
}

struct OnePodPerOrdinal;

impl Property for OnePodPerOrdinal {
    fn name(&self) -> &str {
        "at most one pod per ordinal"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = Pod::added(entry, world) else {
            return Vec::new();
        };
        let others = pod.all_of_set(world);
        let twins =
            others.filter(|other| other.ordinal == pod.ordinal && other.name() != pod.name());
        let violations =
            twins.map(|twin| format!("{} and {} are both there", twin.name(), pod.name()));
        violations.collect()
    }
}

struct OneClaimOnePod;

impl Property for OneClaimOnePod {
    fn name(&self) -> &str {
        "never two pods with one claim"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = Pod::added(entry, world) else {
            return Vec::new();
        };
        let others = pod.all_of_set(world).map(|other| other.object);
        shared_claims((pod.object, pod.set), others)
    }
}

/// A pod is created with the claims of its ordinal, which are there.
struct OwnClaims;

impl Property for OwnClaims {
    fn name(&self) -> &str {
        "a pod has its own claims"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let created = Pod::created(entry, world);
        created.map_or_else(Vec::new, |pod| missing_claims((pod.object, pod.set), world))
    }
}

/// Below the partition nothing is of the update revision.
struct Partitioned;

impl Property for Partitioned {
    fn name(&self) -> &str {
        "no pod of the update revision below the partition"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let created = Pod::created(entry, world);
        let Some(pod) = created.filter(|pod| pod.family == Family::Native) else {
            return Vec::new();
        };
        let update = UpdateRevision::of(pod.set, world);
        if !update.is_some_and(|update| update.is_new(pod.object)) {
            return Vec::new();
        }
        let excess = world.asked(uid(pod.set)).map(|set| {
            let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
            let partition = rolling["partition"].as_i64().unwrap_or(0);
            let start = set["spec"]["ordinals"]["start"].as_i64().unwrap_or(0);
            (pod.ordinal < start + partition).then_some(partition)
        });
        let least = least_fault(excess);
        let violation =
            least.map(|partition| format!("{} is created with partition {partition}", pod.name()));
        violation.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;

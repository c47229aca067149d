//! What StatefulSets promise.
//!
//! A controller decides upon what its caches show. So what was true at some time since a pod was
//! created counts as true: a pod that was ready once and is not any more forbids nothing.

use std::collections::BTreeSet;

use kubeproof_apiserver::{EventType, JournalEntry};
use serde_json::Value;

use super::{Property, World};

const SETS: &str = "statefulsets.apps";

/// The properties of StatefulSets.
pub(super) fn all() -> Vec<Box<dyn Property>> {
    vec![
        Box::new(OneClaimOnePod),
        Box::new(OnePodPerOrdinal),
        Box::new(Ordered::default()),
        Box::new(Partitioned),
    ]
}

/// A pod of a StatefulSet.
#[derive(Clone, Copy)]
struct Pod<'a> {
    object: &'a Value,
    set: &'a Value,
    ordinal: i64,
}

impl<'a> Pod<'a> {
    /// `None` for what is no pod, or not one of a set that there is.
    fn of(object: &'a Value, world: &'a World) -> Option<Self> {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array()?.iter();
        let owner = owners
            .filter(|owner| owner["controller"] == true && owner["kind"] == "StatefulSet")
            .find(|owner| owner["apiVersion"] == "apps/v1")?;
        let namespace = metadata["namespace"].as_str()?;
        let set = world.get(SETS, namespace, owner["name"].as_str()?)?;
        let ordinal = metadata["name"].as_str()?.rsplit_once('-')?.1;
        (set["metadata"]["uid"] == owner["uid"]).then_some(())?;
        Some(Self {
            object,
            set,
            ordinal: ordinal.parse().ok()?,
        })
    }

    fn name(&self) -> &'a str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn uid(&self) -> String {
        self.object["metadata"]["uid"].to_string()
    }

    /// The pods of the same set, this one included.
    fn all_of_set(&self, world: &'a World) -> impl Iterator<Item = Pod<'a>> {
        let (namespace, uid) = (
            self.set["metadata"]["namespace"].as_str(),
            &self.set["metadata"]["uid"],
        );
        let pods = world.in_namespace("pods", namespace.unwrap_or_default());
        let pods = pods.filter_map(|object| Pod::of(object, world));
        pods.filter(move |pod| pod.set["metadata"]["uid"] == *uid)
    }

    fn is_terminating(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null()
    }

    fn is_finished(&self) -> bool {
        matches!(
            self.object["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        )
    }

    fn is_ready(&self) -> bool {
        let conditions = self.object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    fn is_ordered(&self) -> bool {
        self.set["spec"]["podManagementPolicy"] != "Parallel"
    }

    fn start(&self) -> i64 {
        self.set["spec"]["ordinals"]["start"].as_i64().unwrap_or(0)
    }

    /// Behind the last ordinal that there should be.
    fn end(&self) -> i64 {
        self.start() + self.set["spec"]["replicas"].as_i64().unwrap_or(1)
    }
}

/// Whether `entry` is the controller's own.
fn is_by_controller(entry: &JournalEntry) -> bool {
    entry.user_agent.starts_with("statefulset-controller")
}

/// Whether `entry` is about a pod that the controller deletes: marked, or removed unmarked.
fn is_deletion(entry: &JournalEntry) -> bool {
    let marked = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    let was_marked = entry
        .previous
        .as_ref()
        .is_some_and(|previous| marked(previous));
    let is_over = entry.event == EventType::Deleted || marked(&entry.object);
    is_by_controller(entry) && is_over && !was_marked
}

struct OnePodPerOrdinal;

impl Property for OnePodPerOrdinal {
    fn name(&self) -> &'static str {
        "at most one pod per ordinal"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = (entry.event == EventType::Added)
            .then(|| Pod::of(&entry.object, world))
            .flatten()
        else {
            return Vec::new();
        };
        let others = pod.all_of_set(world);
        let twins =
            others.filter(|other| other.ordinal == pod.ordinal && other.name() != pod.name());
        let told = twins.map(|twin| format!("{} and {} are both there", twin.name(), pod.name()));
        told.collect()
    }
}

struct OneClaimOnePod;

fn claims(pod: &Value) -> BTreeSet<&str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    claims.collect()
}

impl Property for OneClaimOnePod {
    fn name(&self) -> &'static str {
        "never two pods with one claim"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = (entry.event == EventType::Added)
            .then(|| Pod::of(&entry.object, world))
            .flatten()
        else {
            return Vec::new();
        };
        let templates = pod.set["spec"]["volumeClaimTemplates"].as_array();
        let templates: Vec<&str> = templates
            .into_iter()
            .flatten()
            .filter_map(|template| template["metadata"]["name"].as_str())
            .collect();
        let own: BTreeSet<&str> = claims(pod.object)
            .into_iter()
            .filter(|claim| {
                let mut templates = templates.iter();
                templates.any(|template| claim.starts_with(&format!("{template}-")))
            })
            .collect();
        let others = pod.all_of_set(world);
        let others = others.filter(|other| other.name() != pod.name() && !other.is_finished());
        let shared = others.flat_map(|other| {
            let shared = claims(other.object);
            let shared: Vec<_> = shared.intersection(&own).copied().collect();
            let (one, two) = (other.name(), pod.name());
            shared
                .into_iter()
                .map(move |claim| format!("{one} and {two} both have {claim}"))
        });
        shared.collect()
    }
}

/// Ordered starts, stops and updates.
#[derive(Default)]
struct Ordered {
    /// The uids of pods that have been ready at some time.
    ready_once: BTreeSet<String>,
}

impl Property for Ordered {
    fn name(&self) -> &'static str {
        "ordered start, stop and update"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = Pod::of(&entry.object, world) else {
            return Vec::new();
        };
        if pod.is_ready() {
            self.ready_once.insert(pod.uid());
        }
        let ready = |other: &Pod<'_>| self.ready_once.contains(&other.uid());
        let others: Vec<Pod<'_>> = pod.all_of_set(world).collect();
        let mut found = Vec::new();
        if entry.event == EventType::Added && is_by_controller(entry) && pod.is_ordered() {
            let waiting = (pod.start()..pod.ordinal.min(pod.end())).find(|ordinal| {
                let predecessor = others.iter().find(|other| other.ordinal == *ordinal);
                !predecessor.is_some_and(ready)
            });
            found.extend(waiting.map(|ordinal| {
                format!(
                    "{} starts, and ordinal {ordinal} has never been ready",
                    pod.name()
                )
            }));
        }
        if is_deletion(entry) && pod.ordinal >= pod.end() && pod.is_ordered() {
            let higher = others.iter().find(|other| other.ordinal > pod.ordinal);
            found.extend(
                higher.map(|higher| format!("{} stops before {}", pod.name(), higher.name())),
            );
        }
        let is_update = is_deletion(entry)
            && (pod.start()..pod.end()).contains(&pod.ordinal)
            && !pod.is_finished()
            && pod.set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].is_null()
            && pod.set["metadata"]["deletionTimestamp"].is_null();
        if is_update {
            let unready = (pod.ordinal + 1..pod.end()).find(|ordinal| {
                let successor = others.iter().find(|other| other.ordinal == *ordinal);
                !successor.is_some_and(|other| ready(other) && !other.is_terminating())
            });
            found.extend(unready.map(|ordinal| {
                format!(
                    "{} is taken down, and ordinal {ordinal} is not ready",
                    pod.name()
                )
            }));
        }
        found
    }
}

/// Below the partition nothing is of the update revision.
struct Partitioned;

impl Property for Partitioned {
    fn name(&self) -> &'static str {
        "no pod of the update revision below the partition"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let Some(pod) = (entry.event == EventType::Added && is_by_controller(entry))
            .then(|| Pod::of(&entry.object, world))
            .flatten()
        else {
            return Vec::new();
        };
        let rolling = &pod.set["spec"]["updateStrategy"]["rollingUpdate"];
        let partition = rolling["partition"].as_i64().unwrap_or(0);
        let status = &pod.set["status"];
        let revision = &entry.object["metadata"]["labels"]["controller-revision-hash"];
        let is_new = *revision == status["updateRevision"]
            && status["currentRevision"].is_string()
            && *revision != status["currentRevision"];
        match is_new && pod.ordinal < pod.start() + partition {
            true => vec![format!(
                "{} is created with partition {partition}",
                pod.name()
            )],
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;

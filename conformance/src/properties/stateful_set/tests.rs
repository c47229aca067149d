//! Each property finds what it forbids, and nothing in what is allowed.

use jiff::Timestamp;
use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::{EventType, JournalEntry};
use serde_json::{Value, json};

use super::super::violations;

const CONTROLLER: &str = "statefulset-controller";

/// Writes of a set and its pods.
#[derive(Default)]
struct Journal(Vec<JournalEntry>);

impl Journal {
    /// A journal that begins with a set.
    fn of_set(spec: Value, status: Value) -> Self {
        let mut journal = Self::default();
        let set = json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "set"},
            "spec": spec, "status": status,
        });
        journal.write("apps", "statefulsets", EventType::Added, ("kubectl", set));
        journal
    }

    fn write(
        &mut self,
        group: &str,
        resource: &str,
        event: EventType,
        (user_agent, object): (&str, Value),
    ) {
        let named = |entry: &&JournalEntry| {
            entry.gvr.resource == resource
                && entry.object["metadata"]["name"] == object["metadata"]["name"]
        };
        let previous = self.0.iter().rev().find(named);
        let previous = previous.map(|entry| entry.object.clone());
        self.0.push(JournalEntry {
            rv: self.0.len() as u64 + 1,
            time: Timestamp::UNIX_EPOCH,
            gvr: GroupVersionResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
            },
            event,
            user_agent: user_agent.into(),
            object: object.into(),
            previous,
        });
    }

    fn pod(mut self, event: EventType, user_agent: &str, pod: Value) -> Self {
        self.write("", "pods", event, (user_agent, pod));
        self
    }

    fn created(self, name: &str) -> Self {
        self.pod(EventType::Added, CONTROLLER, pod(name, &json!({})))
    }

    fn ready(self, name: &str) -> Self {
        self.pod(EventType::Modified, "kubelet", ready(name))
    }

    fn deleted(self, name: &str) -> Self {
        let mut pod = ready(name);
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        self.pod(EventType::Modified, CONTROLLER, pod)
    }

    /// The violations, as `property: what`.
    fn told(&self) -> Vec<String> {
        let found = violations(&self.0, &[]);
        let told = found
            .iter()
            .map(|one| format!("{}: {}", one.property, one.what));
        told.collect()
    }
}

/// A pod of the set, with these labels.
fn pod(name: &str, labels: &Value) -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "labels": labels,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set",
                "controller": true,
            }],
        },
    })
}

fn ready(name: &str) -> Value {
    let mut pod = pod(name, &json!({}));
    pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    pod
}

#[test]
fn a_pod_starts_when_those_before_it_have_been_ready() {
    let begun = || Journal::of_set(json!({"replicas": 2}), json!({})).created("web-0");
    assert_eq!(begun().ready("web-0").created("web-1").told(), [""; 0]);
    assert_eq!(
        begun().created("web-1").told(),
        ["ordered start, stop and update: web-1 starts, and ordinal 0 has never been ready"]
    );
    let parallel = json!({"replicas": 2, "podManagementPolicy": "Parallel"});
    let parallel = Journal::of_set(parallel, json!({}));
    assert_eq!(parallel.created("web-0").created("web-1").told(), [""; 0]);
}

#[test]
fn a_pod_stops_when_those_above_it_are_gone() {
    let scaled = |deleted: &str| {
        let set = Journal::of_set(json!({"replicas": 0}), json!({}));
        let both = set.created("web-0").ready("web-0").created("web-1");
        both.ready("web-1").deleted(deleted).told()
    };
    assert_eq!(scaled("web-1"), [""; 0]);
    assert_eq!(
        scaled("web-0"),
        ["ordered start, stop and update: web-0 stops before web-1"]
    );
}

#[test]
fn a_pod_is_taken_down_when_those_above_it_are_ready() {
    let set = || {
        let set = Journal::of_set(json!({"replicas": 2}), json!({}));
        set.created("web-0").ready("web-0").created("web-1")
    };
    assert_eq!(set().ready("web-1").deleted("web-0").told(), [""; 0]);
    assert_eq!(
        set().deleted("web-0").told(),
        ["ordered start, stop and update: web-0 is taken down, and ordinal 1 is not ready"]
    );
}

#[test]
fn pods_of_one_ordinal_or_with_one_claim_are_found() {
    let spec = json!({
        "replicas": 2, "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    });
    let set = || Journal::of_set(spec.clone(), json!({}));
    assert_eq!(
        set().created("web-1").created("web-01").told(),
        ["at most one pod per ordinal: web-1 and web-01 are both there"]
    );
    let with_claim = |name: &str| {
        let mut pod = pod(name, &json!({}));
        pod["spec"]["volumes"] = json!([{"persistentVolumeClaim": {"claimName": "data-web-0"}}]);
        pod
    };
    let added = EventType::Added;
    let shared = set().pod(added, CONTROLLER, with_claim("web-0"));
    assert_eq!(
        shared.pod(added, CONTROLLER, with_claim("web-1")).told(),
        ["never two pods with one claim: web-0 and web-1 both have data-web-0"]
    );
}

#[test]
fn nothing_new_is_created_below_the_partition() {
    let created = |revision: &str| {
        let spec = json!({
            "replicas": 1, "updateStrategy": {"rollingUpdate": {"partition": 1}},
        });
        let status = json!({"currentRevision": "old", "updateRevision": "new"});
        let pod = pod("web-0", &json!({"controller-revision-hash": revision}));
        let set = Journal::of_set(spec, status);
        set.pod(EventType::Added, CONTROLLER, pod).told()
    };
    assert_eq!(created("old"), [""; 0]);
    assert_eq!(
        created("new"),
        ["no pod of the update revision below the partition: web-0 is created with partition 1"]
    );
}

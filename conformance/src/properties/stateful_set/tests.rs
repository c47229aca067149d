//! Each property reports forbidden behavior and accepts allowed behavior.

use kubeproof_apiserver::EventType;
use serde_json::{Value, json};

use super::super::journal::{Journal, Owner};

const OWNER: Owner = Owner {
    api_version: "apps/v1",
    kind: "StatefulSet",
    resource: "statefulsets",
    controller: "statefulset-controller",
};

impl Journal {
    /// A journal that begins with a set.
    fn of_set(spec: Value, status: Value) -> Self {
        Self::of(OWNER, spec, status)
    }
}

fn pod(name: &str, labels: &Value) -> Value {
    OWNER.pod(name, labels)
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
    let spec = json!({"replicas": 2, "podManagementPolicy": "Parallel"});
    let set = Journal::of_set(spec.clone(), json!({}));
    assert_eq!(
        set.created("web-1").created("web-01").told(),
        ["at most one pod per ordinal: web-1 and web-01 are both there"]
    );
    let mut spec = spec;
    spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
    let with_claim = |journal: Journal, name: &str| {
        let mut pod = pod(name, &json!({}));
        pod["spec"]["volumes"] = json!([{"persistentVolumeClaim": {"claimName": "data-web-0"}}]);
        journal.pod(EventType::Added, OWNER.controller, pod)
    };
    let set = || Journal::of_set(spec.clone(), json!({}));
    let one = || with_claim(set().claim("data-web-0"), "web-0");
    assert_eq!(one().told(), [""; 0]);
    assert_eq!(
        with_claim(one(), "web-1").told(),
        [
            "never two pods with one claim: web-0 and web-1 both have data-web-0",
            "a pod has its own claims: web-1 is created without data-web-1",
        ]
    );
    assert_eq!(
        with_claim(set(), "web-0").told(),
        ["a pod has its own claims: web-0 is created, and there is no claim data-web-0"]
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
        set.pod(EventType::Added, OWNER.controller, pod).told()
    };
    assert_eq!(created("old"), [""; 0]);
    assert_eq!(
        created("new"),
        ["no pod of the update revision below the partition: web-0 is created with partition 1"]
    );
}

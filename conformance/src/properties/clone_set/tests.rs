//! Each property reports forbidden behavior and accepts allowed behavior.

use kubeproof_apiserver::EventType;
use kubeproof_machinery::json::{Value, json};

use super::super::journal::{Journal, Owner};
use super::{INSTANCE_ID, LIFECYCLE_STATE, SPECIFIED_DELETE, partition};

const OWNER: Owner = Owner {
    api_version: "apps.kruise.io/v1beta1",
    kind: "CloneSet",
    resource: "clonesets",
    controller: "cloneset-controller",
};

/// The labels of a pod of this revision.
fn labels(name: &str, revision: &str) -> Value {
    let id = name.rsplit_once('-').unwrap().1;
    json!({INSTANCE_ID: id, "controller-revision-hash": revision})
}

/// A set that is to go from `old` to `new`, with pods of `old` that are ready.
fn with(spec: Value, names: &[&str]) -> Journal {
    let status = json!({"currentRevision": "old", "updateRevision": "new"});
    let mut journal = Journal::of(OWNER, spec, status);
    for name in names {
        journal = journal.created_with(name, &labels(name, "old")).ready(name);
    }
    journal
}

fn rolling(replicas: i64, rolling: Value) -> Value {
    json!({"replicas": replicas, "updateStrategy": {"rollingUpdate": rolling}})
}

fn new(journal: Journal, name: &str) -> Journal {
    journal.created_with(name, &labels(name, "new"))
}

#[test]
fn an_instance_id_is_that_of_one_pod() {
    let twice = with(json!({"replicas": 2}), &["web-a"]);
    let twice = twice.created_with("other-a", &labels("other-a", "old"));
    let property = "never two pods with one instance id";
    assert_eq!(
        twice.violations(),
        [format!("{property}: web-a and other-a are both there")]
    );
    let unlabeled = with(json!({"replicas": 1}), &[]).created("web-a");
    assert_eq!(
        unlabeled.violations(),
        [format!("{property}: web-a is created with id None")]
    );
}

#[test]
fn a_claim_is_that_of_one_pod_and_is_there() {
    let spec = json!({"replicas": 2, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
    let mounting = |journal: Journal, name: &str, claim: &str| {
        let mut pod = OWNER.pod(name, &labels(name, "old"));
        pod["spec"]["volumes"] = json!([{"persistentVolumeClaim": {"claimName": claim}}]);
        journal.pod(EventType::Added, OWNER.controller, pod)
    };
    let set = || with(spec.clone(), &[]).claim("data-web-a");
    let one = || mounting(set(), "web-a", "data-web-a");
    assert_eq!(one().violations(), [""; 0]);
    assert_eq!(
        mounting(one(), "web-b", "data-web-a").violations(),
        [
            "never two pods with one claim: web-a and web-b both have data-web-a",
            "a pod has its own claims: web-b is created without data-web-b",
        ]
    );
    assert_eq!(
        mounting(set(), "web-b", "data-web-b").violations(),
        ["a pod has its own claims: web-b is created, and there is no claim data-web-b"]
    );
}

#[test]
fn there_are_no_more_than_the_surge_allows() {
    let surge = |surge: i64| rolling(2, json!({"maxSurge": surge, "maxUnavailable": 1}));
    let with_surge = with(surge(1), &["web-a", "web-b"]);
    assert_eq!(new(with_surge, "web-c").violations(), [""; 0]);
    assert_eq!(
        new(with(surge(0), &["web-a", "web-b"]), "web-c").violations()[..1],
        ["no more pods than replicas and maxSurge: web-c is created, the 3th of 2 at most"]
    );
}

#[test]
fn a_pod_that_the_controller_may_not_know_of_is_made_again() {
    let set = || with(json!({"replicas": 1}), &[]);
    let twice = |journal: Journal| new(new(journal, "web-a").unanswered(), "web-b");
    assert_eq!(twice(set().lagging()).violations(), [""; 0]);
    let property = "no more pods than replicas and maxSurge";
    let expected = [format!(
        "{property}: web-b is created, the 2th of 1 at most"
    )];
    assert_eq!(
        twice(set()).violations(),
        expected,
        "its event is there at once"
    );
    let answered = new(new(set().lagging(), "web-a"), "web-b");
    assert_eq!(
        answered.violations(),
        expected,
        "the controller knows the pod it made"
    );
    let third = new(twice(set().lagging()), "web-c");
    let expected = [format!(
        "{property}: web-c is created, the 2th of 1 at most"
    )];
    assert_eq!(
        third.violations(),
        expected,
        "only the one without an answer is unknown"
    );
}

#[test]
fn as_many_are_taken_down_as_max_unavailable_says() {
    let set = |max: Value| {
        let spec = rolling(3, json!({"maxUnavailable": max}));
        with(spec, &["web-a", "web-b", "web-c"]).updated_in_place("web-a", "new")
    };
    let second = |max: Value| set(max).updated_in_place("web-b", "new").violations();
    assert_eq!(second(json!(2)), [""; 0]);
    assert_eq!(second(json!("34%")), [""; 0], "a share is rounded up");
    assert_eq!(
        second(json!(1)),
        [
            "no more unavailable than maxUnavailable: web-b is taken down, 1 are left, and 2 are to \
          be up"
        ]
    );
    let after = set(json!(1))
        .ready("web-a")
        .updated_in_place("web-b", "new");
    assert_eq!(after.violations(), [""; 0]);
}

#[test]
fn the_partition_stays_as_it_is() {
    let set = |kept: i64| {
        let spec = rolling(3, json!({"partition": kept, "maxUnavailable": 3}));
        with(spec, &["web-a", "web-b", "web-c"])
    };
    let updated = |kept| set(kept).updated_in_place("web-a", "new").violations();
    assert_eq!(updated(2), [""; 0]);
    let property = "no more pods of the update revision than the partition leaves";
    assert_eq!(
        updated(3),
        [format!(
            "{property}: web-a is updated, 2 are of another revision, and the partition is 3"
        )]
    );
    let recreated = |kept| {
        let gone = set(kept).changed("kubectl", "web-a", |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        });
        new(gone, "web-d").violations()
    };
    assert_eq!(recreated(2), [""; 0]);
    assert_eq!(recreated(3).len(), 1);
    let shares = ["0%", "50%", "99%", "100%"]
        .map(|share| partition(&json!({"spec": rolling(4, json!({"partition": share}))})));
    assert_eq!(shares, [0, 2, 3, 4]);
}

#[test]
fn a_pod_is_deleted_because_it_was_chosen_or_is_one_too_many() {
    let set = |spec: Value| with(spec, &["web-a", "web-b"]);
    let two = || rolling(2, json!({"maxUnavailable": 2}));
    let property = "no pod is deleted without a reason";
    assert_eq!(
        set(two()).deleted("web-a").violations(),
        [format!("{property}: web-a is deleted, and 1 are left")]
    );
    let one = set(two()).set(2, rolling(1, json!({})), json!({}));
    assert_eq!(one.deleted("web-a").violations(), [""; 0]);
    for label in [SPECIFIED_DELETE, LIFECYCLE_STATE] {
        let chosen = set(two()).changed(OWNER.controller, "web-a", |pod| {
            pod["metadata"]["labels"][label] = "PreparingDelete".into();
        });
        assert_eq!(chosen.deleted("web-a").violations(), [""; 0]);
    }
    let mut listed = two();
    listed["scaleStrategy"] = json!({"podsToDelete": ["web-a"]});
    assert_eq!(set(listed).deleted("web-a").violations(), [""; 0]);
}

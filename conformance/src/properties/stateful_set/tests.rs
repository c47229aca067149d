//! Each property reports forbidden behavior and accepts allowed behavior.

use kubeproof_apiserver::EventType;
use kubeproof_machinery::json::{Value, json};

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
    assert_eq!(
        begun().ready("web-0").created("web-1").violations(),
        [""; 0]
    );
    assert_eq!(
        begun().created("web-1").violations(),
        ["ordered start, stop and update: web-1 starts, and ordinal 0 is not ready"]
    );
    let parallel = json!({"replicas": 2, "podManagementPolicy": "Parallel"});
    let parallel = Journal::of_set(parallel, json!({}));
    assert_eq!(
        parallel.created("web-0").created("web-1").violations(),
        [""; 0]
    );
}

#[test]
fn a_pod_stops_when_those_above_it_are_gone() {
    let scaled = |deleted: &str| {
        let set = Journal::of_set(json!({"replicas": 0}), json!({}));
        let both = set.created("web-0").ready("web-0").created("web-1");
        both.ready("web-1").deleted(deleted).violations()
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
    assert_eq!(set().ready("web-1").deleted("web-0").violations(), [""; 0]);
    assert_eq!(
        set().deleted("web-0").violations(),
        ["ordered start, stop and update: web-0 is taken down, and ordinal 1 is not ready"]
    );
}

#[test]
fn as_many_are_taken_down_as_max_unavailable_says() {
    let set = |max: Value| {
        let rolling = json!({"maxUnavailable": max});
        let spec = json!({
            "replicas": 4, "podManagementPolicy": "Parallel",
            "updateStrategy": {"rollingUpdate": rolling},
        });
        let names = ["web-0", "web-1", "web-2", "web-3"];
        let set = Journal::of_set(spec, json!({"observedGeneration": 1}));
        let set = names
            .into_iter()
            .fold(set, |set, name| set.created(name).ready(name));
        set.deleted("web-3").deleted("web-2")
    };
    assert_eq!(set(json!(2)).violations(), [""; 0]);
    assert_eq!(set(json!("50%")).violations(), [""; 0]);
    let property = "no more unavailable than maxUnavailable";
    let expected = |name: &str, down: u32, max: u32| {
        let limit = "are down already, and maxUnavailable is";
        [format!(
            "{property}: {name} is taken down, {down} {limit} {max}"
        )]
    };
    assert_eq!(set(json!(1)).violations(), expected("web-2", 1, 1));
    let rounded_down = set(json!("49%"));
    assert_eq!(rounded_down.violations(), expected("web-2", 1, 1));
    let third = set(json!(2)).deleted("web-1");
    assert_eq!(third.violations(), expected("web-1", 2, 2));
}

/// Two ready pods of a set that takes one down at a time.
fn both_ready(policy: &str) -> Journal {
    let spec = json!({"replicas": 2, "podManagementPolicy": policy});
    let set = Journal::of_set(spec, json!({"observedGeneration": 1}));
    set.created("web-0")
        .ready("web-0")
        .created("web-1")
        .ready("web-1")
}

#[test]
fn a_pod_that_was_ready_once_is_not_ready_for_ever() {
    let property = "ordered start, stop and update";
    let expected = [format!(
        "{property}: web-0 is taken down, and ordinal 1 is not ready"
    )];
    for policy in ["OrderedReady", "Parallel"] {
        let broken = || both_ready(policy).unready("web-1");
        assert_eq!(broken().deleted("web-0").violations(), expected, "{policy}");
        assert_eq!(
            broken().ready("web-1").deleted("web-0").violations(),
            [""; 0]
        );
        let news = both_ready(policy).at_once().unready("web-1");
        assert_eq!(
            news.deleted("web-0").violations(),
            [""; 0],
            "it cannot be known yet"
        );
        let late = broken().lagging();
        assert_eq!(
            late.deleted("web-0").violations(),
            [""; 0],
            "it need not be known"
        );
    }
    let scaled = both_ready("OrderedReady").unready("web-0");
    let scaled = scaled.set(2, json!({"replicas": 3}), json!({"observedGeneration": 2}));
    assert_eq!(
        scaled.created("web-2").violations(),
        [format!(
            "{property}: web-2 starts, and ordinal 0 is not ready"
        )]
    );
}

#[test]
fn everything_waits_for_a_pod_that_is_not_ready_unless_parallel() {
    let lower = |policy: &str| both_ready(policy).unready("web-0");
    let property = "ordered start, stop and update";
    assert_eq!(
        lower("OrderedReady").deleted("web-1").violations(),
        [format!(
            "{property}: web-1 is taken down, and ordinal 0 is not ready"
        )]
    );
    assert_eq!(lower("Parallel").deleted("web-1").violations(), [""; 0]);
    assert_eq!(
        both_ready("OrderedReady")
            .unready("web-1")
            .deleted("web-1")
            .violations(),
        [format!(
            "{property}: web-1 is taken down, and ordinal 1 is not ready"
        )],
        "an update does not repair"
    );
    let scaled = |policy: &str| {
        let spec = json!({"replicas": 1, "podManagementPolicy": policy});
        let scaled = lower(policy).set(2, spec, json!({"observedGeneration": 2}));
        scaled.deleted("web-1").violations()
    };
    assert_eq!(
        scaled("OrderedReady"),
        [format!(
            "{property}: web-1 stops, and ordinal 0 is not ready"
        )]
    );
    assert_eq!(scaled("Parallel"), [""; 0]);
}

#[test]
fn the_highest_pod_of_an_old_revision_is_updated_first() {
    let set = |partition: i64| {
        let rolling = json!({"partition": partition});
        let spec = json!({"replicas": 2, "updateStrategy": {"rollingUpdate": rolling}});
        let mut journal = Journal::of_set(spec, json!({})).revision("web-old", 1);
        for name in ["web-0", "web-1"] {
            let old = json!({"controller-revision-hash": "web-old"});
            journal = journal.created_with(name, &old).ready(name);
        }
        journal.revision("web-new", 2)
    };
    assert_eq!(set(0).deleted("web-1").violations(), [""; 0]);
    assert_eq!(
        set(0).deleted("web-0").violations(),
        ["ordered start, stop and update: web-0 is updated before web-1"]
    );
    let back = set(0).revision("web-old", 3);
    assert_eq!(
        back.deleted("web-0").violations(),
        [""; 0],
        "web-1 is at the newest revision"
    );
    assert_eq!(
        set(2).deleted("web-0").violations(),
        [""; 0],
        "the partition keeps web-1"
    );
}

#[test]
fn pods_of_one_ordinal_or_with_one_claim_are_found() {
    let spec = json!({"replicas": 2, "podManagementPolicy": "Parallel"});
    let set = Journal::of_set(spec.clone(), json!({}));
    assert_eq!(
        set.created("web-1").created("web-01").violations(),
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
    assert_eq!(one().violations(), [""; 0]);
    assert_eq!(
        with_claim(one(), "web-1").violations(),
        [
            "never two pods with one claim: web-0 and web-1 both have data-web-0",
            "a pod has its own claims: web-1 is created without data-web-1",
        ]
    );
    assert_eq!(
        with_claim(set(), "web-0").violations(),
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
        set.pod(EventType::Added, OWNER.controller, pod)
            .violations()
    };
    assert_eq!(created("old"), [""; 0]);
    assert_eq!(
        created("new"),
        ["no pod of the update revision below the partition: web-0 is created with partition 1"]
    );
}

#[test]
fn the_partition_holds_in_the_sync_that_brings_a_revision() {
    let spec = |image: &str, partition: i64| {
        json!({
            "replicas": 1, "template": {"image": image},
            "updateStrategy": {"rollingUpdate": {"partition": partition}},
        })
    };
    // The status names the new revision at the end of the sync.
    let status =
        json!({"observedGeneration": 1, "currentRevision": "web-a", "updateRevision": "web-a"});
    let begun = |partition: i64| {
        let set = Journal::of_set(spec("a", partition), status.clone());
        set.revision("web-a", 1)
    };
    let created = |journal: Journal, revision: &str| {
        let pod = pod("web-0", &json!({"controller-revision-hash": revision}));
        journal
            .pod(EventType::Added, OWNER.controller, pod)
            .violations()
    };
    let expected =
        ["no pod of the update revision below the partition: web-0 is created with partition 1"];
    let kept = || {
        begun(1)
            .set(2, spec("b", 1), status.clone())
            .revision("web-b", 2)
    };
    assert_eq!(created(kept(), "web-a"), [""; 0]);
    assert_eq!(created(kept(), "web-b"), expected);
    assert_eq!(
        created(kept().revision("web-a", 3), "web-a"),
        [""; 0],
        "it is rolled back"
    );
    // A sync that makes the revision of a generation has seen the partition of this generation.
    let raised = || begun(0).set(2, spec("b", 1), status.clone());
    assert_eq!(created(raised().revision("web-b", 2), "web-b"), expected);
    let lowered = begun(0)
        .set(2, spec("b", 0), status.clone())
        .revision("web-b", 2);
    assert_eq!(created(lowered, "web-b"), [""; 0]);
    let unseen = begun(0)
        .set(2, spec("a", 1), status.clone())
        .set(3, spec("b", 0), status.clone());
    assert_eq!(created(unseen.revision("web-b", 2), "web-b"), [""; 0]);
}

//! Each property reports forbidden behavior and accepts allowed behavior.

use kubeproof_machinery::json::{Value, json};

use super::super::super::journal::{Journal, Owner};

const OWNER: Owner = Owner {
    api_version: "apps.kruise.io/v1beta1",
    kind: "StatefulSet",
    resource: "statefulsets",
    controller: "asts-controller",
};

fn of_set(spec: Value) -> Journal {
    Journal::of(OWNER, spec, json!({}))
}

/// A journal of three ready pods of revision `old`, in a set that updates to `new`.
fn updating(rolling: Value) -> Journal {
    let spec = json!({
        "replicas": 3, "podManagementPolicy": "Parallel",
        "updateStrategy": {"rollingUpdate": rolling},
    });
    let status = json!({"currentRevision": "old", "updateRevision": "new"});
    let mut journal = Journal::of(OWNER, spec, status);
    for name in ["web-0", "web-1", "web-2"] {
        let old = json!({"controller-revision-hash": "old"});
        journal = journal.created_with(name, &old).ready(name);
    }
    journal
}

#[test]
fn nothing_is_created_at_a_reserved_ordinal() {
    let parallel = |reserved: Value| {
        json!({
            "replicas": 2, "podManagementPolicy": "Parallel", "reserveOrdinals": reserved,
        })
    };
    let created = |reserved, name| of_set(parallel(reserved)).created(name).violations();
    assert_eq!(created(json!([1]), "web-2"), [""; 0]);
    let expected = ["no pod at a reserved ordinal: web-1 is created"];
    assert_eq!(created(json!([1]), "web-1"), expected);
    assert_eq!(created(json!(["0-3"]), "web-1"), expected);
    // The controller may not have observed a recent reservation, but it has observed the generation that it reports.
    let (none, one) = (parallel(json!([])), parallel(json!([1])));
    let unseen = of_set(none.clone()).set(2, one.clone(), json!({"observedGeneration": 1}));
    assert_eq!(unseen.created("web-1").violations(), [""; 0]);
    let seen = of_set(none).set(2, one, json!({"observedGeneration": 2}));
    assert_eq!(seen.created("web-1").violations(), expected);
}

#[test]
fn starts_and_stops_are_in_order_over_reserved_ordinals() {
    let set = || of_set(json!({"replicas": 2, "reserveOrdinals": [1]})).created("web-0");
    assert_eq!(set().ready("web-0").created("web-2").violations(), [""; 0]);
    let property = "ordered start, stop and update";
    assert_eq!(
        set().created("web-2").violations(),
        [format!(
            "{property}: web-2 starts, and ordinal 0 is not ready"
        )]
    );
    let none = json!({"replicas": 0});
    let stopped = |name| {
        let both = set().ready("web-0").created("web-2").ready("web-2");
        both.set(2, none.clone(), json!({"observedGeneration": 2}))
            .deleted(name)
            .violations()
    };
    assert_eq!(stopped("web-2"), [""; 0]);
    assert_eq!(
        stopped("web-0"),
        [format!("{property}: web-0 stops before web-2")]
    );
}

#[test]
fn as_many_are_taken_down_as_max_unavailable_says() {
    let two = || updating(json!({"maxUnavailable": 2})).deleted("web-2");
    assert_eq!(two().updated_in_place("web-1", "new").violations(), [""; 0]);
    let expected = |verb: &str, down: u32, max: u32| {
        format!(
            "no more unavailable than maxUnavailable: {verb}, {down} are down already, and \
             maxUnavailable is {max}"
        )
    };
    assert_eq!(
        two().deleted("web-1").deleted("web-0").violations(),
        [expected("web-0 is taken down", 2, 2)]
    );
    let one = || updating(json!({"maxUnavailable": "34%"})).updated_in_place("web-2", "new");
    assert_eq!(
        one().updated_in_place("web-1", "new").violations(),
        [expected("web-1 is taken down", 1, 1)]
    );
    let again = one().ready("web-2").updated_in_place("web-1", "new");
    assert_eq!(again.violations(), [""; 0]);
}

#[test]
fn the_partition_stays_as_it_is() {
    let property = "no pod of the update revision below the partition";
    let updated = |rolling, name| {
        let updated = updating(rolling).updated_in_place(name, "new");
        updated.violations()
    };
    let first = || updating(json!({"partition": 2})).updated_in_place("web-2", "new");
    assert_eq!(first().violations(), [""; 0]);
    assert_eq!(
        first()
            .ready("web-2")
            .updated_in_place("web-1", "new")
            .violations(),
        [format!("{property}: web-1 is updated")]
    );
    // Without an order it is the number that counts.
    let unordered = |partition| json!({"partition": partition, "unorderedUpdate": {}});
    assert_eq!(updated(unordered(2), "web-0"), [""; 0]);
    assert_eq!(
        updated(unordered(3), "web-0"),
        [format!("{property}: web-0 is updated")]
    );
    let recreated = |revision: &str| {
        let labels = json!({"controller-revision-hash": revision});
        let other = updating(json!({"partition": 4})).created_with("web-3", &labels);
        other.violations()
    };
    assert_eq!(recreated("old"), [""; 0]);
    assert_eq!(recreated("new"), [""; 0], "web-3 is no slot of the set");
    let spec = json!({
        "replicas": 2, "reserveOrdinals": [1], "podManagementPolicy": "Parallel",
        "updateStrategy": {"rollingUpdate": {"partition": 2}},
    });
    let status = json!({"currentRevision": "old", "updateRevision": "new"});
    let new = json!({"controller-revision-hash": "new"});
    let created = Journal::of(OWNER, spec, status).created_with("web-2", &new);
    assert_eq!(
        created.violations(),
        [format!("{property}: web-2 is created")],
        "what is reserved does not count for a new pod"
    );
}

#[test]
fn pods_are_updated_from_the_highest_ordinal_down() {
    let updated = |journal: Journal| journal.updated_in_place("web-1", "new").violations();
    let overtaken = ["ordered start, stop and update: web-1 is updated before web-2"];
    assert_eq!(updated(updating(json!({}))), overtaken);
    assert_eq!(updating(json!({})).deleted("web-1").violations(), overtaken);
    assert_eq!(updated(updating(json!({"unorderedUpdate": {}}))), [""; 0]);
    let both = json!({"maxUnavailable": 2});
    let second = || updating(both.clone()).updated_in_place("web-2", "new");
    assert_eq!(updated(second()), [""; 0]);
    let kept = updating(json!({"maxUnavailable": 2, "partition": 3}));
    let kept = kept.deleted("web-1").violations();
    assert_eq!(kept, [""; 0], "the partition keeps web-2");
    for state in ["PreparingUpdate", "PreparingDelete"] {
        let held = updating(both.clone()).changed(OWNER.controller, "web-2", |pod| {
            pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] = state.into();
        });
        assert_eq!(updated(held), [""; 0], "a hook holds web-2 back");
    }
    let chosen = updating(json!({})).changed("kubectl", "web-1", |pod| {
        pod["metadata"]["labels"]["apps.kruise.io/specified-delete"] = "true".into();
    });
    assert_eq!(
        chosen.deleted("web-1").violations(),
        [""; 0],
        "somebody asked for it"
    );
}

#[test]
fn claims_that_grow_keep_no_pod_from_its_update() {
    let spec = |claims: &str| {
        json!({
            "replicas": 2, "podManagementPolicy": "Parallel",
            "volumeClaimUpdateStrategy": {"type": claims},
        })
    };
    let updated = |claims: &str| {
        let status = json!({"currentRevision": "old", "updateRevision": "new"});
        let mut journal = Journal::of(OWNER, spec(claims), status);
        for name in ["web-0", "web-1"] {
            let old = json!({"controller-revision-hash": "old"});
            journal = journal.created_with(name, &old).ready(name);
        }
        journal.updated_in_place("web-0", "new").violations()
    };
    assert_eq!(updated("OnPodRollingUpdate"), [""; 0]);
    assert_eq!(updated("OnDelete").len(), 1);
}

#[test]
fn an_update_waits_for_pods_that_are_not_ready_any_more_unless_parallel() {
    let updated = |policy: &str| {
        let spec = json!({"replicas": 2, "podManagementPolicy": policy});
        let set = of_set(spec).created("web-0").ready("web-0");
        let both = set.created("web-1").ready("web-1").unready("web-0");
        both.updated_in_place("web-1", "new").violations()
    };
    let ordered = updated("OrderedReady");
    let property = "ordered start, stop and update";
    assert_eq!(
        ordered[0],
        format!("{property}: web-1 is updated, and ordinal 0 is not ready")
    );
    let parallel = updated("Parallel");
    assert!(
        !parallel.iter().any(|one| one.starts_with(property)),
        "{parallel:?}"
    );
}

//! Each property reports forbidden behavior and accepts allowed behavior.

use serde_json::{Value, json};

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
    let created = |reserved, name| of_set(parallel(reserved)).created(name).told();
    assert_eq!(created(json!([1]), "web-2"), [""; 0]);
    let told = ["no pod at a reserved ordinal: web-1 is created"];
    assert_eq!(created(json!([1]), "web-1"), told);
    assert_eq!(created(json!(["0-3"]), "web-1"), told);
    // The controller may not have observed a recent reservation, but it has observed the generation that it reports.
    let (none, one) = (parallel(json!([])), parallel(json!([1])));
    let unseen = of_set(none.clone()).set(2, one.clone(), json!({"observedGeneration": 1}));
    assert_eq!(unseen.created("web-1").told(), [""; 0]);
    let seen = of_set(none).set(2, one, json!({"observedGeneration": 2}));
    assert_eq!(seen.created("web-1").told(), told);
}

#[test]
fn starts_and_stops_are_in_order_over_reserved_ordinals() {
    let set = || of_set(json!({"replicas": 2, "reserveOrdinals": [1]})).created("web-0");
    assert_eq!(set().ready("web-0").created("web-2").told(), [""; 0]);
    let property = "ordered start, stop and update";
    assert_eq!(
        set().created("web-2").told(),
        [format!(
            "{property}: web-2 starts, and ordinal 0 has never been ready"
        )]
    );
    let reserved = json!({"replicas": 1, "reserveOrdinals": [0]});
    let stopped = |name| {
        let both = set().ready("web-0").created("web-2").ready("web-2");
        both.set(2, reserved.clone(), json!({}))
            .deleted(name)
            .told()
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
    assert_eq!(two().updated_in_place("web-1", "new").told(), [""; 0]);
    let told = |verb: &str, down: u32, max: u32| {
        format!(
            "no more unavailable than maxUnavailable: {verb}, {down} are down already, and \
             maxUnavailable is {max}"
        )
    };
    assert_eq!(
        two().deleted("web-1").deleted("web-0").told(),
        [told("web-0 is taken down", 2, 2)]
    );
    let one = || updating(json!({"maxUnavailable": "34%"})).updated_in_place("web-2", "new");
    assert_eq!(
        one().updated_in_place("web-1", "new").told(),
        [told("web-1 is taken down", 1, 1)]
    );
    let again = one().ready("web-2").updated_in_place("web-1", "new");
    assert_eq!(again.told(), [""; 0]);
}

#[test]
fn the_partition_stays_as_it_is() {
    let property = "no pod of the update revision below the partition";
    let updated = |rolling, name| {
        let updated = updating(rolling).updated_in_place(name, "new");
        updated.told()
    };
    assert_eq!(updated(json!({"partition": 2}), "web-2"), [""; 0]);
    assert_eq!(
        updated(json!({"partition": 2}), "web-1"),
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
        other.told()
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
        created.told(),
        [format!("{property}: web-2 is created")],
        "what is reserved does not count for a new pod"
    );
}

//! Decision tables. A pod is written `ordinal+revision+state`, e.g. `2Ar`: web-2 at revision A,
//! ready. States: `r` ready, `u` running but not ready, `p` Pending, `F` Failed, `S` Succeeded,
//! `t` ready and terminating, `x` terminating and no longer ready.

use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;
use crate::apps::statefulset::Settings;

const NOW: &str = "2026-01-01T00:01:00Z";

fn pod(text: &str) -> Arc<Pod> {
    let state = text.chars().next_back().unwrap();
    let revision = &text[text.len() - 2..text.len() - 1];
    let name = format!("web-{}", &text[..text.len() - 2]);
    let (phase, ready) = match state {
        'r' | 't' => ("Running", "True"),
        'u' | 'x' => ("Running", "False"),
        'p' => ("Pending", "False"),
        'F' => ("Failed", "False"),
        'S' => ("Succeeded", "False"),
        _ => panic!("no such state: {text}"),
    };
    let mut value = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid"), "labels": {
            "app": "nginx", "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": name}},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    });
    if matches!(state, 't' | 'x') {
        value["metadata"]["deletionTimestamp"] = json!(NOW);
    }
    Arc::new(from_value(value).unwrap())
}

fn set(spec: Value) -> Set {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": "web", "uid": "set-uid", "generation": 1},
        "spec": {
            "serviceName": "nginx", "replicas": 3, "selector": {"matchLabels": {"app": "nginx"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {"containers": []}}
        }
    });
    for (field, value) in spec.as_object().unwrap().clone() {
        match field.as_str() {
            "status" | "metadata" => {
                for (inner, value) in value.as_object().unwrap().clone() {
                    object[&field][inner] = value;
                }
            }
            _ => object["spec"][&field] = value,
        }
    }
    let object = from_value(object).unwrap();
    Set::parse(&object, None, Settings::default()).unwrap()
}

fn revision(name: &str) -> Revision {
    let template = json!({"metadata": {"labels": {"app": "nginx"}}, "spec": {"containers": []}});
    Revision {
        name: name.to_owned(),
        template: from_value(template).unwrap(),
    }
}

fn plan_with(spec: &Value, pods: &str, claims: &[Value]) -> Plan {
    let set = set(spec.clone());
    let mut pods: Vec<_> = pods.split_whitespace().map(pod).collect();
    pods.sort_by_key(|pod| pod.metadata.name.clone());
    let claims = claims.iter().map(|claim| {
        let claim: PersistentVolumeClaim = from_value(claim).unwrap();
        (claim.metadata.name.clone().unwrap(), Arc::new(claim))
    });
    reconcile(Observed {
        set: &set,
        current: &revision("A"),
        update: &revision("B"),
        collision_count: 0,
        pods: &pods,
        claims: &claims.collect(),
        now: NOW.parse().unwrap(),
    })
}

fn described(action: &Action) -> String {
    match action {
        Action::Create { pod, claims, .. } => {
            format!(
                "{}create {}{}",
                described_claims(claims),
                name(pod),
                pod::revision(pod)
            )
        }
        Action::EnsureClaims { claims, .. } => format!("{}ensure", described_claims(claims)),
        Action::Repair(repair) => format!("repair {}", name(&repair.pod)),
        Action::FixOwners(owners) => format!("fix {}", owners.len()),
        Action::Delete { pod } => format!("delete {pod}"),
        Action::DeleteForUpdate { pod } => format!("update {pod}"),
    }
}

fn described_claims(claims: &[EnsureClaim]) -> String {
    let described = |claim: &EnsureClaim| match claim {
        EnsureClaim::Create(claim) => format!("+{} ", claim.metadata.name.as_deref().unwrap()),
        EnsureClaim::BeingDeleted(name) => format!("!{name} "),
    };
    claims.iter().map(described).collect()
}

/// The plan's actions in order; batches with actions are parted by `|`.
fn actions(plan: &Plan) -> String {
    let batch = |batch: &Batch| {
        batch
            .iter()
            .flatten()
            .map(described)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let batches = plan
        .batches
        .iter()
        .map(batch)
        .filter(|batch| !batch.is_empty());
    batches.collect::<Vec<_>>().join(" | ")
}

fn check(spec: &Value, table: &[(&str, &str)]) {
    for (pods, expected) in table {
        assert_eq!(
            actions(&plan_with(spec, pods, &[])),
            *expected,
            "{spec} {pods}"
        );
    }
}

#[test]
fn ordered_ready_creates_the_next_pod_when_all_before_are_ready() {
    check(
        &json!({}),
        &[
            ("", "create web-0B"),
            ("0Bp", "ensure"),
            ("0Bu", ""),
            ("0Br", "create web-1B"),
            ("0Br 2Br", "create web-1B"),
            ("0Br 1Bt", ""),
            ("0Bx 1Br 2Br", ""),
            ("0Br 1Br 2Br", ""),
        ],
    );
    check(
        &json!({"ordinals": {"start": 5}, "replicas": 2}),
        &[("5Br", "create web-6B")],
    );
}

#[test]
fn parallel_creates_in_batches_that_double() {
    let spec = json!({"podManagementPolicy": "Parallel", "replicas": 8});
    let expected = "create web-0B | create web-1B, create web-2B | create web-3B, create web-4B, \
                    create web-5B, create web-6B | create web-7B";
    check(&spec, &[("", expected)]);
    let spec = json!({"podManagementPolicy": "Parallel"});
    check(
        &spec,
        &[
            ("0Bp 1Bx", "ensure | create web-2B"),
            ("1Bu", "create web-0B | create web-2B"),
        ],
    );
}

#[test]
fn a_finished_pod_is_deleted_now_and_made_again_later() {
    let table = [
        ("0BF 1Br", "delete web-0"),
        ("0Br 1BS 2Br", "delete web-1"),
        ("0Br 2BF", "create web-1B"),
    ];
    check(&json!({}), &table);
}

#[test]
fn condemned_pods_go_from_the_top_one_at_a_time() {
    check(
        &json!({"replicas": 1}),
        &[
            ("0Br 1Br 2Br", "delete web-2"),
            ("0Br 1Br 2Bt", ""),
            ("0Bu 1Br 2Br", ""),
            ("0Br 1Br 2Bu", "delete web-2"),
            ("0Br 1Bu 2Bu", ""),
            ("0Br 9Br 10Br", "delete web-10"),
        ],
    );
    check(
        &json!({"replicas": 0}),
        &[
            ("0Bu 1Bu 2Bu", ""),
            ("0Bu 1Br 2Br", "delete web-2"),
            ("0Bu", "delete web-0"),
        ],
    );
    check(
        &json!({"replicas": 1, "ordinals": {"start": 2}}),
        &[("0Br 2Br 3Br", "delete web-3")],
    );
}

#[test]
fn parallel_condemned_pods_go_at_once_whatever_their_state() {
    let spec = json!({"podManagementPolicy": "Parallel", "replicas": 0});
    check(
        &spec,
        &[(
            "0Bu 1Bt 2Br 3Bp",
            "delete web-3 | delete web-2 | delete web-0",
        )],
    );
}

#[test]
fn a_rolling_update_replaces_one_pod_at_a_time_from_the_top() {
    check(
        &json!({}),
        &[
            ("0Ar 1Ar 2Ar", "update web-2"),
            ("0Ar 1Ar 2At", ""),
            ("0Ar 1Ar", "create web-2B"),
            ("0Ar 1Ar 2Bu", ""),
            ("0Ar 1Ar 2Br", "update web-1"),
            ("0Br 1Br 2Br", ""),
        ],
    );
    let parallel = json!({"podManagementPolicy": "Parallel"});
    check(
        &parallel,
        &[
            ("0Ar 1Ar 2Ar", "update web-2"),
            ("0Ar 1Au 2Br", "update web-1"),
            ("0Ar 1Ar 2Bu", ""),
            ("0Ar 1Ar 2Ar 3Ar", "delete web-3 | update web-2"),
        ],
    );
}

#[test]
fn the_partition_keeps_lower_ordinals_at_the_current_revision() {
    let spec =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let table = [
        ("0Ar 1Ar 2Ar", "update web-2"),
        ("0Ar 1Ar 2Br", ""),
        ("0Ar 2Br", "create web-1A"),
        ("0Ar 1Ar", "create web-2B"),
    ];
    check(&spec, &table);
    let beyond = json!({"updateStrategy": {"rollingUpdate": {"partition": 9}}});
    check(&beyond, &[("0Ar 1Ar 2Ar", ""), ("", "create web-0A")]);
}

#[test]
fn without_a_rolling_update_block_the_stored_count_decides_the_revision() {
    let spec = json!({"updateStrategy": {"type": "RollingUpdate"},
        "status": {"replicas": 3, "currentReplicas": 1}});
    check(
        &spec,
        &[
            ("", "create web-0A"),
            ("0Ar", "create web-1B"),
            ("0Ar 1Ar 2Ar", "update web-2"),
        ],
    );
}

#[test]
fn on_delete_leaves_running_pods_alone() {
    let spec = json!({"updateStrategy": {"type": "OnDelete"}});
    check(&spec, &[("0Ar 1Ar 2Ar", ""), ("0Ar 1Ar", "create web-2B")]);
}

#[test]
fn nothing_happens_to_a_set_that_is_being_deleted() {
    let spec = json!({"metadata": {"deletionTimestamp": NOW}});
    let plan = plan_with(&spec, "0Ar 1Au", &[]);
    assert_eq!(actions(&plan), "");
    assert_eq!(plan.status.counters.replicas, 2);
}

#[test]
fn min_ready_seconds_holds_the_next_pod_back_and_asks_to_come_again() {
    let spec = json!({"minReadySeconds": 90});
    let plan = plan_with(&spec, "0Br", &[]);
    assert_eq!(actions(&plan), "");
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(30)));
    assert_eq!(
        (plan.status.counters.ready, plan.status.counters.available),
        (1, 0)
    );

    let plan = plan_with(&json!({"minReadySeconds": 60}), "0Br", &[]);
    assert_eq!(
        (actions(&plan).as_str(), plan.requeue_after),
        ("create web-1B", None)
    );
}

#[test]
fn the_counters_of_a_rolling_update_follow_upstreams_trace() {
    let table = [
        ("0Ar 1Ar 2Ar", [3, 3, 3, 0]),
        ("0Ar 1Ar 2Ax", [3, 2, 2, 0]),
        ("0Ar 1Ar", [2, 2, 2, 0]),
        ("0Ar 1Ar 2Bp", [3, 2, 2, 1]),
        ("0Ar 1Ar 2Br", [3, 3, 2, 1]),
        ("0Br 1Br 2Br", [3, 3, 0, 3]),
        ("0At 1Br 2Br 3Br", [4, 4, 0, 3]),
    ];
    for (pods, [replicas, ready, current, updated]) in table {
        let counters = Counters {
            replicas,
            ready,
            available: ready,
            current,
            updated,
        };
        assert_eq!(
            plan_with(&json!({}), pods, &[]).status.counters,
            counters,
            "{pods}"
        );
    }
}

#[test]
fn a_complete_rollout_makes_the_update_revision_current() {
    let complete = |spec: Value, pods: &str| {
        let mut status = plan_with(&spec, pods, &[]).status;
        status.complete_rolling_update(&set(spec));
        (status.current_revision, status.counters.current)
    };
    assert_eq!(complete(json!({}), "0Br 1Br 2Br"), ("B".to_owned(), 3));
    assert_eq!(complete(json!({}), "0Br 1Br 2Bu"), ("A".to_owned(), 0));
    assert_eq!(
        complete(json!({"replicas": 4}), "0Br 1Br 2Br"),
        ("A".to_owned(), 0)
    );
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    assert_eq!(complete(on_delete, "0Br 1Br 2Br"), ("A".to_owned(), 0));
}

#[test]
fn a_status_is_written_when_a_counter_a_revision_or_the_generation_differs() {
    let mut status = plan_with(&json!({}), "0Br", &[]).status;
    let stored = status.to_wire();
    assert_eq!(
        serde_json::to_value(&stored).unwrap(),
        json!({"availableReplicas": 1, "collisionCount": 0, "currentRevision": "A",
            "observedGeneration": 1, "readyReplicas": 1, "replicas": 1, "updateRevision": "B",
            "updatedReplicas": 1})
    );
    assert!(!status.differs_from(&stored));
    status.collision_count = 1;
    assert!(
        !status.differs_from(&stored),
        "a collision alone is not written"
    );
    status.observed_generation = 2;
    assert!(status.differs_from(&stored));
    status.observed_generation = 1;
    status.counters.current = -1;
    assert!(status.differs_from(&stored));
    assert_eq!(status.to_wire().current_replicas, Some(-1));
}

fn with_claims(policy: (&str, &str), replicas: i32) -> Value {
    json!({
        "replicas": replicas,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy.0, "whenScaled": policy.1}
    })
}

fn claim(ordinal: i32, owners: &Value, deleting: bool) -> Value {
    let mut claim = json!({"metadata": {
        "namespace": "ns", "name": format!("data-web-{ordinal}"), "ownerReferences": owners}});
    if deleting {
        claim["metadata"]["deletionTimestamp"] = json!(NOW);
    }
    claim
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true,
        "blockOwnerDeletion": true})
}

#[test]
fn claims_are_created_before_their_pod_and_again_for_a_pending_one() {
    let spec = with_claims(("Retain", "Retain"), 1);
    let planned = |pods, claims: &[Value]| actions(&plan_with(&spec, pods, claims));
    assert_eq!(planned("", &[]), "+data-web-0 create web-0B");
    assert_eq!(planned("", &[claim(0, &json!([]), false)]), "create web-0B");
    assert_eq!(
        planned("", &[claim(0, &json!([]), true)]),
        "!data-web-0 create web-0B"
    );
    assert_eq!(planned("0Bp", &[]), "+data-web-0 ensure");
}

#[test]
fn owners_of_claims_follow_the_policy_when_pods_are_up_and_before_they_are_condemned() {
    let spec = with_claims(("Delete", "Delete"), 1);
    let set_owner = json!([owner("StatefulSet", "web", "set-uid")]);
    let claims = [claim(0, &set_owner, false), claim(1, &set_owner, false)];
    let plan = plan_with(&spec, "1Br", &claims);
    assert_eq!(
        actions(&plan),
        "create web-0B",
        "scale down waits for the replicas"
    );

    // Pods of these tables mount nothing, hence the repair.
    let plan = plan_with(&spec, "0Br 1Br", &claims);
    assert_eq!(actions(&plan), "repair web-0 | fix 1 | delete web-1");
    let Action::FixOwners(owners) = &plan.batches[1][0][0] else {
        panic!("not a fix")
    };
    let references = owners[0]
        .update
        .as_ref()
        .unwrap()
        .metadata
        .owner_references
        .clone();
    assert_eq!(references.unwrap()[0].uid, "web-1-uid");
}

#[test]
fn a_slot_waits_while_its_claim_belongs_to_a_pod_that_is_gone() {
    let stale = claim(0, &json!([owner("Pod", "web-0", "gone")]), false);
    let deletes = with_claims(("Retain", "Delete"), 1);
    assert_eq!(
        actions(&plan_with(&deletes, "", std::slice::from_ref(&stale))),
        ""
    );
    let retains = with_claims(("Retain", "Retain"), 1);
    assert_eq!(actions(&plan_with(&retains, "", &[stale])), "create web-0B");
}

#[test]
fn identity_and_storage_are_repaired_once_the_pod_is_up() {
    let spec = with_claims(("Retain", "Retain"), 1);
    let mut wrong = Pod::clone(&pod("0Br"));
    wrong.metadata.labels = None;
    let set = set(spec);
    let claims = BTreeMap::new();
    let observed = Observed {
        set: &set,
        current: &revision("A"),
        update: &revision("B"),
        collision_count: 0,
        pods: &[],
        claims: &claims,
        now: NOW.parse().unwrap(),
    };
    let repair = observed.repair(&wrong).unwrap();
    assert_eq!(described_claims(&repair.claims), "+data-web-0 ");
    let labels = repair.pod.metadata.labels.clone().unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");
    assert!(
        observed.repair(&repair.pod).is_none(),
        "the repaired pod is in order"
    );
}

#[test]
fn a_new_pod_carries_identity_owner_revision_and_its_claims_first() {
    let set = set(with_claims(("Retain", "Retain"), 1));
    let template = json!({
        "metadata": {"labels": {"app": "nginx"}, "annotations": {"a": "b"}},
        "spec": {"containers": [], "volumes": [
            {"name": "tmp", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]}
    });
    let template = from_value(template).unwrap();
    let pod = set
        .identity()
        .new_pod(set.owner_ref(), "web-x", &template, 4);
    assert_eq!(
        serde_json::to_value(pod).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-4", "generateName": "web-", "namespace": "ns",
                "annotations": {"a": "b"},
                "labels": {"app": "nginx", "apps.kubernetes.io/pod-index": "4",
                    "controller-revision-hash": "web-x",
                    "statefulset.kubernetes.io/pod-name": "web-4"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                    "uid": "set-uid", "controller": true, "blockOwnerDeletion": true}]
            },
            "spec": {
                "containers": [], "hostname": "web-4", "subdomain": "nginx",
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-4"}},
                    {"name": "tmp", "emptyDir": {}}]
            }
        })
    );
}

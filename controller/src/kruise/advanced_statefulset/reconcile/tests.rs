use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::super::set::Set;
use super::*;
use crate::kruise::Gates;
use crate::workload::revision_control::Revision;

/// The steps in words, one a line, and the counters that fall.
fn described(plan: &Plan) -> Vec<String> {
    let words = |step: &Step| {
        let what = match &step.action {
            Action::Create { pod, .. } => {
                format!("create {}@{}", pod.name_any(), pod::revision(pod))
            }
            Action::EnsureClaims { pod, .. } => format!("claims of {pod}"),
            Action::Repair(repair) => format!("repair {}", repair.pod.name_any()),
            Action::FixOwners(_) => "owners".to_owned(),
            Action::Delete(pod) => format!("delete {}", pod.name_any()),
            Action::Write(pod, PodWrite::State { state, .. }) => {
                format!("{} {}", pod.name_any(), state.as_str())
            }
            Action::Write(pod, PodWrite::Status(_)) => format!("condition of {}", pod.name_any()),
            Action::Write(pod, _) => format!("write {}", pod.name_any()),
            Action::UpdateInPlace(pod, _) => format!("in place {}", pod.name_any()),
            Action::Resize(pod, _) => format!("claims of {} grow", pod.name_any()),
            Action::Count => "count".to_owned(),
            Action::Fail(error) => format!("fail: {error}"),
        };
        match step.falls {
            Some(counter) => format!("{what} ({counter:?} falls)"),
            None => what,
        }
    };
    plan.steps.iter().map(words).collect()
}

struct Case {
    spec: Value,
    gates: Gates,
}

fn case(replicas: i32, rolling: Value) -> Case {
    let mut rolling = rolling;
    let policy = rolling
        .as_object_mut()
        .and_then(|fields| fields.remove("policy"));
    Case {
        spec: json!({
            "replicas": replicas, "serviceName": "", "selector": {"matchLabels": {"app": "x"}},
            "podManagementPolicy": policy.unwrap_or_else(|| json!("Parallel")),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": template("new"),
        }),
        gates: Gates::default(),
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// `2:O!` is the pod of ordinal 2 at the old revision, not ready; `T` terminating, `x` to delete,
/// `p` PreparingDelete, `F` failed; `=v` labels it with `k: v`.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |word: &str| {
        let (word, label) = word.split_once('=').unwrap_or((word, ""));
        let (ordinal, marks) = word.split_once(':').unwrap();
        let revision = if marks.contains('N') {
            "web-new"
        } else {
            "web-old"
        };
        let name = format!("web-{ordinal}");
        let state = if marks.contains('p') {
            "PreparingDelete"
        } else {
            "Normal"
        };
        let mut value = json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {"app": "x",
                "controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": name,
                "lifecycle.apps.kruise.io/state": state}},
            "spec": {"containers": [{"name": "c", "image": "old"}]},
            "status": {"phase": if marks.contains('F') {"Failed"} else {"Running"}, "conditions": [
                {"type": "Ready", "status": if marks.contains('!') {"False"} else {"True"},
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        if marks.contains('T') {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if marks.contains('x') {
            value["metadata"]["labels"]["apps.kruise.io/specified-delete"] = json!("true");
        }
        if marks.contains('h') {
            value["metadata"]["labels"]["held"] = json!("yes");
        }
        if !label.is_empty() {
            value["metadata"]["labels"]["k"] = json!(label);
        }
        Arc::new(from_value(value).unwrap())
    };
    text.split_whitespace().map(pod).collect()
}

fn plan_for(case: &Case, text: &str) -> Plan {
    plan_with(case, &pods(text))
}

fn plan_with(case: &Case, pods: &[Arc<Pod>]) -> Plan {
    let object = from_value(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": case.spec}));
    let set = Set::parse(&object.unwrap(), case.gates).unwrap();
    let revision = |name: &str, image: &str| -> ControllerRevision {
        from_value(json!({"metadata": {"name": name}, "revision": 1,
            "data": crate::workload::history::legacy_template_data(&template(image))}))
        .unwrap()
    };
    let (old, new) = (revision("web-old", "old"), revision("web-new", "new"));
    let revisions = [old.clone(), new.clone()].map(Arc::new);
    reconcile(Observed {
        set: &set,
        current: &Revision::of(&old).unwrap(),
        update: &Revision::of(&new).unwrap(),
        revisions: &revisions,
        update_object: &new,
        collision_count: 0,
        label_selector: "app=x",
        pods,
        claims: &BTreeMap::new(),
        is_behind: false,
        now: "2026-01-01T00:00:05Z".parse().unwrap(),
    })
}

fn check(case: &Case, text: &str, expected: &[&str]) {
    assert_eq!(described(&plan_for(case, text)), expected, "{text}");
}

/// Vectors of `stateful_update_utils_test.go`, and S003's example.
#[test]
fn pods_are_updated_from_the_top_within_the_limit() {
    let all = case(3, json!({"maxUnavailable": 3}));
    let gone = |ordinals: &[i32]| -> Vec<String> {
        let deleted = ordinals.iter();
        deleted
            .map(|ordinal| format!("delete web-{ordinal} (Current falls)"))
            .collect()
    };
    assert_eq!(described(&plan_for(&all, "0:O 1:O 2:O")), gone(&[2, 1, 0]));

    let mut reserved = case(3, json!({"maxUnavailable": 3, "partition": 2}));
    reserved.spec["reserveOrdinals"] = json!([1, 3]);
    assert_eq!(described(&plan_for(&reserved, "0:O 2:O 4:O")), gone(&[4]));

    let weights = json!({"weightPriority": [{"weight": 5, "matchSelector":
        {"matchLabels": {"none": "such"}}}]});
    let unordered = json!({"maxUnavailable": 10, "partition": 6,
        "unorderedUpdate": {"priorityStrategy": weights}});
    let pods = "0:O 1:O 2:O 3:O 4:O 5:O 6:N 7:N 8:O 9:O";
    assert_eq!(
        described(&plan_for(&case(10, unordered), pods)),
        gone(&[9, 8])
    );

    let example = |partition: i32| case(5, json!({"maxUnavailable": 3, "partition": partition}));
    assert_eq!(
        described(&plan_for(&example(4), "0:O 1:O 2:O 3:O 4:O")),
        gone(&[4])
    );
    assert_eq!(
        described(&plan_for(&example(0), "0:O 1:O 2:O 3:O 4:N")),
        gone(&[3, 2, 1])
    );
    assert_eq!(
        described(&plan_for(&example(0), "0:O 1:N! 2:N! 3:N 4:N")),
        gone(&[0])
    );
}

#[test]
fn an_unready_pod_stops_the_scan_unless_it_is_next() {
    let one = case(5, json!({"maxUnavailable": 1}));
    check(&one, "0:O 1:O! 2:O 3:O 4:O", &[]);
    check(
        &one,
        "0:O 1:O 2:O 3:O 4:O!",
        &["delete web-4 (Current falls)"],
    );
    let mut paused = case(5, json!({"maxUnavailable": 1, "paused": true}));
    check(&paused, "0:O 1:O 2:O 3:O 4:O!", &[]);
    paused.spec["replicas"] = json!(6);
    check(&paused, "0:O 1:O 2:O 3:O 4:O", &["create web-5@web-new"]);
}

#[test]
fn images_change_in_place_where_the_policy_lets_them() {
    let policy = |policy: &str| case(2, json!({"maxUnavailable": 1, "podUpdatePolicy": policy}));
    let in_place = ["in place web-1 (Current falls)"];
    check(&policy("InPlaceIfPossible"), "0:O 1:O", &in_place);
    check(&policy("InPlaceOnly"), "0:O 1:O", &in_place);
    check(
        &policy("ReCreate"),
        "0:O 1:O",
        &["delete web-1 (Current falls)"],
    );
    // A revision that no longer exists.
    let mut lost = pods("0:O 1:O");
    let labels = Arc::make_mut(&mut lost[1]).labels_mut();
    labels.insert("controller-revision-hash".to_owned(), "web-lost".to_owned());
    let refused = "fail: find strategy is InPlaceOnly but Pod web-1 can not update in-place";
    assert_eq!(
        described(&plan_with(&policy("InPlaceOnly"), &lost)),
        [refused]
    );
    assert_eq!(
        described(&plan_with(&policy("InPlaceIfPossible"), &lost)),
        ["delete web-1"]
    );
    let held = policy("InPlaceOnly");
    let with_hook = Case {
        spec: {
            let mut spec = held.spec.clone();
            spec["lifecycle"] = json!({"inPlaceUpdate": {"labelsHandler": {"held": "yes"}}});
            spec
        },
        ..held
    };
    check(
        &with_hook,
        "0:Oh 1:Oh",
        &["web-1 PreparingUpdate (Current falls)"],
    );
}

#[test]
fn pods_to_delete_go_within_the_limit_whatever_the_partition() {
    let case = case(4, json!({"maxUnavailable": 1, "partition": 4}));
    check(
        &case,
        "0:O 1:Ox 2:Ox 3:O",
        &["delete web-2 (Current falls)"],
    );
    check(&case, "0:O 1:Ox 2:O! 3:O", &[]);
    check(&case, "0:O 1:Nx 2:O 3:O", &["delete web-1 (Updated falls)"]);
}

#[test]
fn creation_stops_at_the_scaling_limit_and_the_update_goes_on() {
    let mut case = case(10, json!({"maxUnavailable": 3}));
    case.spec["scaleStrategy"] = json!({"maxUnavailable": 2});
    check(
        &case,
        "0:N 1:N 2:N",
        &["create web-3@web-new", "create web-4@web-new"],
    );
    check(&case, "0:N 1:N 2:N 3:N!", &["create web-4@web-new"]);
    check(&case, "0:N 1:N 2:N 3:N! 4:N!", &[]);
}

#[test]
fn a_partition_counts_pods_below() {
    let mut reserved = case(4, json!({"maxUnavailable": 4, "partition": 2}));
    reserved.spec["reserveOrdinals"] = json!([1]);
    check(
        &reserved,
        "",
        &[
            "create web-0@web-old",
            "create web-2@web-old",
            "create web-3@web-new",
            "create web-4@web-new",
        ],
    );
    let unordered = case(
        3,
        json!({"partition": 1, "unorderedUpdate": {}, "maxUnavailable": 3}),
    );
    check(&unordered, "0:N 1:N", &["create web-2@web-old"]);
    check(&unordered, "0:O 1:N", &["create web-2@web-new"]);
}

#[test]
fn ordered_sets_do_one_thing_at_a_time() {
    let ordered = |replicas| {
        case(
            replicas,
            json!({"policy": "OrderedReady", "maxUnavailable": 1}),
        )
    };
    check(&ordered(3), "", &["create web-0@web-new"]);
    check(&ordered(3), "0:N!", &[]);
    check(&ordered(3), "0:N", &["create web-1@web-new"]);
    check(&ordered(1), "0:N 1:N 2:N", &["delete web-2"]);
    check(&ordered(1), "0:N 1:N 2:NT", &[]);
    check(&ordered(1), "0:F", &["delete web-0"]);
    let mut hooked = ordered(1);
    hooked.spec["lifecycle"] = json!({"preDelete": {"labelsHandler": {"held": "yes"}}});
    check(&hooked, "0:N 1:Nh 2:Nh", &["web-2 PreparingDelete"]);
    check(
        &hooked,
        "0:N 1:Nh 2:Nph",
        &["web-2 PreparingDelete", "web-1 PreparingDelete"],
    );
}

#[test]
fn counters_follow_health_and_revision() {
    let status = plan_for(&case(3, json!({"paused": true})), "0:N 1:N! 2:OT").status;
    let counted = [
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
    ];
    assert_eq!(counted, [3, 2, 2, 0, 2]);
    assert_eq!(status.updated_ready_replicas, Some(1));
}

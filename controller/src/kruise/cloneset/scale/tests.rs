use kube::ResourceExt;
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;
use crate::kruise::Gates;

fn set(spec: Value, gates: Gates) -> Set {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
    spec["template"] = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}});
    let object = from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": {"name": "s", "namespace": "ns", "uid": "u"}, "spec": spec}));
    Set::parse(&object.unwrap(), gates).unwrap()
}

/// `O` and `N` by revision; `!` not ready, `x` to delete, `p` PreparingDelete, `h` held by a hook.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |(index, word): (usize, &str)| {
        let revision = if word.starts_with('N') {
            "s-new"
        } else {
            "s-old"
        };
        let ready = !word.contains('!');
        let mut labels = json!({"app": "x", "controller-revision-hash": revision});
        if word.contains('x') {
            labels["apps.kruise.io/specified-delete"] = json!("true");
        }
        let state = if word.contains('p') {
            "PreparingDelete"
        } else {
            "Normal"
        };
        labels["lifecycle.apps.kruise.io/state"] = json!(state);
        if word.contains('h') {
            labels["held"] = json!("yes");
        }
        let conditions = json!([{"type": "Ready", "status": if ready {"True"} else {"False"},
            "lastTransitionTime": format!("2026-01-01T00:00:{:02}Z", 30 - index)}]);
        let value = json!({"metadata": {"name": format!("s-{index}"), "labels": labels},
            "spec": {"containers": [], "nodeName": "n"},
            "status": {"phase": "Running", "conditions": conditions}});
        Arc::new(from_value(value).unwrap())
    };
    text.split_whitespace().enumerate().map(pod).collect()
}

fn names(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.name_any()).collect()
}

fn with<T>(set: &Set, pods: &[Arc<Pod>], check: impl FnOnce(Observed<'_>) -> T) -> T {
    check(Observed {
        set,
        current_revision: "s-old",
        update_revision: "s-new",
        pods,
        nodes: &BTreeMap::new(),
        now: "2026-01-01T01:00:00Z".parse().unwrap(),
    })
}

fn rolling(replicas: i32, partition: i32, unavailable: Value, surge: i32) -> Value {
    json!({"replicas": replicas, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate":
        {"partition": partition, "maxUnavailable": unavailable, "maxSurge": surge}}})
}

/// Vectors of `cloneset_update_test.go`: how many pods are updated now.
#[test]
fn unavailable_pods_throttle_updates() {
    let all = Gates {
        partition_rollback: true,
        ..Gates::default()
    };
    let table = [
        (rolling(3, 0, json!("20%"), 0), "O O O", 1),
        (rolling(3, 0, json!("20%"), 0), "O O! O", 1),
        (rolling(3, 0, json!("20%"), 0), "O! O O", 1),
        (rolling(10, 0, json!("20%"), 0), "O! O O O O O O O O! N", 2),
        (rolling(3, 2, json!(3), 0), "O! O N", 0),
        (rolling(8, 2, json!(3), 0), "O O O O O O O N", 3),
        (rolling(5, 0, json!(2), 0), "O! O! O! O! O!", 2),
        (rolling(5, 0, json!(2), 0), "O! O! O! N! N!", 0),
        (rolling(5, 0, json!(2), 0), "O! O! O! N N!", 1),
        (rolling(5, 0, json!(2), 1), "O! O! O! O! O! N!", 2),
        (rolling(5, 0, json!(2), 1), "O! O! O! N N! N!", 1),
        (rolling(8, 7, json!(3), 0), "O O O N! N! N! N! N!", 3),
    ];
    for (spec, text, expected) in table {
        let set = set(spec.clone(), all);
        let updated = with(&set, &pods(text), |observed| observed.reconcile_update().0);
        assert_eq!(updated.len(), expected, "{spec} {text}");
    }
}

/// Applies the limit to candidates in the given order, with the same vectors.
#[test]
fn an_available_candidate_stops_the_scan_when_the_budget_is_used() {
    let set = set(rolling(3, 0, json!("20%"), 0), Gates::default());
    let limited = |text: &str, order: Vec<usize>| {
        with(&set, &pods(text), |observed| {
            observed.limited(order, 1, "s-new").len()
        })
    };
    assert_eq!(limited("O O O", vec![0, 1, 2]), 1);
    assert_eq!(limited("O O! O", vec![0, 1, 2]), 0);
    assert_eq!(limited("O! O O", vec![0, 1, 2]), 1);
}

#[test]
fn unready_pods_are_updated_first_and_then_the_latest() {
    let set = set(rolling(5, 0, json!(5), 0), Gates::default());
    let updated = with(&set, &pods("O O O! O N"), |observed| {
        observed.reconcile_update().0
    });
    assert_eq!(names(&updated), ["s-2", "s-0", "s-1", "s-3"]);
}

fn scaled(spec: Value, text: &str) -> String {
    let set = set(spec, Gates::default());
    let plan = with(&set, &pods(text), |observed| observed.reconcile_scale());
    let limit = plan
        .limit
        .map_or(String::new(), |limit| format!(" limit {limit}"));
    let step = match plan.step {
        None => "nothing".to_owned(),
        Some(ScaleStep::Keep(pods)) => format!("keep {}", names(&pods).join(" ")),
        Some(ScaleStep::Create { current, update }) => format!("create {current}+{update}"),
        Some(ScaleStep::Delete(pods)) => format!("delete {}", names(&pods).join(" ")),
    };
    format!("{step}{limit}")
}

#[test]
fn one_thing_is_done_at_a_time() {
    let plain = |replicas: i32| rolling(replicas, 0, json!(1), 0);
    assert_eq!(scaled(plain(3), "N N N"), "nothing");
    assert_eq!(scaled(plain(3), ""), "create 0+3");
    assert_eq!(scaled(rolling(5, 3, json!(1), 0), "O N"), "create 2+1");
    assert_eq!(scaled(plain(3), "Nx N N"), "delete s-0");
    assert_eq!(scaled(plain(3), "Nx Nx N"), "delete s-0", "one at a time");
    assert_eq!(
        scaled(plain(3), "N!x Nx N N N"),
        "delete s-0 s-1",
        "what is asked for goes first"
    );
    assert_eq!(scaled(plain(2), "N N N N"), "delete s-0 s-1");
    assert_eq!(
        scaled(plain(2), "O N N!"),
        "delete s-0",
        "old ones first, though ready"
    );
    assert_eq!(scaled(plain(2), "N N N!"), "delete s-2", "else the unready");
    assert_eq!(
        scaled(plain(2), "N Np N"),
        "delete s-1",
        "nothing holds it any more"
    );
    assert_eq!(scaled(plain(3), "N Np N"), "keep s-1", "it is wanted again");
    let mut limited = plain(5);
    limited["scaleStrategy"] = json!({"maxUnavailable": 2});
    assert_eq!(scaled(limited.clone(), "N N!"), "create 0+1 limit 1");
    assert_eq!(scaled(limited, "N! N!"), "create 0+0 limit 0");
}

#[test]
fn hooks_hold_pods_before_their_deletion() {
    let mut spec = rolling(2, 0, json!(1), 0);
    spec["lifecycle"] = json!({"preDelete": {"labelsHandler": {"held": "yes"}}});
    assert_eq!(
        scaled(spec.clone(), "Nh Nh Nh"),
        "delete s-0",
        "that is, held first"
    );
    assert_eq!(scaled(spec.clone(), "Nph Nh Nh"), "nothing");
    spec["lifecycle"]["preDelete"]["markPodNotReady"] = json!(true);
    spec["replicas"] = json!(3);
    assert_eq!(
        scaled(spec, "Nph Nh Nh"),
        "nothing",
        "it does not come back"
    );
}

#[test]
fn pods_are_named_for_deletion_in_the_spec_too() {
    let mut spec = rolling(2, 0, json!(1), 0);
    spec["scaleStrategy"] = json!({"podsToDelete": ["s-1", "gone"]});
    assert_eq!(scaled(spec, "N N"), "delete s-1");
}

use kubeproof_runtime::decode::from_value;
use serde_json::json;

use super::*;

fn deployment(replicas: i32, surge: &str, unavailable: &str) -> Deployment {
    from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "revisionHistoryLimit": 1, "selector": {}, "template": {},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}
    }))
    .unwrap()
}

/// A set that is asked for `wanted` replicas and has `available` ones, scaled for `noted` replicas.
fn set(name: &str, wanted: i32, available: i32, noted: (i32, i32)) -> ReplicaSet {
    from_value(json!({
        "metadata": {"name": name, "uid": name, "annotations": {
            "deployment.kubernetes.io/desired-replicas": noted.0.to_string(),
            "deployment.kubernetes.io/max-replicas": noted.1.to_string()}},
        "spec": {"replicas": wanted, "selector": {}},
        "status": {"replicas": wanted, "availableReplicas": available},
    }))
    .unwrap()
}

fn described(scales: &[Scale]) -> Vec<String> {
    let described = |scale: &Scale| format!("{}={}", scale.name, scale.replicas);
    scales.iter().map(described).collect()
}

#[test]
fn a_new_set_fills_what_the_surge_leaves_free() {
    let table = [
        // replicas, surge, current, total, expected
        (10, "25%", 0, 10, 3),
        (10, "25%", 3, 13, 3),
        (10, "25%", 5, 11, 7),
        (10, "0%", 0, 10, 0),
        (10, "0%", 0, 8, 2),
        (3, "100%", 0, 3, 3),
        (5, "25%", 0, 0, 5),
    ];
    for (replicas, surge, current, total, expected) in table {
        let deployment = deployment(replicas, surge, "25%");
        assert_eq!(
            new_replicas(&deployment, current, total),
            expected,
            "{current} {total}"
        );
    }
}

#[test]
fn percentages_that_come_to_nothing_leave_one_unavailable() {
    assert_eq!(fenceposts(&deployment(10, "25%", "25%")), (3, 2));
    assert_eq!(fenceposts(&deployment(1, "0%", "25%")), (0, 1));
    assert_eq!(fenceposts(&deployment(0, "0%", "25%")), (0, 0));
    assert_eq!(fenceposts(&deployment(2, "0%", "100%")), (0, 2));
}

#[test]
fn old_sets_lose_unhealthy_replicas_first_and_then_what_is_spare() {
    let table: [(&[ReplicaSet], Option<ReplicaSet>, &[&str]); 6] = [
        // Nothing is available beyond the minimum of 8.
        (
            &[set("a", 8, 8, (10, 13))],
            Some(set("n", 5, 0, (10, 13))),
            &[],
        ),
        (
            &[set("a", 10, 10, (10, 13))],
            Some(set("n", 3, 0, (10, 13))),
            &["a=8"],
        ),
        (
            &[set("a", 8, 8, (10, 13))],
            Some(set("n", 5, 3, (10, 13))),
            &["a=5"],
        ),
        // Crash loops of the old set cost nothing.
        (
            &[set("a", 10, 4, (10, 13))],
            Some(set("n", 3, 3, (10, 13))),
            &["a=5"],
        ),
        (
            &[set("a", 2, 0, (10, 13)), set("b", 8, 8, (10, 13))],
            Some(set("n", 3, 2, (10, 13))),
            &["a=0", "b=6"],
        ),
        // The old set was scaled down just now, and its status still counts those that go.
        (
            &[set("a", 8, 10, (10, 13))],
            Some(set("n", 5, 2, (10, 13))),
            &[],
        ),
    ];
    for (old, new, expected) in table {
        let sets = ReplicaSets {
            new,
            old: old.to_vec(),
        };
        let scales = roll_old_down(&deployment(10, "25%", "25%"), &sets);
        assert_eq!(described(&scales), expected, "{old:?}");
    }
}

#[test]
fn scaling_amid_a_rollout_keeps_proportions() {
    let sets = ReplicaSets {
        new: Some(set("n", 5, 0, (10, 13))),
        old: vec![set("a", 8, 8, (10, 13))],
    };
    assert!(is_scaling(&deployment(15, "3", "2"), &sets));
    assert!(!is_scaling(&deployment(10, "3", "2"), &sets));
    let mut up = deployment(15, "25%", "2");
    let surge = |count| Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(count));
    let set_surge = |deployment: &mut Deployment| {
        let spec = deployment.spec.as_mut().unwrap();
        let strategy = spec.strategy.as_mut().unwrap();
        strategy.rolling_update.as_mut().unwrap().max_surge = surge(3);
    };
    set_surge(&mut up);
    assert_eq!(described(&proportional(&up, &sets)), ["a=11", "n=7"]);
    let mut down = deployment(5, "25%", "2");
    set_surge(&mut down);
    assert_eq!(described(&proportional(&down, &sets)), ["a=5", "n=3"]);
    let mut zero = deployment(0, "25%", "2");
    set_surge(&mut zero);
    assert_eq!(described(&proportional(&zero, &sets)), ["a=0", "n=0"]);
}

#[test]
fn a_single_set_in_use_takes_all_replicas() {
    let new = || Some(set("n", 5, 5, (5, 7)));
    let old = |replicas| vec![set("a", replicas, replicas, (5, 7))];
    let scaled = |new, old| {
        let sets = ReplicaSets { new, old };
        described(&proportional(&deployment(5, "25%", "25%"), &sets))
    };
    assert_eq!(scaled(None, Vec::new()), [""; 0]);
    assert_eq!(scaled(new(), old(0)), [""; 0]);
    assert_eq!(scaled(None, old(3)), ["a=5"]);
    assert_eq!(
        scaled(None, old(0)),
        ["a=5"],
        "the latest, with none in use"
    );
    assert_eq!(scaled(new(), old(3)), ["a=0"], "the new one is saturated");
}

#[test]
fn only_idle_sets_beyond_the_limit_are_cleaned_up() {
    let sets = ReplicaSets {
        new: None,
        old: vec![
            set("a", 0, 0, (5, 7)),
            set("b", 1, 1, (5, 7)),
            set("c", 0, 0, (5, 7)),
            set("d", 0, 0, (5, 7)),
        ],
    };
    let names: Vec<String> = to_clean_up(&deployment(5, "1", "1"), &sets)
        .map(|set| set.name_any())
        .collect();
    assert_eq!(names, ["a", "c"]);
}

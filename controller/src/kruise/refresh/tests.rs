use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;

fn pod(metadata: Value, status: Value) -> Pod {
    from_value(json!({
        "metadata": metadata, "status": status,
        "spec": {"containers": [], "readinessGates": [{"conditionType": READY_CONDITION}]},
    }))
    .unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:00:05.5Z".parse().unwrap()
}

fn lifecycle() -> Lifecycle {
    from_value(json!({
        "preNormal": {"labelsHandler": {"ok": "yes"}},
        "inPlaceUpdate": {"labelsHandler": {"held": "yes"}},
    }))
    .unwrap()
}

fn next(pod: &Pod, lifecycle: Option<&Lifecycle>) -> Option<&'static str> {
    let rules = Rules {
        lifecycle,
        waits_for_node: true,
        update_revision: "s-b",
        now: now(),
    };
    next_state(pod, rules).map(State::as_str)
}

fn labelled(labels: Value) -> Pod {
    pod(json!({"labels": labels}), json!({}))
}

#[test]
fn a_new_pod_is_normal_once_it_has_a_node_or_its_hook_lets_it() {
    let state = "lifecycle.apps.kruise.io/state";
    let new = labelled(json!({state: "PreparingNormal"}));
    assert_eq!(next(&new, None), None);
    let scheduled = pod(
        json!({"labels": {state: "PreparingNormal"}}),
        json!({"conditions": [{"type": "PodScheduled", "status": "True"}]}),
    );
    assert_eq!(next(&scheduled, None), Some("Normal"));
    assert_eq!(next(&scheduled, Some(&lifecycle())), None);
    let hooked = labelled(json!({state: "PreparingNormal", "ok": "yes"}));
    assert_eq!(next(&hooked, Some(&lifecycle())), Some("Normal"));
}

#[test]
fn an_update_passes_through_updated_when_there_are_hooks() {
    let state = "lifecycle.apps.kruise.io/state";
    let table = [
        ("Updating", None, json!({}), Some("Normal")),
        ("Updating", Some(lifecycle()), json!({}), Some("Updated")),
        (
            "Updating",
            Some(lifecycle()),
            json!({"held": "yes"}),
            Some("Normal"),
        ),
        (
            "Updating",
            Some(Lifecycle::default()),
            json!({}),
            Some("Updated"),
        ),
        (
            "Updated",
            Some(Lifecycle::default()),
            json!({}),
            Some("Normal"),
        ),
        ("Updated", Some(lifecycle()), json!({}), None),
        (
            "Updated",
            Some(lifecycle()),
            json!({"held": "yes"}),
            Some("Normal"),
        ),
        (
            "PreparingUpdate",
            Some(lifecycle()),
            json!({"held": "yes"}),
            None,
        ),
        (
            "PreparingUpdate",
            Some(lifecycle()),
            json!({"held": "yes", "controller-revision-hash": "s-b"}),
            Some("Normal"),
        ),
        (
            "PreparingUpdate",
            Some(lifecycle()),
            json!({"controller-revision-hash": "s-b"}),
            Some("Updated"),
        ),
        ("Normal", None, json!({}), None),
        ("PreparingDelete", None, json!({}), None),
    ];
    for (from, lifecycle, mut labels, expected) in table {
        labels[state] = json!(from);
        let pod = labelled(labels.clone());
        assert_eq!(next(&pod, lifecycle.as_ref()), expected, "{from} {labels}");
    }
    assert_eq!(
        next(&labelled(json!({})), None),
        None,
        "no state, no next one"
    );
}

fn writes(pod: &Pod) -> (Vec<PodWrite>, Option<u64>) {
    let rules = Rules {
        lifecycle: None,
        waits_for_node: false,
        update_revision: "s-b",
        now: now(),
    };
    let refresh = refresh(pod, rules).unwrap();
    (refresh.writes, refresh.after.map(|after| after.as_secs()))
}

#[test]
fn a_gated_pod_is_made_ready_unless_an_update_runs() {
    let (new, _) = writes(&labelled(json!({})));
    let [PodWrite::Status(written)] = new.as_slice() else {
        panic!("{new:?}");
    };
    let condition = kubeproof_runtime::pod::condition(written, READY_CONDITION).unwrap();
    assert_eq!(condition.status, "True");
    assert!(writes(written).0.is_empty(), "once is enough");

    let state = r#"{"revision":"s-b","lastContainerStatuses":{"c":{"imageID":"1"}}}"#;
    let updating = pod(
        json!({"annotations": {"apps.kruise.io/inplace-update-state": state}}),
        json!({"containerStatuses": [{"name": "c", "image": "a:1", "imageID": "1", "ready": true,
            "restartCount": 0}]}),
    );
    assert!(writes(&updating).0.is_empty());
}

#[test]
fn a_grace_period_is_waited_for_in_whole_seconds_and_dropped_with_its_revision() {
    let of_revision = |revision: &str| {
        let state = r#"{"revision":"s-b","updateTimestamp":"2026-01-01T00:00:00Z","lastContainerStatuses":null}"#;
        let grace = r#"{"revision":"s-b","graceSeconds":10}"#;
        pod(
            json!({"labels": {"controller-revision-hash": revision}, "annotations": {
                "apps.kruise.io/inplace-update-state": state,
                "apps.kruise.io/inplace-update-grace": grace}}),
            json!({}),
        )
    };
    assert_eq!(writes(&of_revision("s-b")), (vec![], Some(5)));
    let (dropped, after) = writes(&of_revision("s-c"));
    let [PodWrite::Replace(pod)] = dropped.as_slice() else {
        panic!("{dropped:?}");
    };
    assert!(!in_place::is_in_grace(pod) && after.is_none());
}

use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;

const START: &str = "2026-01-01T00:00:00Z";

fn deployment(status: Value) -> Deployment {
    from_value(json!({
        "metadata": {"name": "web", "generation": 2},
        "spec": {"replicas": 4, "progressDeadlineSeconds": 60, "selector": {}, "template": {},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}},
        "status": status,
    }))
    .unwrap()
}

fn set(name: &str, status: Value) -> ReplicaSet {
    let mut set = json!({"metadata": {"name": name}, "spec": {"replicas": 4, "selector": {}},
        "status": {"replicas": 0}});
    for (key, value) in status.as_object().unwrap() {
        set["status"][key] = value.clone();
    }
    from_value(set).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn only(new: ReplicaSet) -> ReplicaSets {
    ReplicaSets {
        new: Some(new),
        old: Vec::new(),
    }
}

/// `type=status reason message updated/transitioned` with seconds since the start.
fn described(status: &DeploymentStatus) -> Vec<String> {
    let seconds = |time: &Option<Time>| {
        let time = time.as_ref().unwrap().0;
        time.duration_since(at(0)).as_secs()
    };
    let described = |one: &DeploymentCondition| {
        format!(
            "{}={} {} {} {}/{}",
            one.type_,
            one.status,
            one.reason.as_deref().unwrap(),
            one.message.as_deref().unwrap(),
            seconds(&one.last_update_time),
            seconds(&one.last_transition_time)
        )
    };
    status.conditions.iter().flatten().map(described).collect()
}

fn with(status: DeploymentStatus) -> Deployment {
    deployment(serde_json::to_value(status).unwrap())
}

#[test]
fn a_rollout_reports_its_progress_and_completion() {
    let created = condition(
        PROGRESSING,
        "True",
        "NewReplicaSetCreated",
        "Created",
        at(0),
    );
    let mut status = DeploymentStatus::default();
    super::set(&mut status, created);
    let begun = only(set(
        "web-1",
        json!({"replicas": 4, "readyReplicas": 2,
        "availableReplicas": 2, "terminatingReplicas": 0}),
    ));
    let status = compute_rollout(&with(status), &begun, at(5));
    let expected = [
        "Available=False MinimumReplicasUnavailable Deployment does not have minimum \
         availability. 5/5",
        "Progressing=True ReplicaSetUpdated ReplicaSet \"web-1\" is progressing. 5/0",
    ];
    assert_eq!(described(&status), expected);
    assert_eq!(status.unavailable_replicas, Some(2));
    assert_eq!(status.terminating_replicas, Some(0));

    let complete = only(set(
        "web-1",
        json!({"replicas": 4, "readyReplicas": 4,
        "availableReplicas": 4}),
    ));
    let status = compute_rollout(&with(status), &complete, at(9));
    let expected = [
        "Available=True MinimumReplicasAvailable Deployment has minimum availability. 9/9",
        "Progressing=True NewReplicaSetAvailable ReplicaSet \"web-1\" has successfully \
         progressed. 9/0",
    ];
    assert_eq!(described(&status), expected);
    assert_eq!(status.terminating_replicas, None, "not reported by the set");
    assert_eq!(
        compute_rollout(&with(status.clone()), &complete, at(99)),
        status
    );
}

#[test]
fn a_rollout_that_stands_still_times_out() {
    let mut status = DeploymentStatus::default();
    let created = condition(
        PROGRESSING,
        "True",
        "NewReplicaSetCreated",
        "Created",
        at(0),
    );
    super::set(&mut status, created);
    let stuck = only(set("web-1", json!({})));
    let status = compute_rollout(&with(status), &stuck, at(60));
    assert!(described(&status)[0].starts_with("Progressing=True NewReplicaSetCreated"));
    let stood = with(status.clone());
    let left = Requeue::After(Duration::from_secs(41));
    assert_eq!(requeue_stuck(&stood, &status, at(20)), Some(left));
    let again = requeue_stuck(&stood, &status, at(60));
    assert_eq!(again, Some(Requeue::RateLimited));
    let status = compute_rollout(&stood, &stuck, at(61));
    let last = described(&status).pop();
    let expected = "Progressing=False ProgressDeadlineExceeded ReplicaSet \"web-1\" has timed out \
        progressing. 61/61";
    assert_eq!(last.as_deref(), Some(expected));
    assert_eq!(requeue_stuck(&with(status.clone()), &status, at(61)), None);
}

#[test]
fn pausing_stops_the_clock_unless_time_is_up() {
    let mut paused = deployment(json!({}));
    paused.spec.as_mut().unwrap().paused = Some(true);
    let condition = paused_or_resumed(&paused, at(1)).unwrap();
    assert_eq!(
        (&*condition.status, condition.reason.as_deref()),
        ("Unknown", Some(PAUSED))
    );
    let status = DeploymentStatus {
        conditions: Some(vec![condition]),
        ..DeploymentStatus::default()
    };
    paused.status = Some(status.clone());
    assert_eq!(
        paused_or_resumed(&paused, at(2)),
        None,
        "the condition is set already"
    );
    let condition = paused_or_resumed(&with(status), at(3)).unwrap();
    assert_eq!(condition.reason.as_deref(), Some("DeploymentResumed"));
    let late = json!({"conditions": [{"type": "Progressing", "status": "False",
        "reason": TIMED_OUT}]});
    let mut late = deployment(late);
    late.spec.as_mut().unwrap().paused = Some(true);
    assert_eq!(paused_or_resumed(&late, at(4)), None);
}

#[test]
fn failing_replicas_of_the_new_set_are_reported_first() {
    let failing = |name: &str| {
        let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": name, "lastTransitionTime": START});
        set(name, json!({"conditions": [condition]}))
    };
    let sets = ReplicaSets {
        new: Some(failing("new")),
        old: vec![failing("old")],
    };
    let status = compute_rollout(&deployment(json!({})), &sets, at(1));
    let last = described(&status).pop();
    assert_eq!(
        last.as_deref(),
        Some("ReplicaFailure=True FailedCreate new 0/0")
    );
    let healthy = only(set("new", json!({})));
    let status = compute_rollout(&with(status), &healthy, at(2));
    assert!(find(&status, REPLICA_FAILURE).is_none());
}

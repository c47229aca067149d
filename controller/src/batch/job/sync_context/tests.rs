use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:01:00Z";

/// A job of `spec` and `status`, and its pods, each tracked unless it says otherwise.
pub(in crate::batch::job) fn context(spec: Value, status: Value, pods: &[Value]) -> SyncContext {
    let mut job = json!({"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "spec": spec,
                         "status": status});
    if job["spec"]["template"].is_null() {
        job["spec"]["template"] = json!({});
    }
    SyncContext::of(Known {
        job: from_value(job).unwrap(),
        pods: pods.iter().map(pod).collect(),
        backoff: Record::default(),
        now: NOW.parse().unwrap(),
    })
}

fn pod(pod: &Value) -> Arc<Pod> {
    let name = pod["name"].clone();
    let mut metadata = json!({"name": name, "namespace": "ns", "uid": name,
        "finalizers": ["batch.kubernetes.io/job-tracking"], "annotations": {}});
    if pod["counted"] == true {
        metadata["finalizers"] = json!([]);
    }
    if let Some(index) = pod["index"].as_u64() {
        metadata["annotations"]["batch.kubernetes.io/job-completion-index"] =
            json!(index.to_string());
    }
    if let Some(failures) = pod["failures"].as_u64() {
        metadata["annotations"]["batch.kubernetes.io/job-index-failure-count"] =
            json!(failures.to_string());
    }
    if pod["leaving"] == true {
        metadata["deletionTimestamp"] = json!(NOW);
    }
    let statuses: Vec<Value> = pod["restarts"]
        .as_i64()
        .map(|restarts| {
            json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": restarts})
        })
        .into_iter()
        .collect();
    Arc::new(
        from_value(json!({"metadata": metadata,
            "status": {"phase": pod["phase"], "containerStatuses": statuses}}))
        .unwrap(),
    )
}

/// Type and reason of the condition with which a job is to end.
type FinishedCondition<'a> = Option<(&'a str, &'a str)>;

fn finished_condition(context: &SyncContext) -> FinishedCondition<'_> {
    let finished_condition = context.finished_condition.as_ref()?;
    Some((
        finished_condition.type_.as_str(),
        finished_condition.reason.as_deref().unwrap_or_default(),
    ))
}

#[test]
fn pods_are_counted_once_whether_noted_counted_or_new() {
    let status = json!({"succeeded": 2, "failed": 1,
        "uncountedTerminatedPods": {"succeeded": ["noted"], "failed": ["gone"]}});
    let context = context(
        json!({"completions": 9}),
        status,
        &[
            json!({"name": "noted", "phase": "Succeeded"}),
            json!({"name": "new", "phase": "Succeeded"}),
            json!({"name": "old", "phase": "Succeeded", "counted": true}),
            json!({"name": "bad", "phase": "Failed"}),
            json!({"name": "runs", "phase": "Running"}),
            json!({"name": "leaves", "phase": "Running", "leaving": true}),
        ],
    );
    assert_eq!(
        (context.succeeded, context.failed),
        (4, 4),
        "a pod that leaves has failed"
    );
    assert_eq!((context.active.len(), context.terminating), (1, 1));
    assert_eq!(finished_condition(&context), None);
}

#[test]
fn a_pod_that_leaves_has_not_failed_where_only_failed_ones_are_replaced() {
    let spec = json!({"completions": 9, "podReplacementPolicy": "Failed"});
    let context = context(
        spec,
        json!({}),
        &[json!({"name": "a", "phase": "Running", "leaving": true})],
    );
    assert_eq!((context.failed, context.terminating), (0, 1));
}

#[test]
fn limits_end_a_job() {
    let on_failure = json!({"spec": {"containers": [], "restartPolicy": "OnFailure"}});
    let started = json!({"startTime": "2026-01-01T00:00:30Z"});
    let failed = [json!({"name": "a", "phase": "Failed"})];
    let restarted = [json!({"name": "a", "phase": "Running", "restarts": 2})];
    let exceeded = Some((FAILURE_TARGET, "BackoffLimitExceeded"));
    let table: [(Value, Value, &[Value], FinishedCondition); 8] = [
        (json!({"backoffLimit": 0}), json!({}), &failed, exceeded),
        (json!({"backoffLimit": 1}), json!({}), &failed, None),
        (
            json!({"backoffLimit": 1}),
            json!({"failed": 1}),
            &failed,
            exceeded,
        ),
        (
            json!({"backoffLimit": 2, "template": on_failure}),
            json!({}),
            &restarted,
            exceeded,
        ),
        (
            json!({"backoffLimit": 3, "template": on_failure}),
            json!({}),
            &restarted,
            None,
        ),
        (
            json!({"activeDeadlineSeconds": 30}),
            started.clone(),
            &[],
            Some((FAILURE_TARGET, "DeadlineExceeded")),
        ),
        (
            json!({"activeDeadlineSeconds": 31}),
            started.clone(),
            &[],
            None,
        ),
        (
            json!({"activeDeadlineSeconds": 30, "suspend": true}),
            started,
            &[],
            None,
        ),
    ];
    for (spec, status, pods, wanted) in table {
        let context = context(spec.clone(), status, pods);
        assert_eq!(finished_condition(&context), wanted, "{spec}");
    }
}

#[test]
fn what_was_announced_is_what_happens() {
    let announced = |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "Because", "message": "m"}]});
    let failed = [json!({"name": "a", "phase": "Failed"})];
    let spec = || json!({"backoffLimit": 0});
    let target = context(spec(), announced(FAILURE_TARGET), &failed);
    assert_eq!(
        finished_condition(&target),
        Some((condition::FAILED, "Because"))
    );
    let met = context(spec(), announced(SUCCESS_CRITERIA_MET), &failed);
    assert_eq!(
        finished_condition(&met),
        Some((SUCCESS_CRITERIA_MET, "Because"))
    );
}

#[test]
fn indexes_fail_and_wait_by_themselves() {
    let spec = |more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4,
                              "backoffLimitPerIndex": 1});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        spec
    };
    let pods = [
        json!({"name": "a", "phase": "Succeeded", "index": 0}),
        json!({"name": "b", "phase": "Failed", "index": 1, "failures": 1}),
        json!({"name": "c", "phase": "Failed", "index": 2, "failures": 0}),
        json!({"name": "d", "phase": "Failed", "index": 3, "failures": 0}),
        json!({"name": "e", "phase": "Running", "index": 3, "failures": 1}),
        json!({"name": "f", "phase": "Failed", "index": 7}),
    ];
    let all = context(spec(json!({})), json!({}), &pods);
    let indexes = all.indexes.as_ref().unwrap();
    assert_eq!(indexes.succeeded.to_string(), "0");
    assert_eq!(indexes.failed.as_ref().unwrap().to_string(), "1");
    let waiting: Vec<&usize> = indexes.replaced.keys().collect();
    assert_eq!(waiting, [&2], "index 3 has its replacement already");
    assert_eq!(all.pending_indexes(9), [2]);
    assert_eq!(finished_condition(&all), None);

    let few = context(spec(json!({"maxFailedIndexes": 0})), json!({}), &pods);
    assert_eq!(
        finished_condition(&few),
        Some((FAILURE_TARGET, "MaxFailedIndexesExceeded"))
    );
    let done = json!({"completedIndexes": "2,3"});
    let over = context(spec(json!({})), done, &pods[..2]);
    assert_eq!(
        finished_condition(&over),
        Some((FAILURE_TARGET, "FailedIndexes"))
    );
}

#[test]
fn as_many_pods_are_wanted_as_are_left_to_succeed() {
    let wanted = |spec: Value, succeeded: usize, active: usize| {
        let running: Vec<Value> = (0..active)
            .map(|at| json!({"name": format!("p{at}"), "phase": "Running"}))
            .collect();
        context(spec, json!({"succeeded": succeeded}), &running).wanted()
    };
    assert_eq!(wanted(json!({"parallelism": 3}), 0, 1), 3);
    assert_eq!(
        wanted(json!({"parallelism": 3}), 1, 2),
        2,
        "no others begin"
    );
    assert_eq!(wanted(json!({"parallelism": 3, "completions": 5}), 1, 0), 3);
    assert_eq!(wanted(json!({"parallelism": 3, "completions": 5}), 4, 3), 1);
    assert_eq!(wanted(json!({"parallelism": 3, "completions": 5}), 7, 0), 0);
    assert_eq!(wanted(json!({"parallelism": 0}), 0, 2), 0);
}

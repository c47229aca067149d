//! Statuses that a Job may have.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::causes;
use crate::support::requests::send;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// A server with a job `x` of this spec, to which a template is added.
async fn with_job(mut spec: Value) -> ApiServer {
    let server = ApiServer::builder().build();
    spec["template"] = json!({ "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
    } });
    let job = json!({ "metadata": { "name": "x" }, "spec": spec });
    let created = send(&server, &format!("POST {JOBS}"), job).await;
    assert_eq!(created.code, 201, "{}", created.message());
    server
}

async fn taken(server: &ApiServer, status: Value) {
    let status = json!({ "status": status });
    let answer = send(server, &format!("PATCH {JOBS}/x/status"), status).await;
    assert_eq!(answer.code, 200, "{}", answer.message());
}

async fn refused(server: &ApiServer, status: Value) -> Vec<String> {
    let status = json!({ "status": status });
    causes(&send(server, &format!("PATCH {JOBS}/x/status"), status).await)
}

#[tokio::test]
async fn a_start_is_stated_once() {
    let server = with_job(json!({})).await;
    taken(&server, json!({ "startTime": "2024-01-01T00:00:00Z" })).await;
    let detail = "field is immutable for unsuspended job once set";
    assert_eq!(
        refused(&server, json!({ "startTime": null })).await,
        [format!("status.startTime: Invalid value: null: {detail}")]
    );
    assert_eq!(
        refused(&server, json!({ "startTime": "2024-01-02T00:00:00Z" })).await,
        [format!(
            "status.startTime: Invalid value: \"2024-01-02T00:00:00Z\": {detail}"
        )]
    );
}

#[tokio::test]
async fn a_pod_is_uncounted_once() {
    let server = with_job(json!({})).await;
    let uncounted = json!({ "succeeded": ["a", "a"], "failed": ["a", ""] });
    let status = json!({ "uncountedTerminatedPods": uncounted });
    assert_eq!(
        refused(&server, status).await,
        [
            "status.uncountedTerminatedPods.succeeded[1]: Duplicate value: \"a\"",
            "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            "status.uncountedTerminatedPods.failed[1]: Invalid value: \"\": must not be empty",
        ]
    );
}

#[tokio::test]
async fn indexes_are_of_the_job_and_are_either_completed_or_failed() {
    let spec = json!({ "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1 });
    let server = with_job(spec).await;
    assert_eq!(
        refused(&server, json!({ "completedIndexes": "0-9" })).await,
        [
            "status.completedIndexes: Invalid value: \"0-9\": error parsing completedIndexes: too \
             large index: \"9\""
        ]
    );
    let both = json!({ "completedIndexes": "0,1", "failedIndexes": "1-2" });
    assert_eq!(
        refused(&server, both).await,
        [
            "status.failedIndexes: Invalid value: \"1-2\": failedIndexes and completedIndexes \
             overlap at index: 1"
        ]
    );
}

#[tokio::test]
async fn an_end_is_reported_in_upstream_s_order_and_stays() {
    let server = with_job(json!({})).await;
    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    let complete = json!({ "active": 1, "conditions": [condition("Complete")] });
    assert_eq!(
        refused(&server, complete).await,
        [
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.conditions: Invalid value: cannot set Complete=True condition without the \
             SuccessCriteriaMet=true condition",
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
            "status.startTime: Required value: startTime is required for finished job",
        ]
    );
    let failed = [condition("FailureTarget"), condition("Failed")];
    let status = json!({ "startTime": "2024-01-01T00:00:00Z", "conditions": failed });
    taken(&server, status).await;
    assert_eq!(
        refused(&server, json!({ "conditions": [] })).await,
        [
            "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True \
             condition",
        ]
    );
}

#[tokio::test]
async fn a_job_with_a_drawn_name_labels_its_pods_with_it() {
    let server = ApiServer::builder().build();
    let job = json!({ "metadata": { "generateName": "g-" }, "spec": { "template": { "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
    } } } });
    let created = send(&server, &format!("POST {JOBS}"), job).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let labels = &created.body["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["job-name"], created.body["metadata"]["name"]);
}

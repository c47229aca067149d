use serde_json::{Value, json};

use super::super::sync_context::tests::context;
use super::*;

fn status(context: &SyncContext) -> Value {
    serde_json::to_value(context.job.status.as_ref().unwrap()).unwrap()
}

fn released(counted: &Counted) -> Vec<String> {
    counted.release.iter().map(|pod| pod.name_any()).collect()
}

#[test]
fn what_has_ended_is_noted_before_it_is_let_go_and_counted_when_it_is_gone() {
    let before = json!({"succeeded": 1,
        "uncountedTerminatedPods": {"succeeded": ["gone", "noted"]}});
    let mut context = context(
        json!({"completions": 9}),
        before,
        &[
            json!({"name": "bad", "phase": "Failed"}),
            json!({"name": "good", "phase": "Succeeded"}),
            json!({"name": "noted", "phase": "Succeeded"}),
            json!({"name": "old", "phase": "Succeeded", "counted": true}),
            json!({"name": "runs", "phase": "Running"}),
        ],
    );
    let mut counted = count(&mut context);
    assert!(counted.is_changed);
    assert_eq!(released(&counted), ["bad", "good", "noted"]);
    let noted = status(&context);
    assert_eq!(noted["succeeded"], 2, "the one that is gone");
    let uncounted = json!({"succeeded": ["noted", "good"], "failed": ["bad"]});
    assert_eq!(noted["uncountedTerminatedPods"], uncounted);

    counted.held.remove("good");
    counted.held.remove("bad");
    assert!(settle(spec::status(&mut context.job), &counted.held));
    let settled = status(&context);
    assert_eq!(
        (&settled["succeeded"], &settled["failed"]),
        (&json!(3), &json!(1))
    );
    let left = json!({"succeeded": ["noted"], "failed": []});
    assert_eq!(settled["uncountedTerminatedPods"], left);
    assert!(!settle(spec::status(&mut context.job), &counted.held));
}

#[test]
fn indexes_are_noted_instead_of_uids_and_a_failed_pod_waits_for_its_replacement() {
    let mut context = context(
        json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 2}),
        json!({"completedIndexes": "2", "succeeded": 1, "failedIndexes": ""}),
        &[
            json!({"name": "a", "phase": "Succeeded", "index": 1}),
            json!({"name": "b", "phase": "Failed", "index": 0}),
            json!({"name": "c", "phase": "Succeeded", "index": 2}),
        ],
    );
    let counted = count(&mut context);
    assert_eq!(released(&counted), ["a", "c"]);
    let noted = status(&context);
    assert_eq!(noted["completedIndexes"], "1,2");
    assert_eq!(noted["succeeded"], 2);
    assert_eq!(noted["failedIndexes"], "");
    assert_eq!(noted["uncountedTerminatedPods"]["failed"], json!([]));
}

#[test]
fn a_job_that_has_failed_takes_its_running_pods_with_it() {
    let mut context = context(
        json!({"backoffLimit": 0}),
        json!({}),
        &[
            json!({"name": "bad", "phase": "Failed"}),
            json!({"name": "runs", "phase": "Running"}),
        ],
    );
    let counted = count(&mut context);
    assert_eq!(released(&counted), ["bad", "runs"]);
    let noted = status(&context);
    assert_eq!(
        noted["uncountedTerminatedPods"]["failed"],
        json!(["bad", "runs"])
    );
    assert_eq!(noted["conditions"][0]["type"], "FailureTarget");
    assert_eq!(context.finished_condition.as_ref().unwrap().type_, "Failed");

    assert!(!conclude(&mut context), "not while pods are uncounted");
    settle(spec::status(&mut context.job), &BTreeSet::new());
    context.terminating = 1;
    assert!(!conclude(&mut context), "nor while one is on its way out");
    context.terminating = 0;
    assert!(conclude(&mut context));
    assert_eq!(
        status(&context)["conditions"][1]["reason"],
        "BackoffLimitExceeded"
    );
}

#[test]
fn no_more_are_noted_than_a_status_shall_hold() {
    let pods: Vec<Value> = (0..UNCOUNTED_MAX + 5)
        .map(|at| json!({"name": format!("p{at:04}"), "phase": "Succeeded"}))
        .collect();
    let mut context = context(json!({"completions": 1000}), json!({}), &pods);
    let counted = count(&mut context);
    assert!(counted.is_full);
    assert_eq!(counted.release.len(), UNCOUNTED_MAX);
}

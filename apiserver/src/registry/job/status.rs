//! Faults of a write of a Job's status.

use serde_json::Value;

use super::super::checks::{is_empty, items, not_negative, text};
use crate::status::{CauseReason, FieldErrors, FieldPath};

pub(super) fn validate_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let (status, before) = (&new["status"], &old["status"]);
    let numbers = ["active", "succeeded", "failed", "ready", "terminating"];
    not_negative(status, &numbers, &path, &mut errors);
    validate_times(status, &path, &mut errors);
    validate_counters(status, before, &path, &mut errors);
    validate_indexes(new, &path, &mut errors);
    validate_finished(status, &path, &mut errors);
    if is_true(status, "Complete") && !is_true(status, "SuccessCriteriaMet") {
        let detail =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        conditions_fault(detail, &path, &mut errors);
    }
    if is_true(status, "Failed") && !is_true(status, "FailureTarget") {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        conditions_fault(detail, &path, &mut errors);
    }
    if is_true(status, "Complete") && is_true(status, "Failed") {
        let detail = "cannot set Complete=True and Failed=true conditions";
        conditions_fault(detail, &path, &mut errors);
    }
    for kind in ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"] {
        if is_true(before, kind) && !is_true(status, kind) {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            conditions_fault(&detail, &path, &mut errors);
        }
    }
    errors
}

fn conditions_fault(detail: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let message = format!("Invalid value: {detail}");
    errors.push(CauseReason::Invalid, &path.child("conditions"), message);
}

fn is_true(status: &Value, kind: &str) -> bool {
    items(&status["conditions"])
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn validate_times(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let time = &status["completionTime"];
    let path = path.child("completionTime");
    if time.is_null() {
        return;
    }
    if !is_true(status, "Complete") {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.invalid(&path, time, detail);
    }
    // Times of one form and zone compare as texts.
    if !status["startTime"].is_null() && text(time) < text(&status["startTime"]) {
        errors.invalid(&path, time, "must be equal to or after `startTime`");
    }
}

fn validate_counters(status: &Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let count = |status: &Value, field: &str| status[field].as_i64().unwrap_or(0);
    for field in ["failed", "succeeded"] {
        if count(status, field) < count(before, field) {
            let detail = format!("cannot decrease the {field} counter");
            errors.invalid(&path.child(field), &status[field], &detail);
        }
    }
    let active = count(status, "active");
    if active >= 0 && count(status, "ready") > active {
        let detail = "cannot set more ready pods than active";
        errors.invalid(&path.child("ready"), &status["ready"], detail);
    }
}

fn validate_indexes(job: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (spec, status) = (&job["spec"], &job["status"]);
    let completed = &status["completedIndexes"];
    if !text(completed).is_empty() && spec["completionMode"] != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&path.child("completedIndexes"), completed, detail);
    }
    let failed = &status["failedIndexes"];
    if !failed.is_null() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&path.child("failedIndexes"), failed, detail);
    }
}

fn validate_finished(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let complete = is_true(status, "Complete");
    if !complete && !is_true(status, "Failed") {
        return;
    }
    let running = ["active", "terminating"];
    for field in running {
        if status[field].as_i64().is_some_and(|count| count > 0) {
            let detail = format!("{field}>0 is invalid for finished job");
            errors.invalid(&path.child(field), &status[field], &detail);
        }
    }
    if status["startTime"].is_null() {
        let detail = "startTime is required for finished job";
        errors.required(&path.child("startTime"), detail);
    }
    if complete && status["completionTime"].is_null() {
        let detail = "completionTime is required for Complete jobs";
        errors.required(&path.child("completionTime"), detail);
    }
    let uncounted = &status["uncountedTerminatedPods"];
    if !is_empty(&uncounted["succeeded"]) || !is_empty(&uncounted["failed"]) {
        let detail = "uncountedTerminatedPods needs to be empty for finished job";
        let path = path.child("uncountedTerminatedPods");
        errors.invalid(&path, uncounted, detail);
    }
}

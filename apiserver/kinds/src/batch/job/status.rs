//! Faults of a write of a Job's status.
//!
//! Most rules apply only to changed fields: a status that already breaks a rule, as it may after a
//! change of the spec, can still be written.

use super::policies::{count_of_indexes, interval};
use crate::json::Value;
use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::not_negative;

pub(super) fn validate_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let (status, before) = (&new["status"], &old["status"]);
    let numbers = ["active", "succeeded", "failed", "ready", "terminating"];
    not_negative(status, &numbers, &path, &mut errors);
    validate_uncounted(&status["uncountedTerminatedPods"], &path, &mut errors);
    validate_ends(status, before, &path, &mut errors);
    validate_finished(new, before, &path, &mut errors);
    validate_indexes(new, before, &path, &mut errors);
    validate_running(status, before, &path, &mut errors);
    validate_success(new, &path, &mut errors);
    validate_change(new, old, &path, &mut errors);
    errors
}

fn conditions_fault(detail: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let message = format!("Invalid value: {detail}");
    errors.push(CauseReason::Invalid, &path.child("conditions"), message);
}

fn has(status: &Value, kind: &str, wanted: &str) -> bool {
    items(&status["conditions"])
        .any(|condition| condition["type"] == kind && condition["status"] == wanted)
}

fn is_true(status: &Value, kind: &str) -> bool {
    has(status, kind, "True")
}

fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

fn count(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

/// A pod is listed once, under `succeeded` or `failed`.
fn validate_uncounted(uncounted: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("uncountedTerminatedPods");
    let mut seen: Vec<&str> = Vec::new();
    for field in ["succeeded", "failed"] {
        for (index, uid) in items(&uncounted[field]).enumerate() {
            let path = path.child(field).index(index);
            if text(uid).is_empty() {
                errors.invalid(&path, uid, "must not be empty");
            } else if seen.contains(&text(uid)) {
                errors.duplicate(&path, uid);
            } else {
                seen.push(text(uid));
            }
        }
    }
}

/// Validates the terminal conditions, their prerequisites, and the completion time.
fn validate_ends(status: &Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let now = |kind: &str| is_true(status, kind);
    let turned = |kind: &str| is_true(before, kind) != now(kind);
    let changed = |field: &str| before[field] != status[field];
    let complete = now("Complete");
    if complete && now("Failed") && (turned("Complete") || turned("Failed")) {
        let detail = "cannot set Complete=True and Failed=true conditions";
        conditions_fault(detail, path, errors);
    }
    if complete && now("FailureTarget") && (turned("Complete") || turned("FailureTarget")) {
        let detail = "cannot set Complete=True and FailureTarget=true conditions";
        conditions_fault(detail, path, errors);
    }
    let (time, start) = (&status["completionTime"], &status["startTime"]);
    let at = path.child("completionTime");
    if turned("Complete") || changed("completionTime") {
        if !time.is_null() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&at, time, detail);
        }
        if time.is_null() && complete {
            errors.required(&at, "completionTime is required for Complete jobs");
        }
    }
    // Times of one form and zone compare as texts.
    let timed = !time.is_null() && !start.is_null();
    if timed && text(time) < text(start) && (changed("startTime") || changed("completionTime")) {
        errors.invalid(&at, time, "must be equal to or after `startTime`");
    }
    if now("Failed") && !now("FailureTarget") && (turned("Failed") || changed("failedIndexes")) {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        conditions_fault(detail, path, errors);
    }
    let turned = turned("Complete") || turned("SuccessCriteriaMet");
    if complete && !now("SuccessCriteriaMet") && turned {
        let detail =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        conditions_fault(detail, path, errors);
    }
}

/// Faults of a finished job: active pods, no start time, uncounted pods.
fn validate_finished(job: &Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (spec, status) = (&job["spec"], &job["status"]);
    if !is_finished(status) {
        return;
    }
    let finishes = !is_finished(before);
    let changed = |field: &str| finishes || before[field] != status[field];
    if changed("active") && count(status, "active") > 0 {
        let detail = "active>0 is invalid for finished job";
        errors.invalid(&path.child("active"), &status["active"], detail);
    }
    let nothing_to_do = spec["suspend"] == true && spec["completions"] == 0;
    if changed("startTime") && !nothing_to_do && status["startTime"].is_null() {
        let detail = "startTime is required for finished job";
        errors.required(&path.child("startTime"), detail);
    }
    let uncounted = &status["uncountedTerminatedPods"];
    let counted = is_empty(&uncounted["succeeded"]) && is_empty(&uncounted["failed"]);
    if changed("uncountedTerminatedPods") && !counted {
        let path = path.child("uncountedTerminatedPods");
        errors.invalid(&path, uncounted, "must be empty for finished job");
    }
}

fn validate_indexes(job: &Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (spec, status) = (&job["spec"], &job["status"]);
    let (completed, failed) = (&status["completedIndexes"], &status["failedIndexes"]);
    let changed = |field: &str| before[field] != status[field];
    let completes = text(completed) != text(&before["completedIndexes"]);
    let fails = changed("failedIndexes");
    let per_index = !spec["backoffLimitPerIndex"].is_null();
    let completions = spec["completions"].as_i64();
    let mut check_format = |field: &str, indexes: &Value| {
        let parsed = completions.map(|number| count_of_indexes(text(indexes), number));
        if let Some(Err(why)) = parsed {
            let detail = format!("error parsing {field}: {why}");
            errors.invalid(&path.child(field), indexes, &detail);
        }
    };
    if completes {
        check_format("completedIndexes", completed);
    }
    if fails && per_index {
        check_format("failedIndexes", failed);
    }
    if completes && !text(completed).is_empty() && spec["completionMode"] != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&path.child("completedIndexes"), completed, detail);
    }
    let path = path.child("failedIndexes");
    if fails && !failed.is_null() && !per_index {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&path, failed, detail);
    }
    let overlap = completions.and_then(|own| overlap(text(completed), text(failed), own));
    if let Some(index) = overlap.filter(|_| completes || fails) {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&path, failed, &detail);
    }
}

/// Returns the first index in both texts; `None` if there is none. Malformed intervals are reported
/// elsewhere and skipped here.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        let parsed = text.split(',').map(|own| interval(own, completions));
        parsed.filter_map(Result::ok).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((c_from, c_to)), Some((f_from, f_to))) = (completed.peek(), failed.peek()) {
        if c_from <= f_to && f_from <= c_to {
            return Some(*c_from.max(f_from));
        }
        if c_from <= f_from {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}

fn validate_running(status: &Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let changed = |field: &str| before[field] != status[field];
    let terminating = count(status, "terminating") > 0 && is_finished(status);
    if terminating && (!is_finished(before) || changed("terminating")) {
        let detail = "terminating>0 is invalid for finished job";
        errors.invalid(&path.child("terminating"), &status["terminating"], detail);
    }
    let more = count(status, "ready") > count(status, "active") && !status["ready"].is_null();
    if more && (changed("ready") || count(before, "active") != count(status, "active")) {
        let detail = "cannot set more ready pods than active";
        errors.invalid(&path.child("ready"), &status["ready"], detail);
    }
}

fn validate_success(job: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let now = |kind: &str| is_true(&job["status"], kind);
    if now("SuccessCriteriaMet") {
        if now("Failed") {
            let detail = "cannot set SuccessCriteriaMet=True and Failed=true conditions";
            conditions_fault(detail, path, errors);
        }
        if now("FailureTarget") {
            let detail = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
            conditions_fault(detail, path, errors);
        }
    } else if now("Complete") && !job["spec"]["successPolicy"].is_null() {
        let detail =
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        conditions_fault(detail, path, errors);
    }
}

/// Faults of an update that reverts irreversible parts of the status, such as a terminal condition.
fn validate_change(new: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (spec, status, before) = (&new["spec"], &new["status"], &old["status"]);
    let lost = |kind: &str| is_true(before, kind) && !is_true(status, kind);
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if lost(kind) {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            conditions_fault(&detail, path, errors);
        }
    }
    // An indexed job whose parallelism equals its completions can be shrunk.
    let elastic = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    for (field, kept) in [("failed", true), ("succeeded", !elastic)] {
        if kept && count(status, field) < count(before, field) {
            let detail = format!("cannot decrease the {field} counter");
            errors.invalid(&path.child(field), &count(status, field).into(), &detail);
        }
    }
    let changed = |field: &str| !before[field].is_null() && before[field] != status[field];
    let time = &status["completionTime"];
    if changed("completionTime") && !time.is_null() {
        errors.invalid(&path.child("completionTime"), time, "field is immutable");
    }
    let resumes = is_true(before, "Suspended") && has(status, "Suspended", "False");
    if changed("startTime") && !resumes && spec["suspend"] != true {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid(&path.child("startTime"), &status["startTime"], detail);
    }
    if lost("SuccessCriteriaMet") {
        let detail = "cannot disable the SuccessCriteriaMet=True condition";
        conditions_fault(detail, path, errors);
    }
    let met = |status: &Value| is_true(status, "SuccessCriteriaMet");
    if is_true(before, "Complete") && !met(before) && met(status) {
        let detail =
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        conditions_fault(detail, path, errors);
    }
}

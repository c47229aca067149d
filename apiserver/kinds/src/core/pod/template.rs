//! Rules shared by the kinds that own pods by a selector and a template.

use super::defaults::default_pod_spec;
use super::validation::validate_pod_template;
use crate::json::{Map, Value};
use crate::meta::selector::LabelSelector;
use crate::meta::validation::{validate_immutable, validate_label_selector};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, object_in};

pub(crate) const MISMATCH: &str = "`selector` does not match template `labels`";

/// Defaults of the template in `spec`.
pub(crate) fn default_template(spec: &mut Map) {
    let template = object_in(spec, "template");
    object_in(template, "metadata");
    object_in(template, "spec");
    default_pod_spec(&mut template["spec"]);
}

/// The selector that a kind must have: well formed and not empty.
pub(crate) fn validate_selector(
    selector: &Value,
    kind: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if selector.is_null() {
        errors.required(path, "");
        return;
    }
    validate_label_selector(selector, false, path, errors);
    validate_not_empty(selector, kind, path, errors);
}

/// A selector without requirements.
pub(crate) fn validate_not_empty(
    selector: &Value,
    kind: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.invalid(path, selector, &detail);
    }
}

/// Faults of the template in `spec`: its labels must match the selector, and its pods must always
/// restart.
pub(crate) fn validate_template(
    spec: &Value,
    kind: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    match LabelSelector::from_object(&spec["selector"]) {
        Ok(selector) => {
            validate_labels_match(&selector, &spec["template"], path, errors);
            validate_endless_template(&spec["template"], kind, path, errors);
        }
        Err(_) => errors.invalid(
            &path.child("selector"),
            &spec["selector"],
            "invalid label selector",
        ),
    }
}

/// Labels of the template that the selector does not match.
pub(crate) fn validate_labels_match(
    selector: &LabelSelector,
    template: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let labels = &template["metadata"]["labels"];
    if !selector.is_everything() && !selector.matches(labels) {
        let path = path.child("template").child("metadata").child("labels");
        errors.invalid(&path, labels, MISMATCH);
    }
}

/// A template whose pods are always restarted and have no deadline.
pub(crate) fn validate_endless_template(
    template: &Value,
    kind: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let path = path.child("template");
    validate_pod_template(template, &path, errors);
    let path = path.child("spec");
    let policy = &template["spec"]["restartPolicy"];
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), &detail);
    }
}

/// Counters of `/status` that exceed `replicas`, and more pods available than ready.
pub(crate) fn validate_counters(
    status: &Value,
    counters: &[&str],
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    for field in counters {
        if count(field) > count("replicas") {
            let detail = "cannot be greater than status.replicas";
            errors.invalid(&path.child(field), &count(field).into(), detail);
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let value = count("availableReplicas").into();
        let detail = "cannot be greater than readyReplicas";
        errors.invalid(&path.child("availableReplicas"), &value, detail);
    }
}

/// The counter of hash collisions only rises.
pub(crate) fn validate_collisions(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let collisions = |object: &Value| object["status"]["collisionCount"].as_i64();
    let Some(before) = collisions(old) else {
        return;
    };
    if collisions(new).is_none_or(|now| now < before) {
        let path = FieldPath::new("status.collisionCount");
        let value = collisions(new).unwrap_or(0).into();
        errors.invalid(&path, &value, "cannot be decremented");
    }
}

/// Faults of a changed selector, which would orphan the workload's pods.
pub(crate) fn validate_selector_stays(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec.selector");
    let selector = |object: &Value| object["spec"]["selector"].clone();
    validate_immutable(&selector(new), &selector(old), &path, errors);
}

//! Faults of questions about access.

use super::texts;
use crate::json::{Value, json};
use crate::meta::validation::{label_value, qualified_name};
use crate::schema::write_object;
use crate::status::{CauseReason, FieldErrors, FieldPath};

/// Faults of a question about a given user.
pub(super) fn subject(spec: &Value) -> FieldErrors {
    let mut errors = attributes(spec);
    let user = spec["user"].as_str().unwrap_or_default();
    if user.is_empty() && texts(&spec["groups"]).is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.invalid(&FieldPath::new("spec.user"), &"".into(), detail);
    }
    errors.extend(selectors(spec));
    errors
}

/// A question is about a resource or about a path.
pub(super) fn attributes(spec: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let asks = |field: &str| spec[field].is_object();
    match (asks("resourceAttributes"), asks("nonResourceAttributes")) {
        (true, true) => {
            let path = FieldPath::new("spec.nonResourceAttributes");
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.invalid(&path, &shown_path(spec), detail);
        }
        (false, false) => {
            let path = FieldPath::new("spec.resourceAttributes");
            let detail =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.invalid(&path, &Value::Null, detail);
        }
        _ => {}
    }
    errors
}

/// Faults of the selectors that narrow a question about a resource.
pub(super) fn selectors(spec: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec.resourceAttributes");
    for (name, of_labels) in [("fieldSelector", false), ("labelSelector", true)] {
        let selector = &spec["resourceAttributes"][name];
        if selector.is_object() {
            self::selector(selector, &path.child(name), of_labels, &mut errors);
        }
    }
    errors
}

fn selector(selector: &Value, path: &FieldPath, of_labels: bool, errors: &mut FieldErrors) {
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    let requirements = selector["requirements"].as_array();
    let requirements = requirements.map_or(&[][..], Vec::as_slice);
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            errors.invalid(&path.child("rawSelector"), &raw.into(), detail);
        }
        (true, true) => {
            let detail =
                format!("when {path} is specified, requirements or rawSelector is required");
            errors.required(&path.child("requirements"), &detail);
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        let key = requirement["key"].as_str().unwrap_or_default();
        if !of_labels && key.is_empty() {
            errors.required(&path.child("key"), "must be specified");
        }
        let values = texts(&requirement["values"]);
        match requirement["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.required(&path.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&path.child("values"), detail);
            }
            // Newer clients may know more operators.
            _ => {}
        }
        if of_labels {
            for fault in qualified_name(key) {
                errors.invalid(&path.child("key"), &key.into(), &fault);
            }
            for (index, value) in values.iter().enumerate() {
                let path = path.child("values").index(index);
                for fault in label_value(value) {
                    errors.invalid(&path, &value.as_str().into(), &fault);
                }
            }
        }
    }
}

/// Refuses metadata in a question beyond the fields that the server adds.
pub(super) fn metadata(review: &Value, detail: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let own = review["metadata"].as_object().into_iter().flatten();
    let mut own = own.filter(|(field, _)| !matches!(field.as_str(), "managedFields" | "namespace"));
    if own.next().is_none() {
        return errors;
    }
    let mut shown = Vec::new();
    let [kind, version] = ["kind", "apiVersion"].map(|field| &review[field]);
    let metadata = &review["metadata"];
    let whole = json!({ "kind": kind, "apiVersion": version, "metadata": metadata });
    write_object(&mut shown, &whole);
    let shown = String::from_utf8_lossy(&shown);
    let shown = shown
        .split_once("\"metadata\":")
        .map_or("", |(_, rest)| rest);
    let shown = shown.strip_suffix('}').unwrap_or(shown);
    let message = format!("Invalid value: {shown}: {detail}");
    errors.push(CauseReason::Invalid, &FieldPath::new("metadata"), message);
    errors
}

/// A question in a namespace is about a resource there.
pub(super) fn local(spec: &Value, namespace: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let asked = &spec["resourceAttributes"];
    let about = asked["namespace"].as_str().unwrap_or_default();
    if asked.is_object() && about != namespace {
        let path = FieldPath::new("spec.resourceAttributes.namespace");
        errors.invalid(&path, &about.into(), "must match metadata.namespace");
    }
    if spec["nonResourceAttributes"].is_object() {
        let path = FieldPath::new("spec.nonResourceAttributes");
        let detail = "disallowed on this kind of request";
        errors.invalid(&path, &shown_path(spec), detail);
    }
    errors
}

/// The path in a question, as an error shows it: by the names of the Go fields.
fn shown_path(spec: &Value) -> Value {
    let text = |field: &str| {
        let value = &spec["nonResourceAttributes"][field];
        value.as_str().unwrap_or_default().to_owned()
    };
    json!({ "Path": text("path"), "Verb": text("verb") })
}

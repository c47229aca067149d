//! Conditions in the status of an object, and the faults of those that have the common type.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::unstructured::{items, text};
use super::validation::{invalid_each, required};
use crate::json::{Value, json};
use crate::meta::object::child_mut;
use crate::meta::validation::qualified_name;
use crate::status::{FieldErrors, FieldPath};

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const REASON_FAULT: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates conditions: each type occurs once, and each condition is complete.
pub(super) fn validate_conditions(conditions: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut types = BTreeSet::new();
    for (index, condition) in items(conditions).enumerate() {
        let path = path.index(index);
        let kind = &condition["type"];
        if !types.insert(text(kind)) {
            errors.duplicate(&path.child("type"), kind);
        }
        validate_condition(condition, &path, errors);
    }
}

fn validate_condition(condition: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    static FORM: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!("^{REASON}$")).expect("it compiles"));
    let kind = text(&condition["type"]);
    let at = path.child("type");
    invalid_each(qualified_name(kind), &kind.into(), &at, errors);
    let states = ["False", "True", "Unknown"];
    let status = text(&condition["status"]);
    if !states.contains(&status) {
        errors.not_supported(&path.child("status"), &status.into(), &states);
    }
    let generation = &condition["observedGeneration"];
    if generation.as_i64().is_some_and(|own| own < 0) {
        let detail = "must be greater than or equal to zero";
        errors.invalid(&path.child("observedGeneration"), generation, detail);
    }
    let time = path.child("lastTransitionTime");
    required(&condition["lastTransitionTime"], &time, errors);
    let reason = text(&condition["reason"]);
    let at = path.child("reason");
    if reason.is_empty() {
        errors.required(&at, "");
    } else {
        if !FORM.is_match(reason) {
            errors.invalid(&at, &reason.into(), REASON_FAULT);
        }
        if reason.len() > REASON_BYTES_MAX {
            errors.too_long(&at, REASON_BYTES_MAX);
        }
    }
    if text(&condition["message"]).len() > MESSAGE_BYTES_MAX {
        errors.too_long(&path.child("message"), MESSAGE_BYTES_MAX);
    }
}

/// Sets a condition of `object`, instead of the one of its type. If the status stays, so does its `lastTransitionTime`.
pub fn set_condition(object: &mut Value, mut condition: Value) {
    let status = child_mut(object, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let own = conditions
        .iter_mut()
        .find(|own| own["type"] == condition["type"]);
    match own {
        Some(own) => {
            if own["status"] == condition["status"] {
                condition["lastTransitionTime"] = own["lastTransitionTime"].clone();
            }
            *own = condition;
        }
        None => conditions.push(condition),
    }
}

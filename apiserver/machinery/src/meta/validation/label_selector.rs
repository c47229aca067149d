//! Validation of a `metav1.LabelSelector` inside an object.

use super::{label_value, qualified_name, strings, text, validate_labels};
use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};

/// `matchLabels` are labels, `matchExpressions` are complete and well formed.
///
/// `allow_invalid_values` is for an update of an object that holds an invalid value already.
pub fn validate_label_selector(
    selector: &Value,
    allow_invalid_values: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let labels = selector.get("matchLabels");
    validate_labels(labels, &path.child("matchLabels"), errors);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        validate_requirement(expression, allow_invalid_values, &path, errors);
    }
}

fn validate_requirement(
    expression: &Value,
    allow_invalid_values: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let values = strings(expression, "values");
    match text(expression, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(&path.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        operator => {
            let detail = "not a valid selector operator";
            errors.invalid(&path.child("operator"), &operator.into(), detail);
        }
    }
    let key = text(expression, "key");
    for fault in qualified_name(key) {
        errors.invalid(&path.child("key"), &key.into(), &fault);
    }
    if allow_invalid_values {
        return;
    }
    for (index, value) in values.into_iter().enumerate() {
        for fault in label_value(value) {
            errors.invalid(&path.child("values").index(index), &value.into(), &fault);
        }
    }
}

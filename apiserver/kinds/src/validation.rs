//! Checks of fields that the kinds share.

use kubeproof_machinery::int_or_percent::valid_percent;

use super::unstructured::text;
use crate::json::Value;
use crate::status::{CauseReason, FieldErrors, FieldPath, quoted};

pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// Faults of numbers below zero, one of each field of `object` in turn.
pub(crate) fn not_negative(
    object: &Value,
    fields: &[&str],
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for field in fields {
        if object[*field].as_i64().is_some_and(|number| number < 0) {
            errors.invalid(&path.child(field), &object[*field], NOT_NEGATIVE);
        }
    }
}

/// A string among `supported`; a missing one is a fault of its own.
pub(crate) fn required_one_of(
    value: &Value,
    path: &FieldPath,
    supported: &[&str],
    errors: &mut FieldErrors,
) {
    match text(value) {
        "" => errors.required(path, ""),
        own if supported.contains(&own) => {}
        _ => errors.not_supported(path, value, supported),
    }
}

/// A string among `supported`, which a missing one is not.
pub(crate) fn one_of(
    value: &Value,
    path: &FieldPath,
    supported: &[&str],
    errors: &mut FieldErrors,
) {
    if !supported.contains(&text(value)) {
        errors.not_supported(path, &text(value).into(), supported);
    }
}

/// A string that is missing.
pub fn required(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if text(value).is_empty() {
        errors.required(path, "");
    }
}

/// A fault whose value has a form of its own, such as one of upstream's internal types.
pub(crate) fn invalid_as(path: &FieldPath, shown: &str, detail: &str, errors: &mut FieldErrors) {
    let message = format!("Invalid value: {shown}: {detail}");
    errors.push(CauseReason::Invalid, path, message);
}

/// A value outside of `supported` that has a form of its own.
pub(crate) fn not_supported_as(
    path: &FieldPath,
    shown: &str,
    supported: &[&str],
    errors: &mut FieldErrors,
) {
    let list: Vec<String> = supported.iter().map(|own| quoted(own)).collect();
    let message = format!(
        "Unsupported value: {shown}: supported values: {}",
        list.join(", ")
    );
    errors.push(CauseReason::NotSupported, path, message);
}

/// The faults of each text, as `Invalid`.
pub(crate) fn invalid_each(
    faults: Vec<String>,
    value: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for fault in faults {
        errors.invalid(path, value, &fault);
    }
}

/// A number or a percentage, not negative.
pub(crate) fn validate_int_or_percent(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match value {
        Value::String(text) if valid_percent(text).is_none() => {
            errors.invalid(path, value, PERCENT)
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            errors.invalid(path, value, NOT_NEGATIVE);
        }
        _ => {}
    }
}

/// A percentage above 100.
pub(crate) fn validate_at_most_all(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if value
        .as_str()
        .and_then(valid_percent)
        .is_some_and(|all| all > 100)
    {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

/// The number or percentage, 0 for a malformed one.
pub(crate) fn int_or_percent(value: &Value) -> i64 {
    match value {
        Value::String(text) => valid_percent(text)
            .or_else(|| text.parse().ok())
            .unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_percentages() {
        let table = [("5", 5), ("25%", 25), ("-5%", 0), ("x", 0)];
        for (text, want) in table {
            assert_eq!(int_or_percent(&text.into()), want, "{text}");
        }
        assert_eq!(int_or_percent(&3.into()), 3);
    }
}

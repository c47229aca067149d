//! Small checks and defaults that the kinds share.

use serde_json::{Map, Value};

use crate::meta::object::default;
use crate::status::{CauseReason, FieldErrors, FieldPath};

pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// Returns the items of a list; any other value has none.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The objects in the list `map[name]`.
pub(crate) fn items_mut<'a>(
    map: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// Returns the entries of a map; any other value has none.
pub(super) fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flatten()
}

/// Returns a string, or the empty string for any other value.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a list or map has no entries, or is absent.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => true,
    }
}

/// Returns field `name` of `map` as an object; replaces any other value by an empty object.
pub(super) fn object_in<'a>(
    map: &'a mut Map<String, Value>,
    name: &str,
) -> &'a mut Map<String, Value> {
    let child = map.entry(name).or_insert(Value::Null);
    if !child.is_object() {
        *child = Value::Object(Map::new());
    }
    child.as_object_mut().expect("made an object above")
}

/// Like [`default`] for a string, where an empty one counts as left out.
pub(super) fn default_text(map: &mut Map<String, Value>, name: &str, value: &str) {
    if map.get(name).is_some_and(|own| own == "") {
        map.remove(name);
    }
    default(map, name, value);
}

/// Faults of numbers below zero, one of each field of `object` in turn.
pub(super) fn not_negative(
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

/// A required string among `supported`.
pub(super) fn one_of(
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
pub(super) fn required(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if text(value).is_empty() {
        errors.required(path, "");
    }
}

/// A fault whose value has a form of its own, such as one of upstream's internal types.
pub(super) fn invalid_as(path: &FieldPath, shown: &str, detail: &str, errors: &mut FieldErrors) {
    let message = format!("Invalid value: {shown}: {detail}");
    errors.push(CauseReason::Invalid, path, message);
}

/// A value outside of `supported` that has a form of its own.
pub(super) fn not_supported_as(
    path: &FieldPath,
    shown: &str,
    supported: &[&str],
    errors: &mut FieldErrors,
) {
    let list: Vec<String> = supported.iter().map(|own| format!("{own:?}")).collect();
    let message = format!(
        "Unsupported value: {shown}: supported values: {}",
        list.join(", ")
    );
    errors.push(CauseReason::NotSupported, path, message);
}

/// The faults of each text, as `Invalid`.
pub(super) fn invalid_each(
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
pub(super) fn validate_int_or_percent(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match value {
        Value::String(text) if percent(text).is_none() => errors.invalid(path, value, PERCENT),
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            errors.invalid(path, value, NOT_NEGATIVE);
        }
        _ => {}
    }
}

/// A percentage above 100.
pub(super) fn validate_at_most_all(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if value
        .as_str()
        .and_then(percent)
        .is_some_and(|all| all > 100)
    {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

/// The number or percentage, 0 for a malformed one.
pub(super) fn int_or_percent(value: &Value) -> i64 {
    match value {
        Value::String(text) => percent(text)
            .or_else(|| text.parse().ok())
            .unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().unwrap_or(i64::MAX))
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

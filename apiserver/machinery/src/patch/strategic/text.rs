//! Values as Go prints them, for upstream's error messages.

use super::unknown;
use crate::json::{Map, Value};
use crate::status::ApiError;

/// `%v` of a decoded JSON value.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => show_list(items),
        Value::Object(members) => show_map(members),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// `%v` of a list.
pub(super) fn show_list(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(show).collect();
    format!("[{}]", items.join(" "))
}

pub(super) fn show_map(members: &Map) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{key}:{}", show(value)))
        .collect();
    format!("map[{}]", members.join(" "))
}

/// The Go type a JSON value is decoded into.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value of the wrong type.
pub(super) fn bad_arg_type(expected: &str, actual: &Value) -> ApiError {
    let actual = go_type(actual);
    unknown(format!("expected a {expected}, but received a {actual}"))
}

/// The error for a `$patch` with an unknown value.
pub(super) fn bad_patch_type(directive: &Value, map: &Map) -> ApiError {
    let shown = match directive {
        Value::String(text) => text.clone(),
        Value::Null => go_type(directive).into(),
        other => format!("%!s({}={})", go_type(other), show(other)).into(),
    };
    let map = show_map(map);
    unknown(format!("unknown patch type: {shown} in map: {map}"))
}

/// An item without what identifies it.
pub(super) fn no_merge_key(map: &Map, key: &str) -> ApiError {
    let map = show_map(map);
    unknown(format!(
        "map: {map} does not contain declared merge key: {key}"
    ))
}

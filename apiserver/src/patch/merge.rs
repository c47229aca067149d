//! JSON merge patch (RFC 7396).

use serde_json::{Map, Value};

/// Applies `patch` to `current`.
pub(super) fn apply(patch: Map<String, Value>, current: &Value) -> Value {
    let mut members = current.as_object().cloned().unwrap_or_default();
    merge(&mut members, patch);
    Value::Object(members)
}

fn merge(members: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match (members.get_mut(&key), value) {
            (_, Value::Null) => {
                members.remove(&key);
            }
            (Some(Value::Object(members)), Value::Object(patch)) => merge(members, patch),
            // A list that replaces an object keeps its nulls, one that replaces anything else
            // does not, as far as objects in it have them. So does upstream's library.
            (Some(Value::Object(_)), value) => {
                members.insert(key, value);
            }
            (_, mut value) => {
                discard_nulls(&mut value);
                members.insert(key, value);
            }
        }
    }
}

/// Drops the null members of all objects in `value`; null items of lists stay.
pub(super) fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

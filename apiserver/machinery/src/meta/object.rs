//! Reading and writing an object's metadata in place.

use crate::json::{Map, Value};

/// The string at `metadata.<field>`, empty when absent.
#[must_use]
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.name`.
#[must_use]
pub fn name(object: &Value) -> &str {
    meta(object, "name")
}

/// `metadata.namespace`.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    meta(object, "namespace")
}

/// `metadata`, made if it is not an object.
pub fn meta_mut(object: &mut Value) -> &mut Map {
    child_mut(object, "metadata")
}

/// Returns field `name` of `value` as an object; replaces any other value by an empty object.
pub fn child_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let child = &mut value[name];
    if !child.is_object() {
        *child = Value::Object(Map::new());
    }
    child.as_object_mut().expect("made an object above")
}

/// Sets `map[name]` to `value` if the field is absent.
pub fn default(map: &mut Map, name: &str, value: impl Into<Value>) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(name.to_owned(), value.into());
    }
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Replaces `metadata.finalizers`; an empty list leaves the field out.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let meta = meta_mut(object);
    if finalizers.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers", finalizers.into());
    }
}

/// Whether the object has a `deletionTimestamp`.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Copies field `name` from `from` to `to`, or removes it there when `from` has none.
pub fn copy_field(to: &mut Value, from: &Value, name: &str) {
    let Some(map) = to.as_object_mut() else {
        return;
    };
    match from.get(name) {
        Some(value) => {
            map.insert(name.to_owned(), value.clone());
        }
        None => {
            map.remove(name);
        }
    }
}

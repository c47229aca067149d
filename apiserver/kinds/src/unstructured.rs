//! Accessors of values without a type, in the manner of `unstructured.Nested*`.

use crate::json::{Map, SmolStr, Value};
use crate::meta::object::default;

/// Returns the items of a list; any other value has none.
pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The objects in the list `map[name]`.
pub(crate) fn items_mut<'a>(map: &'a mut Map, name: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// Returns the entries of a map; any other value has none.
pub fn entries(map: &Value) -> impl Iterator<Item = (&SmolStr, &Value)> {
    map.as_object().into_iter().flatten()
}

/// Returns a string, or the empty string for any other value.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a list or map has no entries, or is absent.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => true,
    }
}

/// Returns field `name` of `map` as an object; replaces any other value by an empty object.
pub(crate) fn object_in<'a>(map: &'a mut Map, name: &str) -> &'a mut Map {
    let child = map.entry(name).or_insert(Value::Null);
    if !child.is_object() {
        *child = Value::Object(Map::new());
    }
    child.as_object_mut().expect("made an object above")
}

/// Like [`default`] for a string, where an empty one counts as left out.
pub(crate) fn default_text(map: &mut Map, name: &str, value: &str) {
    if map.get(name).is_some_and(|own| own == "") {
        map.remove(name);
    }
    default(map, name, value);
}

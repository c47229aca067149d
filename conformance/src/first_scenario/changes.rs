//! The changes of an object that its schema allows, one field each.

use kubeproof_machinery::json::{Map, Value, json};

use super::nested;
use super::values::{candidates, example, type_of};

/// Fields of fields are changed down to this depth, counted from the object.
const DEPTH_MAX: usize = 5;
/// Fields that an object has not are set down to this depth.
const ABSENT_DEPTH_MAX: usize = 3;
/// The most values of a field that are tried.
const TRIES_MAX: usize = 12;
/// The fields of an object that are not its author's.
const OTHERS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// A field, and merge patches that give it another value. The first that the server accepts is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The dotted path, such as `spec.size`.
    pub(super) path: String,
    pub(super) patches: Vec<Value>,
}

/// The place of a field in its object.
#[derive(Clone)]
struct Place {
    /// The path for readers.
    path: String,
    /// The path to the field that the patch replaces: this one, or the list in which it is.
    patched: String,
    /// The list in which the field is, with the keys that lead to the field in its first item.
    list: Option<(Value, Vec<String>)>,
    depth: usize,
}

impl Place {
    fn child(&self, name: &str) -> Self {
        let mut child = self.clone();
        child.depth += 1;
        child.path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        match &mut child.list {
            Some((_, keys)) => keys.push(name.to_owned()),
            None => child.patched.clone_from(&child.path),
        }
        child
    }

    /// A merge patch that sets the field.
    fn patch(&self, value: Value) -> Value {
        let Some((list, keys)) = &self.list else {
            return nested(&self.patched, value);
        };
        let mut list = list.clone();
        let mut field = &mut list[0];
        for key in keys {
            field = &mut field[key.as_str()];
        }
        *field = value;
        nested(&self.patched, list)
    }
}

/// Returns the changes of `object`: fields that it has before others, and those of the object itself before those of its
/// fields. Without a schema each value is taken to be one of many.
pub(super) fn changes(schema: Option<&Value>, object: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    let root = Place {
        path: String::new(),
        patched: String::new(),
        list: None,
        depth: 0,
    };
    let inferred = inferred(object);
    let schema = schema.unwrap_or(&inferred);
    walk_object(schema, object, &root, &mut found);
    found.sort_by_key(|(is_absent, depth, _)| (*is_absent, *depth));
    found.into_iter().map(|(_, _, change)| change).collect()
}

/// A change with what decides its place: whether the object lacks the field, and the depth of the field.
type Ranked = (bool, usize, Change);

fn walk_object(schema: &Value, object: &Value, place: &Place, found: &mut Vec<Ranked>) {
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, schema) in properties {
        if place.depth > 0 || !OTHERS.contains(&name.as_str()) {
            walk(schema, &object[name], &place.child(name), found);
        }
    }
    let values = &schema["additionalProperties"];
    if values.is_object() && place.depth > 0 && place.depth < DEPTH_MAX {
        let entries = object.as_object().into_iter().flatten();
        let known = entries
            .last()
            .map(|(name, value)| (name.clone(), value.clone()));
        let (name, now) = known.unwrap_or_else(|| ("example".into(), Value::Null));
        let child = place.child(&name);
        // A dot in a key would be a path.
        if !name.contains('.') {
            walk(values, &now, &child, found);
        }
    }
}

fn walk(schema: &Value, now: &Value, place: &Place, found: &mut Vec<Ranked>) {
    let is_absent = now.is_null();
    if place.depth > DEPTH_MAX || (is_absent && place.depth > ABSENT_DEPTH_MAX) {
        return;
    }
    let values = match (type_of(schema), now) {
        ("object", Value::Object(_)) => return walk_object(schema, now, place, found),
        ("object", _) => {
            let value = present(schema);
            value.into_iter().collect()
        }
        ("array", Value::Array(items))
            if place.list.is_none() && items.first().is_some_and(Value::is_object) =>
        {
            let inside = Place {
                list: Some((now.clone(), Vec::new())),
                ..place.clone()
            };
            return walk_object(&schema["items"], &items[0], &inside, found);
        }
        _ => candidates(schema, now),
    };
    let patches: Vec<Value> = values
        .into_iter()
        .take(TRIES_MAX)
        .map(|value| place.patch(value))
        .collect();
    if !patches.is_empty() {
        let path = place.path.clone();
        found.push((is_absent, place.depth, Change { path, patches }));
    }
}

/// An object of the schema that is not empty: with what is required, or else with its first field that has a value.
fn present(schema: &Value) -> Option<Value> {
    let value = example(schema);
    let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    if !is_empty(&value) {
        return Some(value);
    }
    let mut properties = schema["properties"].as_object()?.iter();
    properties.find_map(|(name, schema)| {
        let value = match type_of(schema) {
            "object" | "array" => return None,
            _ => candidates(schema, &Value::Null).into_iter().next()?,
        };
        Some(json!({ name.as_str(): value }))
    })
}

/// A schema that has the types of a value and no limits.
fn inferred(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let properties = object
                .iter()
                .map(|(name, value)| (name.clone(), inferred(value)));
            json!({"type": "object", "properties": properties.collect::<Map>()})
        }
        Value::Array(items) => {
            let items = items.first().map_or_else(|| json!({}), inferred);
            json!({"type": "array", "items": items})
        }
        Value::String(_) => json!({"type": "string"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(number) if number.is_f64() => json!({"type": "number"}),
        Value::Number(_) => json!({"type": "integer"}),
        Value::Null => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_fields_come_first_and_items_of_lists_are_changed_in_the_whole_list() {
        let schema = json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "absent": {"type": "boolean"},
                "backup": {"type": "object", "required": ["at"], "properties": {"at": {"type": "string"}}},
                "ports": {"type": "array", "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "number": {"type": "integer"},
                }}},
                "size": {"type": "integer", "maximum": 3},
            }},
        }});
        let object = json!({
            "metadata": {"name": "a"},
            "spec": {"size": 3, "ports": [{"name": "web", "number": 80}, {"name": "db"}]},
        });
        let described: Vec<String> = changes(Some(&schema), &object)
            .iter()
            .map(|change| format!("{} {}", change.path, change.patches[0]))
            .collect();
        assert_eq!(
            described,
            [
                r#"spec.size {"spec":{"size":2}}"#,
                r#"spec.ports.name {"spec":{"ports":[{"name":"web-2","number":80},{"name":"db"}]}}"#,
                r#"spec.ports.number {"spec":{"ports":[{"name":"web","number":81},{"name":"db"}]}}"#,
                r#"spec.absent {"spec":{"absent":true}}"#,
                r#"spec.backup {"spec":{"backup":{"at":"example"}}}"#,
            ]
        );
        let inferred = changes(None, &object);
        assert_eq!(inferred[0].path, "spec.size");
        assert_eq!(inferred[0].patches[0], json!({"spec": {"size": 4}}));
    }
}

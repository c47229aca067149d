//! Lists whose items must be unique.

use std::collections::BTreeMap;

use super::{ListType, Structural};
use crate::json::{Map, Value};
use crate::meta::order::Ordered;
use crate::status::{FieldErrors, FieldPath};

impl Structural {
    /// Returns the duplicate items of sets and keyed lists below `value`, each once.
    #[must_use]
    pub fn validate_list_types(&self, path: &FieldPath, value: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        visit(self, path, value, &mut errors);
        errors
    }
}

fn visit(schema: &Structural, path: &FieldPath, value: &Value, errors: &mut FieldErrors) {
    match value {
        Value::Object(fields) => {
            if let Some(values) = schema.map_values() {
                for (name, value) in fields {
                    visit(values, &path.key(name), value, errors);
                }
            }
            for (name, value) in fields {
                if let Some(schema) = schema.properties.get(name.as_str()) {
                    visit(schema, &path.child(name), value, errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => repeated(items, path, errors),
                Some(ListType::Map) => keyed(schema, items, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    visit(schema, &path.index(index), item, errors);
                }
            }
        }
        _ => {}
    }
}

fn keyed(schema: &Structural, items: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let stray = items
        .iter()
        .position(|item| !item.is_null() && !item.is_object());
    if let Some(index) = stray {
        let detail = "must be an object for an array of list-type map";
        errors.invalid(&path.index(index), &items[index], detail);
        return;
    }
    let key = |item: &Value| {
        let fields = schema.list_map_keys.iter().filter_map(|name| {
            let value = item.get(name)?;
            Some((name.clone(), value.clone()))
        });
        Value::Object(fields.collect::<Map>())
    };
    let keys: Vec<Value> = items.iter().map(key).collect();
    repeated(&keys, path, errors);
}

/// Reports the second occurrence of each value; later ones are not reported.
fn repeated(values: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut counts: BTreeMap<Ordered<'_>, usize> = BTreeMap::new();
    for (index, value) in values.iter().enumerate() {
        let count = counts.entry(Ordered(value)).or_default();
        *count += 1;
        if *count == 2 {
            errors.duplicate(&path.index(index), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn repeated_items_are_found_where_they_may_not_be() {
        let schema = Structural::parse(&json!({ "type": "object", "properties": {
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "map": { "type": "array", "x-kubernetes-list-type": "map",
                     "x-kubernetes-list-map-keys": ["k", "p"], "items": { "type": "object" } },
            "any": { "type": "array", "items": { "type": "string" } },
        } }));
        let faults = |value: Value| -> Vec<String> {
            let errors = schema.validate_list_types(&FieldPath::default(), &value);
            let causes = errors.causes().iter();
            causes
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect()
        };
        assert_eq!(
            faults(json!({ "set": ["a", "b", "a", "a"], "any": ["a", "a"] })),
            [r#"set[2]: Duplicate value: "a""#]
        );
        assert_eq!(
            faults(json!({ "map": [{ "k": 1 }, { "k": 1, "p": 2 }, { "k": 1, "v": 3 }] })),
            [r#"map[2]: Duplicate value: {"k":1}"#]
        );
    }
}

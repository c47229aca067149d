//! Pruning: removal of fields that no schema declares.

use super::{AdditionalProperties, Structural};
use crate::json::Value;

/// The fields that every object has, declared or not.
pub const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Structural {
    /// Removes undeclared fields from an object of the kind, and returns their paths, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut walk = Walk::default();
        walk.prune(object, Some(self), true, false);
        walk.removed.sort();
        walk.removed
    }

    /// Prunes a value inside of an object.
    pub fn prune_value(&self, value: &mut Value) {
        Walk::default().prune(value, Some(self), self.embedded_resource, false);
    }

    /// Removes nulls from fields that neither have null as a value nor a default to replace it.
    pub fn prune_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let stray = |schema: &Self| !schema.nullable && schema.default.is_none();
                fields
                    .retain(|name, value| !value.is_null() || !self.entry(name).is_some_and(stray));
                for (name, value) in fields {
                    if let Some(schema) = self.entry(name) {
                        schema.prune_nulls(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.prune_nulls(item));
                }
            }
            _ => {}
        }
    }
}

#[derive(Default)]
struct Walk {
    path: String,
    removed: Vec<String>,
}

impl Walk {
    /// `is_resource`: whether the value has the fields of every object in addition to those
    /// declared. `is_preserved`: whether the value is an item of a list that preserves unknown
    /// fields, its own and those of its items.
    fn prune(
        &mut self,
        value: &mut Value,
        schema: Option<&Structural>,
        is_resource: bool,
        is_preserved: bool,
    ) {
        let preserves = is_preserved || schema.is_some_and(|schema| schema.preserve_unknown_fields);
        match value {
            Value::Object(fields) => fields.retain(|name, value| {
                if is_resource && META_FIELDS.contains(&name.as_str()) {
                    return true;
                }
                let declared = schema.and_then(|schema| schema.properties.get(name.as_str()));
                let length = self.path.len();
                match (
                    declared,
                    schema.and_then(|schema| schema.additional_properties.as_ref()),
                ) {
                    (Some(schema), _) => {
                        self.enter(name);
                        self.prune(value, Some(schema), schema.embedded_resource, false);
                    }
                    (None, Some(AdditionalProperties::Schema(schema))) => {
                        self.enter(name);
                        self.prune(value, Some(schema), schema.embedded_resource, false);
                    }
                    (None, Some(AdditionalProperties::Allowed(_))) => {
                        self.enter(name);
                        self.prune(value, None, false, false);
                    }
                    (None, None) if preserves => {}
                    (None, None) => {
                        self.enter(name);
                        // At the root these fields do not count as unknown, even if they are
                        // removed.
                        if !META_FIELDS.contains(&self.path.as_str()) {
                            self.removed.push(self.path.clone());
                        }
                        self.path.truncate(length);
                        return false;
                    }
                }
                self.path.truncate(length);
                true
            }),
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    match schema {
                        Some(schema) => {
                            self.prune(item, Some(schema), schema.embedded_resource, preserves);
                        }
                        None if preserves => {}
                        None => self.prune(item, None, false, false),
                    }
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let schema = Structural::parse(&json!({
            "type": "object",
            "properties": {
                "spec": { "type": "object", "properties": {
                    "list": { "type": "array", "items": {
                        "type": "object", "properties": { "a": { "type": "string" } },
                    } },
                    "map": { "type": "object", "additionalProperties": {
                        "type": "object", "properties": { "a": { "type": "string" } },
                    } },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                              "properties": { "known": { "type": "object" } } },
                } },
            },
        }));
        let mut object = json!({
            "apiVersion": "v", "kind": "K", "metadata": { "name": "x" }, "extra": 1,
            "spec": {
                "list": [{ "a": "1", "b": 2 }], "map": { "k": { "a": "1", "b": 2 } },
                "free": { "any": { "thing": 1 }, "known": { "gone": 1 } }, "other": 3,
            },
        });
        assert_eq!(
            schema.prune(&mut object),
            [
                "extra",
                "spec.free.known.gone",
                "spec.list[0].b",
                "spec.map.k.b",
                "spec.other"
            ]
        );
        assert_eq!(
            object,
            json!({
                "apiVersion": "v", "kind": "K", "metadata": { "name": "x" },
                "spec": {
                    "list": [{ "a": "1" }], "map": { "k": { "a": "1" } },
                    "free": { "any": { "thing": 1 }, "known": {} },
                },
            })
        );
    }

    #[test]
    fn a_list_that_preserves_unknown_fields_keeps_those_of_its_items() {
        let schema = Structural::parse(&json!({
            "type": "object", "properties": {
                "items": {
                    "type": "array", "x-kubernetes-preserve-unknown-fields": true,
                    "items": { "type": "object", "properties": {
                        "p": { "type": "object", "properties": { "q": { "type": "string" } } },
                    } },
                },
                "nested": {
                    "type": "array", "x-kubernetes-preserve-unknown-fields": true,
                    "items": { "type": "array", "items": { "type": "object" } },
                },
                "pruned": { "type": "array", "items": { "type": "object" } },
            },
        }));
        let mut object = json!({
            "items": [{ "x": 1, "p": { "q": "a", "y": 2 } }],
            "nested": [[{ "x": { "y": 1 } }]],
            "pruned": [{ "x": 1 }],
        });
        assert_eq!(schema.prune(&mut object), ["items[0].p.y", "pruned[0].x"]);
        assert_eq!(
            object,
            json!({
                "items": [{ "x": 1, "p": { "q": "a" } }],
                "nested": [[{ "x": { "y": 1 } }]],
                "pruned": [{}],
            })
        );
    }

    #[test]
    fn nulls_stay_where_they_are_values_or_defaults_replace_them() {
        let schema = Structural::parse(&json!({
            "type": "object", "properties": {
                "plain": { "type": "string" },
                "nullable": { "type": "string", "nullable": true },
                "defaulted": { "type": "string", "default": "x" },
                "list": { "type": "array", "items": { "type": "string" } },
            },
        }));
        let mut object =
            json!({ "plain": null, "nullable": null, "defaulted": null, "list": [null] });
        schema.prune_nulls(&mut object);
        assert_eq!(
            object,
            json!({ "nullable": null, "defaulted": null, "list": [null] })
        );
    }
}

//! Schemas of fields whose types are not of this project.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Anything: pod templates and claim templates, which the API server does not look into.
pub(super) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A number, or a share of one as text.
pub(super) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true
    })
}

/// Numbers and ranges.
pub(super) fn ints_or_strings(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": int_or_string(generator) })
}

/// A moment.
pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A label selector.
pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
            "matchExpressions": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string" },
                        "operator": { "type": "string" },
                        "values": {
                            "type": "array",
                            "items": { "type": "string" },
                            "x-kubernetes-list-type": "atomic"
                        }
                    }
                }
            }
        }
    })
}

/// A selector of nodes: a label selector with an optional list of names.
pub(super) fn node_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = label_selector(generator);
    let properties = schema
        .get_mut("properties")
        .and_then(|own| own.as_object_mut());
    if let Some(properties) = properties {
        let names = serde_json::json!({ "type": "array", "items": { "type": "string" } });
        properties.insert("names".to_owned(), names);
    }
    schema
}

/// References to objects, as events have them.
pub(super) fn object_references(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": { "type": "string" },
                "fieldPath": { "type": "string" },
                "kind": { "type": "string" },
                "name": { "type": "string" },
                "namespace": { "type": "string" },
                "resourceVersion": { "type": "string" },
                "uid": { "type": "string" }
            }
        }
    })
}

//! A structural schema as field management sees it.

use std::sync::Arc;

use crate::schema::structural::{self, AdditionalProperties, Structural};
use crate::schema::{self, Field, ListType, Object, Schema};

/// The schema of the objects of a custom kind.
pub(super) fn of_kind(kind: &str, root: &Structural) -> Arc<Object> {
    Arc::new(resource(kind, root))
}

/// The schema of an object: type and metadata, then the fields that `node` declares.
fn resource(name: &str, node: &Structural) -> Object {
    let string = || Schema::String("string".into());
    let metadata = Schema::Object(Arc::clone(schema::object_meta()));
    let mut fields = vec![
        Field::optional("kind", string()),
        Field::optional("apiVersion", string()),
        Field::optional("metadata", metadata),
    ];
    fields.extend(declared(node).filter(|field| {
        let name = field.name.as_ref();
        !structural::META_FIELDS.contains(&name)
    }));
    struct_of(node, name, fields, node.preserve_unknown_fields)
}

fn struct_of(node: &Structural, name: &str, fields: Vec<Field>, open: bool) -> Object {
    let mut object = Object::custom(name, fields);
    object.atomic = node.atomic_map;
    object.open = open;
    object
}

fn declared(node: &Structural) -> impl Iterator<Item = Field> {
    node.properties.iter().map(|(name, property)| Field {
        default: property.default.clone(),
        ..Field::optional(name, schema(property, false))
    })
}

/// `is_preserved`: whether the value is an item of a list that preserves unknown fields.
fn schema(node: &Structural, is_preserved: bool) -> Schema {
    let preserves = is_preserved || node.preserve_unknown_fields;
    if node.int_or_string {
        return Schema::IntOrString;
    }
    if node.embedded_resource {
        return Schema::Object(Arc::new(resource("", node)));
    }
    match node.value_type.as_str() {
        "object" => object(node, preserves),
        "array" => {
            let items = node.items.as_deref();
            let items = items.map_or(Schema::Any, |items| schema(items, preserves));
            let list_type = match node.list_type {
                Some(structural::ListType::Map) => Some(ListType::Map),
                Some(structural::ListType::Set) => Some(ListType::Set),
                Some(structural::ListType::Atomic) | None => None,
            };
            Schema::list(items, list_type, &node.list_map_keys)
        }
        "string" => Schema::String("string".into()),
        "integer" => Schema::Int64,
        "number" => Schema::Float,
        "boolean" => Schema::Bool,
        _ => Schema::Any,
    }
}

fn object(node: &Structural, preserves: bool) -> Schema {
    if node.properties.is_empty() {
        match &node.additional_properties {
            Some(AdditionalProperties::Schema(values)) => {
                return Schema::map_of(schema(values, false), node.atomic_map);
            }
            Some(AdditionalProperties::Allowed(true)) => {
                return Schema::map_of(Schema::Any, node.atomic_map);
            }
            Some(AdditionalProperties::Allowed(false)) | None => {}
        }
        if preserves {
            return Schema::map_of(Schema::Any, node.atomic_map);
        }
    }
    let fields = declared(node).collect();
    Schema::Object(Arc::new(struct_of(node, "", fields, preserves)))
}

//! Whether a schema is structural: each value has its type outside of value validations, and
//! what value validations speak of is declared outside of them.

use super::{list, text};
use crate::json::{Value, json};
use crate::schema::structural::go_regexp_fault;
use crate::status::{FieldErrors, FieldPath};

/// The position of a schema node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns the faults that upstream finds in the structure of a schema, sorted by text.
pub(super) fn validate(schema: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    invariants(schema, Level::Root, path, &mut errors);
    for (clause, path) in junctors(schema, path) {
        completeness(clause, schema, path.0, &path.1, &mut errors);
    }
    errors.sorted()
}

/// Whether upstream can convert the schema to structural form; unsupported keywords prevent it.
pub(super) fn has_form(schema: &Value) -> bool {
    let is_text = |field: &str| !text(schema, field).is_empty();
    let is_filled = |field: &str| {
        let fields = schema[field].as_object();
        fields.is_some_and(|fields| !fields.is_empty())
    };
    let is_unsupported = ["id", "$schema", "$ref"].into_iter().any(is_text)
        || ["patternProperties", "dependencies", "definitions"]
            .into_iter()
            .any(is_filled)
        || !schema["additionalItems"].is_null()
        || !list(&schema["items"]).is_empty()
        || schema["x-kubernetes-preserve-unknown-fields"] == false;
    !is_unsupported && children(schema).all(has_form)
}

/// Whether a node anywhere in the schema sets a default.
pub(super) fn has_defaults(schema: &Value) -> bool {
    !schema["default"].is_null() || children(schema).any(has_defaults)
}

/// The schemas right below a node.
fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let single = ["items", "additionalProperties", "not"];
    let single = single.into_iter().map(|field| &schema[field]);
    let properties = schema["properties"].as_object().into_iter().flatten();
    let listed = ["allOf", "anyOf", "oneOf"];
    let listed = listed.into_iter().flat_map(|field| list(&schema[field]));
    let below = single.chain(properties.map(|(_, property)| property));
    below.chain(listed).filter(|below| below.is_object())
}

fn is_true(schema: &Value, field: &str) -> bool {
    schema[field] == true
}

fn invariants(schema: &Value, level: Level, path: &FieldPath, errors: &mut FieldErrors) {
    let value_type = text(schema, "type");
    if value_type == "array" && schema["items"].is_null() {
        errors.required(&path.child("items"), "must be specified");
    }
    if schema["items"].is_object() {
        invariants(&schema["items"], Level::Item, &path.child("items"), errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        invariants(
            property,
            Level::Field,
            &path.child("properties").key(name),
            errors,
        );
    }
    let additional = &schema["additionalProperties"];
    let additional_path = path.child("additionalProperties");
    if !additional.is_null() {
        if level == Level::Root {
            errors.forbidden(&additional_path, "must not be used at the root");
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &additional_path, errors);
        }
    }
    if is_true(schema, "x-kubernetes-int-or-string") {
        for field in [
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
        ] {
            if is_true(schema, field) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(&path.child(field), &true.into(), detail);
            }
        }
    }
    let skips = Skips {
        any_of: is_int_or_string(&schema["anyOf"]),
        first_all_of: list(&schema["allOf"])
            .first()
            .is_some_and(|first| is_int_or_string(&first["anyOf"])),
    };
    value_validation(schema, skips, path, errors);
    types(schema, level, path, errors);
    metadata(schema, level, path, errors);
}

/// The types that a node must have, by its position and extensions.
fn types(schema: &Value, level: Level, path: &FieldPath, errors: &mut FieldErrors) {
    let value_type = text(schema, "type");
    let type_path = path.child("type");
    let is_embedded = is_true(schema, "x-kubernetes-embedded-resource");
    if is_embedded && value_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match value_type {
            "" => errors.required(&type_path, detail),
            other => errors.invalid(&type_path, &other.into(), detail),
        }
    } else if value_type.is_empty()
        && !is_true(schema, "x-kubernetes-int-or-string")
        && !is_true(schema, "x-kubernetes-preserve-unknown-fields")
    {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.required(&type_path, detail);
    }
    if is_embedded && !schema["additionalProperties"].is_null() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&path.child("additionalProperties"), detail);
    }
    if level == Level::Root && !matches!(value_type, "" | "object") {
        errors.invalid(&type_path, &value_type.into(), "must be object at the root");
    }
}

/// Faults of the fields that every object has.
fn metadata(schema: &Value, level: Level, path: &FieldPath, errors: &mut FieldErrors) {
    let is_embedded = is_true(schema, "x-kubernetes-embedded-resource");
    let properties = &schema["properties"];
    let checks = level == Level::Root || is_embedded;
    for field in ["kind", "apiVersion"] {
        let declared = &properties[field];
        if checks && declared.is_object() && text(declared, "type") != "string" {
            let path = path.child("properties").key(field).child("type");
            errors.invalid(&path, &text(declared, "type").into(), "must be string");
        }
    }
    let declared = &properties["metadata"];
    if declared.is_object() {
        let path = path.child("properties").key("metadata");
        let declared_type = text(declared, "type");
        if checks && declared_type != "object" {
            errors.invalid(&path.child("type"), &declared_type.into(), "must be object");
        }
        if level == Level::Root && !restricts_names_only(declared) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.forbidden(&path, detail);
        }
    }
    if is_embedded
        && !is_true(schema, "x-kubernetes-preserve-unknown-fields")
        && properties
            .as_object()
            .is_none_or(crate::json::Map::is_empty)
    {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&path.child("properties"), detail);
    }
}

/// Whether the schema of the metadata restricts only `name` and `generateName`.
fn restricts_names_only(metadata: &Value) -> bool {
    let allowed = ["type", "default", "properties"];
    let fields = metadata.as_object().into_iter().flatten();
    let only_allowed = fields
        .clone()
        .all(|(name, _)| allowed.contains(&name.as_str()));
    let names = metadata["properties"].as_object().into_iter().flatten();
    let only_names = names
        .clone()
        .all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    only_allowed && only_names
}

/// Alternatives that only say what `x-kubernetes-int-or-string` means.
#[derive(Clone, Copy, Debug, Default)]
struct Skips {
    any_of: bool,
    first_all_of: bool,
}

fn is_int_or_string(any_of: &Value) -> bool {
    *any_of == json!([{ "type": "integer" }, { "type": "string" }])
}

fn value_validation(schema: &Value, skips: Skips, path: &FieldPath, errors: &mut FieldErrors) {
    let none = Skips::default();
    if !skips.any_of {
        for (index, clause) in list(&schema["anyOf"]).iter().enumerate() {
            nested(clause, none, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, clause) in list(&schema["allOf"]).iter().enumerate() {
        let skips = Skips {
            any_of: skips.first_all_of && index == 0,
            first_all_of: false,
        };
        nested(clause, skips, &path.child("allOf").index(index), errors);
    }
    for (index, clause) in list(&schema["oneOf"]).iter().enumerate() {
        nested(clause, none, &path.child("oneOf").index(index), errors);
    }
    if schema["not"].is_object() {
        nested(&schema["not"], none, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    let fault = if pattern.is_empty() {
        None
    } else {
        go_regexp_fault(pattern)
    };
    if let Some(fault) = fault {
        let detail = format!("must be a valid regular expression, but isn't: {fault}");
        errors.invalid(&path.child("pattern"), &pattern.into(), &detail);
    }
}

/// Faults of a node inside of `allOf`, `anyOf`, `oneOf` or `not`, which may not declare structure.
fn nested(schema: &Value, skips: Skips, path: &FieldPath, errors: &mut FieldErrors) {
    let none = Skips::default();
    value_validation(schema, skips, path, errors);
    if schema["items"].is_object() {
        nested(&schema["items"], none, &path.child("items"), errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        nested(property, none, &path.child("properties").key(name), errors);
    }
    let is_set = |field: &str| match &schema[field] {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    for (field, empty) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        if is_set(field) || (field == "default" && !schema[field].is_null()) {
            errors.forbidden(
                &path.child(field),
                &format!("must be {empty} to be structural"),
            );
        }
    }
    if schema["properties"]["metadata"].is_object() {
        let path = path.child("properties").key("metadata");
        errors.forbidden(&path, "must not be specified in a nested context");
    }
}

/// The clauses of a node, with the path of the node and that of the clause.
fn junctors<'s, 'p>(
    schema: &'s Value,
    path: &'p FieldPath,
) -> impl Iterator<Item = (&'s Value, (&'p FieldPath, FieldPath))> {
    let not = Some(&schema["not"]).filter(|not| not.is_object());
    let not = not.map(|not| (not, (path, path.child("not"))));
    let lists = ["allOf", "anyOf", "oneOf"]
        .into_iter()
        .flat_map(move |field| {
            let clauses = list(&schema[field]).iter().enumerate();
            clauses.map(move |(index, clause)| (clause, (path, path.child(field).index(index))))
        });
    not.into_iter().chain(lists)
}

/// Whether what the clause at `at` speaks of is declared in `schema`, which stands at `path`.
fn completeness(
    clause: &Value,
    schema: &Value,
    path: &FieldPath,
    at: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (inner, (_, inner_at)) in junctors(clause, at) {
        completeness(inner, schema, path, &inner_at, errors);
    }
    let mut declared = |clause: &Value, schema: &Value, path: FieldPath, at: FieldPath| {
        if schema.is_object() {
            completeness(clause, schema, &path, &at, errors);
        } else {
            errors.required(&path, &format!("because it is defined in {at}"));
        }
    };
    if clause["items"].is_object() {
        declared(
            &clause["items"],
            &schema["items"],
            path.child("items"),
            at.child("items"),
        );
    }
    for (name, property) in clause["properties"].as_object().into_iter().flatten() {
        let below = |path: &FieldPath| path.child("properties").key(name);
        declared(
            property,
            &schema["properties"][name.as_str()],
            below(path),
            below(at),
        );
    }
}

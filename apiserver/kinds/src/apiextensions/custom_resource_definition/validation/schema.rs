//! The faults of a schema as a document: forbidden keywords, and keywords that require others.

use std::collections::BTreeSet;

use super::{defaults, field_path, list, structural, text};
use crate::cel::{RuleFaults, RuleScope};
use crate::json::Value;
use crate::schema::structural::{META_FIELDS, Structural};
use crate::status::{FieldErrors, FieldPath};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const RULE_REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Fields that the root may use if there is a status subresource, by their Go names.
const ROOT_FIELDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// Fields that the root may not use then, by their JSON names.
const NOT_AT_ROOT: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Fields of [`NOT_AT_ROOT`] that Go checks before the type.
const BEFORE_TYPE: [&str; 3] = ["id", "$schema", "$ref"];

/// The faults of `validation`, which has the schema as `openAPIV3Schema`.
pub(super) fn validate(
    validation: &Value,
    has_status: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let schema = &validation["openAPIV3Schema"];
    if schema.is_null() {
        return;
    }
    let path = path.child("openAPIV3Schema");
    let before = errors.causes().len();
    if has_status {
        validate_root(schema, &path, errors);
    }
    if schema["nullable"] == true {
        errors.forbidden(
            &path.child("nullable"),
            "nullable cannot be true at the root",
        );
    }
    // A schema that upstream cannot convert to structural form is not validated as such.
    let has_form = structural::has_form(schema);
    let mut found = FieldErrors::new();
    if has_form {
        found = structural::validate(schema, &path);
        if found.is_empty() {
            found = defaults::validate(&Structural::parse(schema), &path);
        }
    }
    let mut visit = Visit {
        // Expressions of schemas that are not structural have no types.
        rules: (has_form && found.is_empty()).then(RuleFaults::default),
        errors,
    };
    visit.errors.extend(found);
    let standard = Standard::default();
    let scope = RuleScope::root();
    visit.node(schema, &path, &standard, Place::Root, Some(&scope));
    if let Some(rules) = visit.rules {
        errors.extend(rules.into_errors(&path));
    }
    // Any other schema without a form has been reported by the name of a field.
    if !has_form && errors.causes().len() == before {
        let detail = "OpenAPIV3Schema 'schema' is not supported";
        errors.invalid(&path, &"".into(), detail);
    }
}

fn validate_root(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let value_type = text(schema, "type");
    let is_set = |field: &&str| schema.get(field).is_some();
    // The fields are checked in Go's order, up to the first fault.
    if !BEFORE_TYPE.iter().any(is_set) && !matches!(value_type, "" | "object") {
        let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        errors.invalid(&path.child("type"), &value_type.into(), detail);
    } else if NOT_AT_ROOT.iter().any(is_set) {
        let detail = format!(
            "only {ROOT_FIELDS} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.invalid(path, schema, &detail);
    }
}

/// The restrictions on a node of a schema.
#[derive(Clone, Debug, Default)]
struct Standard {
    /// The reason why defaults are forbidden here, if they are.
    no_defaults: Option<String>,
    in_metadata: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Root,
    Inside,
}

/// The faults found on the way through a schema.
struct Visit<'e> {
    errors: &'e mut FieldErrors,
    /// Faults of expressions, which follow all other faults.
    rules: Option<RuleFaults>,
}

impl Visit<'_> {
    /// Visits a node; `scope` is where its rules apply, if they can apply at all.
    fn node(
        &mut self,
        schema: &Value,
        path: &FieldPath,
        standard: &Standard,
        place: Place,
        scope: Option<&RuleScope>,
    ) {
        let before = self.errors.causes().len();
        unsupported(schema, path, standard, self.errors);
        if schema["uniqueItems"] == true {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.forbidden(&path.child("uniqueItems"), detail);
        }
        self.children(schema, path, standard, place, scope);
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            self.errors
                .invalid(&path, &false.into(), "must be true or undefined");
        }
        map_type(schema, path, self.errors);
        list_type(schema, path, self.errors);
        list_map(schema, path, self.errors);
        unique_items(schema, path, self.errors);
        rules(schema, path, self.errors);
        // A node with faults may have no types, and its expressions no faults of their own.
        if let (Some(rules), Some(scope)) = (&mut self.rules, scope)
            && self.errors.causes().len() == before
        {
            rules.check(schema, path, scope);
        }
    }

    fn children(
        &mut self,
        schema: &Value,
        path: &FieldPath,
        standard: &Standard,
        place: Place,
        scope: Option<&RuleScope>,
    ) {
        let part = scope.map(|scope| scope.part(schema));
        let properties = schema["properties"].as_object();
        let additional = &schema["additionalProperties"];
        if !additional.is_null() {
            let path = path.child("additionalProperties");
            let declares = properties.is_some_and(|properties| !properties.is_empty());
            if declares && *additional != true {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.errors.forbidden(&path, detail);
            }
            let mut inner = standard.clone();
            if standard.in_metadata {
                let reason = "inside additionalProperties applying to object metadata";
                inner.no_defaults = Some(reason.to_owned());
            }
            if additional.is_object() {
                self.node(additional, &path, &inner, Place::Inside, part.as_ref());
            }
        }
        let is_resource = place == Place::Root || schema["x-kubernetes-embedded-resource"] == true;
        for (name, property) in properties.into_iter().flatten() {
            let mut inner = standard.clone();
            if is_resource && META_FIELDS.contains(&name.as_str()) {
                inner.in_metadata = true;
                if place == Place::Root {
                    inner.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            let path = path.child("properties").key(name);
            self.node(property, &path, &inner, Place::Inside, part.as_ref());
        }
        if schema["not"].is_object() {
            self.node(
                &schema["not"],
                &path.child("not"),
                standard,
                Place::Inside,
                None,
            );
        }
        for field in ["allOf", "oneOf", "anyOf"] {
            for (index, clause) in list(&schema[field]).iter().enumerate() {
                let path = path.child(field).index(index);
                self.node(clause, &path, standard, Place::Inside, None);
            }
        }
        for (name, definition) in schema["definitions"].as_object().into_iter().flatten() {
            let path = path.child("definitions").key(name);
            self.node(definition, &path, standard, Place::Inside, None);
        }
        if schema["items"].is_object() {
            let items = scope.map(|scope| scope.items(schema, path));
            self.node(
                &schema["items"],
                &path.child("items"),
                standard,
                Place::Inside,
                items.as_ref(),
            );
        }
        for (index, item) in list(&schema["items"]).iter().enumerate() {
            let path = path.child("items").index(index);
            self.node(item, &path, standard, Place::Inside, None);
        }
        for (name, dependency) in schema["dependencies"].as_object().into_iter().flatten() {
            if dependency.is_object() {
                let path = path.child("dependencies").key(name);
                self.node(dependency, &path, standard, Place::Inside, None);
            }
        }
    }
}

fn unsupported(schema: &Value, path: &FieldPath, standard: &Standard, errors: &mut FieldErrors) {
    let value_type = text(schema, "type");
    if !value_type.is_empty() && !TYPES.contains(&value_type) {
        errors.not_supported(&path.child("type"), &value_type.into(), &TYPES);
    }
    if let Some(reason) = &standard.no_defaults
        && !schema["default"].is_null()
    {
        errors.forbidden(&path.child("default"), &format!("must not be set {reason}"));
    }
    for field in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        let is_empty = |value: &Value| match value {
            Value::String(text) => text.is_empty() && field == "id",
            value => value.is_null(),
        };
        if !is_empty(&schema[field]) {
            errors.forbidden(&path.child(field), &format!("{field} is not supported"));
        }
    }
    if value_type == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(&path.child("type"), detail);
    }
    if !list(&schema["items"]).is_empty() {
        let detail = "items must be a schema object and not an array";
        errors.forbidden(&path.child("items"), detail);
    }
    if standard.in_metadata && schema["x-kubernetes-embedded-resource"] == true {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.forbidden(&path, "must not be used inside of resource meta");
    }
}

/// A type that an extension calls for.
fn needs_type(
    schema: &Value,
    wanted: &str,
    extension: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let detail = format!("must be {wanted} if {extension} is specified");
    match text(schema, "type") {
        "" => errors.required(&path.child("type"), &detail),
        found => errors.invalid(&path.child("type"), &found.into(), &detail),
    }
}

fn map_type(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const EXTENSION: &str = "x-kubernetes-map-type";
    let Some(map_type) = schema[EXTENSION].as_str() else {
        return;
    };
    if text(schema, "type") != "object" {
        needs_type(schema, "object", EXTENSION, path, errors);
    }
    if !matches!(map_type, "atomic" | "granular") {
        let path = path.child(EXTENSION);
        errors.not_supported(&path, &map_type.into(), &["atomic", "granular"]);
    }
}

fn list_type(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const EXTENSION: &str = "x-kubernetes-list-type";
    let Some(list_type) = schema[EXTENSION].as_str() else {
        return;
    };
    let items = &schema["items"];
    if text(schema, "type") != "array" {
        needs_type(schema, "array", EXTENSION, path, errors);
    } else if list_type == "set" && items.is_object() {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let own = &items[EXTENSION];
        let path = path.child("items");
        match text(items, "type") {
            "array" if !own.is_null() && own != "atomic" => {
                errors.invalid(&path.child(EXTENSION), own, detail);
            }
            // The fault shows the list type here too, as upstream.
            "object" if items["x-kubernetes-map-type"] != "atomic" => {
                errors.invalid(&path.child("x-kubernetes-map-type"), own, detail);
            }
            _ => {}
        }
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        let path = path.child(EXTENSION);
        errors.not_supported(&path, &list_type.into(), &["atomic", "set", "map"]);
    }
}

fn list_map(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list_type = schema["x-kubernetes-list-type"].as_str();
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let all_keys = &schema["x-kubernetes-list-map-keys"];
    let keys = list(all_keys);
    if !keys.is_empty() && list_type != Some("map") {
        let path = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.required(&path, detail),
            Some(other) => errors.invalid(&path, &other.into(), detail),
        }
    }
    if list_type != Some("map") {
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.required(&keys_path, detail);
    }
    let items = &schema["items"];
    let items_path = path.child("items");
    match items {
        Value::Null => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.required(&items_path, detail);
        }
        Value::Object(_) if text(items, "type") != "object" => {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            errors.invalid(
                &items_path.child("type"),
                &text(items, "type").into(),
                detail,
            );
        }
        Value::Object(_) => {
            let mut seen = BTreeSet::new();
            for key in keys.iter().filter_map(Value::as_str) {
                let property = &items["properties"][key];
                if property.is_null() {
                    let detail = "entries must all be names of item properties";
                    errors.invalid(&keys_path, all_keys, detail);
                } else if matches!(text(property, "type"), "array" | "object") {
                    let path = items_path.child("properties").key(key).child("type");
                    let detail =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    errors.invalid(&path, &text(items, "type").into(), detail);
                }
                if !seen.insert(key) {
                    errors.invalid(&keys_path, all_keys, "must not contain duplicate entries");
                }
            }
        }
        items => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.invalid(&items_path, items, detail);
        }
    }
}

/// Faults of the items of sets and keyed lists: items are not nullable, and keys have a value.
fn unique_items(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let items = &schema["items"];
    let list_type = text(schema, "x-kubernetes-list-type");
    if !items.is_object() || !matches!(list_type, "set" | "map") {
        return;
    }
    let path = path.child("items");
    if items["nullable"] == true {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(&path.child("nullable"), &detail);
    }
    if list_type == "set" {
        return;
    }
    for key in list(&schema["x-kubernetes-list-map-keys"])
        .iter()
        .filter_map(Value::as_str)
    {
        let property = &items["properties"][key];
        if property.is_null() {
            continue;
        }
        let path = path.child("properties").key(key);
        let is_required = list(&items["required"]).iter().any(|name| name == key);
        if !is_required && property["default"].is_null() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&path.child("default"), detail);
        }
        if property["nullable"] == true {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&path.child("nullable"), detail);
        }
    }
}

/// The rules of `x-kubernetes-validations` as far as that does not take their language.
fn rules(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let mut structural = None;
    for (index, rule) in list(&schema["x-kubernetes-validations"]).iter().enumerate() {
        let path = path.child("x-kubernetes-validations").index(index);
        let (expression, message) = (text(rule, "rule"), text(rule, "message"));
        let message_path = path.child("message");
        if expression.trim().is_empty() {
            errors.required(&path.child("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.invalid(&message_path, &message.into(), detail);
        } else if has_breaks(message.trim()) {
            errors.invalid(
                &message_path,
                &message.into(),
                "must not contain line breaks",
            );
        } else if has_breaks(expression.trim()) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.required(&message_path, detail);
        }
        let message_expression = text(rule, "messageExpression");
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(&path.child("messageExpression"), detail);
        }
        if let Some(reason) = rule["reason"].as_str()
            && !RULE_REASONS.contains(&reason)
        {
            errors.not_supported(&path.child("reason"), &reason.into(), &RULE_REASONS);
        }
        let field = text(rule, "fieldPath");
        if field.is_empty() {
            continue;
        }
        let path = path.child("fieldPath");
        if field.trim().is_empty() {
            errors.invalid(&path, &field.into(), "must be non-empty if specified");
        }
        if has_breaks(field) {
            errors.invalid(&path, &field.into(), "must not contain line breaks");
        }
        let structural = structural.get_or_insert_with(|| Structural::parse(schema));
        let brackets = field_path::Notation::DotsAndBrackets;
        if field_path::resolve(field, structural, brackets).is_err() {
            errors.invalid(&path, &field.into(), "must be a valid path");
        }
    }
}

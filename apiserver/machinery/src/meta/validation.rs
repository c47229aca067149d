//! Validation of an object's metadata, the same for every resource.
//!
//! Faults are worded and ordered as upstream's; maps are visited in key order, where upstream's
//! order is random.

mod label_selector;
mod names;
mod owner_references;

use std::collections::BTreeSet;

use crate::json::{Map, Value, encoded_string};
use crate::status::{CauseReason, FieldErrors, FieldPath, quoted};

pub use label_selector::validate_label_selector;
pub use names::{
    NameRule, config_map_key, dns1035_label, dns1123_label, dns1123_subdomain, label_value,
    path_segment_name, path_segment_prefix, qualified_name, wildcard_subdomain,
};
pub use owner_references::validate_owner_references;

/// The text of a change to a field that cannot change.
pub const FIELD_IMMUTABLE: &str = "field is immutable";

const NOT_STANDARD: &str = "name is neither a standard finalizer name nor is it fully qualified";
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const FIELD_MANAGER_BYTES_MAX: usize = 128;
const SUBRESOURCE_BYTES_MAX: usize = 256;

/// Validates the metadata of an object about to be created, its name already generated.
///
/// `path` is where `meta` stands, mostly `metadata`. Built-in kinds call
/// [`validate_standard_finalizers`] on top.
#[must_use]
pub fn validate_object_meta(
    meta: &Value,
    namespaced: bool,
    name_rule: NameRule,
    path: &FieldPath,
) -> FieldErrors {
    let mut errors = validate_names(meta, name_rule, path);
    validate_namespace(meta, namespaced, &path.child("namespace"), &mut errors);
    let generation = integer(meta, "generation");
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.invalid(&path.child("generation"), &generation.into(), detail);
    }
    validate_labels(meta.get("labels"), &path.child("labels"), &mut errors);
    validate_annotations(meta, &path.child("annotations"), &mut errors);
    validate_owner_references(meta, &path.child("ownerReferences"), &mut errors);
    validate_finalizers(meta, &path.child("finalizers"), &mut errors);
    validate_managed_fields(meta, &path.child("managedFields"), &mut errors);
    errors
}

/// Validates the name and its prefix, which is the first part of [`validate_object_meta`].
#[must_use]
pub fn validate_names(meta: &Value, name_rule: NameRule, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let generate_name = text(meta, "generateName");
    if !generate_name.is_empty() {
        for fault in name_rule.faults(generate_name, true) {
            errors.invalid(&path.child("generateName"), &generate_name.into(), &fault);
        }
    }
    let name = text(meta, "name");
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    }
    for fault in (!name.is_empty())
        .then(|| name_rule.faults(name, false))
        .into_iter()
        .flatten()
    {
        errors.invalid(&path.child("name"), &name.into(), &fault);
    }
    errors
}

/// Validates the metadata `new` that is to replace `old`.
#[must_use]
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if field(old, "deletionTimestamp") != &Value::Null {
        validate_no_new_finalizers(new, old, &path.child("finalizers"), &mut errors);
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.invalid(&path.child("resourceVersion"), &"".into(), detail);
    }
    let generation = integer(new, "generation");
    if generation < integer(old, "generation") {
        let detail = "must not be decremented";
        errors.invalid(&path.child("generation"), &generation.into(), detail);
    }
    for key in ["name", "namespace"] {
        let (new, old) = (text(new, key), text(old, key));
        validate_immutable(&new.into(), &old.into(), &path.child(key), &mut errors);
    }
    let uid = text(new, "uid");
    if uid != text(old, "uid") {
        // A UID has a type of its own upstream, so messages show it as JSON.
        let (path, shown) = (path.child("uid"), encoded_string(uid));
        invalid_struct(&mut errors, &path, &shown, FIELD_IMMUTABLE);
    }
    for key in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        validate_immutable(
            field(new, key),
            field(old, key),
            &path.child(key),
            &mut errors,
        );
    }
    validate_labels(new.get("labels"), &path.child("labels"), &mut errors);
    validate_annotations(new, &path.child("annotations"), &mut errors);
    validate_owner_references(new, &path.child("ownerReferences"), &mut errors);
    validate_managed_fields(new, &path.child("managedFields"), &mut errors);
    errors
}

/// The finalizers of a built-in kind: one without a domain must be one that Kubernetes knows.
/// Follows [`validate_object_meta`] and [`validate_object_meta_update`].
#[must_use]
pub fn validate_standard_finalizers(meta: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (index, finalizer) in strings(meta, "finalizers").into_iter().enumerate() {
        if !is_standard_or_qualified(finalizer) {
            let path = path.child("finalizers").index(index);
            errors.invalid(&path, &finalizer.into(), NOT_STANDARD);
        }
    }
    errors
}

/// Validates a subdomain followed by a slash and a path.
pub fn validate_domain_prefixed_path(own: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if own.is_empty() {
        errors.required(path, "");
        return;
    }
    let Some((domain, rest)) = own
        .split_once('/')
        .filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.invalid(path, &own.into(), detail);
        return;
    };
    for fault in dns1123_subdomain(domain) {
        errors.invalid(path, &domain.into(), &fault);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(allowed) {
        let detail = "Invalid path";
        errors.invalid(path, &rest.into(), detail);
    }
}

/// The name of a finalizer of a namespace, by both rules at once.
pub fn validate_finalizer_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for fault in qualified_name(name) {
        errors.invalid(path, &name.into(), &fault);
    }
    if !is_standard_or_qualified(name) {
        errors.invalid(path, &name.into(), NOT_STANDARD);
    }
}

fn is_standard_or_qualified(finalizer: &str) -> bool {
    finalizer.contains('/') || ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer)
}

/// `new` must equal `old`.
pub fn validate_immutable(new: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if !semantically_equal(new, old) {
        errors.invalid(path, new, FIELD_IMMUTABLE);
    }
}

/// Whether two values are equal, where an empty list equals a missing one. Upstream: `equality.Semantic.DeepEqual`.
#[must_use]
pub fn semantically_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(items), Value::Null) | (Value::Null, Value::Array(items)) => items.is_empty(),
        (Value::Array(left), Value::Array(right)) => {
            let mut pairs = left.iter().zip(right);
            left.len() == right.len() && pairs.all(|(left, right)| semantically_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let names = left.keys().chain(right.keys());
            names
                .collect::<BTreeSet<_>>()
                .into_iter()
                .all(|name| semantically_equal(member(left, name), member(right, name)))
        }
        _ => left == right,
    }
}

/// A member of a map, or null.
fn member<'v>(map: &'v Map, name: &str) -> &'v Value {
    map.get(name).unwrap_or(&Value::Null)
}

/// A map of labels: its keys are qualified names, its values label values.
pub fn validate_labels(labels: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for fault in qualified_name(key) {
            errors.invalid(path, &key.as_str().into(), &fault);
        }
        for fault in value.as_str().map(label_value).into_iter().flatten() {
            errors.invalid(path, value, &fault);
        }
    }
}

/// The name of a field manager: short and printable. Also for the query parameter of that name.
pub fn validate_field_manager(manager: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.too_long(path, FIELD_MANAGER_BYTES_MAX);
    }
    for (position, c) in manager.char_indices() {
        // Go's idea of printable leaves out every white space but U+0020.
        if c.is_control() || (c.is_whitespace() && c != ' ') {
            let detail = format!(
                "invalid character U+{:04X} (at position {position})",
                c as u32
            );
            errors.invalid(path, &manager.into(), &detail);
        }
    }
}

fn validate_namespace(meta: &Value, namespaced: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let namespace = text(meta, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required(path, ""),
        (true, false) => {
            for fault in dns1123_label(namespace) {
                errors.invalid(path, &namespace.into(), &fault);
            }
        }
        (false, false) => errors.forbidden(path, "not allowed on this type"),
        (false, true) => {}
    }
}

fn validate_annotations(meta: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut bytes = 0;
    let annotations = meta.get("annotations").and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        // Annotation keys may have upper case in their prefix.
        for fault in qualified_name(&key.to_lowercase()) {
            errors.invalid(path, &key.as_str().into(), &fault);
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.too_long(path, ANNOTATIONS_BYTES_MAX);
    }
}

fn validate_finalizers(meta: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let finalizers = strings(meta, "finalizers");
    for &finalizer in &finalizers {
        for fault in qualified_name(finalizer) {
            errors.invalid(path, &finalizer.into(), &fault);
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(path, field(meta, "finalizers"), detail);
    }
}

fn validate_no_new_finalizers(
    new: &Value,
    old: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let held: BTreeSet<&str> = strings(old, "finalizers").into_iter().collect();
    let mut added = strings(new, "finalizers");
    added.retain(|finalizer| !held.contains(finalizer));
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        let list: Vec<String> = added.iter().map(|finalizer| quoted(finalizer)).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            list.join(", ")
        );
        errors.forbidden(path, &detail);
    }
}

fn validate_managed_fields(meta: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let entries = meta.get("managedFields").and_then(Value::as_array);
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let at = |field: &str| path.index(index).child(field);
        let operation = text(entry, "operation");
        if !["Apply", "Update"].contains(&operation) {
            let detail = "must be `Apply` or `Update`";
            errors.invalid(&at("operation"), &operation.into(), detail);
        }
        let fields_type = text(entry, "fieldsType");
        if !["", "FieldsV1"].contains(&fields_type) {
            let detail = "must be `FieldsV1`";
            errors.invalid(&at("fieldsType"), &fields_type.into(), detail);
        }
        validate_field_manager(text(entry, "manager"), &at("manager"), errors);
        if text(entry, "subresource").len() > SUBRESOURCE_BYTES_MAX {
            errors.too_long(&at("subresource"), SUBRESOURCE_BYTES_MAX);
        }
    }
}

/// A fault whose value is shown as Go's JSON of a struct, in the order the struct declares.
fn invalid_struct(errors: &mut FieldErrors, path: &FieldPath, shown: &str, detail: &str) {
    let message = format!("Invalid value: {shown}: {detail}");
    errors.push(CauseReason::Invalid, path, message);
}

fn field<'a>(object: &'a Value, key: &str) -> &'a Value {
    object.get(key).unwrap_or(&Value::Null)
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    field(object, key).as_str().unwrap_or_default()
}

fn integer(object: &Value, key: &str) -> i64 {
    field(object, key).as_i64().unwrap_or_default()
}

fn strings<'a>(object: &'a Value, key: &str) -> Vec<&'a str> {
    let items = object.get(key).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests;

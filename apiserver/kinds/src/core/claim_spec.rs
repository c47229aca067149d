//! The spec of a PersistentVolumeClaim, wherever one occurs, and its fields that a PersistentVolume shares.

use super::resource_list::warn_of_amounts;
use crate::json::{Value, json};
use crate::meta::validation::{
    dns1123_label, dns1123_subdomain, qualified_name, validate_label_selector, validate_labels,
};
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, text};
use crate::validation::{invalid_each, one_of, required};

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
pub(crate) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Faults of the metadata of a template for objects, which has labels and annotations alone. Upstream:
/// `ValidateTemplateObjectMeta`.
pub(crate) fn validate_template_meta(meta: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (key, _) in entries(&meta["annotations"]) {
        let faults = qualified_name(&key.to_lowercase());
        let path = path.child("annotations");
        invalid_each(faults, &key.as_str().into(), &path, errors);
    }
    validate_labels(meta.get("labels"), &path.child("labels"), errors);
    for (field, value) in entries(meta) {
        if !["labels", "annotations"].contains(&field.as_str()) && !value.is_null() {
            // Upstream makes the name from Go's.
            let field = if field == "uid" { "uID" } else { field };
            errors.forbidden(&path.child(field), "cannot be set");
        }
    }
}

/// Faults of a claim's spec, wherever one occurs.
pub(crate) fn validate_claim_spec(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_spec(spec, path, true, errors);
}

/// As [`validate_claim_spec`]; `checks_groups` is whether the groups of data sources must be valid names.
pub(super) fn validate_spec(
    spec: &Value,
    path: &FieldPath,
    checks_groups: bool,
    errors: &mut FieldErrors,
) {
    let modes = path.child("accessModes");
    if is_empty(&spec["accessModes"]) {
        errors.required(&modes, "at least 1 access mode is required");
    }
    let selector = &spec["selector"];
    if !selector.is_null() {
        validate_label_selector(selector, false, &path.child("selector"), errors);
    }
    validate_access_modes(&spec["accessModes"], &modes, errors);
    let storage = &spec["resources"]["requests"]["storage"];
    let size_path = path.child("resources").key("storage");
    match storage.as_str().map(Quantity::parse) {
        None => errors.required(&size_path, ""),
        Some(Ok(size)) if size.is_zero() || size.is_negative() => {
            errors.invalid(&size_path, storage, "must be greater than zero");
        }
        Some(_) => {}
    }
    validate_class(spec, "storageClassName", path, errors);
    let mode = &spec["volumeMode"];
    if !mode.is_null() {
        one_of(mode, &path.child("volumeMode"), &VOLUME_MODES, errors);
    }
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    validate_source(source, &path.child("dataSource"), checks_groups, errors);
    let at = path.child("dataSourceRef");
    validate_source(reference, &at, checks_groups, errors);
    let namespace = &reference["namespace"];
    if !text(namespace).is_empty() {
        let faults = dns1123_label(text(namespace));
        invalid_each(faults, namespace, &at.child("namespace"), errors);
        if !source.is_null() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            errors.invalid(path, &json!({}), detail);
        }
    } else if !source.is_null()
        && !reference.is_null()
        && ["apiGroup", "kind", "name"]
            .iter()
            .any(|field| source[field] != reference[field])
    {
        // Upstream passes the path as the value, so the fault does not show the value.
        errors.invalid(path, &json!({}), "must match dataSourceRef");
    }
    validate_class(spec, "volumeAttributesClassName", path, errors);
}

/// Validates access modes: they are known, and `ReadWriteOncePod` must be the only one.
pub(crate) fn validate_access_modes(modes: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for mode in items(modes) {
        one_of(mode, path, &ACCESS_MODES, errors);
    }
    let exclusive = items(modes).any(|mode| mode == "ReadWriteOncePod");
    let others = |mode: &Value| mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&text(mode));
    if exclusive && items(modes).any(others) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(path, detail);
    }
}

fn validate_class(spec: &Value, field: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let class = &spec[field];
    if !text(class).is_empty() {
        invalid_each(
            dns1123_subdomain(text(class)),
            class,
            &path.child(field),
            errors,
        );
    }
}

/// Faults of the data source of a claim.
fn validate_source(
    source: &Value,
    path: &FieldPath,
    checks_groups: bool,
    errors: &mut FieldErrors,
) {
    if source.is_null() {
        return;
    }
    for field in ["name", "kind"] {
        required(&source[field], &path.child(field), errors);
    }
    let group = &source["apiGroup"];
    if text(group).is_empty() {
        if source["kind"] != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.invalid(path, &text(&source["kind"]).into(), detail);
        }
    } else if checks_groups {
        invalid_each(
            dns1123_subdomain(text(group)),
            group,
            &path.child("apiGroup"),
            errors,
        );
    }
}

/// The warnings of a claim's spec, wherever one occurs.
pub(crate) fn warn_of_claim_spec(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for half in ["requests", "limits"] {
        let path = path.child("resources").child(half);
        warn_of_amounts(&spec["resources"][half], &path, &["storage"], warnings);
    }
}

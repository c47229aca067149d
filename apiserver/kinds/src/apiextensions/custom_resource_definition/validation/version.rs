//! One version of a definition: its deprecation, subresources, columns and selectable fields.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::{CommonFields, field_path, has_status, list, schema, text};
use crate::json::Value;
use crate::meta::validation::dns1035_label;
use crate::schema::structural::Structural;
use crate::status::{FieldErrors, FieldPath};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// How many fields a version may make selectable.
const SELECTABLE_FIELDS_MAX: usize = 8;

/// Bytes that a warning may have.
const WARNING_BYTES_MAX: usize = 256;

/// Characters that Go does not count as printable. The only printable space is U+0020.
static UNPRINTABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[^\p{L}\p{M}\p{N}\p{P}\p{S} ]").expect("the pattern is one of this program")
});

/// The faults of a version, apart from the fields that all versions have in common.
pub(super) fn validate(
    common: &CommonFields,
    version: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let name = text(version, "name");
    let faults = dns1035_label(name);
    if !faults.is_empty() {
        errors.invalid(&path.child("name"), &name.into(), &faults.join(","));
    }
    validate_warning(version, &path.child("deprecationWarning"), errors);
    let own = |field: &str| common.own(version, field);
    let status = has_status(&version["subresources"]);
    schema::validate(own("schema"), status, &path.child("schema"), errors);
    validate_subresources(own("subresources"), &path.child("subresources"), errors);
    let columns = path.child("additionalPrinterColumns");
    validate_columns(own("additionalPrinterColumns"), &columns, errors);
    let fields = own("selectableFields");
    if list(fields).is_empty() {
        return;
    }
    let path = path.child("selectableFields");
    match own("schema") {
        schema if schema["openAPIV3Schema"].is_null() => {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.invalid(&path, &"".into(), detail);
        }
        schema => validate_selectable(fields, schema, &path, errors),
    }
}

fn validate_warning(version: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return;
    };
    let mut invalid = |detail: &str| errors.invalid(path, &warning.into(), detail);
    if version["deprecated"] != true {
        invalid("can only be set for deprecated versions");
        return;
    }
    if warning.len() > WARNING_BYTES_MAX {
        invalid("must be <= 256 characters long");
    }
    if warning.is_empty() {
        invalid("must not be an empty string");
    }
    if let Some(index) = UNPRINTABLE.find(warning).map(|found| found.start()) {
        invalid(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// The paths of a `scale` subresource.
pub(super) fn validate_subresources(
    subresources: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let scale = &subresources["scale"];
    if scale.is_null() {
        return;
    }
    for (field, root) in [
        ("specReplicasPath", ".spec."),
        ("statusReplicasPath", ".status."),
    ] {
        let path = path.child("scale").child(field);
        let value = text(scale, field);
        if value.is_empty() {
            errors.required(&path, "");
        } else if is_simple(value, &path, errors) && !value.starts_with(root) {
            let detail = format!("should be a json path under {}", root.trim_end_matches('.'));
            errors.invalid(&path, &value.into(), &detail);
        }
    }
    let path = path.child("scale").child("labelSelectorPath");
    let value = text(scale, "labelSelectorPath");
    if !value.is_empty()
        && is_simple(value, &path, errors)
        && !value.starts_with(".spec.")
        && !value.starts_with(".status.")
    {
        let detail = "should be a json path under either .spec or .status";
        errors.invalid(&path, &value.into(), detail);
    }
}

fn is_simple(value: &str, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let simple = value.starts_with('.');
    if !simple {
        let detail = "must be a simple json path starting with .";
        errors.invalid(path, &value.into(), detail);
    }
    simple
}

/// The printer columns.
pub(super) fn validate_columns(columns: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, column) in list(columns).iter().enumerate() {
        let path = path.index(index);
        if text(column, "name").is_empty() {
            errors.required(&path.child("name"), "");
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => errors.required(&path.child("type"), &types),
            known if COLUMN_TYPES.contains(&known) => {}
            other => errors.invalid(&path.child("type"), &other.into(), &types),
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.invalid(&path.child("format"), &format.into(), &detail);
        }
        let path = path.child("JSONPath");
        match text(column, "jsonPath") {
            "" => errors.required(&path, ""),
            json_path => {
                is_simple(json_path, &path, errors);
            }
        }
    }
}

/// The selectable fields, which must be of a basic type in the schema.
pub(super) fn validate_selectable(
    fields: &Value,
    schema: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let schema = Structural::parse(&schema["openAPIV3Schema"]);
    let mut seen = BTreeSet::new();
    for (index, field) in list(fields).iter().enumerate() {
        let at = path.index(index).child("jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let found = match field_path::resolve(json_path, &schema, field_path::Notation::Dots) {
            Ok(found) => found,
            Err(fault) => {
                errors.invalid(
                    &at,
                    &json_path.into(),
                    &format!("is an invalid path: {fault}"),
                );
                continue;
            }
        };
        if found.names.first().is_some_and(|root| root == "metadata") {
            let detail = "must not point to fields in metadata";
            errors.invalid(&at, &json_path.into(), detail);
        }
        if !matches!(
            found.schema.value_type.as_str(),
            "string" | "boolean" | "integer"
        ) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&at, &json_path.into(), detail);
        }
        if !seen.insert(found.names) {
            errors.duplicate(&at, &json_path.into());
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        errors.too_many(path, seen.len(), SELECTABLE_FIELDS_MAX);
    }
}

//! ConfigMaps.

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::validation::config_map_key;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, text};
use crate::validation::invalid_each;
use crate::{MetadataCheck, Strategy};

/// A ConfigMap or Secret holds at most 1 MiB.
const MAX_SIZE: usize = 1024 * 1024;

/// The strategy of ConfigMaps.
#[derive(Debug)]
pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn validate(&self, map: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let binary = &map["binaryData"];
        let path = FieldPath::new("data");
        for (key, _) in entries(&map["data"]) {
            validate_key(key, &path.key(key), &mut errors);
            if binary.get(key).is_some() {
                let detail = "duplicate of key present in binaryData";
                errors.invalid(&path.key(key), &key.as_str().into(), detail);
            }
        }
        let path = FieldPath::new("binaryData");
        for (key, _) in entries(binary) {
            validate_key(key, &path.key(key), &mut errors);
        }
        let texts = entries(&map["data"]).map(|(_, value)| text(value).len());
        let size = texts.sum::<usize>() + byte_count(binary);
        // Upstream gives no path here, which Go prints as an empty list.
        validate_size(size, &FieldPath::new("[]"), &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_stays(new, old, &["data", "binaryData"], &mut errors);
        errors.extend(self.validate(new));
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.len("/data") + view.len("/binaryData")),
            view.age(),
        ])
    }
}

pub(crate) fn validate_key(key: &str, path: &FieldPath, errors: &mut FieldErrors) {
    invalid_each(config_map_key(key), &key.into(), path, errors);
}

/// How many bytes the base64 texts of a map stand for.
pub(crate) fn byte_count(data: &Value) -> usize {
    let bytes = |value: &Value| {
        let text = text(value);
        text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
    };
    entries(data).map(|(_, value)| bytes(value)).sum()
}

/// Too much data in all.
pub(crate) fn validate_size(size: usize, path: &FieldPath, errors: &mut FieldErrors) {
    if size > MAX_SIZE {
        errors.too_long(path, MAX_SIZE);
    }
}

/// Checks that `immutable` stays set and that the fields `data` of an immutable object stay
/// unchanged.
pub(crate) fn validate_stays(new: &Value, old: &Value, data: &[&str], errors: &mut FieldErrors) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        errors.forbidden(&FieldPath::new("immutable"), DETAIL);
    }
    for field in data {
        if entries(&new[*field]).ne(entries(&old[*field])) {
            errors.forbidden(&FieldPath::new(field), DETAIL);
        }
    }
}

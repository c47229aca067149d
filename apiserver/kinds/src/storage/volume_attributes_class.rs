//! VolumeAttributesClasses.

use crate::columns::Printable;
use crate::columns::volume::named_default;
use crate::json::{Value, json};
use crate::meta::validation::qualified_name;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, text};
use crate::validation::invalid_each;
use crate::{MetadataCheck, Strategy};

const DEFAULT_ANNOTATION: &str =
    "/metadata/annotations/volumeattributesclass.alpha.kubernetes.io~1is-default-class";
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (driver, path) = (&class["driverName"], FieldPath::new("driverName"));
        if text(driver).is_empty() {
            errors.required(&path, "");
        } else {
            let lower = text(driver).to_lowercase();
            invalid_each(
                qualified_name(&lower),
                &lower.as_str().into(),
                &path,
                &mut errors,
            );
        }
        let path = FieldPath::new("parameters");
        if is_empty(&class["parameters"]) {
            errors.required(&path, "must contain at least one key/value pair");
        }
        validate_parameters(&class["parameters"], &path, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for field in ["driverName", "parameters"] {
            if new[field] != old[field] {
                let detail = format!("updates to {field} are forbidden.");
                errors.forbidden(&FieldPath::new(field), &detail);
            }
        }
        errors.extend(self.validate(new));
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            named_default(view, &[DEFAULT_ANNOTATION]),
            json!(view.str("/driverName")),
            view.age(),
        ])
    }
}

/// Faults of the parameters for a class's driver.
pub(crate) fn validate_parameters(parameters: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if entries(parameters).count() > PARAMETERS_MAX {
        return errors.too_long(path, PARAMETERS_MAX);
    }
    let mut bytes = 0;
    for (key, value) in entries(parameters) {
        if key.is_empty() {
            errors.invalid(path, &"".into(), "field can not be empty.");
        }
        bytes += key.len() + text(value).len();
    }
    if bytes > PARAMETERS_BYTES_MAX {
        errors.too_long(path, PARAMETERS_BYTES_MAX);
    }
}

//! DeviceClasses, and the rules shared with claims: selectors and configuration of devices.

use super::devices::{LIST_MAX, validate_list};
use crate::cel::{Returns, Scope};
use crate::core::pod::volume_sources::validate_csi_driver_name;
use crate::core::resource_names::is_extended;
use crate::json::Value;
use crate::meta::validation::NameRule;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, text};
use crate::{MetadataCheck, Strategy};

const SELECTORS_MAX: usize = 32;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

#[derive(Debug)]
pub(crate) struct DeviceClass;

impl Strategy for DeviceClass {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::LongName
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (&class["spec"], FieldPath::new("spec"));
        validate_selectors(&spec["selectors"], &path.child("selectors"), &mut errors);
        validate_list(
            &spec["config"],
            LIST_MAX,
            &path.child("config"),
            &mut errors,
            validate_config,
        );
        let resource = &spec["extendedResourceName"];
        if !resource.is_null() && !is_extended(text(resource)) {
            let path = path.child("extendedResourceName");
            errors.invalid(&path, resource, "must be a valid extended resource name");
        }
        errors
    }
}

/// The faults of selectors of devices.
pub(crate) fn validate_selectors(selectors: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let count = items(selectors).count();
    if count > SELECTORS_MAX {
        return errors.too_many(path, count, SELECTORS_MAX);
    }
    for (index, selector) in items(selectors).enumerate() {
        let path = path.index(index).child("cel");
        if selector["cel"].is_null() {
            errors.required(&path, "");
            continue;
        }
        let expression = text(&selector["cel"]["expression"]);
        let path = path.child("expression");
        if expression.len() > EXPRESSION_BYTES_MAX {
            errors.too_long(&path, EXPRESSION_BYTES_MAX);
        } else if let Err(why) = Scope::of_device().compile(expression, Returns::DeviceMatch) {
            errors.invalid(&path, &expression.into(), &why);
        }
    }
}

/// Faults of the configuration that a driver receives for devices.
pub(crate) fn validate_config(config: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("opaque");
    let opaque = &config["opaque"];
    if opaque.is_null() {
        return errors.required(&path, "");
    }
    validate_csi_driver_name(&opaque["driver"], &path.child("driver"), errors);
    let (parameters, at) = (&opaque["parameters"], path.child("parameters"));
    if parameters.is_null() {
        errors.required(&at, "");
    } else if parameters.to_string().len() > PARAMETERS_BYTES_MAX {
        errors.too_long(&at, PARAMETERS_BYTES_MAX);
    } else if !parameters.is_object() {
        errors.invalid(
            &at,
            &"<value omitted>".into(),
            "must be a valid JSON object",
        );
    }
}

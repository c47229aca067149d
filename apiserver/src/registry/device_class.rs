//! DeviceClasses, and what they share with claims: selectors and configuration of devices.

use serde_json::Value;

use super::Strategy;
use super::checks::{invalid_each, items, text};
use crate::cel::{Returns, Scope};
use crate::meta::validation::{dns1123_subdomain, qualified_name};
use crate::status::{FieldErrors, FieldPath};

const SELECTORS_MAX: usize = 32;
const CONFIGS_MAX: usize = 32;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;
const DRIVER_BYTES_MAX: usize = 63;

#[derive(Debug)]
pub(super) struct DeviceClass;

impl Strategy for DeviceClass {
    fn counts_generation(&self) -> bool {
        true
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (&class["spec"], FieldPath::new("spec"));
        validate_selectors(&spec["selectors"], &path.child("selectors"), &mut errors);
        let at = path.child("config");
        let count = items(&spec["config"]).count();
        if count > CONFIGS_MAX {
            errors.too_many(&at, count, CONFIGS_MAX);
        }
        for (index, config) in items(&spec["config"]).enumerate() {
            validate_config(config, &at.index(index), &mut errors);
        }
        let resource = &spec["extendedResourceName"];
        if !resource.is_null() {
            let path = path.child("extendedResourceName");
            validate_extended_resource(resource, &path, &mut errors);
        }
        errors
    }
}

/// The faults of selectors of devices.
pub(super) fn validate_selectors(selectors: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let count = items(selectors).count();
    if count > SELECTORS_MAX {
        errors.too_many(path, count, SELECTORS_MAX);
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

/// The faults of what a driver is told about devices.
pub(super) fn validate_config(config: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("opaque");
    let opaque = &config["opaque"];
    if opaque.is_null() {
        return errors.required(&path, "");
    }
    let (driver, at) = (&opaque["driver"], path.child("driver"));
    if text(driver).is_empty() {
        errors.required(&at, "");
    }
    if text(driver).len() > DRIVER_BYTES_MAX {
        errors.too_long(&at, DRIVER_BYTES_MAX);
    }
    if !text(driver).is_empty() {
        invalid_each(dns1123_subdomain(text(driver)), driver, &at, errors);
    }
    let (parameters, at) = (&opaque["parameters"], path.child("parameters"));
    if parameters.is_null() {
        errors.required(&at, "");
    } else if parameters.to_string().len() > PARAMETERS_BYTES_MAX {
        errors.too_long(&at, PARAMETERS_BYTES_MAX);
    } else if !parameters.is_object() {
        errors.invalid(
            &at,
            &"<value omitted>".into(),
            "parameters must be a valid JSON object",
        );
    }
}

/// Pods ask for such devices by the name of a resource, which must be one of their own.
fn validate_extended_resource(resource: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let name = text(resource);
    let faults = qualified_name(name);
    let (domain, _) = name.split_once('/').unwrap_or_default();
    if !faults.is_empty() {
        invalid_each(faults, resource, path, errors);
    } else if domain.is_empty() || domain.contains("kubernetes.io") || name.starts_with("requests.")
    {
        let detail = "must be a valid extended resource name";
        errors.invalid(path, resource, detail);
    }
}

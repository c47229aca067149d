//! Pod templates and claim templates within objects of foreign kinds, whose webhooks default and
//! validate them with Kubernetes' own code.

use super::pod::defaults::default_pod_spec;
use super::pod::validation;
use crate::json::{Value, json};
use crate::schema::{FieldValidation, core_type, decode_value};
use crate::status::{FieldErrors, FieldPath};

/// Gives a pod template the form in which Go writes it.
///
/// # Errors
/// Go's text for a value that is not a pod template.
pub fn normalize_pod_template(template: &mut Value) -> Result<(), String> {
    *template = as_go_writes("PodTemplateSpec", template)?;
    if template["spec"].is_null() {
        template["spec"] = json!({});
    }
    Ok(())
}

/// Gives a pod template the form in which Go writes it, and its defaults.
///
/// # Errors
/// Go's text for a value that is not a pod template.
pub fn default_pod_template(template: &mut Value) -> Result<(), String> {
    normalize_pod_template(template)?;
    default_pod_spec(&mut template["spec"]);
    Ok(())
}

/// Gives the template of a claim the form in which Go writes it.
///
/// # Errors
/// Go's text for a value that is not a claim.
pub fn normalize_claim_template(template: &mut Value) -> Result<(), String> {
    *template = as_go_writes("PersistentVolumeClaim", template)?;
    Ok(())
}

/// Gives the template of a claim the form in which Go writes it, and its defaults.
///
/// # Errors
/// Go's text for a value that is not a claim.
pub fn default_claim_template(template: &mut Value) -> Result<(), String> {
    normalize_claim_template(template)?;
    for (path, field, value) in [
        ("spec", "volumeMode", json!("Filesystem")),
        ("spec", "resources", json!({})),
        ("status", "phase", json!("Pending")),
    ] {
        if template[path][field].is_null() {
            template[path][field] = value;
        }
    }
    Ok(())
}

/// Decoded and encoded again, with the time of creation that clients before 1.34 spell out.
fn as_go_writes(kind: &str, value: &Value) -> Result<Value, String> {
    let decoded = decode_value(core_type(kind), value.clone(), FieldValidation::Ignore);
    let mut value = decoded.map_err(|error| error.to_string())?.value;
    if value["metadata"].is_null() {
        value["metadata"] = json!({});
    }
    value["metadata"]["creationTimestamp"] = Value::Null;
    Ok(value)
}

/// The faults of the labels and annotations of a pod template at `path`.
#[must_use]
pub fn validate_template_metadata(template: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    validation::validate_template_metadata(template, path, &mut errors);
    errors
}

/// The faults of a pod template at `path`.
#[must_use]
pub fn validate_pod_template(template: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    validation::validate_pod_template(template, path, &mut errors);
    errors
}

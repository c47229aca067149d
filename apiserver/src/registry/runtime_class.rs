//! RuntimeClasses.

use serde_json::{Value, json};

use super::Strategy;
use super::checks::{invalid_each, text};
use super::container_validation::validate_resources;
use super::pod_placement::validate_tolerations;
use crate::meta::validation::{dns1123_label, validate_immutable, validate_labels};
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(super) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("handler");
        let handler = text(&class["handler"]);
        if handler.is_empty() {
            errors.required(&path, "");
        } else {
            invalid_each(dns1123_label(handler), &handler.into(), &path, &mut errors);
        }
        if !class["overhead"]["podFixed"].is_null() {
            let limits = json!({ "limits": class["overhead"]["podFixed"] });
            validate_resources(&limits, &FieldPath::new("overhead"), &mut errors);
        }
        let path = FieldPath::new("scheduling.nodeSelector");
        validate_labels(class["scheduling"].get("nodeSelector"), &path, &mut errors);
        let path = FieldPath::new("scheduling.tolerations");
        validate_tolerations(&class["scheduling"]["tolerations"], &path, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("handler");
        validate_immutable(&new["handler"], &old["handler"], &path, &mut errors);
        errors
    }
}

//! PodTemplates, the resource.

use serde_json::Value;

use super::Strategy;
use super::pod_validation::validate_pod_template;
use super::workload::default_template;
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(super) struct PodTemplate;

impl Strategy for PodTemplate {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        if let Some(fields) = object.as_object_mut() {
            default_template(fields);
        }
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("template");
        validate_pod_template(&object["template"], &path, &mut errors);
        errors
    }
}

//! PodTemplates, the resource.

use super::pod::template::default_template;
use super::pod::validation::validate_pod_template;
use super::pod::warnings;
use crate::Strategy;
use crate::columns::Printable;
use crate::columns::workload::containers;
use crate::json::{Value, json};
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(crate) struct PodTemplate;

impl Strategy for PodTemplate {
    fn return_deleted_object(&self) -> bool {
        true
    }

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

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of_template(new, old, "template")
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut cells = vec![view.name()];
        cells.extend(containers(view, "/template/spec/containers"));
        cells.push(json!(view.labels("/template/metadata/labels")));
        Some(cells)
    }
}

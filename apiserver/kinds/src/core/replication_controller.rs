//! ReplicationControllers.

use super::pod::template::{
    MISMATCH, default_template, validate_counters, validate_endless_template,
};
use super::pod::warnings;
use crate::columns::Printable;
use crate::columns::workload::replicated;
use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, default, meta_mut};
use crate::meta::selector::LabelSelector;
use crate::meta::validation::NameRule;
use crate::request::options::Propagation;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::is_empty;
use crate::validation::not_negative;
use crate::{SelectableField, Strategy};

#[derive(Debug)]
pub(crate) struct ReplicationController;

impl Strategy for ReplicationController {
    fn selectable_field(&self, name: &str) -> Option<SelectableField> {
        (name == "status.replicas").then_some(SelectableField {
            paths: &["status.replicas"],
            default: "0",
        })
    }

    /// The selector is a map of labels.
    fn scale_selector(&self, controller: &Value) -> String {
        LabelSelector::from_labels(&controller["spec"]["selector"]).as_selector_string()
    }

    fn storage_prefix(&self, _resource: &GroupResource) -> String {
        "controllers".to_owned()
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::LongName
    }

    fn default_propagation(&self) -> Propagation {
        Propagation::Orphan
    }

    /// Selector and labels are those of the template unless they are given.
    fn default(&self, controller: &mut Value) {
        let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
        let spec = child_mut(controller, "spec");
        default(spec, "replicas", 1);
        let unset = spec.get("selector").is_none_or(is_empty);
        if unset && !is_empty(&labels) {
            spec.insert("selector", labels.clone());
        }
        if spec.get("template").is_some_and(Value::is_object) {
            default_template(spec);
        }
        let meta = meta_mut(controller);
        if meta.get("labels").is_none_or(is_empty) && !is_empty(&labels) {
            meta.insert("labels", labels);
        }
    }

    fn validate(&self, controller: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &controller["spec"];
        let path = FieldPath::new("spec");
        not_negative(spec, &["minReadySeconds"], &path, &mut errors);
        if is_empty(&spec["selector"]) {
            errors.required(&path.child("selector"), "");
        }
        not_negative(spec, &["replicas"], &path, &mut errors);
        let template = &spec["template"];
        if template.is_null() {
            errors.required(&path.child("template"), "");
            return errors;
        }
        let labels = &template["metadata"]["labels"];
        let mut selector = spec["selector"].as_object().into_iter().flatten();
        if !selector.all(|(key, value)| labels[key] == *value) {
            let path = path.child("template").child("metadata").child("labels");
            errors.invalid(&path, labels, MISMATCH);
        }
        validate_endless_template(template, "ReplicationController", &path, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of_named_template(new, old, "spec.template")
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        validate_replica_status(&new["status"])
    }

    /// Cells of a ReplicationController, whose selector is a map of labels rather than a label
    /// selector.
    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let selector = view.labels("/spec/selector");
        Some(replicated(view, selector))
    }
}

/// The status of a ReplicaSet or a ReplicationController.
pub(crate) fn validate_replica_status(status: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let counters = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    not_negative(status, &["replicas"], &path, &mut errors);
    not_negative(status, &counters, &path, &mut errors);
    let others = ["observedGeneration", "terminatingReplicas"];
    not_negative(status, &others, &path, &mut errors);
    validate_counters(status, &counters, &path, &mut errors);
    errors
}

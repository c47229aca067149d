//! ReplicaSets.

use crate::Strategy;
use crate::columns::workload::replicated;
use crate::columns::{Printable, or_none};
use crate::core::pod::template::{
    default_template, validate_selector, validate_selector_stays, validate_template,
};
use crate::core::pod::warnings;
use crate::core::replication_controller::validate_replica_status;
use crate::json::Value;
use crate::meta::object::{child_mut, default};
use crate::status::{FieldErrors, FieldPath};
use crate::validation::not_negative;

#[derive(Debug)]
pub(crate) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, set: &mut Value) {
        let spec = child_mut(set, "spec");
        default(spec, "replicas", 1);
        default_template(spec);
    }

    fn validate(&self, set: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &set["spec"];
        let path = FieldPath::new("spec");
        not_negative(spec, &["replicas", "minReadySeconds"], &path, &mut errors);
        let selector = path.child("selector");
        validate_selector(&spec["selector"], "deployment", &selector, &mut errors);
        validate_template(spec, "ReplicaSet", &path, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of_named_template(new, old, "spec.template")
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        validate_selector_stays(new, old, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        validate_replica_status(&new["status"])
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let selector = or_none(view.selector("/spec/selector"));
        Some(replicated(view, selector))
    }
}

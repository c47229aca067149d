//! PriorityClasses.

use serde_json::Value;

use super::Strategy;
use super::checks::{default_text, one_of};
use crate::meta::object::name;
use crate::meta::validation::validate_immutable;
use crate::status::{FieldErrors, FieldPath};

/// What users may choose from; above are the system's own.
const HIGHEST: i64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct PriorityClass;

impl Strategy for PriorityClass {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, class: &mut Value) {
        if let Some(fields) = class.as_object_mut() {
            default_text(fields, "preemptionPolicy", "PreemptLowerPriority");
        }
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let own = name(class);
        if own.starts_with("system-") {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {own} is not a known system priority class"
            );
            errors.forbidden(&FieldPath::new("metadata.name"), &detail);
        } else if class["value"].as_i64().is_some_and(|value| value > HIGHEST) {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            errors.forbidden(&FieldPath::new("value"), &detail);
        }
        let path = FieldPath::new("preemptionPolicy");
        let policies = ["PreemptLowerPriority", "Never"];
        one_of(&class["preemptionPolicy"], &path, &policies, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if new["value"] != old["value"] {
            errors.forbidden(&FieldPath::new("value"), "may not be changed in an update.");
        }
        let path = FieldPath::new("preemptionPolicy");
        let policy = |class: &Value| class["preemptionPolicy"].clone();
        validate_immutable(&policy(new), &policy(old), &path, &mut errors);
        errors
    }
}

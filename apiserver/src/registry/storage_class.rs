//! StorageClasses.

use serde_json::Value;

use super::Strategy;
use super::checks::{default_text, invalid_each, one_of, text};
use super::volume_attributes_class::validate_parameters;
use crate::meta::validation::{qualified_name, validate_immutable};
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(super) struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, class: &mut Value) {
        if let Some(fields) = class.as_object_mut() {
            default_text(fields, "reclaimPolicy", "Delete");
            default_text(fields, "volumeBindingMode", "Immediate");
        }
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("provisioner");
        let provisioner = text(&class["provisioner"]);
        if provisioner.is_empty() {
            errors.required(&path, "");
        } else {
            let faults = qualified_name(&provisioner.to_lowercase());
            invalid_each(faults, &provisioner.into(), &path, &mut errors);
        }
        let path = FieldPath::new("parameters");
        validate_parameters(&class["parameters"], &path, &mut errors);
        let path = FieldPath::new("reclaimPolicy");
        let policies = ["Delete", "Retain"];
        one_of(&class["reclaimPolicy"], &path, &policies, &mut errors);
        let path = FieldPath::new("volumeBindingMode");
        let modes = ["Immediate", "WaitForFirstConsumer"];
        one_of(&class["volumeBindingMode"], &path, &modes, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if new[field] != old[field] {
                let detail = format!("updates to {field} are forbidden.");
                errors.forbidden(&FieldPath::new(field), &detail);
            }
        }
        let field = "volumeBindingMode";
        validate_immutable(
            &new[field],
            &old[field],
            &FieldPath::new(field),
            &mut errors,
        );
        errors
    }
}

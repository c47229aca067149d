//! ResourceQuotas.

use serde_json::Value;

use super::Strategy;
use super::checks::{NOT_NEGATIVE, entries, text};
use crate::status::{FieldErrors, FieldPath};

/// What can be counted, beside amounts of the first four and their prefixed forms.
const COUNTED: [&str; 9] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const AMOUNTS: [&str; 4] = ["cpu", "memory", "storage", "ephemeral-storage"];

#[derive(Debug)]
pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn validate(&self, quota: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec.hard");
        validate_amounts(&quota["spec"]["hard"], &path, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for field in ["hard", "used"] {
            let path = FieldPath::new("status").child(field);
            validate_amounts(&new["status"][field], &path, &mut errors);
        }
        errors
    }
}

fn validate_amounts(amounts: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (resource, amount) in entries(amounts) {
        let path = path.key(resource);
        let name = resource.as_str();
        let base = ["requests.", "limits."]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix));
        let counted = COUNTED.contains(&name) || name.starts_with("count/");
        let of_amount = AMOUNTS.contains(&base.unwrap_or(name))
            || base.unwrap_or(name).starts_with("hugepages-");
        if !counted && !of_amount && !name.contains('/') {
            for detail in [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for quota",
            ] {
                errors.invalid(&path, &name.into(), detail);
            }
        }
        if text(amount).starts_with('-') {
            errors.invalid(&path, amount, NOT_NEGATIVE);
        }
        if counted && text(amount).ends_with(['m', 'u', 'n']) {
            errors.invalid(&path, amount, "must be an integer");
        }
    }
}

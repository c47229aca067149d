//! PodDisruptionBudgets.

use crate::columns::Printable;
use crate::condition::validate_conditions;
use crate::go_struct::shown_field;
use crate::json::{Value, json};
use crate::meta::validation::{NameRule, validate_label_selector};
use crate::status::{FieldErrors, FieldPath};
use crate::validation::{not_negative, one_of, validate_at_most_all, validate_int_or_percent};
use crate::{MetadataCheck, Strategy};

#[derive(Debug)]
pub(crate) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validates_new_metadata(&self) -> bool {
        false
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[]
    }

    fn status_metadata_checks(&self) -> &'static [MetadataCheck] {
        &[]
    }

    /// Upstream validates only the minimum of the metadata.
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn validate(&self, budget: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &budget["spec"];
        let path = FieldPath::new("spec");
        if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
            let shown = shown_field("policy", "PodDisruptionBudget", &["spec"], spec);
            let detail = "minAvailable and maxUnavailable cannot be both set";
            crate::validation::invalid_as(&path, &shown, detail, &mut errors);
        }
        for field in ["minAvailable", "maxUnavailable"] {
            if !spec[field].is_null() {
                validate_int_or_percent(&spec[field], &path.child(field), &mut errors);
                validate_at_most_all(&spec[field], &path.child(field), &mut errors);
            }
        }
        if !spec["selector"].is_null() {
            let path = path.child("selector");
            validate_label_selector(&spec["selector"], false, &path, &mut errors);
        }
        let policy = &spec["unhealthyPodEvictionPolicy"];
        if !policy.is_null() {
            let path = path.child("unhealthyPodEvictionPolicy");
            let policies = ["AlwaysAllow", "IfHealthyBudget"];
            one_of(policy, &path, &policies, &mut errors);
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("status");
        let status = &new["status"];
        let conditions = path.child("conditions");
        validate_conditions(&status["conditions"], &conditions, &mut errors);
        let numbers = [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ];
        not_negative(status, &numbers, &path, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let limit = |pointer: &str| json!(view.scalar(pointer).unwrap_or_else(|| "N/A".to_owned()));
        Some(vec![
            view.name(),
            limit("/spec/minAvailable"),
            limit("/spec/maxUnavailable"),
            json!(view.int("/status/disruptionsAllowed")),
            view.age(),
        ])
    }
}

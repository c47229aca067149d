//! Deployments.

use super::conversion::{self, ROLLBACK_TO};
use crate::columns::Printable;
use crate::columns::workload::{TEMPLATE_CONTAINERS, containers, ready_of_desired};
use crate::core::pod::template::{
    default_template, validate_collisions, validate_counters, validate_selector,
    validate_selector_stays, validate_template,
};
use crate::core::pod::warnings;
use crate::go_struct::shown_field;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default, meta_mut};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{default_text, object_in, text};
use crate::validation::{
    int_or_percent, not_negative, not_supported_as, validate_at_most_all, validate_int_or_percent,
};
use crate::{Context, ResetFields, Strategy};

/// How many pods a rolling update may add or lack.
const SLACK: &str = "25%";

/// The strategy of Deployments.
#[derive(Debug)]
pub struct Deployment;

impl Strategy for Deployment {
    fn status_update_keeps(&self, field: &str) -> bool {
        field == "labels"
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"], &["metadata", "labels"]],
            _ => &[&["status"]],
        }
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn counts_annotations(&self) -> bool {
        true
    }

    fn default(&self, deployment: &mut Value) {
        conversion::normalize(deployment, ROLLBACK_TO);
        let spec = child_mut(deployment, "spec");
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
        let strategy = object_in(spec, "strategy");
        default_text(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let rolling = object_in(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", SLACK);
            default(rolling, "maxSurge", SLACK);
        }
        default_template(spec);
    }

    /// Changed annotations count as a generation too.
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        if new["metadata"]["annotations"] != old["metadata"]["annotations"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta_mut(new).insert("generation", generation.into());
        }
    }

    fn validate(&self, deployment: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &deployment["spec"];
        let path = FieldPath::new("spec");
        not_negative(spec, &["replicas"], &path, &mut errors);
        let selector = path.child("selector");
        validate_selector(&spec["selector"], "deployment", &selector, &mut errors);
        validate_template(spec, "ReplicaSet", &path, &mut errors);
        validate_strategy(&spec["strategy"], &path.child("strategy"), &mut errors);
        let numbers = ["minReadySeconds", "revisionHistoryLimit"];
        not_negative(spec, &numbers, &path, &mut errors);
        if let Some(revision) = conversion::number(deployment, ROLLBACK_TO) {
            let rollback = json!({ "version": revision });
            not_negative(
                &rollback,
                &["version"],
                &path.child("rollback"),
                &mut errors,
            );
        }
        not_negative(spec, &["progressDeadlineSeconds"], &path, &mut errors);
        let deadline = &spec["progressDeadlineSeconds"];
        let ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
        if deadline.as_i64().is_some_and(|deadline| deadline <= ready) {
            let detail = "must be greater than minReadySeconds";
            errors.invalid(&path.child("progressDeadlineSeconds"), deadline, detail);
        }
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

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("status");
        let numbers = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        not_negative(&new["status"], &numbers, &path, &mut errors);
        let counters = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        validate_counters(&new["status"], &counters, &path, &mut errors);
        validate_collisions(new, old, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut cells = vec![
            view.name(),
            json!(ready_of_desired(view)),
            json!(view.int("/status/updatedReplicas")),
            json!(view.int("/status/availableReplicas")),
            view.age(),
        ];
        cells.extend(containers(view, TEMPLATE_CONTAINERS));
        cells.push(json!(view.selector("/spec/selector")));
        Some(cells)
    }
}

fn validate_strategy(strategy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let rolling = &strategy["rollingUpdate"];
    let path_rolling = path.child("rollingUpdate");
    match text(&strategy["type"]) {
        "Recreate" => {
            if !rolling.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(&path_rolling, detail);
            }
        }
        "RollingUpdate" => {
            let unavailable = &rolling["maxUnavailable"];
            let path = path_rolling.child("maxUnavailable");
            validate_int_or_percent(unavailable, &path, errors);
            let surge = path_rolling.child("maxSurge");
            validate_int_or_percent(&rolling["maxSurge"], &surge, errors);
            if int_or_percent(unavailable) == 0 && int_or_percent(&rolling["maxSurge"]) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.invalid(&path, unavailable, detail);
            }
            validate_at_most_all(unavailable, &path, errors);
        }
        _ => {
            // Upstream prints its internal type here.
            let shown = shown_field("apps", "Deployment", &["spec", "strategy"], strategy);
            not_supported_as(path, &shown, &["Recreate", "RollingUpdate"], errors);
        }
    }
}

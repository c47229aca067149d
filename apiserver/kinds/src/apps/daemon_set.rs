//! DaemonSets.

use super::conversion::{self, TEMPLATE_GENERATION};
use crate::columns::workload::{TEMPLATE_CONTAINERS, containers};
use crate::columns::{Printable, or_none};
use crate::core::pod::template::{
    default_template, validate_collisions, validate_endless_template, validate_labels_match,
    validate_not_empty, validate_selector_stays,
};
use crate::core::pod::warnings;
use crate::go_struct::shown_field;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default, meta_mut};
use crate::meta::selector::LabelSelector;
use crate::meta::validation::validate_label_selector;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{default_text, object_in, text};
use crate::validation::{
    int_or_percent, not_negative, not_supported_as, validate_at_most_all, validate_int_or_percent,
};
use crate::{Context, Strategy};

#[derive(Debug)]
pub(crate) struct DaemonSet;

impl Strategy for DaemonSet {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, set: &mut Value) {
        default(
            object_in(meta_mut(set), "annotations"),
            TEMPLATE_GENERATION,
            "0",
        );
        let spec = child_mut(set, "spec");
        default(spec, "revisionHistoryLimit", 10);
        let strategy = object_in(spec, "updateStrategy");
        default_text(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            default(object_in(strategy, "rollingUpdate"), "maxUnavailable", 1);
        }
        // In upstream's internal struct these are no pointers, so each has a value even if it is not in use.
        if strategy.contains_key("rollingUpdate") {
            let rolling = object_in(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", 0);
            default(rolling, "maxSurge", 0);
        }
        default_template(spec);
    }

    fn prepare_for_create(&self, set: &mut Value, _context: Context<'_>) {
        set_template_generation(set, template_generation(set).max(1));
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        let before = template_generation(old);
        let changed = new["spec"]["template"] != old["spec"]["template"];
        set_template_generation(new, before + i64::from(changed));
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        set_template_generation(new, template_generation(old));
    }

    fn validate(&self, set: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &set["spec"];
        let path = FieldPath::new("spec");
        let selector = &spec["selector"];
        let selector_path = path.child("selector");
        if !selector.is_null() {
            validate_label_selector(selector, false, &selector_path, &mut errors);
        }
        if let Ok(selector) = LabelSelector::from_object(selector) {
            validate_labels_match(&selector, &spec["template"], &path, &mut errors);
        }
        if !selector.is_null() {
            validate_not_empty(selector, "daemonset", &selector_path, &mut errors);
        }
        validate_endless_template(&spec["template"], "DaemonSet", &path, &mut errors);
        not_negative(spec, &["minReadySeconds"], &path, &mut errors);
        let strategy = path.child("updateStrategy");
        validate_strategy(&spec["updateStrategy"], &strategy, &mut errors);
        not_negative(spec, &["revisionHistoryLimit"], &path, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let same = |old: &Value| template_generation(old) == template_generation(new);
        match old.is_some_and(same) {
            true => Vec::new(),
            false => warnings::of_template(new, old, "spec.template"),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_selector_stays(new, old, &mut errors);
        errors.extend(self.validate(new));
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let numbers = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        let path = FieldPath::new("status");
        not_negative(&new["status"], &numbers, &path, &mut errors);
        validate_collisions(new, old, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut cells = vec![
            view.name(),
            json!(view.int("/status/desiredNumberScheduled")),
            json!(view.int("/status/currentNumberScheduled")),
            json!(view.int("/status/numberReady")),
            json!(view.int("/status/updatedNumberScheduled")),
            json!(view.int("/status/numberAvailable")),
            json!(view.labels("/spec/template/spec/nodeSelector")),
            view.age(),
        ];
        cells.extend(containers(view, TEMPLATE_CONTAINERS));
        cells.push(json!(or_none(view.selector("/spec/selector"))));
        Some(cells)
    }
}

fn template_generation(set: &Value) -> i64 {
    conversion::number(set, TEMPLATE_GENERATION).unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = object_in(meta_mut(set), "annotations");
    annotations.insert(
        TEMPLATE_GENERATION.to_owned(),
        generation.to_string().into(),
    );
}

fn validate_strategy(strategy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let rolling = &strategy["rollingUpdate"];
    match text(&strategy["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let unavailable = (&rolling["maxUnavailable"], path.child("maxUnavailable"));
            let surge = (&rolling["maxSurge"], path.child("maxSurge"));
            validate_int_or_percent(unavailable.0, &unavailable.1, errors);
            validate_int_or_percent(surge.0, &surge.1, errors);
            match (int_or_percent(unavailable.0), int_or_percent(surge.0)) {
                (0, 0) => errors.required(&unavailable.1, "cannot be 0 when maxSurge is 0"),
                (0, _) | (_, 0) => {}
                _ => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&surge.1, surge.0, detail);
                }
            }
            validate_at_most_all(unavailable.0, &unavailable.1, errors);
            validate_at_most_all(surge.0, &surge.1, errors);
        }
        _ => {
            let fields = ["spec", "updateStrategy"];
            let shown = shown_field("apps", "DaemonSet", &fields, strategy);
            not_supported_as(path, &shown, &["RollingUpdate", "OnDelete"], errors);
        }
    }
}

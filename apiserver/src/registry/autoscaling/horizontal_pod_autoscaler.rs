//! HorizontalPodAutoscalers.

pub(crate) mod conversion;
mod validation;

use std::mem;

use serde_json::{Map, Value, json};

use crate::meta::object::{child_mut, default};
use crate::registry::Strategy;
use crate::registry::checks::{is_empty, not_negative};
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(crate) struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn default(&self, autoscaler: &mut Value) {
        if autoscaler["apiVersion"] != conversion::FIRST_VERSION {
            conversion::drop_annotations(autoscaler);
            return default_spec(child_mut(autoscaler, "spec"));
        }
        default(child_mut(autoscaler, "spec"), "minReplicas", 1);
        // Fields that the older version lacks are in annotations and also get their defaults.
        let mut second = conversion::stored(mem::take(autoscaler));
        default_spec(child_mut(&mut second, "spec"));
        *autoscaler = conversion::shown(&second);
    }

    fn validate(&self, autoscaler: &Value) -> FieldErrors {
        validation::validate(&conversion::second_version(autoscaler), 1)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let least = i64::from(old["spec"]["minReplicas"] != 0);
        validation::validate(&conversion::second_version(new), least)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("status");
        let numbers = ["currentReplicas", "desiredReplicas"];
        not_negative(&new["status"], &numbers, &path, &mut errors);
        errors
    }
}

fn default_spec(spec: &mut Map<String, Value>) {
    default(spec, "minReplicas", 1);
    if spec.get("metrics").is_none_or(is_empty) {
        spec.insert("metrics".to_owned(), json!([conversion::cpu_metric(80)]));
    }
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else {
        return;
    };
    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
    for (direction, window, policies) in [
        ("scaleUp", Some(0), json!([pods, percent])),
        ("scaleDown", None, json!([percent])),
    ] {
        let rules = behavior.entry(direction).or_insert_with(|| json!({}));
        if let Some(rules) = rules.as_object_mut() {
            default(rules, "selectPolicy", "Max");
            default(rules, "policies", policies);
            if let Some(window) = window {
                default(rules, "stabilizationWindowSeconds", window);
            }
        }
    }
}

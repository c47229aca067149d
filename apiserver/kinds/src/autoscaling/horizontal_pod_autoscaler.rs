//! HorizontalPodAutoscalers.

mod conversion;
mod validation;

use std::borrow::Cow;
use std::mem;

use crate::columns::{Printable, or_none};
use crate::json::{Map, Value, json};
use crate::meta::object::{child_mut, default};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::is_empty;
use crate::validation::not_negative;
use crate::{Context, Strategy};

#[derive(Debug)]
pub(crate) struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn is_stored_version(&self, version: &str) -> bool {
        version != "v1"
    }

    fn convert_from_storage<'a>(&self, version: &str, stored: &'a Value) -> Cow<'a, Value> {
        match self.is_stored_version(version) {
            true => Cow::Borrowed(stored),
            false => Cow::Owned(conversion::shown(stored)),
        }
    }

    fn convert_to_storage(&self, version: &str, object: Value) -> Value {
        match self.is_stored_version(version) {
            true => object,
            false => conversion::stored(object),
        }
    }

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

    fn prepare_for_create(&self, autoscaler: &mut Value, _context: Context<'_>) {
        conversion::set_annotated_status(autoscaler, &Value::Null);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        let status = conversion::second_version(old)["status"].clone();
        conversion::set_annotated_status(new, &status);
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

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let second = conversion::second_version(view.object);
        let view = Printable {
            object: &second,
            ..view
        };
        let target = |field: &str| view.str(&format!("/spec/scaleTargetRef/{field}"));
        Some(vec![
            view.name(),
            json!(format!("{}/{}", target("kind"), target("name"))),
            json!(or_none(first_two(metrics(view)))),
            json!(
                view.scalar("/spec/minReplicas")
                    .unwrap_or_else(|| "<unset>".to_owned())
            ),
            json!(view.int("/spec/maxReplicas")),
            json!(view.int("/status/currentReplicas")),
            view.age(),
        ])
    }
}

fn default_spec(spec: &mut Map) {
    default(spec, "minReplicas", 1);
    if spec.get("metrics").is_none_or(is_empty) {
        spec.insert("metrics", json!([conversion::cpu_metric(80)]));
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

/// Current and target value of each metric, in the spelling of v2 or of v1.
fn metrics(view: Printable<'_>) -> Vec<String> {
    let unknown = || "<unknown>".to_owned();
    let statuses: Vec<Printable<'_>> = view.items("/status/currentMetrics").collect();
    let metric = |(index, spec): (usize, Printable<'_>)| {
        let source = match spec.str("/type") {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            _ => return "<unknown type>".to_owned(),
        };
        let current = |field: &str| {
            let status = statuses.get(index)?;
            status.scalar(&format!("/{source}/current/{field}"))
        };
        let target = |field: &str| spec.scalar(&format!("/{source}/target/{field}"));
        let prefix = match source {
            "resource" | "containerResource" => {
                format!("{}: ", spec.str(&format!("/{source}/name")))
            }
            _ => String::new(),
        };
        // For pods and resources an average is the only kind of value, so it isn't marked.
        let mark = if matches!(source, "object" | "external") {
            " (avg)"
        } else {
            ""
        };
        match target("averageValue") {
            Some(average) => {
                let current = current("averageValue").unwrap_or_else(unknown);
                format!("{prefix}{current}/{average}{mark}")
            }
            None if matches!(source, "resource" | "containerResource") => {
                let percent = |number: String| format!("{number}%");
                let current = current("averageUtilization").map_or_else(unknown, percent);
                let target = target("averageUtilization");
                let target = target.map_or_else(|| "<auto>".to_owned(), percent);
                format!("{prefix}{current}/{target}")
            }
            None => {
                let current = current("value").unwrap_or_else(unknown);
                format!("{current}/{}", target("value").unwrap_or_default())
            }
        }
    };
    view.items("/spec/metrics")
        .enumerate()
        .map(metric)
        .collect()
}

fn first_two(metrics: Vec<String>) -> String {
    const SHOWN: usize = 2;
    if metrics.len() <= SHOWN {
        return metrics.join(", ");
    }
    format!(
        "{} + {} more...",
        metrics[..SHOWN].join(", "),
        metrics.len() - SHOWN
    )
}

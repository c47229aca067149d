//! HorizontalPodAutoscalers.

use serde_json::{Value, json};

use super::Strategy;
use super::checks::{NOT_NEGATIVE, is_empty, items, not_negative, one_of, required, text};
use crate::meta::object::{child_mut, default};
use crate::status::{FieldErrors, FieldPath};

const MAX_STABILIZATION: i64 = 3600;
const MAX_PERIOD: i64 = 1800;
/// The types of metrics and the fields that hold their sources.
const METRICS: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

#[derive(Debug)]
pub(super) struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn default(&self, autoscaler: &mut Value) {
        let first_version = autoscaler["apiVersion"] == "autoscaling/v1";
        let spec = child_mut(autoscaler, "spec");
        default(spec, "minReplicas", 1);
        if first_version {
            default(spec, "targetCPUUtilizationPercentage", 80);
            return;
        }
        if spec.get("metrics").is_none_or(is_empty) {
            let cpu = json!([{
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": { "type": "Utilization", "averageUtilization": 80 },
                },
            }]);
            spec.insert("metrics".to_owned(), cpu);
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

    fn validate(&self, autoscaler: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &autoscaler["spec"];
        let path = FieldPath::new("spec");
        validate_bounds(spec, &path, &mut errors);
        validate_target_ref(
            &spec["scaleTargetRef"],
            &path.child("scaleTargetRef"),
            &mut errors,
        );
        let metrics = path.child("metrics");
        let utilization = &spec["targetCPUUtilizationPercentage"];
        if !utilization.is_null() {
            // The older version's one number is the first metric to upstream.
            let path = metrics.index(0).child("resource").child("target");
            validate_utilization(utilization, &path, &mut errors);
        }
        for (index, metric) in items(&spec["metrics"]).enumerate() {
            validate_metric(metric, &metrics.index(index), &mut errors);
        }
        let scales_to_zero = items(&spec["metrics"])
            .any(|metric| matches!(text(&metric["type"]), "Object" | "External"));
        if spec["minReplicas"] == 0 && !scales_to_zero {
            let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
            errors.forbidden(&metrics, detail);
        }
        for direction in ["scaleUp", "scaleDown"] {
            let rules = &spec["behavior"][direction];
            if !rules.is_null() {
                let path = path.child("behavior").child(direction);
                validate_rules(rules, &path, &mut errors);
            }
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("status");
        let numbers = ["currentReplicas", "desiredReplicas"];
        not_negative(&new["status"], &numbers, &path, &mut errors);
        errors
    }
}

fn validate_bounds(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let least = spec["minReplicas"].as_i64();
    let most = spec["maxReplicas"].as_i64().unwrap_or(0);
    if least.is_some_and(|least| least < 1) {
        let detail = "must be greater than or equal to 1";
        errors.invalid(&path.child("minReplicas"), &spec["minReplicas"], detail);
    }
    let path = path.child("maxReplicas");
    if most < 1 {
        errors.required(&path, "must be set and greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.invalid(&path, &most.into(), detail);
    }
}

fn validate_target_ref(target: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_reference(target, path, errors);
    let version = text(&target["apiVersion"]);
    let core = target["kind"] == "ReplicationController";
    if !core && !version.contains('/') {
        let detail = "apiVersion must specify API group";
        errors.invalid(&path.child("apiVersion"), &version.into(), detail);
    }
}

fn validate_reference(target: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["kind", "name"] {
        let path = path.child(field);
        required(&target[field], &path, errors);
        for fault in crate::meta::validation::path_segment_name(text(&target[field])) {
            errors.invalid(&path, &target[field], &fault);
        }
    }
}

fn validate_metric(metric: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let kinds = METRICS.map(|(kind, _)| kind);
    let kind = text(&metric["type"]);
    let type_path = path.child("type");
    if kind.is_empty() {
        errors.required(&type_path, "must specify a metric source type");
    }
    one_of(&metric["type"], &type_path, &kinds, errors);
    // Upstream's order of the sources.
    for field in [
        "object",
        "external",
        "pods",
        "resource",
        "containerResource",
    ] {
        let source = &metric[field];
        if !source.is_null() {
            validate_source(source, field, &path.child(field), errors);
        }
    }
    match METRICS.iter().find(|(own, _)| *own == kind) {
        Some((_, field)) if metric[*field].is_null() => {
            let detail = "must populate information for the given metric source";
            errors.required(&path.child(field), detail);
        }
        Some(_) => {}
        None => errors.not_supported(&type_path, &kind.into(), &kinds),
    }
}

fn validate_source(source: &Value, field: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if field == "containerResource" {
        let detail = "must specify a container";
        if text(&source["container"]).is_empty() {
            errors.required(&path.child("container"), detail);
        }
    }
    if field == "object" {
        let described = path.child("describedObject");
        validate_reference(&source["describedObject"], &described, errors);
    }
    let of_resource = matches!(field, "resource" | "containerResource");
    if of_resource && text(&source["name"]).is_empty() {
        errors.required(&path.child("name"), "must specify a resource name");
    }
    let metric = &source["metric"];
    if !of_resource && text(&metric["name"]).is_empty() {
        let path = path.child("metric").child("name");
        errors.required(&path, "must specify a metric name");
    }
    let path = path.child("target");
    let target = &source["target"];
    validate_target(target, &path, errors);
    let has = |field: &str| !target[field].is_null();
    match field {
        "pods" if !has("averageValue") => {
            let detail = "must specify a positive target averageValue";
            errors.required(&path.child("averageValue"), detail);
        }
        "object" if !has("value") && !has("averageValue") => {
            let detail = "must set either a target value or averageValue";
            errors.required(&path.child("averageValue"), detail);
        }
        "external" if !has("value") && !has("averageValue") => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.required(&path.child("averageValue"), detail);
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(&path.child("value"), detail);
        }
        _ if of_resource && !has("averageUtilization") && !has("averageValue") => {
            let detail = "must set either a target raw value or a target utilization";
            errors.required(&path.child("averageUtilization"), detail);
        }
        _ if of_resource && has("averageUtilization") && has("averageValue") => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.forbidden(&path.child("averageValue"), detail);
        }
        _ => {}
    }
}

fn validate_target(target: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = path.child("type");
    if text(&target["type"]).is_empty() {
        errors.required(&kind, "must specify a metric target type");
    }
    let kinds = ["AverageValue", "Utilization", "Value"];
    one_of(&target["type"], &kind, &kinds, errors);
    for field in ["value", "averageValue"] {
        let amount = text(&target[field]);
        if amount.starts_with('-') || amount == "0" {
            errors.invalid(&path.child(field), &target[field], "must be positive");
        }
    }
    validate_utilization(&target["averageUtilization"], path, errors);
}

fn validate_utilization(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if value.as_i64().is_some_and(|percent| percent < 1) {
        let path = path.child("averageUtilization");
        errors.invalid(&path, value, "must be greater than 0");
    }
}

fn validate_rules(rules: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let window = &rules["stabilizationWindowSeconds"];
    let window_path = path.child("stabilizationWindowSeconds");
    match window.as_i64() {
        Some(seconds) if seconds < 0 => {
            let detail = NOT_NEGATIVE.replace('0', "zero");
            errors.invalid(&window_path, window, &detail);
        }
        Some(seconds) if seconds > MAX_STABILIZATION => {
            let detail = format!("must be less than or equal to {MAX_STABILIZATION}");
            errors.invalid(&window_path, window, &detail);
        }
        _ => {}
    }
    if !rules["selectPolicy"].is_null() {
        let selections = ["Disabled", "Max", "Min"];
        let path = path.child("selectPolicy");
        one_of(&rules["selectPolicy"], &path, &selections, errors);
    }
    let path = path.child("policies");
    if is_empty(&rules["policies"]) {
        errors.required(&path, "must specify at least one Policy");
    }
    for (index, policy) in items(&rules["policies"]).enumerate() {
        let path = path.index(index);
        one_of(
            &policy["type"],
            &path.child("type"),
            &["Percent", "Pods"],
            errors,
        );
        for field in ["value", "periodSeconds"] {
            if policy[field].as_i64().unwrap_or(0) <= 0 {
                let value = policy[field].as_i64().unwrap_or(0).into();
                errors.invalid(&path.child(field), &value, "must be greater than zero");
            }
        }
        let period = &policy["periodSeconds"];
        if period.as_i64().is_some_and(|own| own > MAX_PERIOD) {
            let detail = format!("must be less than or equal to {MAX_PERIOD}");
            errors.invalid(&path.child("periodSeconds"), period, &detail);
        }
    }
}

//! The faults of HorizontalPodAutoscalers.

use crate::core::resource_names::validate_name_in_container;
use crate::json::Value;
use crate::meta::validation::dns1123_label;
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{NOT_NEGATIVE, invalid_each, one_of, required};

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

/// The faults of an autoscaler of `autoscaling/v2` that may have `least` replicas and more.
pub(super) fn validate(autoscaler: &Value, least: i64) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = &autoscaler["spec"];
    let path = FieldPath::new("spec");
    validate_bounds(spec, least, &path, &mut errors);
    validate_target_ref(
        &spec["scaleTargetRef"],
        &path.child("scaleTargetRef"),
        &mut errors,
    );
    let metrics = path.child("metrics");
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

fn validate_bounds(spec: &Value, bound: i64, path: &FieldPath, errors: &mut FieldErrors) {
    let least = spec["minReplicas"].as_i64();
    let most = spec["maxReplicas"].as_i64().unwrap_or(0);
    if least.is_some_and(|least| least < bound) {
        let detail = format!("must be greater than or equal to {bound}");
        errors.invalid(&path.child("minReplicas"), &spec["minReplicas"], &detail);
    }
    let path = path.child("maxReplicas");
    if most == 0 {
        errors.required(&path, "must be set and greater than 0");
    } else if most < 0 {
        errors.invalid(&path, &most.into(), "must be greater than or equal to 1");
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
    let known = validate_version(target, path, errors);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if known && !core && group.is_empty() {
        let detail = "apiVersion must specify API group";
        errors.invalid(&path.child("apiVersion"), &version.into(), detail);
    }
}

/// Whether the version of a reference is one; a fault if not.
fn validate_version(target: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let version = text(&target["apiVersion"]);
    let known = version.split('/').count() <= 2;
    if !known {
        let detail = format!("unexpected GroupVersion string: {version}");
        errors.invalid(&path.child("apiVersion"), &version.into(), &detail);
    }
    known
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
    // The sources in upstream's order; upstream validates only the first.
    let sources = [
        "object",
        "external",
        "pods",
        "resource",
        "containerResource",
    ];
    let present: Vec<&str> = sources
        .into_iter()
        .filter(|field| !metric[*field].is_null())
        .collect();
    if let Some(field) = present.first() {
        validate_source(&metric[*field], field, &path.child(field), errors);
    }
    match METRICS.iter().find(|(own, _)| *own == kind) {
        Some((_, field)) if metric[*field].is_null() => {
            let detail = "must populate information for the given metric source";
            errors.required(&path.child(field), detail);
        }
        Some(_) => {}
        None => errors.not_supported(&type_path, &kind.into(), &kinds),
    }
    let expected = METRICS.iter().find(|(own, _)| *own == kind);
    if present.len() > 1 {
        for field in present {
            if expected.is_none_or(|(_, expected)| *expected != field) {
                let detail = "must populate the given metric source only";
                errors.forbidden(&path.child(field), detail);
            }
        }
    }
}

fn validate_source(source: &Value, field: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if field == "object" {
        let described = path.child("describedObject");
        validate_reference(&source["describedObject"], &described, errors);
        validate_version(&source["describedObject"], &described, errors);
    }
    let of_resource = matches!(field, "resource" | "containerResource");
    let name = text(&source["name"]);
    if of_resource && name.is_empty() {
        errors.required(&path.child("name"), "must specify a resource name");
    }
    if field == "containerResource" {
        if !name.is_empty() {
            validate_name_in_container(name, &path.child("name"), errors);
        }
        let (container, at) = (text(&source["container"]), path.child("container"));
        if container.is_empty() {
            errors.required(&at, "must specify a container");
        } else {
            invalid_each(dns1123_label(container), &container.into(), &at, errors);
        }
    }
    let metric = &source["metric"];
    if !of_resource && text(&metric["name"]).is_empty() {
        let path = path.child("metric").child("name");
        errors.required(&path, "must specify a metric name");
    }
    for fault in crate::meta::validation::path_segment_name(text(&metric["name"])) {
        let path = path.child("metric").child("name");
        errors.invalid(&path, &metric["name"], &fault);
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
    if !kinds.contains(&text(&target["type"])) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&kind, &text(&target["type"]).into(), detail);
    }
    for field in ["value", "averageValue"] {
        let amount = Quantity::parse(text(&target[field]));
        if amount.is_ok_and(|amount| amount.is_negative() || amount.is_zero()) {
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

fn validate_rules(rules: &Value, path_of_rules: &FieldPath, errors: &mut FieldErrors) {
    let window = &rules["stabilizationWindowSeconds"];
    let window_path = path_of_rules.child("stabilizationWindowSeconds");
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
        let path = path_of_rules.child("selectPolicy");
        one_of(&rules["selectPolicy"], &path, &selections, errors);
    }
    let path = path_of_rules.child("policies");
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
    let tolerance = &rules["tolerance"];
    if Quantity::parse(text(tolerance)).is_ok_and(|own| own.is_negative()) {
        errors.invalid(&path_of_rules.child("tolerance"), tolerance, NOT_NEGATIVE);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_metric_names_what_it_measures() {
        let faults = |kind: &str, field: &str, source: Value| {
            let mut metric = json!({"type": kind});
            metric[field] = source;
            let mut errors = FieldErrors::new();
            validate_metric(&metric, &FieldPath::new("m"), &mut errors);
            let causes = errors.causes().iter();
            causes
                .map(|own| format!("{}: {}", own.field, own.message))
                .collect::<Vec<_>>()
        };
        let target = json!({"type": "Utilization", "averageUtilization": 1});
        assert_eq!(
            faults(
                "ContainerResource",
                "containerResource",
                json!({"name": "gpu", "target": target})
            ),
            [
                "m.containerResource.name: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
                "m.containerResource.name: Invalid value: \"gpu\": must be a standard resource for containers",
                "m.containerResource.container: Required value: must specify a container",
            ]
        );
        assert_eq!(
            faults(
                "Pods",
                "pods",
                json!({"metric": {"name": "m"},
                "target": {"type": "Odd", "averageValue": "1"}})
            ),
            [
                "m.pods.target.type: Invalid value: \"Odd\": must be either Utilization, Value, or AverageValue"
            ]
        );
        assert_eq!(
            faults(
                "Object",
                "object",
                json!({"metric": {"name": "m"},
                "describedObject": {"apiVersion": "a/b/c", "kind": "K", "name": "n"},
                "target": {"type": "Value", "value": "1"}})
            ),
            [
                "m.object.describedObject.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"
            ]
        );
    }
}

//! HorizontalPodAutoscalers of `autoscaling/v1`, which are stored as those of `autoscaling/v2`: what
//! the older version has no fields for is in annotations there.

mod metrics;

use std::borrow::Cow;
use std::mem;

use crate::json::{Map, Value, html_escape, json};
use crate::meta::object::child_mut;

/// The version that knows of nothing but the CPU.
pub(super) const FIRST_VERSION: &str = "autoscaling/v1";
const SECOND_VERSION: &str = "autoscaling/v2";

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const ANNOTATIONS: [&str; 4] = [METRICS, BEHAVIOR, CONDITIONS, CURRENT_METRICS];

/// Fields of a behavior as its annotation has them, in the order of Go's internal types.
const RULES: [(&str, &str); 4] = [
    ("stabilizationWindowSeconds", "StabilizationWindowSeconds"),
    ("selectPolicy", "SelectPolicy"),
    ("policies", "Policies"),
    ("tolerance", "Tolerance"),
];
const POLICY: [(&str, &str); 3] = [
    ("type", "Type"),
    ("value", "Value"),
    ("periodSeconds", "PeriodSeconds"),
];

/// A metric of the share of their CPU that pods use.
pub(super) fn cpu_metric(percent: impl Into<Value>) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": percent.into() },
        },
    })
}

/// The autoscaler in the version that has all fields.
pub(super) fn second_version(autoscaler: &Value) -> Cow<'_, Value> {
    match autoscaler["apiVersion"] == FIRST_VERSION {
        true => Cow::Owned(stored(autoscaler.clone())),
        false => Cow::Borrowed(autoscaler),
    }
}

/// Sets the part of an autoscaler's status that the first version has in annotations to that of `status`, in the second.
pub(super) fn set_annotated_status(autoscaler: &mut Value, status: &Value) {
    if autoscaler["apiVersion"] != FIRST_VERSION {
        return;
    }
    let mut second = stored(mem::take(autoscaler));
    let own = child_mut(&mut second, "status");
    for field in ["currentMetrics", "conditions"] {
        match &status[field] {
            Value::Null => own.remove(field),
            held => own.insert(field, held.clone()),
        };
    }
    *autoscaler = shown(&second);
}

/// Drops the annotations that only the first version needs.
pub(super) fn drop_annotations(autoscaler: &mut Value) {
    let metadata = child_mut(autoscaler, "metadata");
    let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let before = annotations.len();
    annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
    if annotations.is_empty() && before > 0 {
        metadata.remove("annotations");
    }
}

/// An autoscaler of the second version as the first shows it.
pub(super) fn shown(second: &Value) -> Value {
    let mut first = second.clone();
    first["apiVersion"] = FIRST_VERSION.into();
    let mut annotations: Vec<(&str, String)> = Vec::new();
    let spec = child_mut(&mut first, "spec");
    let all = match spec.remove("metrics") {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    let cpu = all.iter().find(|metric| is_of_cpu(metric));
    let utilization = cpu.map(|metric| &metric["resource"]["target"]["averageUtilization"]);
    if let Some(percent) = utilization.filter(|percent| !percent.is_null()) {
        spec.insert("targetCPUUtilizationPercentage", percent.clone());
    }
    let others = all.iter().filter(|metric| {
        !is_of_cpu(metric) || metric["resource"]["target"]["averageUtilization"].is_null()
    });
    let others: Vec<Value> = others.map(metrics::first_source).collect();
    if !others.is_empty() {
        annotations.push((METRICS, metrics::go_json(&others.into())));
    }
    if let Some(behavior) = spec.remove("behavior") {
        annotations.push((BEHAVIOR, behavior_text(&behavior)));
    }
    let status = child_mut(&mut first, "status");
    status.entry("currentReplicas").or_insert_with(|| 0.into());
    if let Some(Value::Array(current)) = status.remove("currentMetrics")
        && !current.is_empty()
    {
        let mut percents = current
            .iter()
            .filter(|metric| is_of_cpu(metric))
            .map(|metric| &metric["resource"]["current"]["averageUtilization"]);
        if let Some(percent) = percents.rfind(|percent| !percent.is_null()) {
            status.insert(
                "currentCPUUtilizationPercentage".to_owned(),
                percent.clone(),
            );
        }
        let current: Vec<Value> = current.iter().map(metrics::first_status).collect();
        annotations.push((CURRENT_METRICS, metrics::go_json(&current.into())));
    }
    if let Some(conditions) = status.remove("conditions").filter(|own| own.is_array()) {
        annotations.push((CONDITIONS, metrics::go_json(&conditions)));
    }
    if !annotations.is_empty() {
        let own = child_mut(&mut first["metadata"], "annotations");
        let annotations = annotations.into_iter();
        own.extend(annotations.map(|(name, text)| (name.to_owned(), html_escape(&text).into())));
    }
    first
}

/// An autoscaler of the first version as it is stored. Annotations that can't be read are dropped.
pub(super) fn stored(mut first: Value) -> Value {
    let read = |name: &str| -> Option<Value> {
        let text = first["metadata"]["annotations"][name].as_str()?;
        serde_json::from_str(text).ok()
    };
    let list = |name: &str| match read(name) {
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => Some(items),
        _ => None,
    };
    let others = list(METRICS);
    let current = list(CURRENT_METRICS);
    let conditions = list(CONDITIONS);
    let behavior = read(BEHAVIOR).and_then(|own| behavior_of(&own));
    drop_annotations(&mut first);
    first["apiVersion"] = SECOND_VERSION.into();

    let spec = child_mut(&mut first, "spec");
    let percent = spec.remove("targetCPUUtilizationPercentage");
    let mut all: Vec<Value> = others
        .iter()
        .flatten()
        .map(metrics::second_source)
        .collect();
    all.extend(percent.filter(|own| !own.is_null()).map(cpu_metric));
    if all.is_empty() {
        all.push(cpu_metric(80));
    }
    spec.insert("metrics", all.into());
    if let Some(behavior) = behavior {
        spec.insert("behavior", behavior);
    }
    let status = child_mut(&mut first, "status");
    if status
        .get("currentReplicas")
        .is_some_and(|count| count == 0)
    {
        status.remove("currentReplicas");
    }
    status.entry("desiredReplicas").or_insert_with(|| 0.into());
    let percent = status.remove("currentCPUUtilizationPercentage");
    let now: Option<Value> = match current {
        Some(current) => Some(current.iter().map(metrics::second_status).collect()),
        None => percent.filter(|own| !own.is_null()).map(|percent| {
            json!([{
                "type": "Resource",
                "resource": { "name": "cpu", "current": { "averageUtilization": percent } },
            }])
        }),
    };
    status.insert("currentMetrics", now.unwrap_or(Value::Null));
    if let Some(conditions) = conditions.filter(|own| !own.is_empty()) {
        status.insert("conditions", conditions.into());
    }
    first
}

fn is_of_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

/// The JSON of Go's internal type, whose fields have no names of their own there.
fn behavior_text(behavior: &Value) -> String {
    let object = |own: &Value, fields: &[(&str, &str)]| {
        let fields = fields.iter().map(|(field, go)| {
            let value = match *field {
                "policies" => policies_text(&own[*field]),
                field => own[field].to_string(),
            };
            format!("{go:?}:{value}")
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    };
    let rules = |own: &Value| match own.is_object() {
        true => object(own, &RULES),
        false => "null".to_owned(),
    };
    let (up, down) = (rules(&behavior["scaleUp"]), rules(&behavior["scaleDown"]));
    format!("{{\"ScaleUp\":{up},\"ScaleDown\":{down}}}")
}

fn policies_text(policies: &Value) -> String {
    let Some(policies) = policies.as_array() else {
        return "null".to_owned();
    };
    let policies = policies.iter().map(|policy| {
        let fields = POLICY.map(|(field, go)| format!("{go:?}:{}", policy[field]));
        format!("{{{}}}", fields.join(","))
    });
    format!("[{}]", policies.collect::<Vec<_>>().join(","))
}

fn behavior_of(text: &Value) -> Option<Value> {
    let mut behavior = Map::new();
    for (direction, go) in [("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")] {
        if text[go].is_object() {
            behavior.insert(direction.to_owned(), rules_of(&text[go]));
        }
    }
    (!behavior.is_empty()).then_some(Value::Object(behavior))
}

fn rules_of(text: &Value) -> Value {
    let mut rules = renamed(text, &RULES);
    if let Some(policies) = rules.get_mut("policies").and_then(Value::as_array_mut) {
        for policy in policies {
            *policy = Value::Object(renamed(policy, &POLICY));
        }
    }
    Value::Object(rules)
}

fn renamed(text: &Value, names: &[(&str, &str)]) -> Map {
    let fields = names.iter().filter(|(_, go)| !text[*go].is_null());
    fields
        .map(|(field, go)| ((*field).to_owned(), text[*go].clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_version_can_not_hold_survives_in_annotations() {
        let second = json!({
            "apiVersion": SECOND_VERSION, "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "annotations": {"own": "x"}},
            "spec": {
                "maxReplicas": 3, "minReplicas": 1,
                "behavior": {
                    "scaleDown": {"selectPolicy": "Max", "stabilizationWindowSeconds": 60,
                        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
                },
                "metrics": [
                    {"type": "Pods", "pods": {
                        "metric": {"name": "m<1", "selector": {"matchLabels": {"name": "a", "kind": "b"}}},
                        "target": {"type": "AverageValue", "averageValue": "5"}}},
                    cpu_metric(50),
                ],
            },
            "status": {"desiredReplicas": 2, "currentReplicas": 1, "currentMetrics": null},
        });
        let first = shown(&second);
        assert_eq!(first["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(
            first["metadata"]["annotations"][METRICS],
            r#"[{"type":"Pods","pods":{"metricName":"m\u003c1","targetAverageValue":"5","selector":{"matchLabels":{"kind":"b","name":"a"}}}}]"#
        );
        assert_eq!(
            first["metadata"]["annotations"][BEHAVIOR],
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#
        );
        assert_eq!(stored(first), second);
    }

    #[test]
    fn an_annotation_that_can_not_be_read_is_as_good_as_none() {
        let first = json!({
            "apiVersion": FIRST_VERSION,
            "metadata": {"name": "h", "annotations": {METRICS: "[1", CURRENT_METRICS: "{}"}},
            "spec": {"maxReplicas": 3},
            "status": {"currentReplicas": 0, "desiredReplicas": 0},
        });
        let second = stored(first);
        assert_eq!(second["spec"]["metrics"], json!([cpu_metric(80)]));
        assert_eq!(second["metadata"], json!({"name": "h"}));
        assert_eq!(
            second["status"],
            json!({"desiredReplicas": 0, "currentMetrics": null})
        );
    }
}

//! The metrics of `autoscaling/v1`, which are only ever seen as the text of annotations.

use crate::json::{Map, SmolStr, Value, json};

/// The order in which Go writes the fields of metrics and conditions; others follow by name.
const ORDER: [&str; 30] = [
    "kind",
    "name",
    "apiVersion",
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "target",
    "metricName",
    "metricSelector",
    "targetAverageUtilization",
    "targetValue",
    "targetAverageValue",
    "currentAverageUtilization",
    "currentValue",
    "currentAverageValue",
    "container",
    "selector",
    "averageValue",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
];

/// The JSON of metrics or conditions as Go writes it.
pub(super) fn go_json(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let mut names: Vec<&SmolStr> = fields.keys().collect();
            names.sort_by_key(|name| {
                ORDER
                    .iter()
                    .position(|own| own == name)
                    .unwrap_or(ORDER.len())
            });
            let write = |name: &SmolStr| match name.as_str() {
                // The keys of labels are not field names.
                "matchLabels" => format!("{name:?}:{}", fields[name]),
                _ => format!("{name:?}:{}", go_json(&fields[name])),
            };
            format!(
                "{{{}}}",
                names.into_iter().map(write).collect::<Vec<_>>().join(",")
            )
        }
        scalar => scalar.to_string(),
    }
}

/// A metric of the second version as the first has it.
pub(super) fn first_source(metric: &Value) -> Value {
    each_source(metric, |field, source| {
        let target = &source["target"];
        let or_zero = |amount: &Value| match amount.is_null() {
            true => json!("0"),
            false => amount.clone(),
        };
        let mut first = Map::new();
        let mut set = |name: &str, value: &Value| {
            if !value.is_null() {
                first.insert(name.to_owned(), value.clone());
            }
        };
        match field {
            "resource" | "containerResource" => {
                set("name", &source["name"]);
                set("container", &source["container"]);
                set("targetAverageUtilization", &target["averageUtilization"]);
                set("targetAverageValue", &target["averageValue"]);
            }
            "external" => {
                set("metricName", &source["metric"]["name"]);
                set("metricSelector", &source["metric"]["selector"]);
                set("targetValue", &target["value"]);
                set("targetAverageValue", &target["averageValue"]);
            }
            "pods" => {
                set("metricName", &source["metric"]["name"]);
                set("selector", &source["metric"]["selector"]);
                set("targetAverageValue", &or_zero(&target["averageValue"]));
            }
            _ => {
                set("target", &source["describedObject"]);
                set("metricName", &source["metric"]["name"]);
                set("selector", &source["metric"]["selector"]);
                set("targetValue", &or_zero(&target["value"]));
                set("averageValue", &target["averageValue"]);
            }
        }
        Value::Object(first)
    })
}

/// A metric of the first version as the second has it.
pub(super) fn second_source(metric: &Value) -> Value {
    each_source(metric, |field, source| {
        let target = |kind: &str, fields: &[(&str, &str)]| {
            let mut target = Map::from_iter([("type".to_owned(), kind.into())]);
            for (name, from) in fields {
                if !source[*from].is_null() {
                    target.insert((*name).to_owned(), source[*from].clone());
                }
            }
            Value::Object(target)
        };
        let of =
            |value: &str, then: &'static str, other: &'static str| match source[value].is_null() {
                true => other,
                false => then,
            };
        match field {
            "resource" | "containerResource" => {
                let kind = of("targetAverageUtilization", "Utilization", "AverageValue");
                let fields = [
                    ("averageUtilization", "targetAverageUtilization"),
                    ("averageValue", "targetAverageValue"),
                ];
                let mut second = json!({ "name": source["name"], "target": target(kind, &fields) });
                if field == "containerResource" {
                    second["container"] = source["container"].clone();
                }
                second
            }
            "external" => {
                let kind = of("targetValue", "Value", "AverageValue");
                let fields = [
                    ("value", "targetValue"),
                    ("averageValue", "targetAverageValue"),
                ];
                json!({ "metric": identifier(source, "metricSelector"), "target": target(kind, &fields) })
            }
            "pods" => {
                let fields = [("averageValue", "targetAverageValue")];
                json!({ "metric": identifier(source, "selector"), "target": target("AverageValue", &fields) })
            }
            _ => {
                let kind = of("averageValue", "AverageValue", "Value");
                let fields = [("value", "targetValue"), ("averageValue", "averageValue")];
                json!({
                    "describedObject": source["target"],
                    "metric": identifier(source, "selector"),
                    "target": target(kind, &fields),
                })
            }
        }
    })
}

/// Converts the status of a metric from the second version to the first.
pub(super) fn first_status(metric: &Value) -> Value {
    each_source(metric, |field, source| {
        let current = &source["current"];
        let or_zero = |amount: &Value| match amount.is_null() {
            true => json!("0"),
            false => amount.clone(),
        };
        let mut first = Map::new();
        let mut set = |name: &str, value: Value| {
            if !value.is_null() {
                first.insert(name.to_owned(), value);
            }
        };
        match field {
            "resource" | "containerResource" => {
                set("name", source["name"].clone());
                set("container", source["container"].clone());
                set(
                    "currentAverageUtilization",
                    current["averageUtilization"].clone(),
                );
                set("currentAverageValue", or_zero(&current["averageValue"]));
            }
            "external" => {
                set("metricName", source["metric"]["name"].clone());
                set("metricSelector", source["metric"]["selector"].clone());
                set("currentValue", or_zero(&current["value"]));
                set("currentAverageValue", current["averageValue"].clone());
            }
            "pods" => {
                set("metricName", source["metric"]["name"].clone());
                set("selector", source["metric"]["selector"].clone());
                set("currentAverageValue", or_zero(&current["averageValue"]));
            }
            _ => {
                set("target", source["describedObject"].clone());
                set("metricName", source["metric"]["name"].clone());
                set("selector", source["metric"]["selector"].clone());
                set("currentValue", or_zero(&current["value"]));
                set("averageValue", current["averageValue"].clone());
            }
        }
        Value::Object(first)
    })
}

/// Converts the status of a metric from the first version to the second.
pub(super) fn second_status(metric: &Value) -> Value {
    each_source(metric, |field, source| {
        let current = |fields: &[(&str, &str)]| {
            let present = fields.iter().filter(|(_, from)| !source[*from].is_null());
            let fields = present.map(|(name, from)| ((*name).to_owned(), source[*from].clone()));
            Value::Object(fields.collect())
        };
        match field {
            "resource" | "containerResource" => {
                let mut fields = vec![
                    ("averageUtilization", "currentAverageUtilization"),
                    ("averageValue", "currentAverageValue"),
                ];
                // The first version always shows this value, also of a metric that has only a share in the second.
                let has_share = !source["currentAverageUtilization"].is_null();
                if has_share && source["currentAverageValue"] == "0" {
                    fields.pop();
                }
                let mut second = json!({ "name": source["name"], "current": current(&fields) });
                if field == "containerResource" {
                    second["container"] = source["container"].clone();
                }
                second
            }
            "external" => {
                let fields = [
                    ("value", "currentValue"),
                    ("averageValue", "currentAverageValue"),
                ];
                json!({ "metric": identifier(source, "metricSelector"), "current": current(&fields) })
            }
            "pods" => {
                let fields = [("averageValue", "currentAverageValue")];
                json!({ "metric": identifier(source, "selector"), "current": current(&fields) })
            }
            _ => {
                let fields = [("value", "currentValue"), ("averageValue", "averageValue")];
                json!({
                    "describedObject": source["target"],
                    "metric": identifier(source, "selector"),
                    "current": current(&fields),
                })
            }
        }
    })
}

/// The metric with each of its sources converted.
fn each_source(metric: &Value, convert: impl Fn(&str, &Value) -> Value) -> Value {
    let fields = metric.as_object().into_iter().flatten();
    let fields = fields.map(|(field, value)| match value.is_object() {
        true => (field.clone(), convert(field, value)),
        false => (field.clone(), value.clone()),
    });
    Value::Object(fields.collect())
}

fn identifier(source: &Value, selector: &str) -> Value {
    match &source[selector] {
        Value::Null => json!({ "name": source["metricName"] }),
        selector => json!({ "name": source["metricName"], "selector": selector }),
    }
}

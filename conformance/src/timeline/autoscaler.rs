//! The status of a HorizontalPodAutoscaler.

use kubeproof_machinery::json::Value;

use super::{conditions, diff};

/// The changes of its spec and its status; the time of the last scaling is that of the write.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = diff::fields("spec", &old["spec"], &new["spec"]);
    let (before, after) = (&old["status"], &new["status"]);
    let rest = |status: &Value| in_words(conditions::without(status));
    changes.extend(diff::fields("status", &rest(before), &rest(after)));
    changes.extend(conditions::changes(before, after));
    changes
}

/// The status with a text for each metric.
fn in_words(mut status: Value) -> Value {
    if let Some(fields) = status.as_object_mut() {
        fields.remove("lastScaleTime");
    }
    let metrics = status
        .get_mut("currentMetrics")
        .and_then(Value::as_array_mut);
    for metric in metrics.into_iter().flatten() {
        *metric = metric_in_words(metric).into();
    }
    status
}

/// `cpu 75% (150m)`, `requests of Service web 150`, or `unknown`.
fn metric_in_words(metric: &Value) -> String {
    let kinds = [
        "resource",
        "containerResource",
        "pods",
        "object",
        "external",
    ];
    let source = kinds.iter().find_map(|kind| metric.get(*kind));
    let Some(source) = source else {
        return "unknown".to_owned();
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let name = text(&source["name"]).or_else(|| text(&source["metric"]["name"]));
    let mut words = vec![name.unwrap_or_default()];
    words.extend(text(&source["container"]).map(|container| format!("of {container}")));
    let object = &source["describedObject"];
    if let (Some(kind), Some(name)) = (text(&object["kind"]), text(&object["name"])) {
        words.push(format!("of {kind} {name}"));
    }
    let current = &source["current"];
    let amount = text(&current["averageValue"]).or_else(|| text(&current["value"]));
    let amount = amount.unwrap_or_default();
    words.push(match current["averageUtilization"].as_i64() {
        Some(percent) => format!("{percent}% ({amount})"),
        None => amount,
    });
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn metrics_are_shown_in_words() {
        let cpu = |percent: u32, average: &str| {
            let current = json!({"averageUtilization": percent, "averageValue": average});
            json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})
        };
        let object = json!({"type": "Object", "object": {"metric": {"name": "requests"},
            "describedObject": {"kind": "Service", "name": "web"}, "current": {"value": "150"}}});
        let old =
            json!({"status": {"currentReplicas": 1, "currentMetrics": [cpu(300, "600m"), object]}});
        let status = json!({"currentReplicas": 4, "lastScaleTime": "2026-01-01T00:00:00Z",
            "currentMetrics": [cpu(75, "150m"), {"type": ""}]});
        let new = json!({"status": status});
        let expected = [
            "status.currentMetrics[0] cpu 300% (600m) → cpu 75% (150m)",
            "status.currentMetrics[1] requests of Service web 150 → unknown",
            "status.currentReplicas 1 → 4",
        ];
        assert_eq!(changes(&old, &new), expected);
    }
}

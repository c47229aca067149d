//! What changes of a node, as far as its pods feel it.

use serde_json::Value;

/// What changed from `old` to `new`, each as a few words.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    let (cordoned_before, cordoned) = (is_cordoned(old), is_cordoned(new));
    if cordoned != cordoned_before {
        changes.push(if cordoned { "cordoned" } else { "uncordoned" }.to_owned());
    }
    changes.extend(conditions(old, new));
    let (before, after) = (taints(old), taints(new));
    let gone = before.iter().filter(|taint| !after.contains(taint));
    changes.extend(gone.map(|taint| format!("taint {taint} removed")));
    let added = after.iter().filter(|taint| !before.contains(taint));
    changes.extend(added.map(|taint| format!("taint {taint} added")));
    changes
}

fn is_cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
}

/// The conditions whose status is new, together by status and reason.
fn conditions(old: &Value, new: &Value) -> Vec<String> {
    let list = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array();
        conditions.cloned().unwrap_or_default()
    };
    let before = list(old);
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for condition in list(new) {
        let is_known = before.iter().any(|known| {
            known["type"] == condition["type"] && known["status"] == condition["status"]
        });
        if is_known {
            continue;
        }
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let (type_, status, reason) = (text("type"), text("status"), text("reason"));
        let how = match status.as_str() {
            "Unknown" => format!("{status} ({reason})"),
            _ => status,
        };
        match told.iter_mut().find(|(known, _)| *known == how) {
            Some((_, types)) => types.push(type_),
            None => told.push((how, vec![type_])),
        }
    }
    let told = told.into_iter();
    told.map(|(how, types)| format!("{} {how}", types.join(", ")))
        .collect()
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let words = |taint: &Value| {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        let key = text("key").trim_start_matches("node.kubernetes.io/");
        format!("{key}:{}", text("effect"))
    };
    taints.map(words).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_that_falls_silent_reads_as_conditions_and_taints() {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "NodeStatusUnknown"});
        let old = json!({"spec": {}, "status": {"conditions": [
            condition("MemoryPressure", "False"), condition("Ready", "True")]}});
        let taint = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"});
        let new = json!({"spec": {"taints": [taint], "unschedulable": true}, "status":
            {"conditions": [condition("MemoryPressure", "Unknown"), condition("Ready", "Unknown")]}});
        let expected = [
            "cordoned",
            "MemoryPressure, Ready Unknown (NodeStatusUnknown)",
            "taint unreachable:NoSchedule added",
        ];
        assert_eq!(changes(&old, &new), expected);
        let back = [
            "uncordoned",
            "MemoryPressure False",
            "Ready True",
            "taint unreachable:NoSchedule removed",
        ];
        assert_eq!(changes(&new, &old), back);
    }
}

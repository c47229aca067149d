//! The changes of a node that affect its pods.

use kubeproof_machinery::json::Value;

use super::conditions;

/// Returns the changes from `old` to `new`, each as a few words.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    let (cordoned_before, cordoned) = (is_cordoned(old), is_cordoned(new));
    if cordoned != cordoned_before {
        changes.push(if cordoned { "cordoned" } else { "uncordoned" }.to_owned());
    }
    let (old_status, new_status) = (&old["status"], &new["status"]);
    changes.extend(conditions::changes(old_status, new_status));
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
    use kubeproof_machinery::json::json;

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
            "MemoryPressure False (NodeStatusUnknown)",
            "Ready True (NodeStatusUnknown)",
            "taint unreachable:NoSchedule removed",
        ];
        assert_eq!(changes(&new, &old), back);
    }
}

//! Conditions of any kind, identified by their type.

use kubeproof_machinery::json::Value;

/// The conditions of a status whose own status or reason is new, together where both are the same.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<String> {
    let list = |status: &Value| status["conditions"].as_array().cloned().unwrap_or_default();
    let (before, after) = (list(old), list(new));
    let mut changed: Vec<(String, Vec<String>)> = Vec::new();
    for condition in &after {
        let is_known = before.iter().any(|known| {
            ["type", "status", "reason"]
                .iter()
                .all(|field| known[field] == condition[field])
        });
        if is_known {
            continue;
        }
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let how = match (text("status"), text("reason")) {
            (status, reason) if reason.is_empty() => status,
            (status, reason) => format!("{status} ({reason})"),
        };
        match changed.iter_mut().find(|(known, _)| *known == how) {
            Some((_, types)) => types.push(text("type")),
            None => changed.push((how, vec![text("type")])),
        }
    }
    let gone = before.iter().filter(|known| {
        !after
            .iter()
            .any(|condition| condition["type"] == known["type"])
    });
    let gone = gone.map(|known| format!("{} gone", known["type"].as_str().unwrap_or_default()));
    let changed = changed.iter();
    changed
        .map(|(how, types)| format!("{} {how}", types.join(", ")))
        .chain(gone)
        .collect()
}

/// Whether what is called conditions in `value` has types and statuses.
pub(super) fn has_only(value: &Value) -> bool {
    match &value["conditions"] {
        Value::Null => true,
        Value::Array(items) => items
            .iter()
            .all(|item| item["type"].is_string() && item["status"].is_string()),
        _ => false,
    }
}

/// `status` without its conditions.
pub(super) fn without(status: &Value) -> Value {
    let mut rest = status.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("conditions");
    }
    rest
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn conditions_are_compared_by_type_wherever_they_stand() {
        let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason});
        let old = json!({"conditions": [condition("Available", "True", "Enough"),
            condition("Progressing", "True", "Done"), condition("Odd", "True", "")]});
        let new = json!({"conditions": [condition("Progressing", "True", "Done"),
            condition("Available", "False", "Few")]});
        assert_eq!(changes(&old, &new), ["Available False (Few)", "Odd gone"]);
    }
}

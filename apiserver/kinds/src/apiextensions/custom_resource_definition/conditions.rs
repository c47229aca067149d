//! The conditions of a definition.

use crate::json::{Value, json};
use crate::meta::object::child_mut;

/// A condition to set.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// `type`.
    pub condition_type: &'static str,
    /// `status`: `True` or `False`.
    pub status: &'static str,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: &'a str,
}

/// The condition of a type.
pub fn find<'d>(definition: &'d Value, condition_type: &str) -> Option<&'d Value> {
    let mut conditions = definition["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == condition_type)
}

/// Whether the condition of a type is true.
pub fn is_true(definition: &Value, condition_type: &str) -> bool {
    find(definition, condition_type).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition; its time stays unless the status changes.
pub fn set(definition: &mut Value, condition: Condition<'_>, now: &str) {
    let status = child_mut(definition, "status");
    if !status.get("conditions").is_some_and(Value::is_array) {
        status.insert("conditions", json!([]));
    }
    let conditions = status["conditions"].as_array_mut();
    let conditions = conditions.expect("made a list above");
    let held = conditions
        .iter_mut()
        .find(|held| held["type"] == condition.condition_type);
    let Some(held) = held else {
        conditions.push(json!({
            "type": condition.condition_type,
            "status": condition.status,
            "lastTransitionTime": now,
            "reason": condition.reason,
            "message": condition.message,
        }));
        return;
    };
    if held["status"] != condition.status || held["lastTransitionTime"].is_null() {
        held["lastTransitionTime"] = now.into();
    }
    held["status"] = condition.status.into();
    held["reason"] = condition.reason.into();
    held["message"] = condition.message.into();
}

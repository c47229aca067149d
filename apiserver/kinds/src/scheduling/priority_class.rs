//! PriorityClasses.

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::object::{default, meta_mut, name};
use crate::meta::validation::validate_immutable;
use crate::status::{FieldErrors, FieldPath};
use crate::validation::required_one_of;
use crate::{Context, Strategy};

/// The highest value for users' classes; higher values are the system's own.
const HIGHEST: i64 = 1_000_000_000;
/// The system's own classes and their values.
const SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

#[derive(Debug)]
pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    /// Nothing is counted afterwards.
    fn prepare_for_create(&self, class: &mut Value, _context: Context<'_>) {
        meta_mut(class).insert("generation", 1.into());
    }

    fn default(&self, class: &mut Value) {
        if let Some(fields) = class.as_object_mut() {
            default(fields, "preemptionPolicy", "PreemptLowerPriority");
        }
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let own = name(class);
        if own.starts_with("system-") {
            if let Some(why) = strangeness(class) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                );
                errors.forbidden(&FieldPath::new("metadata.name"), &detail);
            }
        } else if class["value"].as_i64().is_some_and(|value| value > HIGHEST) {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            errors.forbidden(&FieldPath::new("value"), &detail);
        }
        let path = FieldPath::new("preemptionPolicy");
        let policies = ["PreemptLowerPriority", "Never"];
        required_one_of(&class["preemptionPolicy"], &path, &policies, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if new["value"] != old["value"] {
            errors.forbidden(&FieldPath::new("value"), "may not be changed in an update.");
        }
        let path = FieldPath::new("preemptionPolicy");
        let policy = |class: &Value| class["preemptionPolicy"].clone();
        validate_immutable(&policy(new), &policy(old), &path, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.int("/value")),
            json!(view.bool("/globalDefault")),
            view.age(),
            json!(view.str("/preemptionPolicy")),
        ])
    }
}

/// Returns why a class is not one of the system's own; `None` if it is.
fn strangeness(class: &Value) -> Option<String> {
    let own = name(class);
    let Some((_, value)) = SYSTEM.iter().find(|(known, _)| *known == own) else {
        return Some(format!("{own} is not a known system priority class"));
    };
    if class["value"].as_i64().unwrap_or(0) != *value {
        return Some(format!("value of {own} PriorityClass must be {value}"));
    }
    let is_default = class["globalDefault"] == true;
    is_default.then(|| format!("globalDefault of {own} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn the_system_s_classes_are_known() {
        let reserved = "Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: ";
        let critical = "system-node-critical";
        let table = [
            (critical, json!(2_000_001_000), false, String::new()),
            (
                critical,
                json!(1),
                false,
                format!("{reserved}value of {critical} PriorityClass must be 2000001000"),
            ),
            (
                critical,
                json!(2_000_001_000),
                true,
                format!("{reserved}globalDefault of {critical} PriorityClass must be false"),
            ),
            (
                "system-x",
                json!(1),
                false,
                format!("{reserved}system-x is not a known system priority class"),
            ),
        ];
        for (name, value, default, want) in table {
            let class = json!({"metadata": {"name": name}, "value": value,
                "globalDefault": default, "preemptionPolicy": "Never"});
            let errors = PriorityClass.validate(&class);
            let found = errors.causes().first().map_or("", |own| &own.message);
            assert_eq!(found, want, "{class}");
        }
    }
}

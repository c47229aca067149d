//! PriorityLevelConfigurations of API priority and fairness.

use serde_json::{Value, json};

use super::Strategy;
use super::checks::{object_in, text};
use crate::meta::object::{child_mut, default, name};
use crate::status::{FieldErrors, FieldPath};

const NON_NEGATIVE: &str = "must be a non-negative integer";
const MAX_QUEUES: i64 = 10_000_000;

#[derive(Debug)]
pub(super) struct PriorityLevel;

impl Strategy for PriorityLevel {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, level: &mut Value) {
        let spec = child_mut(level, "spec");
        for kind in ["exempt", "limited"] {
            if let Some(own) = spec.get_mut(kind).and_then(Value::as_object_mut) {
                let shares = if kind == "limited" { 30 } else { 0 };
                default(own, "nominalConcurrencyShares", shares);
                default(own, "lendablePercent", 0);
            }
        }
        let response = spec
            .get_mut("limited")
            .and_then(|limited| limited.get_mut("limitResponse"))
            .and_then(Value::as_object_mut);
        if let Some(response) = response.filter(|own| own.contains_key("queuing")) {
            let queuing = object_in(response, "queuing");
            for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                default(queuing, field, value);
            }
        }
    }

    fn validate(&self, level: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &level["spec"];
        let kind = text(&spec["type"]);
        let exempt = name(level) == "exempt";
        let at = path.child("type");
        if exempt != (kind == "Exempt") && (exempt || kind == "Exempt") {
            let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
            errors.invalid(&at, &kind.into(), detail);
            return errors;
        }
        match kind {
            "Exempt" => {
                if !spec["limited"].is_null() {
                    let detail = "must be nil if the type is not Limited";
                    errors.forbidden(&path.child("limited"), detail);
                }
                validate_shares(&spec["exempt"], &path.child("exempt"), &mut errors);
            }
            "Limited" => {
                if !spec["exempt"].is_null() {
                    let detail = "must be nil if the type is Limited";
                    errors.forbidden(&path.child("exempt"), detail);
                }
                let at = path.child("limited");
                match spec["limited"].is_null() {
                    true => errors.required(&at, "must not be empty when type is Limited"),
                    false => validate_limited(&spec["limited"], &at, &mut errors),
                }
            }
            _ => errors.not_supported(&at, &kind.into(), &["Exempt", "Limited"]),
        }
        errors
    }
}

fn validate_shares(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let shares = &own["nominalConcurrencyShares"];
    if shares.as_i64().is_some_and(|own| own < 0) {
        errors.invalid(
            &path.child("nominalConcurrencyShares"),
            shares,
            NON_NEGATIVE,
        );
    }
    validate_percent(own, path, errors);
}

fn validate_percent(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let percent = &own["lendablePercent"];
    if percent
        .as_i64()
        .is_some_and(|own| !(0..=100).contains(&own))
    {
        let detail = "must be between 0 and 100, inclusive";
        errors.invalid(&path.child("lendablePercent"), percent, detail);
    }
    let percent = &own["borrowingLimitPercent"];
    if percent.as_i64().is_some_and(|own| own < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.invalid(&path.child("borrowingLimitPercent"), percent, detail);
    }
}

fn validate_limited(limited: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let shares = &limited["nominalConcurrencyShares"];
    if shares.as_i64().is_some_and(|own| own < 0) {
        errors.invalid(
            &path.child("nominalConcurrencyShares"),
            shares,
            NON_NEGATIVE,
        );
    }
    let response = &limited["limitResponse"];
    let at = path.child("limitResponse");
    match text(&response["type"]) {
        "Reject" if !response["queuing"].is_null() => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.forbidden(&at.child("queuing"), detail);
        }
        "Reject" => {}
        "Queue" => match response["queuing"].is_null() {
            true => {
                let detail = "must not be empty if limited.limitResponse.type is Limited";
                errors.required(&at.child("queuing"), detail);
            }
            false => validate_queuing(&response["queuing"], &at.child("queuing"), errors),
        },
        other => errors.not_supported(&at.child("type"), &json!(other), &["Queue", "Reject"]),
    }
    validate_percent(limited, path, errors);
}

fn validate_queuing(queuing: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let number = |field: &str| queuing[field].as_i64().unwrap_or(0);
    for field in ["queueLengthLimit", "queues", "handSize"] {
        let own = number(field);
        if own < 0 || (field != "queueLengthLimit" && own == 0) {
            errors.invalid(
                &path.child(field),
                &own.into(),
                "must be a positive integer",
            );
        }
    }
    let (queues, hand) = (number("queues"), number("handSize"));
    if queues > MAX_QUEUES {
        let detail = format!("must not be greater than {MAX_QUEUES}");
        errors.invalid(&path.child("queues"), &queues.into(), &detail);
    }
    if hand > queues && queues > 0 {
        let detail = format!("should not be greater than queues ({queues})");
        errors.invalid(&path.child("handSize"), &hand.into(), &detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_is_no_greater_than_the_queues() {
        let level = |hand: i64| {
            json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": {
                "limitResponse": {"type": "Queue", "queuing": {"queues": 2, "handSize": hand}}}}})
        };
        assert!(PriorityLevel.validate(&level(2)).is_empty());
        assert_eq!(PriorityLevel.validate(&level(3)).causes().len(), 1);
    }
}

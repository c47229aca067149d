//! PriorityLevelConfigurations of API priority and fairness.

use super::flow_schema::{validate_conditions, validate_mandatory};
use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default, name};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{object_in, text};
use crate::{MetadataCheck, ResetFields, Strategy};

const NON_NEGATIVE: &str = "must be a non-negative integer";
const MAX_QUEUES: i64 = 10_000_000;
const MAX_ENTROPY_BITS: f64 = 60.0;

/// The annotation for v1beta3, in which zero meant the default.
const ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

#[derive(Debug)]
pub(crate) struct PriorityLevel;

impl Strategy for PriorityLevel {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    fn status_metadata_checks(&self) -> &'static [MetadataCheck] {
        &[]
    }

    fn status_update_keeps(&self, field: &str) -> bool {
        field != "managedFields"
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"], &["metadata"]],
            _ => &[&["status"]],
        }
    }

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
                if queuing.get(field).is_none_or(|own| own == 0) {
                    queuing.insert(field.to_owned(), value.into());
                }
            }
        }
    }

    fn validate(&self, level: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if !level["metadata"]["annotations"][ZERO_SHARES].is_null() {
            let detail = format!("annotation '{ZERO_SHARES}' is forbidden");
            errors.forbidden(&FieldPath::new("metadata.annotations"), &detail);
        }
        let path = FieldPath::new("spec");
        let spec = &level["spec"];
        let kind = text(&spec["type"]);
        let exempt = name(level) == "exempt";
        let at = path.child("type");
        if exempt != (kind == "Exempt") && (exempt || kind == "Exempt") {
            let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
            errors.invalid(&at, &kind.into(), detail);
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
        validate_mandatory(level, "prioritylevelconfigurations", &path, &mut errors);
        validate_conditions(level, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_conditions(new, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let number = |pointer: &str| {
            view.get(pointer)
                .cloned()
                .unwrap_or_else(|| json!("<none>"))
        };
        Some(vec![
            view.name(),
            json!(view.str("/spec/type")),
            // An exempt level's shares aren't shown.
            number("/spec/limited/nominalConcurrencyShares"),
            number("/spec/limited/limitResponse/queuing/queues"),
            number("/spec/limited/limitResponse/queuing/handSize"),
            number("/spec/limited/limitResponse/queuing/queueLengthLimit"),
            view.age(),
        ])
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
    const POSITIVE: &str = "must be positive";
    let number = |field: &str| queuing[field].as_i64().unwrap_or(0);
    let mut invalid = |field: &str, detail: &str| {
        errors.invalid(&path.child(field), &number(field).into(), detail);
    };
    if number("queueLengthLimit") < 0 {
        invalid("queueLengthLimit", POSITIVE);
    }
    let (queues, hand) = (number("queues"), number("handSize"));
    if queues <= 0 {
        invalid("queues", POSITIVE);
    } else if queues > MAX_QUEUES {
        let detail = format!("must not be greater than {MAX_QUEUES}");
        invalid("queues", &detail);
    }
    if hand <= 0 {
        invalid("handSize", POSITIVE);
    } else if hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        invalid("handSize", &detail);
    } else if entropy_bits(queues, hand) > MAX_ENTROPY_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_ENTROPY_BITS}"
        );
        invalid("handSize", &detail);
    }
}

/// How many bits of a hash it takes to deal a hand out of that many queues.
#[expect(clippy::cast_precision_loss, reason = "both are small numbers")]
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
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

    #[test]
    fn a_hand_is_dealt_from_one_hash() {
        let faults = |queues: i64, hand: i64| {
            let mut errors = FieldErrors::new();
            let queuing = json!({"queues": queues, "handSize": hand});
            validate_queuing(&queuing, &FieldPath::new("q"), &mut errors);
            errors
                .causes()
                .iter()
                .map(|own| own.message.clone())
                .collect::<Vec<_>>()
        };
        assert!(faults(64, 10).is_empty());
        assert_eq!(
            faults(64, 11),
            [
                "Invalid value: 11: required entropy bits of deckSize 64 and handSize 11 should not be greater than 60"
            ]
        );
    }

    #[test]
    fn the_exempt_level_may_change_what_is_exempt() {
        let level = |spec: Value| json!({"metadata": {"name": "exempt"}, "spec": spec});
        let faults = |spec: Value| {
            let errors = PriorityLevel.validate(&level(spec));
            errors
                .causes()
                .iter()
                .map(|own| own.message.clone())
                .collect::<Vec<_>>()
        };
        assert!(faults(json!({"type": "Exempt", "exempt": {"lendablePercent": 5}})).is_empty());
        let limited = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 1,
            "limitResponse": {"type": "Reject"}}});
        assert_eq!(
            faults(limited),
            [
                "Invalid value: \"Limited\": must be 'Exempt' if and only if `name` is 'exempt'",
                "Invalid value: {\"Type\":\"Limited\",\"Limited\":{\"NominalConcurrencyShares\":1,\"LimitResponse\":{\"Type\":\"Reject\",\"Queuing\":null},\"LendablePercent\":null,\"BorrowingLimitPercent\":null},\"Exempt\":null}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
            ]
        );
    }
}

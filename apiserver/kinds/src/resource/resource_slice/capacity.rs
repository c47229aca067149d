//! How much of a capacity that several share a request may take.

use std::cmp::Ordering;

use crate::json::Value;
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};

const VALUES_MAX: usize = 10;
const ONE_POLICY: &str = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(text(value)).ok()
}

fn is_above(one: &Value, other: &Value) -> bool {
    let both = amount(one).zip(amount(other));
    both.is_some_and(|(one, other)| one.compare(&other) == Ordering::Greater)
}

/// Faults of the `requestPolicy` of a capacity.
pub(super) fn validate_policy(capacity: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let policy = &capacity["requestPolicy"];
    let (values, range) = (&policy["validValues"], &policy["validRange"]);
    let whole = &capacity["value"];
    let asked = &policy["default"];
    let field = match (is_empty(values), range.is_null()) {
        (false, false) => return errors.forbidden(path, ONE_POLICY),
        (false, true) => "validValues",
        (true, false) => "validRange",
        (true, true) => return,
    };
    if asked.is_null() {
        let detail = format!("required when {field} is defined");
        return errors.required(&path.child("default"), &detail);
    }
    let path = path.child(field);
    match field {
        "validValues" => validate_values(values, asked, whole, &path, errors),
        _ => validate_range(range, asked, whole, &path, errors),
    }
}

fn validate_values(
    values: &Value,
    asked: &Value,
    whole: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let all: Vec<&Value> = items(values).collect();
    for (index, pair) in all.windows(2).enumerate() {
        if is_above(pair[0], pair[1]) {
            let path = path.index(index + 1);
            errors.invalid(&path, pair[1], "values must be sorted in ascending order");
        }
    }
    let same = |one: &Value, other: &Value| !is_above(one, other) && !is_above(other, one);
    if all.len() > VALUES_MAX {
        errors.too_many(path, all.len(), VALUES_MAX);
    } else {
        for (index, own) in all.iter().enumerate() {
            if is_above(own, whole) {
                let detail = format!("option is larger than capacity value: {}", text(whole));
                errors.invalid(&path.index(index), own, &detail);
            }
        }
        for (index, own) in all.iter().enumerate() {
            if all[..index].iter().any(|other| same(own, other)) {
                errors.duplicate(&path.index(index), own);
            }
        }
    }
    if all.len() > VALUES_MAX || !all.iter().any(|own| same(own, asked)) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.invalid(path, asked, detail);
    }
}

fn validate_range(
    range: &Value,
    asked: &Value,
    whole: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let (least, most, step) = (&range["min"], &range["max"], &range["step"]);
    let at = path.child("min");
    if least.is_null() {
        return errors.required(&at, "required when validRange is defined");
    }
    let of_whole = format!("capacity value: {}", text(whole));
    if is_above(least, whole) {
        errors.invalid(&at, least, &format!("min is larger than {of_whole}"));
    }
    if is_above(least, asked) {
        let detail = format!("default is less than min: {}", text(least));
        errors.invalid(&at, asked, &detail);
    }
    let at = path.child("max");
    if !most.is_null() {
        if is_above(least, most) {
            let detail = format!("min is larger than max: {}", text(most));
            errors.invalid(&at, least, &detail);
        }
        if is_above(most, whole) {
            errors.invalid(&at, most, &format!("max is larger than {of_whole}"));
        }
        if is_above(asked, most) {
            let detail = format!("default is more than max: {}", text(most));
            errors.invalid(&at, asked, &detail);
        }
    }
    if step.is_null() {
        return;
    }
    let at = path.child("step");
    if let Some((least, own)) = amount(least).zip(amount(step)) {
        let sum = Value::from(least.add(&own).to_string());
        if is_above(&sum, whole) {
            let detail = format!("one step {} is larger than {of_whole}", text(&sum));
            errors.invalid(&at, step, &detail);
        }
    }
    for value in [asked, most] {
        let number = |own: &Value| amount(own).and_then(|own| own.to_i64());
        let (Some(own), Some(first), Some(by)) = (number(value), number(least), number(step))
        else {
            continue;
        };
        if by != 0 && (own - first) % by != 0 {
            let (step, least) = (text(step), text(least));
            let detail = format!("value is not a multiple of a given step ({step}) from ({least})");
            errors.invalid(&at, value, &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn requests_are_of_values_or_steps() {
        let values = |all: Value, asked: &str| json!({"validValues": all, "default": asked});
        let range = |own: Value, asked: &str| json!({"validRange": own, "default": asked});
        let table = [
            (values(json!(["1Gi", "2Gi"]), "1Gi"), vec![]),
            (json!({"validValues": ["1Gi"]}), vec!["p.default"]),
            (
                values(json!(["2Gi", "1Gi", "9Gi"]), "3Gi"),
                vec!["p.validValues[1]", "p.validValues[2]", "p.validValues"],
            ),
            (
                range(json!({"min": "1", "max": "5", "step": "2"}), "3"),
                vec![],
            ),
            (range(json!({}), "3"), vec!["p.validRange.min"]),
            (
                range(json!({"min": "4", "max": "2", "step": "8Gi"}), "3"),
                vec![
                    "p.validRange.min",
                    "p.validRange.max",
                    "p.validRange.max",
                    "p.validRange.step",
                    "p.validRange.step",
                    "p.validRange.step",
                ],
            ),
            (json!({"validValues": ["1"], "validRange": {}}), vec!["p"]),
        ];
        for (policy, want) in table {
            let capacity = json!({"value": "8Gi", "requestPolicy": policy});
            let mut errors = FieldErrors::new();
            validate_policy(&capacity, &FieldPath::new("p"), &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{capacity}");
        }
    }
}

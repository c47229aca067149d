//! When a job has failed or succeeded before its pods are through.

use std::collections::BTreeSet;

use crate::go_struct::shown_field;
use crate::json::Value;
use crate::meta::validation::qualified_name;
use crate::status::{CauseReason, FieldErrors, FieldPath, quoted};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{NOT_NEGATIVE, invalid_as, invalid_each};

const INDEXES_BYTES_MAX: usize = 64 * 1024;
const RULES_MAX: usize = 20;
const VALUES_MAX: usize = 255;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];

/// Validates a required choice; the fault of a missing value lists the valid values.
fn choice(value: &Value, known: &[&str], path: &FieldPath, errors: &mut FieldErrors) {
    let own = text(value);
    if own.is_empty() {
        let known: Vec<String> = known.iter().map(|own| format!("{own:?}")).collect();
        errors.required(path, &format!("valid values: [{}]", known.join(" ")));
    } else if !known.contains(&own) {
        errors.not_supported(path, value, known);
    }
}

pub(super) fn validate_failure_policy(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let policy = &spec["podFailurePolicy"];
    if policy.is_null() {
        return;
    }
    let path = path.child("rules");
    let count = items(&policy["rules"]).count();
    if count > RULES_MAX {
        errors.too_many(&path, count, RULES_MAX);
    }
    for (index, rule) in items(&policy["rules"]).enumerate() {
        validate_failure_rule(spec, rule, &path.index(index), errors);
    }
}

fn validate_failure_rule(spec: &Value, rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (action, at) = (&rule["action"], path.child("action"));
    if action == "FailIndex" {
        if spec["backoffLimitPerIndex"].is_null() {
            errors.invalid(&at, action, "requires the backoffLimitPerIndex to be set");
        }
    } else {
        choice(action, &ACTIONS, &at, errors);
    }
    let (codes, conditions) = (&rule["onExitCodes"], &rule["onPodConditions"]);
    if !codes.is_null() {
        validate_codes(spec, codes, &path.child("onExitCodes"), errors);
    }
    let at = path.child("onPodConditions");
    let count = items(conditions).count();
    if count > RULES_MAX {
        errors.too_many(&at, count, RULES_MAX);
    }
    for (index, condition) in items(conditions).enumerate() {
        let path = at.index(index);
        let kind = &condition["type"];
        invalid_each(
            qualified_name(text(kind)),
            kind,
            &path.child("type"),
            errors,
        );
        choice(
            &condition["status"],
            &STATUSES,
            &path.child("status"),
            errors,
        );
    }
    let detail = match (codes.is_null(), is_empty(conditions)) {
        (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(
        CauseReason::Invalid,
        path,
        format!("Invalid value: {detail}"),
    );
}

fn validate_codes(spec: &Value, codes: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    choice(
        &codes["operator"],
        &OPERATORS,
        &path.child("operator"),
        errors,
    );
    let container = &codes["containerName"];
    let template = &spec["template"]["spec"];
    let mut known = items(&template["containers"]).chain(items(&template["initContainers"]));
    if !container.is_null() && !known.any(|own| own["name"] == *container) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), container, detail);
    }
    let (values, at) = (&codes["values"], path.child("values"));
    let count = items(values).count();
    if count == 0 {
        errors.invalid(&at, values, "at least one value is required");
    } else if count > VALUES_MAX {
        errors.too_many(&at, count, VALUES_MAX);
    }
    let numbers: Vec<i64> = items(values).filter_map(Value::as_i64).collect();
    let mut seen = BTreeSet::new();
    for (index, code) in numbers.iter().enumerate() {
        let path = at.index(index);
        if codes["operator"] == "In" && *code == 0 {
            errors.invalid(&path, &0.into(), "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            errors.duplicate(&path, &(*code).into());
        }
    }
    if !numbers.is_sorted() {
        errors.invalid(&at, values, "must be ordered");
    }
}

pub(super) fn validate_success_policy(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let policy = &spec["successPolicy"];
    if policy.is_null() {
        return;
    }
    if spec["completionMode"] != "Indexed" {
        let shown = shown_field("batch", "Job", &["spec", "successPolicy"], policy);
        return invalid_as(path, &shown, "requires indexed completion mode", errors);
    }
    let path = path.child("rules");
    let count = items(&policy["rules"]).count();
    if count == 0 {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&path, detail);
    } else if count > RULES_MAX {
        errors.too_many(&path, count, RULES_MAX);
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (index, rule) in items(&policy["rules"]).enumerate() {
        let path = path.index(index);
        let (count, indexes) = (&rule["succeededCount"], &rule["succeededIndexes"]);
        if count.is_null() && indexes.is_null() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.required(&path, detail);
        }
        let mut total = 0;
        if !indexes.is_null() {
            if text(indexes).len() > INDEXES_BYTES_MAX {
                errors.too_long(&path.child("succeededIndexes"), INDEXES_BYTES_MAX);
            }
            match count_of_indexes(text(indexes), completions) {
                Ok(own) => total = own,
                Err(why) => {
                    let detail = format!("error parsing succeededIndexes: {why}");
                    errors.invalid(&path.child("succeededIndexes"), indexes, &detail);
                }
            }
        }
        let at = path.child("succeededCount");
        let number = count.as_i64().unwrap_or(0);
        if number < 0 {
            errors.invalid(&at, count, NOT_NEGATIVE);
        }
        if number > completions {
            let detail = format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            );
            errors.invalid(&at, count, &detail);
        }
        if !count.is_null() && !indexes.is_null() && number > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified \
                 succeededIndexes field)"
            );
            errors.invalid(&at, count, &detail);
        }
    }
}

/// How many indexes a text such as `1,3-5` names.
///
/// # Errors
/// The text is malformed, or has an index that is not below `completions`.
pub(super) fn count_of_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None::<i64>);
    if text.is_empty() {
        return Ok(0);
    }
    for part in text.split(',') {
        let (from, to) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(format!(
                "non-increasing order, previous: {last}, current: {from}"
            ));
        }
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}

/// The first and the last index of a text such as `3-5` or `1`.
///
/// # Errors
/// The text is malformed, or has an index that is not below `completions`.
pub(super) fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let number = |text: &str| -> Result<i64, String> {
        let number: i64 = text.parse().map_err(|_| {
            format!(
                "cannot convert string to integer for index: {}",
                quoted(text)
            )
        })?;
        match number >= completions {
            true => Err(format!("too large index: {}", quoted(text))),
            false => Ok(number),
        }
    };
    let parts: Vec<&str> = text.split('-').collect();
    match *parts {
        [one] => number(one).map(|one| (one, one)),
        [from, to] => {
            let (from, to) = (number(from)?, number(to)?);
            if from >= to {
                return Err(format!(
                    "non-increasing order, previous: {from}, current: {to}"
                ));
            }
            Ok((from, to))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two \
             parts separated by '-'",
            quoted(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_increase_and_are_below_the_number_of_completions() {
        let table = [
            ("0,2-4", Ok(4)),
            ("", Ok(0)),
            (
                "x",
                Err("cannot convert string to integer for index: \"x\""),
            ),
            ("5", Err("too large index: \"5\"")),
            ("1,1", Err("non-increasing order, previous: 1, current: 1")),
            ("3-2", Err("non-increasing order, previous: 3, current: 2")),
        ];
        for (text, want) in table {
            assert_eq!(
                count_of_indexes(text, 5),
                want.map_err(str::to_owned),
                "{text}"
            );
        }
    }
}

//! Rules shared by claims, classes and slices of devices: names, tolerations, taints, sets.

use std::collections::BTreeSet;

use crate::core::pod::volume_sources::validate_csi_driver_name;
use crate::json::Value;
use crate::meta::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, text};
use crate::validation::invalid_each;

/// How many requests, constraints or configurations there may be, and results of an allocation.
pub(crate) const LIST_MAX: usize = 32;
const IDENTIFIER_BYTES_MAX: usize = 32;
const POOL_BYTES_MAX: usize = 253;
const BINDING_CONDITIONS_MAX: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// The faults of each item of a list that has `most` of them, else that there are too many.
pub(crate) fn validate_list(
    list: &Value,
    most: usize,
    path: &FieldPath,
    errors: &mut FieldErrors,
    mut validate: impl FnMut(&Value, &FieldPath, &mut FieldErrors),
) -> bool {
    let count = items(list).count();
    if count > most {
        errors.too_many(path, count, most);
        return false;
    }
    for (index, own) in items(list).enumerate() {
        validate(own, &path.index(index), errors);
    }
    true
}

/// Validates a list like [`validate_list`], and then reports items with duplicate keys.
pub(crate) fn validate_set<'v>(
    list: &'v Value,
    most: usize,
    key: impl Fn(&'v Value) -> &'v str,
    path: &FieldPath,
    errors: &mut FieldErrors,
    validate: impl FnMut(&Value, &FieldPath, &mut FieldErrors),
) {
    if !validate_list(list, most, path, errors, validate) {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, own) in items(list).enumerate() {
        if !seen.insert(key(own)) {
            errors.duplicate(&path.index(index), &key(own).into());
        }
    }
}

/// The name of a request or device.
pub(crate) fn validate_label(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    invalid_each(dns1123_label(name), &name.into(), path, errors);
}

/// The name of a set of counters.
pub(crate) fn validate_counter_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    match name.is_empty() {
        true => errors.required(path, ""),
        false => validate_label(name, path, errors),
    }
}

/// The name of a pool: subdomains between slashes.
pub(crate) fn validate_pool_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > POOL_BYTES_MAX {
        errors.too_long(path, POOL_BYTES_MAX);
    }
    for part in name.split('/') {
        invalid_each(dns1123_subdomain(part), &part.into(), path, errors);
    }
}

/// The name of an attribute or capacity, which may have a domain.
pub(crate) fn validate_qualified_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let parts: Vec<&str> = name.split('/').collect();
    let own = match *parts {
        [own] => own,
        [domain, own] => {
            if domain.is_empty() {
                errors.invalid(path, &"".into(), "the domain must not be empty");
            } else {
                validate_csi_driver_name(&domain.into(), path, errors);
            }
            if own.is_empty() {
                return errors.invalid(path, &"".into(), "the name must not be empty");
            }
            own
        }
        // Upstream does not validate names with several slashes.
        _ => return,
    };
    if own.len() > IDENTIFIER_BYTES_MAX {
        errors.too_long(path, IDENTIFIER_BYTES_MAX);
    }
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    let starts = !own.is_empty() && !own.starts_with(|own: char| own.is_ascii_digit());
    if !starts || !own.bytes().all(is_word) {
        errors.invalid(path, &own.into(), IDENTIFIER);
    }
}

/// As [`validate_qualified_name`], with a domain.
pub(crate) fn validate_full_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    validate_qualified_name(name, path, errors);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(path, &name.into(), detail);
    }
}

/// A taint of a device that a request tolerates.
pub(crate) fn validate_toleration(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let key = text(&own["key"]);
    if !key.is_empty() {
        invalid_each(qualified_name(key), &key.into(), &path.child("key"), errors);
    }
    let (value, at) = (text(&own["value"]), path.child("value"));
    match text(&own["operator"]) {
        "Exists" if !value.is_empty() => {
            let detail = "must be empty for operator `Exists`";
            errors.invalid(&at, &value.into(), detail);
        }
        "Exists" => {}
        "Equal" => invalid_each(label_value(value), &value.into(), &at, errors),
        "" => errors.required(&path.child("operator"), ""),
        other => {
            let known = ["Equal", "Exists"];
            errors.not_supported(&path.child("operator"), &other.into(), &known);
        }
    }
    let effect = text(&own["effect"]);
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(&path.child("effect"), &effect.into(), &EFFECTS);
    }
}

/// A taint of a device.
pub(crate) fn validate_taint(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let key = text(&own["key"]);
    invalid_each(qualified_name(key), &key.into(), &path.child("key"), errors);
    let value = text(&own["value"]);
    invalid_each(
        label_value(value),
        &value.into(),
        &path.child("value"),
        errors,
    );
    let path = path.child("effect");
    match text(&own["effect"]) {
        "" => errors.required(&path, ""),
        own if EFFECTS.contains(&own) => {}
        own => errors.not_supported(&path, &own.into(), &EFFECTS),
    }
}

/// The conditions that a binding waits for, and those that end it: there are both or none.
pub(crate) fn validate_binding(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const WAITS: &str = "bindingConditions";
    const ENDS: &str = "bindingFailureConditions";
    for field in [WAITS, ENDS] {
        let path = path.child(field);
        validate_list(
            &own[field],
            BINDING_CONDITIONS_MAX,
            &path,
            errors,
            |own, path, errors| invalid_each(qualified_name(text(own)), own, path, errors),
        );
    }
    for field in [WAITS, ENDS] {
        let mut seen = BTreeSet::new();
        for (index, condition) in items(&own[field]).enumerate() {
            let path = path.child(field).index(index);
            if !seen.insert(text(condition)) {
                errors.duplicate(&path, condition);
            }
            if field == ENDS && items(&own[WAITS]).any(|other| other == condition) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(&path, condition, detail);
            }
        }
    }
    let [waits, ends] = [WAITS, ENDS].map(|field| items(&own[field]).next().is_some());
    for (lacks, has, lacking, having) in [(!waits, ends, WAITS, ENDS), (!ends, waits, ENDS, WAITS)]
    {
        if lacks && has {
            let detail = format!("{lacking} are required to use {having}");
            errors.invalid(&path.child(lacking), &own[lacking], &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn fields(of: impl Fn(&FieldPath, &mut FieldErrors)) -> Vec<String> {
        let mut errors = FieldErrors::new();
        of(&FieldPath::new("a"), &mut errors);
        errors
            .causes()
            .iter()
            .map(|own| own.field.clone())
            .collect()
    }

    #[test]
    fn names_are_identifiers_with_a_domain_or_without() {
        for (name, plain, full) in [
            ("model", 0, 1),
            ("a.io/model", 0, 0),
            ("/model", 1, 1),
            ("a.io/", 1, 1),
            ("1st", 1, 2),
            ("a.io/no-dash", 1, 1),
        ] {
            let count = |of: fn(&str, &FieldPath, &mut FieldErrors)| {
                fields(|path, errors| of(name, path, errors)).len()
            };
            assert_eq!(count(validate_qualified_name), plain, "{name}");
            assert_eq!(count(validate_full_name), full, "{name}");
        }
    }

    #[test]
    fn tolerations_and_taints_are_well_formed() {
        for (own, want) in [
            (json!({"key": "a", "operator": "Exists"}), vec![]),
            (json!({"operator": "Exists", "value": "v"}), vec!["a.value"]),
            (
                json!({"key": "a b", "operator": ""}),
                vec!["a.key", "a.operator"],
            ),
            (
                json!({"operator": "Odd", "effect": "Odd"}),
                vec!["a.operator", "a.effect"],
            ),
        ] {
            let found = fields(|path, errors| validate_toleration(&own, path, errors));
            assert_eq!(found, want, "{own}");
        }
        let found = fields(|path, errors| validate_taint(&json!({}), path, errors));
        assert_eq!(found, ["a.key", "a.key", "a.effect"]);
    }

    #[test]
    fn a_binding_waits_for_what_can_fail() {
        for (own, want) in [
            (
                json!({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}),
                vec![],
            ),
            (
                json!({"bindingConditions": ["a"]}),
                vec!["a.bindingFailureConditions"],
            ),
            (
                json!({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]}),
                vec!["a.bindingConditions[1]", "a.bindingFailureConditions[0]"],
            ),
        ] {
            let found = fields(|path, errors| validate_binding(&own, path, errors));
            assert_eq!(found, want, "{own}");
        }
    }

    #[test]
    fn duplicates_are_reported_after_the_rest() {
        let list = json!([{"name": "x"}, {"name": "x"}, {"name": "_"}]);
        let found = fields(|path, errors| {
            validate_set(
                &list,
                3,
                |own| text(&own["name"]),
                path,
                errors,
                |own, path, errors| {
                    validate_label(text(&own["name"]), &path.child("name"), errors);
                },
            );
        });
        assert_eq!(found, ["a[2].name", "a[1]"]);
    }
}

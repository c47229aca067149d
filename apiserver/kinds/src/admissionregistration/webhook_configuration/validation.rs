//! Validation of webhook configurations.

use std::collections::BTreeSet;

use crate::apiextensions::custom_resource_definition::validate_webhook_client;
use crate::cel::{Returns, Scope};
use crate::json::Value;
use crate::meta::selector::LabelSelector;
use crate::meta::validation::{
    dns1035_label, dns1123_subdomain, qualified_name, validate_label_selector,
};
use crate::status::{CauseReason, FieldErrors, FieldPath};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const MATCH_CONDITIONS_MAX: usize = 64;

/// Faults that an update may keep because the replaced object already has them.
#[derive(Clone, Copy, Debug, Default)]
struct Tolerated {
    side_effects: bool,
    review_versions: bool,
    names: bool,
    label_values: bool,
    conditions: bool,
}

impl Tolerated {
    fn of(new: &Value, old: &Value) -> Self {
        let conditions = |configuration: &Value| -> Vec<Value> {
            let webhooks = items(configuration, "webhooks");
            webhooks.map(|own| own["matchConditions"].clone()).collect()
        };
        let effects = |webhook: &Value| {
            let effects = text(webhook, "sideEffects");
            !matches!(effects, "None" | "NoneOnDryRun")
        };
        let is_unknown = |webhook: &Value| {
            !strings(webhook, "admissionReviewVersions")
                .iter()
                .any(|version| REVIEW_VERSIONS.contains(version))
        };
        let mut names = BTreeSet::new();
        let label_values = |webhook: &Value| {
            ["namespaceSelector", "objectSelector"]
                .into_iter()
                .any(|field| LabelSelector::from_object(&webhook[field]).is_err())
        };
        Self {
            side_effects: items(old, "webhooks").any(effects),
            review_versions: items(old, "webhooks").any(is_unknown),
            names: items(old, "webhooks").any(|own| !names.insert(text(own, "name"))),
            label_values: items(old, "webhooks").any(label_values),
            conditions: conditions(new) == conditions(old),
        }
    }
}

/// The faults of a configuration; `old` is the replaced one.
pub(super) fn validate(configuration: &Value, old: Option<&Value>, mutating: bool) -> FieldErrors {
    let tolerated = old.map(|old| Tolerated::of(configuration, old));
    let tolerated = tolerated.unwrap_or_default();
    let mut errors = FieldErrors::new();
    let mut names = BTreeSet::new();
    for (index, webhook) in items(configuration, "webhooks").enumerate() {
        let path = FieldPath::new("webhooks").index(index);
        validate_webhook(webhook, mutating, tolerated, &path, &mut errors);
        let versions = path.child("admissionReviewVersions");
        validate_review_versions(webhook, tolerated, &versions, &mut errors);
        let name = text(webhook, "name");
        if !tolerated.names && !name.is_empty() && !names.insert(name) {
            errors.duplicate(&path.child("name"), &name.into());
        }
    }
    errors
}

fn validate_webhook(
    webhook: &Value,
    mutating: bool,
    tolerated: Tolerated,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    validate_name(text(webhook, "name"), &path.child("name"), errors);
    for (index, rule) in items(webhook, "rules").enumerate() {
        validate_rule(rule, &path.child("rules").index(index), errors);
    }
    let mut one_of = |field: &str, known: &[&str]| {
        if let Some(stated) = webhook[field].as_str()
            && !known.contains(&stated)
        {
            errors.not_supported(&path.child(field), &stated.into(), known);
        }
    };
    one_of("failurePolicy", &["Fail", "Ignore"]);
    one_of("matchPolicy", &["Equivalent", "Exact"]);
    let effects: &[&str] = match tolerated.side_effects {
        true => &["None", "NoneOnDryRun", "Some", "Unknown"],
        false => &["None", "NoneOnDryRun"],
    };
    if webhook["sideEffects"].is_null() {
        let detail = format!("must specify one of {}", effects.join(", "));
        errors.required(&path.child("sideEffects"), &detail);
    } else {
        one_of("sideEffects", effects);
    }
    let timeout = &webhook["timeoutSeconds"];
    if timeout.as_i64().is_some_and(|own| !(1..=30).contains(&own)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.child("timeoutSeconds"), timeout, detail);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let path = path.child(field);
        validate_label_selector(&webhook[field], tolerated.label_values, &path, errors);
    }
    if mutating {
        let policy = &webhook["reinvocationPolicy"];
        let known = ["IfNeeded", "Never"];
        if policy.as_str().is_some_and(|own| !known.contains(&own)) {
            errors.not_supported(&path.child("reinvocationPolicy"), policy, &known);
        }
    }
    validate_webhook_client(
        &webhook["clientConfig"],
        &path.child("clientConfig"),
        errors,
    );
    if !tolerated.conditions {
        let path = path.child("matchConditions");
        validate_conditions(webhook, &Scope::new(), &path, errors);
    }
}

/// A webhook is named like a host of a domain.
fn validate_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let faults = dns1123_subdomain(name);
    if !faults.is_empty() {
        errors.invalid(path, &name.into(), &faults.join(","));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.invalid(path, &name.into(), detail);
    }
}

pub(crate) fn validate_rule(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    alone(rule, "operations", "operations", path, errors);
    for (index, operation) in strings(rule, "operations").into_iter().enumerate() {
        if !OPERATIONS.contains(&operation) {
            let path = path.child("operations").index(index);
            errors.not_supported(&path, &operation.into(), &OPERATIONS);
        }
    }
    alone(rule, "apiGroups", "API groups", path, errors);
    alone(rule, "apiVersions", "API versions", path, errors);
    for (index, version) in strings(rule, "apiVersions").into_iter().enumerate() {
        if version.is_empty() {
            errors.required(&path.child("apiVersions").index(index), "");
        }
    }
    validate_resources(rule, &path.child("resources"), errors);
    let scopes = ["*", "Cluster", "Namespaced"];
    if let Some(scope) = rule["scope"].as_str().filter(|own| !scopes.contains(own)) {
        errors.not_supported(&path.child("scope"), &scope.into(), &scopes);
    }
}

/// The list must have items, and a wildcard must be the only item.
fn alone(rule: &Value, field: &str, what: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let stated = strings(rule, field);
    let path = path.child(field);
    if stated.is_empty() {
        errors.required(&path, "");
    }
    if stated.len() > 1 && stated.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(&path, &rule[field], &detail);
    }
}

fn validate_resources(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let resources = strings(rule, "resources");
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut whole, mut everywhere) = (BTreeSet::new(), BTreeSet::new());
    // Upstream checks only the last resource without a subresource.
    let mut names_one = false;
    for (index, own) in resources.iter().enumerate() {
        let path = path.index(index);
        if own.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Some((resource, subresource)) = own.split_once('/') else {
            names_one = *own != "*";
            continue;
        };
        let present = [
            (whole.contains(resource), format!("{resource}/*")),
            (everywhere.contains(subresource), format!("*/{subresource}")),
        ];
        for (_, pattern) in present.iter().filter(|(is_covered, _)| *is_covered) {
            let detail = format!("if '{pattern}' is present, must not specify {own}");
            errors.invalid(&path, &(*own).into(), &detail);
        }
        if subresource == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(path, &rule["resources"], detail);
    }
    if resources.contains(&"*") && names_one {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, &rule["resources"], detail);
    }
}

fn validate_review_versions(
    webhook: &Value,
    tolerated: Tolerated,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let versions = strings(webhook, "admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        return errors.required(path, &format!("must specify one of {known}"));
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if !seen.insert(version) {
            errors.invalid(&path, &(*version).into(), "duplicate version");
            continue;
        }
        for fault in dns1035_label(version) {
            errors.invalid(&path, &(*version).into(), &fault);
        }
    }
    let is_known = versions.iter().any(|own| REVIEW_VERSIONS.contains(own));
    if !is_known && !tolerated.review_versions {
        let detail = format!("must include at least one of {known}");
        errors.invalid(path, &webhook["admissionReviewVersions"], &detail);
    }
}

/// Reports an expression that does not compile; a failure to build the program counts as an
/// internal error.
pub(crate) fn refused(path: &FieldPath, expression: &str, why: &str, errors: &mut FieldErrors) {
    if why.starts_with("program instantiation failed") {
        let message = format!("Internal error: {why}");
        errors.push(CauseReason::Internal, path, message);
    } else {
        errors.invalid(path, &expression.into(), why);
    }
}

/// The faults of the `matchConditions` of a webhook or policy.
pub(crate) fn validate_conditions(
    webhook: &Value,
    scope: &Scope,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let count = items(webhook, "matchConditions").count();
    if count > MATCH_CONDITIONS_MAX {
        errors.too_many(path, count, MATCH_CONDITIONS_MAX);
    }
    let mut names = BTreeSet::new();
    for (index, condition) in items(webhook, "matchConditions").enumerate() {
        let path = path.index(index);
        let expression = text(condition, "expression").trim();
        let at = path.child("expression");
        if expression.is_empty() {
            errors.required(&at, "");
        } else if let Err(why) = scope.compile(expression, Returns::Bool) {
            refused(&at, expression, &why, errors);
        }
        let name = text(condition, "name");
        let path = path.child("name");
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        for fault in qualified_name(name) {
            errors.invalid(&path, &name.into(), &fault);
        }
        if !names.insert(name) {
            errors.duplicate(&path, &name.into());
        }
    }
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

fn strings<'v>(value: &'v Value, field: &str) -> Vec<&'v str> {
    items(value, field).filter_map(Value::as_str).collect()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

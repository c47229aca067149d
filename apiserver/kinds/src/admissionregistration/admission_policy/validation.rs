//! Validation of admission policies and their bindings.

use std::collections::BTreeSet;

use super::expressions::{validate_mutations, validate_validations, validate_variables};
use crate::admissionregistration::webhook_configuration::validation::{
    validate_conditions as validate_match_conditions, validate_rule,
};
use crate::cel::Scope;
use crate::condition::validate_conditions;
use crate::json::Value;
use crate::json_path::JsonPath;
use crate::meta::validation::{
    dns1035_label, dns1123_subdomain, path_segment_name, validate_label_selector,
};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{invalid_each, required};

const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// The faults of a policy; `old` is the replaced one.
pub(super) fn validate_policy(policy: &Value, old: Option<&Value>, mutating: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (&policy["spec"], FieldPath::new("spec"));
    let failure = &spec["failurePolicy"];
    if !matches!(text(failure), "Fail" | "Ignore") {
        errors.not_supported(&path.child("failurePolicy"), failure, &["Fail", "Ignore"]);
    }
    let has_params = spec["paramKind"].is_object();
    if has_params {
        validate_param_kind(&spec["paramKind"], &path.child("paramKind"), &mut errors);
    }
    let constraints = path.child("matchConstraints");
    validate_constraints(
        &spec["matchConstraints"],
        mutating,
        &constraints,
        &mut errors,
    );
    let same = |field: &str| old.is_some_and(|old| old["spec"][field] == spec[field]);
    let mut scope = Scope::new();
    if has_params {
        scope = scope.with_params();
    }
    if !same("paramKind") || !same("matchConditions") {
        let path = path.child("matchConditions");
        validate_match_conditions(spec, &scope, &path, &mut errors);
    }
    if mutating || !is_empty(&spec["variables"]) {
        scope = scope.with_variables();
    }
    validate_variables(spec, &mut scope, &path, &mut errors);
    match mutating {
        true => validate_mutations(spec, &scope, &path, &mut errors),
        false => {
            let name = text(&policy["metadata"]["name"]);
            validate_validations(spec, name, &scope, &path, &mut errors);
        }
    }
    errors
}

fn validate_constraints(
    constraints: &Value,
    mutating: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if !constraints.is_object() {
        return errors.required(path, "");
    }
    validate_match_resources(constraints, path, errors);
    if is_empty(&constraints["resourceRules"]) {
        errors.required(&path.child("resourceRules"), "");
    }
    if mutating {
        validate_mutating_operations(constraints, path, errors);
    }
}

fn validate_mutating_operations(constraints: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for rule in items(&constraints["resourceRules"]) {
        for operation in items(&rule["operations"]) {
            if !MUTATING_OPERATIONS.contains(&text(operation)) {
                let path = path.child("resourceRules").child("operations");
                errors.not_supported(&path, operation, &MUTATING_OPERATIONS);
            }
        }
    }
}

fn validate_param_kind(kind: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("apiVersion");
    let version = text(&kind["apiVersion"]);
    let (group, own) = match version {
        "/" => ("", ""),
        version => version.split_once('/').unwrap_or(("", version)),
    };
    if version.is_empty() {
        errors.required(&at, "");
    } else if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        errors.invalid(&at, &version.into(), &detail);
    } else {
        let faults = dns1123_subdomain(group);
        if !group.is_empty() && !faults.is_empty() {
            errors.invalid(&at, &group.into(), &faults.join(","));
        }
        let faults = dns1035_label(own);
        if own.is_empty() {
            errors.invalid(&at, &version.into(), "version must be specified");
        } else if !faults.is_empty() {
            errors.invalid(&at, &own.into(), &faults.join(","));
        }
    }
    let (at, kind) = (path.child("kind"), text(&kind["kind"]));
    let faults = dns1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        errors.required(&at, "");
    } else if !faults.is_empty() {
        let faults = faults.join(",");
        let detail = format!("may have mixed case, but should otherwise match: {faults}");
        errors.invalid(&at, &kind.into(), &detail);
    }
}

fn validate_match_resources(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let policies = ["Equivalent", "Exact"];
    if !policies.contains(&text(&own["matchPolicy"])) {
        errors.not_supported(&path.child("matchPolicy"), &own["matchPolicy"], &policies);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&own[field], false, &path.child(field), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(&own[field]).enumerate() {
            let path = path.child(field).index(index);
            let mut names = BTreeSet::new();
            for (index, name) in items(&rule["resourceNames"]).enumerate() {
                let path = path.child("resourceNames").index(index);
                invalid_each(path_segment_name(text(name)), name, &path, errors);
                if !names.insert(text(name)) {
                    errors.duplicate(&path, name);
                }
            }
            validate_rule(rule, &path, errors);
        }
    }
}

/// The faults of a binding.
pub(super) fn validate_binding(binding: &Value, mutating: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (&binding["spec"], FieldPath::new("spec"));
    let policy = &spec["policyName"];
    let at = path.child("policyName");
    if text(policy).is_empty() {
        errors.required(&at, "");
    } else {
        invalid_each(dns1123_subdomain(text(policy)), policy, &at, &mut errors);
    }
    if spec["paramRef"].is_object() {
        validate_param_ref(&spec["paramRef"], &path.child("paramRef"), &mut errors);
    }
    let (constraints, at) = (&spec["matchResources"], path.child("matchResources"));
    if constraints.is_object() {
        validate_match_resources(constraints, &at, &mut errors);
    }
    match mutating {
        true => validate_mutating_operations(constraints, &at, &mut errors),
        false => {
            let path = path.child("validationActions");
            validate_actions(&spec["validationActions"], &path, &mut errors);
        }
    }
    errors
}

fn validate_actions(actions: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let known = ["Audit", "Deny", "Warn"];
    let mut seen = BTreeSet::new();
    for (index, action) in items(actions).enumerate() {
        let path = path.index(index);
        if !known.contains(&text(action)) {
            errors.not_supported(&path, action, &known);
        }
        if !seen.insert(text(action)) {
            errors.duplicate(&path, action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure \
                      information in the API response and headers serves no purpose)";
        errors.invalid(path, actions, detail);
    }
    if seen.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
}

fn validate_param_ref(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let name = text(&own["name"]);
    let (has_name, has_selector) = (!name.is_empty(), own["selector"].is_object());
    if has_name {
        let path = path.child("name");
        invalid_each(path_segment_name(name), &own["name"], &path, errors);
        if has_selector {
            errors.forbidden(&path, EXCLUSIVE);
        }
    }
    if has_selector {
        let path = path.child("selector");
        validate_label_selector(&own["selector"], false, &path, errors);
        if has_name {
            errors.forbidden(&path, EXCLUSIVE);
        }
    }
    if !has_name && !has_selector {
        errors.required(path, "one of name or selector must be specified");
    }
    let (action, path) = (
        &own["parameterNotFoundAction"],
        path.child("parameterNotFoundAction"),
    );
    match text(action) {
        "" => errors.required(&path, ""),
        "Allow" | "Deny" => {}
        _ => errors.not_supported(&path, action, &["Deny", "Allow"]),
    }
}

/// The faults of a policy's status, which a controller writes.
pub(super) fn validate_status(policy: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status.typeChecking.expressionWarnings");
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    for (index, warning) in items(warnings).enumerate() {
        let path = path.index(index);
        required(&warning["warning"], &path.child("warning"), &mut errors);
        let (reference, at) = (text(&warning["fieldRef"]).trim(), path.child("fieldRef"));
        if reference.is_empty() {
            errors.required(&at, "");
        } else if JsonPath::parse(reference).is_none() {
            errors.invalid(&at, &reference.into(), "invalid JSONPath");
        }
    }
    let path = FieldPath::new("status.conditions");
    validate_conditions(&policy["status"]["conditions"], &path, &mut errors);
    errors
}

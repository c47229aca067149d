//! ResourceQuotas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Strategy;
use super::checks::{NOT_NEGATIVE, entries, is_empty, items, text};
use crate::status::{FieldErrors, FieldPath};

/// What can be counted, beside amounts of the first four and their prefixed forms.
const COUNTED: [&str; 9] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
const AMOUNTS: [&str; 4] = ["cpu", "memory", "storage", "ephemeral-storage"];

#[derive(Debug)]
pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn validate(&self, quota: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec.hard");
        validate_amounts(&quota["spec"]["hard"], &path, &mut errors);
        validate_scopes(&quota["spec"], &mut errors);
        validate_scope_selector(&quota["spec"], &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let scopes = |quota: &Value| {
            let own = items(&quota["spec"]["scopes"]).map(text);
            own.map(str::to_owned).collect::<BTreeSet<String>>()
        };
        if scopes(new) != scopes(old) {
            let path = FieldPath::new("spec.scopes");
            errors.invalid(&path, &new["spec"]["scopes"], "field is immutable");
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for field in ["hard", "used"] {
            let path = FieldPath::new("status").child(field);
            validate_amounts(&new["status"][field], &path, &mut errors);
        }
        errors
    }
}

/// Whether a quota of `scope` can count `resource`.
fn counts_within(scope: &str, resource: &str) -> bool {
    let compute = ["cpu", "memory", "ephemeral-storage"];
    let base = ["requests.", "limits."]
        .iter()
        .find_map(|prefix| resource.strip_prefix(prefix));
    match scope {
        // Only what is counted by its own name is looked at.
        _ if resource.contains('/') => true,
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            ["persistentvolumeclaims", "requests.storage"].contains(&resource)
        }
        _ => resource == "pods" || compute.contains(&base.unwrap_or(resource)),
    }
}

fn validate_scopes(spec: &Value, errors: &mut FieldErrors) {
    let scopes = &spec["scopes"];
    let path = FieldPath::new("spec.scopes");
    for scope in items(scopes) {
        if !SCOPES.contains(&text(scope)) {
            errors.invalid(&path, scopes, "unsupported scope");
        }
        for (resource, _) in entries(&spec["hard"]) {
            if SCOPES.contains(&text(scope)) && !counts_within(text(scope), resource) {
                errors.invalid(&path, scopes, "unsupported scope applied to resource");
            }
        }
    }
    let has = |scope: &str| items(scopes).any(|own| own == scope);
    for [one, other] in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if has(one) && has(other) {
            errors.invalid(&path, scopes, "conflicting scopes");
        }
    }
}

fn validate_scope_selector(spec: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec.scopeSelector.matchExpressions");
    for own in items(&spec["scopeSelector"]["matchExpressions"]) {
        let (scope, operator) = (text(&own["scopeName"]), text(&own["operator"]));
        let at = path.child("scopeName");
        if !SCOPES.contains(&scope) {
            errors.invalid(&at, &scope.into(), "unsupported scope");
        }
        for (resource, _) in entries(&spec["hard"]) {
            if SCOPES.contains(&scope) && !counts_within(scope, resource) {
                errors.invalid(&at, &scope.into(), "unsupported scope applied to resource");
            }
        }
        let at = path.child("operator");
        if !["PriorityClass", "VolumeAttributesClass"].contains(&scope) && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&at, &operator.into(), detail);
        }
        let empty = is_empty(&own["values"]);
        let values = path.child("values");
        match operator {
            "In" | "NotIn" if empty => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(&values, detail);
            }
            "Exists" | "DoesNotExist" if !empty => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&values, &own["values"], detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(&at, &operator.into(), "not a valid selector operator"),
        }
    }
}

fn validate_amounts(amounts: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (resource, amount) in entries(amounts) {
        let path = path.key(resource);
        let name = resource.as_str();
        let base = ["requests.", "limits."]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix));
        let counted = COUNTED.contains(&name) || name.starts_with("count/");
        let of_amount = AMOUNTS.contains(&base.unwrap_or(name))
            || base.unwrap_or(name).starts_with("hugepages-");
        if !counted && !of_amount && !name.contains('/') {
            for detail in [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for quota",
            ] {
                errors.invalid(&path, &name.into(), detail);
            }
        }
        if text(amount).starts_with('-') {
            errors.invalid(&path, amount, NOT_NEGATIVE);
        }
        if counted && text(amount).ends_with(['m', 'u', 'n']) {
            errors.invalid(&path, amount, "must be an integer");
        }
    }
}

//! ResourceQuotas.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::resource_list::round_amounts;
use super::resource_names::{is_standard_for_quota, validate_amount, validate_name_in_quota};
use crate::Strategy;
use crate::columns::{Printable, scalar};
use crate::go_struct::shown;
use crate::json::{Value, json};
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, text};
use crate::validation::invalid_as;

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// Resources that quotas with a scope of pods can count.
const OF_PODS: [&str; 7] = [
    "pods",
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];
const ONLY_EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

/// The strategy of ResourceQuotas.
#[derive(Debug)]
pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn default(&self, quota: &mut Value) {
        for amounts in ["/spec/hard", "/status/hard", "/status/used"] {
            if let Some(amounts) = quota.pointer_mut(amounts) {
                round_amounts(amounts);
            }
        }
    }

    /// Requests above limits leave no pod room; only a new quota is warned of them.
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let hard = &new["spec"]["hard"];
        let amount = |name: &str| Quantity::parse(hard[name].as_str()?).ok();
        let mut warnings = Vec::new();
        for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let (requests, limits) = (format!("requests.{resource}"), format!("limits.{resource}"));
            let bare = ["cpu", "memory"].contains(&resource) && hard[&requests].is_null();
            let requests = if bare { resource } else { &requests };
            if let (Some(request), Some(limit)) = (amount(requests), amount(&limits))
                && old.is_none()
                && request.compare(&limit) == Ordering::Greater
            {
                warnings.push(format!(
                    "ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"
                ));
            }
        }
        warnings
    }

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

    /// Used and hard amount of each resource; limits have a column of their own.
    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        let hard = view
            .get("/status/hard")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        for (resource, amount) in hard {
            let used = view.get("/status/used").and_then(|used| used.get(resource));
            let used = used.map_or_else(|| "0".to_owned(), scalar);
            let column = if resource.starts_with("limits.") {
                &mut limits
            } else {
                &mut requests
            };
            column.push(format!("{resource}: {used}/{}", scalar(amount)));
        }
        Some(vec![
            view.name(),
            json!(requests.join(", ")),
            json!(limits.join(", ")),
            view.age(),
        ])
    }
}

/// Whether a quota of `scope` can count `resource`; a resource with a domain counts in any scope.
fn counts_within(scope: &str, resource: &str) -> bool {
    match scope {
        _ if !is_standard_for_quota(resource) => true,
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            ["persistentvolumeclaims", "requests.storage"].contains(&resource)
        }
        scope if SCOPES.contains(&scope) => OF_PODS.contains(&resource),
        _ => true,
    }
}

/// Two scopes that exclude each other.
fn validate_conflicts(scopes: &[&str], shown: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for [one, other] in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if scopes.contains(&one) && scopes.contains(&other) {
            errors.invalid(path, shown, "conflicting scopes");
        }
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
            if !counts_within(text(scope), resource) {
                errors.invalid(&path, scopes, "unsupported scope applied to resource");
            }
        }
    }
    let all: Vec<&str> = items(scopes).map(text).collect();
    validate_conflicts(&all, scopes, &path, errors);
}

fn validate_scope_selector(spec: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec.scopeSelector.matchExpressions");
    let expressions = &spec["scopeSelector"]["matchExpressions"];
    for own in items(expressions) {
        let (scope, operator) = (text(&own["scopeName"]), text(&own["operator"]));
        if !SCOPES.contains(&scope) {
            let at = path.child("scopeName");
            errors.invalid(&at, &scope.into(), "unsupported scope");
        }
        for (resource, _) in entries(&spec["hard"]) {
            if !counts_within(scope, resource) {
                // Upstream prints its internal type here.
                let shown = shown("ScopeSelector", &spec["scopeSelector"]);
                let detail = "unsupported scope applied to resource";
                invalid_as(&path, &shown, detail, errors);
            }
        }
        let takes_values = ["PriorityClass", "VolumeAttributesClass"].contains(&scope);
        let at = path.child("operator");
        if SCOPES.contains(&scope) && !takes_values && operator != "Exists" {
            errors.invalid(&at, &operator.into(), ONLY_EXISTS);
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
    let all: Vec<&str> = items(expressions)
        .map(|own| text(&own["scopeName"]))
        .collect();
    // Upstream shows the scopes of the other field.
    validate_conflicts(&all, &spec["scopes"], &path, errors);
}

fn validate_amounts(amounts: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (resource, amount) in entries(amounts) {
        let path = path.key(resource);
        validate_name_in_quota(resource, &path, errors);
        validate_amount(resource, amount, &path, errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_fault_is_where_upstream_says() {
        let path = "spec.scopeSelector.matchExpressions";
        let table = [
            (json!({"hard": {"a.io/gpu": "1", "requests.a.io/gpu": "500m"}}), vec![]),
            (
                json!({"hard": {"a.io/gpu": "500m"}}),
                vec!["spec.hard[a.io/gpu]: Invalid value: \"500m\": must be an integer".to_owned()],
            ),
            (
                json!({"hard": {"ephemeral-storage": "1"}, "scopes": ["NotTerminating"]}),
                vec!["spec.scopes: Invalid value: [\"NotTerminating\"]: unsupported scope applied to resource".to_owned()],
            ),
            (
                json!({"hard": {"services": "1"}, "scopeSelector": {"matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}}),
                vec![format!("{path}: Invalid value: {{\"MatchExpressions\":[{{\"ScopeName\":\"PriorityClass\",\"Operator\":\"In\",\"Values\":[\"a\"]}}]}}: unsupported scope applied to resource")],
            ),
            (
                json!({"hard": {}, "scopeSelector": {"matchExpressions": [
                    {"scopeName": "Odd", "operator": "In", "values": ["a"]}]}}),
                vec![format!("{path}.scopeName: Invalid value: \"Odd\": unsupported scope")],
            ),
            (
                json!({"hard": {}, "scopeSelector": {"matchExpressions": [
                    {"scopeName": "BestEffort", "operator": "Exists"},
                    {"scopeName": "NotBestEffort", "operator": "Exists"}]}}),
                vec![format!("{path}: Invalid value: null: conflicting scopes")],
            ),
        ];
        for (spec, want) in table {
            let errors = ResourceQuota.validate(&json!({ "spec": spec }));
            let causes = errors.causes().iter();
            let found: Vec<String> = causes
                .map(|own| format!("{}: {}", own.field, own.message))
                .collect();
            assert_eq!(found, want);
        }
    }
}

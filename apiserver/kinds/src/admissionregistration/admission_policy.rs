//! Policies of admission, validating and mutating ones, and their bindings.

mod expressions;
mod validation;

pub use expressions::{validate_validation, validate_variables};

use crate::columns::{Printable, or_unset};
use crate::json::{Map, Value, json};
use crate::{MetadataCheck, ResetFields, Strategy};

use super::webhook_configuration::{default_matching, default_scopes};
use crate::meta::object::{child_mut, default};
use crate::status::FieldErrors;

/// A ValidatingAdmissionPolicy, or a mutating one.
#[derive(Debug)]
pub(crate) struct AdmissionPolicy {
    pub mutating: bool,
}

impl Strategy for AdmissionPolicy {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validates_finalizers(&self) -> bool {
        false
    }

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

    fn default(&self, policy: &mut Value) {
        let spec = child_mut(policy, "spec");
        default(spec, "failurePolicy", "Fail");
        default_constraints(spec, "matchConstraints");
    }

    fn validate(&self, policy: &Value) -> FieldErrors {
        validation::validate_policy(policy, None, self.mutating)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::validate_policy(new, Some(old), self.mutating)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        validation::validate_status(new)
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let rules = match self.mutating {
            true => "/spec/mutations",
            false => "/spec/validations",
        };
        let kind = view.at("/spec/paramKind");
        let kind = kind.map(|kind| format!("{}/{}", kind.str("/apiVersion"), kind.str("/kind")));
        Some(vec![
            view.name(),
            json!(view.len(rules)),
            json!(or_unset(kind.unwrap_or_default())),
            view.age(),
        ])
    }
}

/// The binding of an admission policy.
#[derive(Debug)]
pub(crate) struct AdmissionPolicyBinding {
    pub mutating: bool,
}

impl Strategy for AdmissionPolicyBinding {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validates_finalizers(&self) -> bool {
        false
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, binding: &mut Value) {
        default_constraints(child_mut(binding, "spec"), "matchResources");
    }

    fn validate(&self, binding: &Value) -> FieldErrors {
        validation::validate_binding(binding, self.mutating)
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.str("/spec/policyName")),
            json!(param_ref(view)),
            view.age(),
        ])
    }
}

fn default_constraints(spec: &mut Map, field: &str) {
    if let Some(constraints) = spec.get_mut(field).and_then(Value::as_object_mut) {
        default_matching(constraints);
        for rules in ["resourceRules", "excludeResourceRules"] {
            default_scopes(constraints, rules);
        }
    }
}

/// Returns the cell for the parameters of a binding: namespace and name (`*` for any namespace), or
/// the selector, which upstream prints as a Go value.
fn param_ref(view: Printable<'_>) -> String {
    let Some(reference) = view.at("/spec/paramRef") else {
        return "<unset>".to_owned();
    };
    match (reference.str("/name"), reference.at("/selector")) {
        ("", None) => "<unset>".to_owned(),
        ("", Some(selector)) => go_selector(selector),
        (name, _) => format!("{}/{name}", reference.str_or("/namespace", "*")),
    }
}

fn go_selector(selector: Printable<'_>) -> String {
    let labels = selector.get("/matchLabels").and_then(Value::as_object);
    let mut labels: Vec<(&str, &str)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    labels.sort_unstable();
    let labels: String = labels
        .iter()
        .map(|(key, value)| format!("{key}: {value},"))
        .collect();
    let expression = |expression: Printable<'_>| {
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            expression.str("/key"),
            expression.str("/operator"),
            expression.strs("/values").join(" ")
        )
    };
    let expressions: String = selector
        .items("/matchExpressions")
        .map(expression)
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

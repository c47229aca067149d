//! The kinds that configure admission.

mod validation;

use serde_json::{Map, Value};

use super::Strategy;
use super::checks::{default_text, items_mut, object_in};
use crate::meta::object::{child_mut, default};
use crate::status::FieldErrors;

/// A ValidatingWebhookConfiguration, or a mutating one.
#[derive(Debug)]
pub(super) struct WebhookConfiguration {
    pub(super) mutating: bool,
}

impl Strategy for WebhookConfiguration {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, configuration: &mut Value) {
        let Some(fields) = configuration.as_object_mut() else {
            return;
        };
        for webhook in items_mut(fields, "webhooks") {
            default_text(webhook, "failurePolicy", "Fail");
            default_matching(webhook);
            default(webhook, "timeoutSeconds", 10);
            if self.mutating {
                default_text(webhook, "reinvocationPolicy", "Never");
            }
            let service = webhook
                .get_mut("clientConfig")
                .and_then(|config| config.get_mut("service"))
                .and_then(Value::as_object_mut);
            if let Some(service) = service {
                default(service, "port", 443);
            }
            default_scopes(webhook, "rules");
        }
    }

    fn validate(&self, configuration: &Value) -> FieldErrors {
        validation::validate(configuration, None, self.mutating)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::validate(new, Some(old), self.mutating)
    }
}

/// A ValidatingAdmissionPolicy, or a mutating one.
#[derive(Debug)]
pub(super) struct AdmissionPolicy;

impl Strategy for AdmissionPolicy {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, policy: &mut Value) {
        let spec = child_mut(policy, "spec");
        default_text(spec, "failurePolicy", "Fail");
        default_constraints(spec, "matchConstraints");
    }
}

/// The binding of an admission policy.
#[derive(Debug)]
pub(super) struct AdmissionPolicyBinding;

impl Strategy for AdmissionPolicyBinding {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, binding: &mut Value) {
        default_constraints(child_mut(binding, "spec"), "matchResources");
    }
}

fn default_constraints(spec: &mut Map<String, Value>, field: &str) {
    if let Some(constraints) = spec.get_mut(field).and_then(Value::as_object_mut) {
        default_matching(constraints);
        for rules in ["resourceRules", "excludeResourceRules"] {
            default_scopes(constraints, rules);
        }
    }
}

fn default_matching(map: &mut Map<String, Value>) {
    default_text(map, "matchPolicy", "Equivalent");
    object_in(map, "namespaceSelector");
    object_in(map, "objectSelector");
}

fn default_scopes(map: &mut Map<String, Value>, rules: &str) {
    for rule in items_mut(map, rules) {
        default_text(rule, "scope", "*");
    }
}

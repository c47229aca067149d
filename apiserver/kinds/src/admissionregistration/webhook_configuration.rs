//! The kinds that configure admission webhooks.

pub(crate) mod validation;

use crate::columns::Printable;
use crate::json::{Map, Value, json};
use crate::meta::object::default;
use crate::status::FieldErrors;
use crate::unstructured::{items_mut, object_in};
use crate::{MetadataCheck, Strategy};

/// A ValidatingWebhookConfiguration, or a mutating one.
#[derive(Debug)]
pub(crate) struct WebhookConfiguration {
    pub mutating: bool,
}

impl Strategy for WebhookConfiguration {
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

    fn default(&self, configuration: &mut Value) {
        let Some(fields) = configuration.as_object_mut() else {
            return;
        };
        for webhook in items_mut(fields, "webhooks") {
            default(webhook, "failurePolicy", "Fail");
            default_matching(webhook);
            default(webhook, "timeoutSeconds", 10);
            if self.mutating {
                default(webhook, "reinvocationPolicy", "Never");
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

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![view.name(), json!(view.len("/webhooks")), view.age()])
    }
}

pub(crate) fn default_matching(map: &mut Map) {
    default(map, "matchPolicy", "Equivalent");
    object_in(map, "namespaceSelector");
    object_in(map, "objectSelector");
}

pub(crate) fn default_scopes(map: &mut Map, rules: &str) {
    for rule in items_mut(map, rules) {
        default(rule, "scope", "*");
    }
}

//! The definitions of the kinds and the configurations of their webhooks.

use serde_json::{Value, json};

use crate::scenario::parse_objects;

/// The namespace of the service behind the webhooks.
pub const SERVICE_NAMESPACE: &str = "kruise-system";
/// Its name.
pub const SERVICE: &str = "kruise-webhook-service";
/// Its port.
pub const PORT: u16 = 443;

const DEFINITIONS: [&str; 2] = [
    include_str!("../../../fixtures/crds/kruise/apps.kruise.io_clonesets.yaml"),
    include_str!("../../../fixtures/crds/kruise/apps.kruise.io_statefulsets.yaml"),
];

/// The official definitions, converted by the webhook, and the webhooks' configurations.
///
/// # Panics
/// When the definitions of this project are no YAML.
#[must_use]
pub fn objects() -> Vec<Value> {
    let mut objects = Vec::new();
    for text in DEFINITIONS {
        let definitions = parse_objects(text).expect("the definitions are YAML");
        objects.extend(definitions.into_iter().map(|mut definition| {
            definition["spec"]["conversion"] = json!({
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": client_config("/convert"),
                    "conversionReviewVersions": ["v1"],
                },
            });
            definition
        }));
    }
    let kinds = [("cloneset", "clonesets"), ("statefulset", "statefulsets")];
    let mutating =
        kinds.map(|(kind, plural)| webhook("mutate", kind, plural, &["CREATE", "UPDATE"]));
    let operations = ["CREATE", "UPDATE", "DELETE"];
    let validating = kinds.map(|(kind, plural)| webhook("validate", kind, plural, &operations));
    objects.push(configuration(
        "MutatingWebhookConfiguration",
        "mutating",
        &mutating,
    ));
    objects.push(configuration(
        "ValidatingWebhookConfiguration",
        "validating",
        &validating,
    ));
    objects
}

fn client_config(path: &str) -> Value {
    json!({ "service": {
        "namespace": SERVICE_NAMESPACE, "name": SERVICE, "path": path, "port": PORT } })
}

fn webhook(verb: &str, kind: &str, plural: &str, operations: &[&str]) -> Value {
    json!({
        "name": format!("{}{kind}.kb.io", &verb[..1]),
        "clientConfig": client_config(&format!("/{verb}-apps-kruise-io-{kind}")),
        "rules": [{
            "apiGroups": ["apps.kruise.io"],
            "apiVersions": ["v1alpha1", "v1beta1"],
            "operations": operations,
            "resources": [plural],
        }],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

fn configuration(kind: &str, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": format!("kruise-{name}-webhook-configuration") },
        "webhooks": webhooks,
    })
}

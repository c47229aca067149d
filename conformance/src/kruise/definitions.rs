//! The definitions of the kinds and the configurations of their webhooks.

use serde_json::{Value, json};

use crate::scenario::parse_objects;

/// The namespace of the service behind the webhooks.
pub const SERVICE_NAMESPACE: &str = "kruise-system";
/// Its name.
pub const SERVICE: &str = "kruise-webhook-service";
/// Its port.
pub const PORT: u16 = 443;

/// The names of the configurations.
pub(super) const MUTATING: &str = "kruise-mutating-webhook-configuration";
pub(super) const VALIDATING: &str = "kruise-validating-webhook-configuration";

const DEFINITIONS: [&str; 2] = [
    include_str!("../../../fixtures/crds/kruise/apps.kruise.io_clonesets.yaml"),
    include_str!("../../../fixtures/crds/kruise/apps.kruise.io_statefulsets.yaml"),
];

/// Where an API server finds the webhooks.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Behind the service of this module.
    Service,
    /// At a URL without a path; with its authority, in base64.
    Url { base: String, authority: String },
}

impl Place {
    fn client_config(&self, path: &str) -> Value {
        match self {
            Self::Service => json!({ "service": {
                "namespace": SERVICE_NAMESPACE, "name": SERVICE, "path": path, "port": PORT } }),
            Self::Url { base, authority } => {
                json!({ "url": format!("{base}{path}"), "caBundle": authority })
            }
        }
    }

    /// `spec.conversion` of the definitions.
    pub(super) fn conversion(&self) -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": self.client_config("/convert"),
                "conversionReviewVersions": ["v1"],
            },
        })
    }

    /// The configurations of the admission webhooks.
    pub(super) fn configurations(&self) -> [Value; 2] {
        let kinds = [("cloneset", "clonesets"), ("statefulset", "statefulsets")];
        let mutating =
            kinds.map(|(kind, plural)| self.webhook("mutate", kind, plural, &["CREATE", "UPDATE"]));
        let operations = ["CREATE", "UPDATE", "DELETE"];
        let validating =
            kinds.map(|(kind, plural)| self.webhook("validate", kind, plural, &operations));
        [
            configuration("MutatingWebhookConfiguration", MUTATING, &mutating),
            configuration("ValidatingWebhookConfiguration", VALIDATING, &validating),
        ]
    }

    fn webhook(&self, verb: &str, kind: &str, plural: &str, operations: &[&str]) -> Value {
        json!({
            "name": format!("{}{kind}.kb.io", &verb[..1]),
            "clientConfig": self.client_config(&format!("/{verb}-apps-kruise-io-{kind}")),
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
}

fn configuration(kind: &str, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": name },
        "webhooks": webhooks,
    })
}

/// The official definitions, converted by the webhook, and the webhooks' configurations.
///
/// # Panics
/// When the definitions of this project are no YAML.
#[must_use]
pub fn objects() -> Vec<Value> {
    let place = Place::Service;
    let mut objects = Vec::new();
    for text in DEFINITIONS {
        let definitions = parse_objects(text).expect("the definitions are YAML");
        objects.extend(definitions.into_iter().map(|mut definition| {
            definition["spec"]["conversion"] = place.conversion();
            definition
        }));
    }
    objects.extend(place.configurations());
    objects
}

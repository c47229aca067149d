//! The definitions of the kinds and the configurations of their webhooks.
//!
//! The definitions of workloads are upstream's own; the definitions for images are generated from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kubeproof_apiserver::Manifests;
use kubeproof_controller::kruise::launch_priority::{
    LAUNCH_ANNOTATION, ORDERED, PRIORITY_VARIABLE,
};
use kubeproof_controller::kruise::{ImagePullJob, NodeImage};
use kubeproof_machinery::json::{Value, json};

/// The namespace of the service of the webhooks.
pub const SERVICE_NAMESPACE: &str = "kruise-system";
/// The name of the service.
pub const SERVICE: &str = "kruise-webhook-service";
/// The port of the service.
pub const PORT: u16 = 443;

/// The names of the configurations.
pub(super) const MUTATING: &str = "kruise-mutating-webhook-configuration";
pub(super) const VALIDATING: &str = "kruise-validating-webhook-configuration";

const DEFINITIONS: [&str; 2] = [
    include_str!("definitions/apps.kruise.io_clonesets.yaml"),
    include_str!("definitions/apps.kruise.io_statefulsets.yaml"),
];

/// The address at which an API server finds the webhooks.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// The service of this module.
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
        let kinds = [
            ("cloneset", "clonesets"),
            ("imagepulljob", "imagepulljobs"),
            ("nodeimage", "nodeimages"),
            ("statefulset", "statefulsets"),
        ];
        let writes = ["CREATE", "UPDATE"];
        let mutating = kinds.map(|(kind, plural)| self.webhook("mutate", kind, plural, &writes));
        let all = ["CREATE", "UPDATE", "DELETE"];
        let validating = kinds.map(|(kind, plural)| {
            let operations = match kind.ends_with("set") {
                true => &all[..],
                false => &writes,
            };
            self.webhook("validate", kind, plural, operations)
        });
        let mutating = [&[self.webhook_of_pods()][..], &mutating].concat();
        [
            configuration("MutatingWebhookConfiguration", MUTATING, &mutating),
            configuration("ValidatingWebhookConfiguration", VALIDATING, &validating),
        ]
    }

    /// Upstream's is asked about every pod; only those that it would change are sent here.
    fn webhook_of_pods(&self) -> Value {
        let is_ordered = format!(
            "object.metadata.?annotations['{LAUNCH_ANNOTATION}'].orValue('') == '{ORDERED}'"
        );
        let states = format!(
            "object.spec.containers.exists(c, has(c.env) && c.env.exists(e, e.name == '{PRIORITY_VARIABLE}'))"
        );
        json!({
            "name": "mpod.kb.io",
            "clientConfig": self.client_config("/mutate-pod"),
            "rules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }],
            "matchConditions": [{
                "name": "has-launch-priorities",
                "expression": format!("{is_ordered} || {states}"),
            }],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    }

    fn webhook(&self, verb: &str, kind: &str, plural: &str, operations: &[&str]) -> Value {
        // Upstream's has two names for the one.
        let suffix = if kind == "imagepulljob" {
            "-v1beta1"
        } else {
            ""
        };
        json!({
            "name": format!("{}{kind}{suffix}.kb.io", &verb[..1]),
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

/// The definitions of ImagePullJob and NodeImage, whose versions are converted by a change of name,
/// and the namespace of what only the daemons of the nodes may read.
///
/// # Panics
/// When a definition has no form in JSON.
#[must_use]
pub fn image_objects() -> Vec<Value> {
    let mut jobs = definition(&ImagePullJob::crd());
    let message = json!({ "name": "MESSAGE", "type": "string", "jsonPath": ".status.message" });
    let columns = jobs["spec"]["versions"][0]["additionalPrinterColumns"].as_array_mut();
    columns
        .expect("the older version has columns")
        .push(message);
    let mut images = definition(&NodeImage::crd());
    let secret = images.pointer_mut(
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/images/additionalProperties\
         /properties/pullSecrets/items/properties",
    );
    let secret = secret.and_then(Value::as_object_mut);
    secret.expect("images have secrets").remove("mode");
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "kruise-daemon-config" } });
    vec![jobs, images, namespace]
}

/// The definition with an older version of the same form in front.
fn definition(newest: &CustomResourceDefinition) -> Value {
    let mut definition =
        kubeproof_machinery::json::to_value(newest).expect("a definition has a form in JSON");
    let newest = &mut definition["spec"]["versions"][0];
    let schema = &mut newest["schema"]["openAPIV3Schema"];
    // Objects without a spec are those of Go with an empty one.
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
        schema.remove("title");
    }
    plain(schema);
    let mut older = newest.clone();
    older["name"] = json!("v1alpha1");
    older["storage"] = json!(false);
    let versions = definition["spec"]["versions"].as_array_mut();
    versions.expect("a list").insert(0, older);
    definition
}

/// Optional fields may be left out, and then stay so; they may not be null.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_own = |key: &str, value: &Value| match key {
                "nullable" => value.is_boolean(),
                "default" => value.is_number(),
                _ => false,
            };
            fields.retain(|key, value| !is_own(key, value));
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// The official definitions of the workloads, converted by the webhook, and the webhooks' configurations.
///
/// # Panics
/// When the definitions of this project are no YAML.
#[must_use]
pub fn objects() -> Vec<Value> {
    let place = Place::Service;
    let mut objects = Vec::new();
    for text in DEFINITIONS {
        let definitions = Manifests::new().yaml(text);
        let definitions = definitions.expect("the definitions are YAML");
        objects.extend(definitions.into_iter().map(|manifest| {
            let mut definition = manifest.object;
            definition["spec"]["conversion"] = place.conversion();
            definition
        }));
    }
    objects.extend(place.configurations());
    objects
}

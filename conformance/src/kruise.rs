//! The webhooks of OpenKruise's manager, which default, validate and convert its kinds and let containers start by
//! priority, and the definitions that name them.
//!
//! Source: openkruise/kruise pkg/webhook and apis/apps.

mod claim_templates;
mod clone_set;
mod conversion;
mod definitions;
mod deletion_protection;
mod go_value;
mod images;
mod pods;
mod registration;
mod server;
mod stateful_set;
mod update_strategy;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::HeaderValue;
use jiff::Timestamp;
use kube::Client;
use kubeproof_apiserver::status::FieldErrors;
use kubeproof_apiserver::{ApiServer, Webhook};
use kubeproof_controller::kruise::Gates;
use kubeproof_machinery::json::{Value, json};

use crate::in_process;

pub use definitions::{PORT, SERVICE, SERVICE_NAMESPACE, image_objects, objects};
pub use registration::{register, withdraw};
pub use server::{TlsWebhook, serve};

/// The webhooks of all kinds, in the process of the server that asks them.
#[derive(Debug, Default)]
pub struct KruiseWebhook {
    gates: Gates,
    /// By whose right pods are looked up.
    bearer: Option<HeaderValue>,
}

/// Why a request is refused.
#[derive(Debug)]
struct Refusal {
    code: u16,
    message: String,
}

impl Refusal {
    fn bad_request(message: impl ToString) -> Self {
        Self {
            code: 400,
            message: message.to_string(),
        }
    }

    fn invalid(message: String) -> Self {
        Self { code: 422, message }
    }

    /// All errors in one message, as Go aggregates them; `Ok` without errors.
    fn of(errors: &FieldErrors) -> Result<(), Self> {
        let mut texts: Vec<String> = Vec::new();
        for cause in errors.causes() {
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [] => Ok(()),
            [one] => Err(Self::invalid(one.clone())),
            many => Err(Self::invalid(format!("[{}]", many.join(", ")))),
        }
    }
}

/// A request of a review.
struct Request<'a> {
    uid: &'a str,
    /// `v1alpha1` or `v1beta1`.
    version: &'a str,
    operation: &'a str,
    object: &'a Value,
    old: &'a Value,
}

impl<'a> Request<'a> {
    fn of(review: &'a Value) -> Self {
        let request = &review["request"];
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        Self {
            uid: text(&request["uid"]),
            version: text(&request["resource"]["version"]),
            operation: text(&request["operation"]),
            object: &request["object"],
            old: &request["oldObject"],
        }
    }
}

impl Webhook for KruiseWebhook {
    fn answer(&self, server: ApiServer, path: &str, document: Value) -> BoxFuture<'static, Value> {
        let (path, gates) = (path.to_owned(), self.gates);
        let client = in_process::client(&server, self.bearer.clone());
        let now = server.clock().now();
        async move { answer(&path, &document, gates, (&client, now)).await }.boxed()
    }
}

/// The change to the object of a review.
#[derive(Debug)]
struct Change {
    spec: Value,
    /// All finalizers, when they may differ.
    finalizers: Option<Vec<Value>>,
    /// The name of an object that has none yet.
    name: Option<String>,
}

impl From<Value> for Change {
    fn from(spec: Value) -> Self {
        Self {
            spec,
            finalizers: None,
            name: None,
        }
    }
}

impl Change {
    /// The operations that bring the object there.
    fn patch(self, object: &Value) -> Vec<Value> {
        let mut operations = Vec::new();
        if self.spec != object["spec"] {
            let operation = json!({ "op": "replace", "path": "/spec", "value": self.spec });
            operations.push(operation);
        }
        let finalizers = self.finalizers.map(Value::from);
        if let Some(finalizers) = finalizers.filter(|own| *own != object["metadata"]["finalizers"])
        {
            let path = "/metadata/finalizers";
            operations.push(json!({ "op": "add", "path": path, "value": finalizers }));
        }
        if let Some(name) = self.name {
            let path = "/metadata/name";
            operations.push(json!({ "op": "add", "path": path, "value": name }));
        }
        operations
    }
}

/// Answers a review that is posted to `path`; pods are looked up through the client.
async fn answer(
    path: &str,
    document: &Value,
    gates: Gates,
    surroundings: (&Client, Timestamp),
) -> Value {
    if path == "/convert" {
        return conversion::answer(document);
    }
    let decided = decide(path, document, gates, surroundings).await;
    respond(document, decided)
}

/// Decides the change to the object of a review.
async fn decide(
    path: &str,
    review: &Value,
    gates: Gates,
    (client, now): (&Client, Timestamp),
) -> Result<Option<Change>, Refusal> {
    let request = Request::of(review);
    if request.operation == "DELETE" && path.starts_with("/validate-") {
        let protects = gates.resources_deletion_protection;
        return deletion_protection::check(&request, protects).map(|()| None);
    }
    match path {
        "/mutate-pod" => pods::launch_by_priority(&request),
        "/mutate-apps-kruise-io-cloneset" => {
            clone_set::default(&request, gates).map(|spec| Some(spec.into()))
        }
        "/mutate-apps-kruise-io-statefulset" => {
            stateful_set::default(&request, gates).map(|spec| Some(spec.into()))
        }
        "/mutate-apps-kruise-io-imagepulljob" => Ok(Some(images::default_job(&request))),
        "/mutate-apps-kruise-io-nodeimage" => {
            Ok(Some(images::default_node_image(&request, now).into()))
        }
        "/validate-apps-kruise-io-imagepulljob" => {
            images::validate_job(&request, gates).map(|()| None)
        }
        "/validate-apps-kruise-io-nodeimage" => {
            images::validate_node_image(&request, gates).map(|()| None)
        }
        "/validate-apps-kruise-io-cloneset" => clone_set::validate(&request, Some(client))
            .await
            .map(|()| None),
        "/validate-apps-kruise-io-statefulset" => {
            let checked = stateful_set::validate(&request, gates, Some(client));
            checked.await.map(|()| None)
        }
        _ => Err(Refusal {
            code: 404,
            message: format!("nothing answers {path}"),
        }),
    }
}

fn respond(review: &Value, decided: Result<Option<Change>, Refusal>) -> Value {
    let request = &review["request"];
    let mut response = json!({ "uid": request["uid"], "allowed": decided.is_ok() });
    match decided {
        Ok(Some(change)) => {
            let patch = change.patch(&request["object"]);
            if !patch.is_empty() {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(json!(patch).to_string()));
            }
        }
        Ok(None) => {}
        Err(refusal) => {
            response["status"] = json!({ "code": refusal.code, "message": refusal.message });
        }
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

/// The webhook, to be given to a server's builder; `bearer` is the header of who may do everything there.
#[must_use]
pub fn webhook(gates: Gates, bearer: Option<HeaderValue>) -> Arc<KruiseWebhook> {
    Arc::new(KruiseWebhook { gates, bearer })
}

#[cfg(test)]
mod tests;

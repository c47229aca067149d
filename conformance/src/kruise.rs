//! What OpenKruise's manager does beside its controllers: webhooks that default, check and convert
//! its kinds, and the definitions that name them.
//!
//! Source: openkruise/kruise pkg/webhook and apis/apps.

mod clone_set;
mod conversion;
mod definitions;
mod go_value;
mod stateful_set;
mod update_strategy;

use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use kubeproof_apiserver::status::FieldErrors;
use kubeproof_apiserver::{ApiServer, WeakApiServer, Webhook};
use serde_json::{Value, json};

pub use definitions::{PORT, SERVICE, SERVICE_NAMESPACE, objects};

/// The webhooks of both kinds.
#[derive(Debug, Default)]
pub struct KruiseWebhook {
    /// Where pods are looked up.
    server: OnceLock<WeakApiServer>,
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

    /// All faults in one text, as Go aggregates them; nothing when there are none.
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
            version: text(&request["resource"]["version"]),
            operation: text(&request["operation"]),
            object: &request["object"],
            old: &request["oldObject"],
        }
    }
}

impl KruiseWebhook {
    /// Lets `server` be asked about pods.
    pub fn connect(&self, server: &ApiServer) {
        // The first server is the one whose webhooks these are.
        let _ = self.server.set(server.downgrade());
    }

    fn client(&self) -> Option<kube::Client> {
        let server = self.server.get()?.upgrade()?;
        Some(kube::Client::new(server, "default"))
    }
}

impl Webhook for KruiseWebhook {
    fn answer(&self, path: &str, document: Value) -> BoxFuture<'static, Value> {
        let path = path.to_owned();
        let client = self.client();
        async move {
            if path == "/convert" {
                return conversion::answer(&document);
            }
            let decided = decide(&path, &document, client).await;
            respond(&document, decided)
        }
        .boxed()
    }
}

/// The object's new spec where it is to be changed.
async fn decide(
    path: &str,
    review: &Value,
    client: Option<kube::Client>,
) -> Result<Option<Value>, Refusal> {
    let request = Request::of(review);
    match path {
        "/mutate-apps-kruise-io-cloneset" => clone_set::default(&request).map(Some),
        "/mutate-apps-kruise-io-statefulset" => stateful_set::default(&request).map(Some),
        "/validate-apps-kruise-io-cloneset" => {
            clone_set::validate(&request, client).await.map(|()| None)
        }
        "/validate-apps-kruise-io-statefulset" => stateful_set::validate(&request).map(|()| None),
        _ => Err(Refusal {
            code: 404,
            message: format!("nothing answers {path}"),
        }),
    }
}

fn respond(review: &Value, decided: Result<Option<Value>, Refusal>) -> Value {
    let request = &review["request"];
    let mut response = json!({ "uid": request["uid"], "allowed": decided.is_ok() });
    match decided {
        Ok(Some(spec)) if spec != request["object"]["spec"] => {
            let patch = json!([{ "op": "replace", "path": "/spec", "value": spec }]);
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(patch.to_string()));
        }
        Ok(_) => {}
        Err(refusal) => {
            response["status"] = json!({ "code": refusal.code, "message": refusal.message });
        }
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

/// The webhook, to be given to a server's builder.
#[must_use]
pub fn webhook() -> Arc<KruiseWebhook> {
    Arc::default()
}

#[cfg(test)]
mod tests;

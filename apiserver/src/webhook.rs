//! Calls of webhooks: a JSON document posted over HTTPS to where a client configuration says, and
//! the document that comes back.

mod service;
mod tls;
mod transport;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::clock::{Clock, Entropy};
use crate::endpoints::handlers::yaml::Yaml;
use crate::endpoints::metrics::Metrics;
use crate::nesting;
use crate::server::{ApiServer, Core};
use crate::storage::Storage;
use crate::x509::Authorities;
use transport::Target;

pub(crate) use service::Services;

/// A webhook in this process: nothing is encrypted, and no time passes.
pub trait Webhook: Debug + Send + Sync {
    /// Answers a document that `server` posts to `path`. Forks share the webhook, so it may be asked by
    /// several servers.
    fn answer(&self, server: ApiServer, path: &str, document: Value) -> BoxFuture<'static, Value>;
}

/// What calls need of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) services: &'a Services,
    pub(crate) storage: &'a Storage,
    pub(crate) entropy: &'a Entropy,
    pub(crate) clock: &'a Clock,
    pub(crate) metrics: &'a Metrics,
}

/// The same for who outlives a request.
#[derive(Clone, Debug)]
pub(crate) struct OwnedCaller {
    services: Services,
    storage: Arc<Storage>,
    entropy: Entropy,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl OwnedCaller {
    /// What the server lends.
    pub(crate) fn of(core: &Core) -> Self {
        Self {
            services: core.services.clone(),
            storage: Arc::clone(&core.storage),
            entropy: core.entropy.clone(),
            clock: core.clock.clone(),
            metrics: Arc::clone(&core.metrics),
        }
    }

    /// To call with.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller {
            services: &self.services,
            storage: &self.storage,
            entropy: &self.entropy,
            clock: &self.clock,
            metrics: &self.metrics,
        }
    }
}

/// Whom to call, and how long to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// A `WebhookClientConfig`, defaulted and valid.
    pub(crate) config: &'a Value,
    pub(crate) timeout: Duration,
}

/// Why a webhook gave no document, in the words of upstream's client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// There is nobody to call.
    #[error("could not get REST client: {0}")]
    Config(String),
    /// The call came to nothing.
    #[error("failed to call webhook: {0}")]
    Failed(Failed),
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Failed {
    why: String,
    /// The status code of an answer that is no success; 503 where there is no answer.
    code: u16,
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self { why, code: 503 }
    }
}

impl CallError {
    /// The status code that upstream gives the error.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Config(_) => 500,
            Self::Failed(failed) => failed.code,
        }
    }

    /// A call whose answer is of no use.
    pub(crate) fn failed(why: String) -> Self {
        Self::Failed(why.into())
    }
}

/// Posts `document`, and reads the answer.
///
/// Cancel safety: dropping the call closes its connection; the webhook may have seen the document.
///
/// # Errors
/// When there is no answer within the timeout, or none of the JSON kind.
pub(crate) async fn post(
    caller: &Caller<'_>,
    call: &Call<'_>,
    document: &Value,
) -> Result<Value, CallError> {
    if let Some((webhook, path)) = caller.services.local(call.config) {
        let server = caller.services.asking();
        let server = server.ok_or_else(|| CallError::failed("the server is gone".to_owned()))?;
        return Ok(webhook.answer(server, &path, document.clone()).await);
    }
    let target = Target::of(caller, call)?;
    let body = serde_json::to_vec(document).expect("values are JSON");
    // Boxed, or every request of the server were as large as this, which few come to.
    let posted = Box::pin(target.post(body.into()));
    let posted = caller.clock.on_the_wire(call.timeout, posted).await;
    let posted = posted.unwrap_or_else(|| Err(target.refused("context deadline exceeded").into()));
    let body = posted.map_err(CallError::Failed)?;
    let is_json = body.trim_ascii_start().starts_with(b"{");
    nesting::make_room(match is_json {
        true => nesting::is_deep_json(&body),
        false => nesting::may_nest_yaml(&body),
    })
    .await;
    decoded(&body).map_err(CallError::failed)
}

/// Reads an answer: JSON when it begins with a brace, YAML otherwise, as upstream's decoder does.
fn decoded(body: &[u8]) -> Result<Value, String> {
    let parse_error = |why: &str| format!("couldn't get version/kind; json parse error: {why}");
    let text = String::from_utf8_lossy(body);
    let value: Value = if text.trim_start().starts_with('{') {
        nesting::from_slice(text.as_bytes()).map_err(|error| {
            let why = crate::schema::syntax_error(body).unwrap_or_else(|| error.to_string());
            parse_error(&why)
        })?
    } else {
        let documents = Yaml::documents(&text)?;
        documents.into_iter().next().unwrap_or_default().0
    };
    let found = match &value {
        Value::Null | Value::Object(_) => return Ok(value),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(parse_error(&format!(
        "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )))
}

/// Whether the authority that a configuration names can be read.
///
/// # Errors
/// Upstream's text for why it can't.
pub(crate) fn check_authority(config: &Value) -> Result<(), String> {
    Authorities::read(&ca_bundle(config)).map(drop)
}

/// The certificates of a configuration's authority, in PEM.
fn ca_bundle(config: &Value) -> Vec<u8> {
    let bundle = config["caBundle"].as_str().unwrap_or_default();
    STANDARD.decode(bundle).unwrap_or_default()
}

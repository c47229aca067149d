//! Calls of webhooks: a JSON document posted over HTTPS to where a client configuration says, and
//! the document that comes back.

pub(crate) mod conversion;
mod kubeconfig;
mod service;
mod tls;
mod transport;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::clock::{Clock, Entropy};
use crate::fault::WebhookFailure;
use crate::json::Value;
use crate::metrics::Metrics;
use crate::nesting;
use crate::storage::Storage;
use crate::yaml::decode::Yaml;
use transport::Target;

pub use kubeconfig::{KubeconfigError, WebhookKubeconfig};
pub(crate) use service::{SERVICE_NAME, ServicePort, Services, resolve};
pub(crate) use tls::{Identity, connector_of, handshake_error};
pub(crate) use transport::dial;

/// Services whose webhooks are in this process: calls are not encrypted, and take no time.
pub(crate) trait LocalServices: Debug + Send + Sync {
    /// Posts `document` to `path` of a service; None for a service that is not in this process.
    fn post(
        &self,
        service: &ServicePort,
        path: &str,
        document: &Value,
    ) -> Option<BoxFuture<'static, Result<Value, CallError>>>;
}

/// The parts of the server that calls need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookClient<'a> {
    pub(crate) services: &'a Services,
    pub(crate) storage: &'a Storage,
    pub(crate) entropy: &'a Entropy,
    pub(crate) clock: &'a Clock,
    pub(crate) metrics: &'a Metrics,
}

/// An owned [`WebhookClient`], for callers that outlive a request.
#[derive(Clone, Debug)]
pub(crate) struct OwnedWebhookClient {
    pub(crate) services: Services,
    pub(crate) storage: Arc<Storage>,
    pub(crate) entropy: Entropy,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
}

impl OwnedWebhookClient {
    /// To call with.
    pub(crate) fn client(&self) -> WebhookClient<'_> {
        WebhookClient {
            services: &self.services,
            storage: &self.storage,
            entropy: &self.entropy,
            clock: &self.clock,
            metrics: &self.metrics,
        }
    }
}

/// The calls of webhooks for a request.
#[derive(Debug, Default)]
pub(crate) struct WebhookCalls {
    /// How they fail, by a fault.
    pub(crate) failure: Option<WebhookFailure>,
    has_any: AtomicBool,
}

impl WebhookCalls {
    /// Calls that fail this way, if at all.
    pub(crate) fn failing(failure: Option<WebhookFailure>) -> Self {
        Self {
            failure,
            has_any: AtomicBool::new(false),
        }
    }

    /// Whether there was a call.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    /// Posts `document` as [`post`] does, unless a fault lets the call fail.
    ///
    /// Cancel safety: as of [`post`].
    ///
    /// # Errors
    /// As of [`post`], and in the same words for a fault.
    pub(crate) async fn post(
        &self,
        client: &WebhookClient<'_>,
        config: &WebhookConfig<'_>,
        document: &Value,
    ) -> Result<Value, CallError> {
        self.has_any.store(true, Ordering::Relaxed);
        let why = match self.failure {
            None => return post(client, config, document).await,
            Some(WebhookFailure::Refuse) => "connect: connection refused",
            Some(WebhookFailure::Timeout) => {
                tokio::time::sleep(config.timeout).await;
                "context deadline exceeded"
            }
        };
        let target = Target::of(client, config)?;
        Err(CallError::failed(target.refused(why)))
    }
}

/// A webhook to call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookConfig<'a> {
    /// The `WebhookClientConfig`, defaulted and valid.
    pub(crate) client_config: &'a Value,
    /// The time that a call may take.
    pub(crate) timeout: Duration,
}

/// The reason why a webhook returned no document, in the words of upstream's client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration names no server that can be called.
    #[error("could not get REST client: {0}")]
    Config(String),
    /// The call failed.
    #[error("failed to call webhook: {0}")]
    Failed(Failed),
}

/// The reason of a failed call.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Failed {
    why: String,
    /// The status code of the answer; 503 where there is no answer.
    code: u16,
}

/// The time that a webhook of authentication or authorization has.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of attempts to call such a webhook.
const ATTEMPTS: u32 = 5;
/// The time between the first two attempts; each further one is half as long again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

impl Failed {
    /// Whether the answer is one after which another attempt makes sense.
    fn may_pass(&self) -> bool {
        matches!(self.code, 429 | 500..=502 | 504..)
    }
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
/// When no answer arrives within the timeout, or the answer is not JSON.
pub(crate) async fn post(
    client: &WebhookClient<'_>,
    config: &WebhookConfig<'_>,
    document: &Value,
) -> Result<Value, CallError> {
    if let Some(answer) = client.services.post_locally(config.client_config, document) {
        return answer.await;
    }
    let target = Target::of(client, config)?;
    let answer = ask(client, &target, config.timeout, document).await;
    answer.map_err(CallError::Failed)
}

/// Posts `document` to the server of a kubeconfig, and reads the answer. Failures that may pass are
/// tried again.
///
/// Cancel safety: as of [`post`].
///
/// # Errors
/// The last failure.
pub(crate) async fn post_to(
    client: &WebhookClient<'_>,
    config: &WebhookKubeconfig,
    document: &Value,
) -> Result<Value, Failed> {
    let target = Target::of_kubeconfig(config, REVIEW_TIMEOUT)?;
    let mut delay = RETRY_DELAY;
    let mut attempt = 1;
    loop {
        match ask(client, &target, REVIEW_TIMEOUT, document).await {
            Err(failed) if failed.may_pass() && attempt < ATTEMPTS => {
                let waited = client
                    .clock
                    .on_the_wire(delay, std::future::pending::<()>());
                waited.await;
                delay = delay * 3 / 2;
                attempt += 1;
            }
            answered => return answered,
        }
    }
}

/// Posts a document and reads the answer.
async fn ask(
    client: &WebhookClient<'_>,
    target: &Target,
    timeout: Duration,
    document: &Value,
) -> Result<Value, Failed> {
    let body = serde_json::to_vec(document).expect("values are JSON");
    // Boxed, or every request of the server were as large as this, which few come to.
    let posted = Box::pin(target.post(body.into()));
    let posted = client.clock.on_the_wire(timeout, posted).await;
    let body = posted.unwrap_or_else(|| Err(target.refused("context deadline exceeded").into()))?;
    let is_json = body.trim_ascii_start().starts_with(b"{");
    nesting::make_room(match is_json {
        true => nesting::is_deep_json(&body),
        false => nesting::may_nest_yaml(&body),
    })
    .await;
    Ok(decoded(&body)?)
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

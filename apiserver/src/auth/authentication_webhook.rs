//! The webhook that knows tokens: it answers TokenReviews.
//!
//! Source: `k8s.io/apiserver/plugin/pkg/authenticator/token/webhook`.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lru::LruCache;
use parking_lot::Mutex;

use super::authorization_webhook::ReviewVersion;
use super::{ReviewVersionError, State, User};
use crate::clock::later;
use crate::json::{Value, json};
use crate::webhook::{self, WebhookKubeconfig};

const GROUP: &str = "authentication.k8s.io";
/// The number of remembered answers.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("4,096 is not 0");
const CACHE_TTL: Duration = Duration::from_mins(2);

/// A token and the audiences that it is to be valid for.
type CacheKey = (String, Vec<String>);
/// The holder of a token and the audiences that it is valid for; `None` for an unknown token.
type Holder = Option<(User, Vec<String>)>;

/// A webhook that knows the holders of tokens, as of `--authentication-token-webhook-config-file`.
#[derive(Clone)]
pub struct AuthenticationWebhook(Arc<Inner>);

struct Inner {
    kubeconfig: WebhookKubeconfig,
    version: ReviewVersion,
    ttl: Duration,
    /// Answers with the time until when they count.
    known: Mutex<LruCache<CacheKey, (Timestamp, Holder)>>,
}

impl AuthenticationWebhook {
    /// A webhook that is sent TokenReviews of `version`, `v1` or `v1beta1`. Its answers are
    /// remembered for 2 minutes.
    ///
    /// # Errors
    /// Another version.
    pub fn new(kubeconfig: WebhookKubeconfig, version: &str) -> Result<Self, ReviewVersionError> {
        let version = ReviewVersion::read("authentication webhook", version)?;
        Ok(Self::of(kubeconfig, version, CACHE_TTL))
    }

    /// Remembers answers for this time; zero remembers none.
    #[must_use]
    pub fn cache_ttl(self, ttl: Duration) -> Self {
        Self::of(self.0.kubeconfig.clone(), self.0.version, ttl)
    }

    fn of(kubeconfig: WebhookKubeconfig, version: ReviewVersion, ttl: Duration) -> Self {
        Self(Arc::new(Inner {
            kubeconfig,
            version,
            ttl,
            known: Mutex::new(LruCache::new(KNOWN_MAX)),
        }))
    }

    /// The holder of `token`, if it is valid for one of `audiences`.
    ///
    /// # Errors
    /// The failure of the call, or the webhook's own error.
    pub(super) async fn holder(
        &self,
        state: &State,
        token: &str,
        audiences: &[String],
    ) -> Result<Holder, String> {
        let question = (token.to_owned(), audiences.to_vec());
        let now = state.clock.now();
        if let Some((until, holder)) = self.0.known.lock().get(&question)
            && now < *until
        {
            return Ok(holder.clone());
        }
        let mut spec = json!({ "token": token });
        if !audiences.is_empty() {
            spec["audiences"] = json!(audiences);
        }
        let review = json!({
            "kind": "TokenReview",
            "apiVersion": format!("{GROUP}/{}", self.0.version.as_str()),
            "metadata": {},
            "spec": spec,
            "status": { "user": {} },
        });
        let answer = webhook::post_to(&state.webhook_client(), &self.0.kubeconfig, &review).await;
        let answer = answer.map_err(|why| {
            let error = why.to_string();
            tracing::error!(error, "Failed to make webhook authenticator request");
            error
        })?;
        let holder = of_status(&answer["status"], audiences, state.tokens.audiences())?;
        if !self.0.ttl.is_zero() {
            let ttl = SignedDuration::try_from(self.0.ttl).unwrap_or(SignedDuration::MAX);
            let until = later(state.clock.now(), ttl);
            self.0.known.lock().put(question, (until, holder.clone()));
        }
        Ok(holder)
    }
}

impl fmt::Debug for AuthenticationWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AuthenticationWebhook");
        shown
            .field("kubeconfig", &self.0.kubeconfig)
            .finish_non_exhaustive()
    }
}

/// The holder in the status of a review that asked for the audiences `wanted`; a status without
/// audiences is valid for the server's `own`.
fn of_status(status: &Value, wanted: &[String], own: &[String]) -> Result<Holder, String> {
    let list = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let stated = list(&status["audiences"]);
    let valid = if stated.is_empty() { own } else { &stated };
    let meant = wanted.iter().filter(|audience| valid.contains(audience));
    let meant: Vec<String> = meant.cloned().collect();
    if meant.is_empty() {
        return Ok(None);
    }
    if status["authenticated"] != true {
        return match status["error"].as_str().unwrap_or_default() {
            "" => Ok(None),
            error => Err(error.to_owned()),
        };
    }
    let user = &status["user"];
    let text = |field: &str| user[field].as_str().unwrap_or_default().to_owned();
    let extra = user["extra"].as_object().into_iter().flatten();
    let extra: BTreeMap<String, Vec<String>> = extra
        .map(|(key, values)| (key.to_string(), list(values)))
        .collect();
    let user = User {
        name: text("username"),
        uid: text("uid"),
        groups: list(&user["groups"]),
        extra,
    };
    Ok(Some((user, meant)))
}

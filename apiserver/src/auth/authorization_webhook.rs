//! The webhook that authorizes: it answers SubjectAccessReviews.
//!
//! Source: `k8s.io/apiserver/plugin/pkg/authorizer/webhook`.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lru::LruCache;
use parking_lot::Mutex;

use super::{Attributes, State, User};
use crate::clock::later;
use crate::json::{Map, Value, json};
use crate::meta::selector::{FieldSelector, LabelSelector, Operator};
use crate::request::Decision;
use crate::webhook::{self, WebhookKubeconfig};

const GROUP: &str = "authorization.k8s.io";
/// The number of remembered answers.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(8192).expect("8,192 is not 0");
/// From this many bytes on, a question is too long to remember its answer.
const QUESTION_BYTES: usize = 10_000;
const AUTHORIZED_TTL: Duration = Duration::from_mins(5);
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

/// The version of reviews that a webhook does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported {what} version {version:?}, supported versions are \"v1\", \"v1beta1\"")]
pub struct ReviewVersionError {
    what: &'static str,
    version: String,
}

/// The version in which reviews are exchanged with a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// Reads `v1` or `v1beta1` for `what` a webhook is for.
    ///
    /// # Errors
    /// Upstream's text for another version.
    pub(super) fn read(what: &'static str, version: &str) -> Result<Self, ReviewVersionError> {
        match version {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1beta1),
            version => Err(ReviewVersionError {
                what,
                version: version.to_owned(),
            }),
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// A webhook that decides what users may do, as of `--authorization-webhook-config-file`.
#[derive(Clone)]
pub struct AuthorizationWebhook(Arc<Inner>);

struct Inner {
    kubeconfig: WebhookKubeconfig,
    version: ReviewVersion,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    /// Statuses of reviews by the question, with the time until when they count.
    known: Mutex<LruCache<String, (Timestamp, Value)>>,
}

impl AuthorizationWebhook {
    /// A webhook that is sent SubjectAccessReviews of `version`, `v1` or `v1beta1`. It remembers
    /// permissions for 5 minutes, and refusals for 30 seconds.
    ///
    /// # Errors
    /// Another version.
    pub fn new(kubeconfig: WebhookKubeconfig, version: &str) -> Result<Self, ReviewVersionError> {
        let version = ReviewVersion::read("webhook authorizer", version)?;
        Ok(Self::of(
            kubeconfig,
            version,
            (AUTHORIZED_TTL, UNAUTHORIZED_TTL),
        ))
    }

    /// Remembers permissions and refusals for these times; zero remembers none.
    #[must_use]
    pub fn cache_ttls(self, authorized: Duration, unauthorized: Duration) -> Self {
        let (kubeconfig, version) = (self.0.kubeconfig.clone(), self.0.version);
        Self::of(kubeconfig, version, (authorized, unauthorized))
    }

    fn of(
        kubeconfig: WebhookKubeconfig,
        version: ReviewVersion,
        (authorized_ttl, unauthorized_ttl): (Duration, Duration),
    ) -> Self {
        Self(Arc::new(Inner {
            kubeconfig,
            version,
            authorized_ttl,
            unauthorized_ttl,
            known: Mutex::new(LruCache::new(KNOWN_MAX)),
        }))
    }

    /// The question whether `user` may.
    pub(super) fn spec(&self, user: &User, attributes: &Attributes<'_>) -> Value {
        let mut spec = Map::new();
        let mut set = |field: &str, value: Value| spec.insert(field.to_owned(), value);
        match attributes {
            Attributes::Resource { .. } => set("resourceAttributes", resource(attributes)),
            Attributes::Path { verb, path } => set(
                "nonResourceAttributes",
                texts(&[("path", path), ("verb", verb)]),
            ),
        };
        let groups = match self.0.version {
            ReviewVersion::V1 => "groups",
            ReviewVersion::V1beta1 => "group",
        };
        for (field, text) in [("user", &user.name), ("uid", &user.uid)] {
            if !text.is_empty() {
                set(field, text.as_str().into());
            }
        }
        if !user.groups.is_empty() {
            set(groups, json!(user.groups));
        }
        if !user.extra.is_empty() {
            set("extra", json!(user.extra));
        }
        Value::Object(spec)
    }

    /// Asks the webhook, unless it has answered the question `text` lately.
    pub(super) async fn ask(&self, state: &State, text: &str, spec: Value) -> Decision {
        let now = state.clock.now();
        if let Some((until, status)) = self.0.known.lock().get(text)
            && now < *until
        {
            return decision(status);
        }
        let review = json!({
            "kind": "SubjectAccessReview",
            "apiVersion": format!("{GROUP}/{}", self.0.version.as_str()),
            "metadata": {},
            "spec": spec,
            "status": { "allowed": false },
        });
        let answer = webhook::post_to(&state.webhook_client(), &self.0.kubeconfig, &review).await;
        let status = match answer {
            Ok(mut answer) => answer["status"].take(),
            Err(why) => {
                let error = why.to_string();
                tracing::error!(error, "Failed to make webhook authorizer request");
                return Decision::Failed {
                    is_denied: false,
                    reason: String::new(),
                    error,
                };
            }
        };
        let ttl = match status["allowed"] == true {
            true => self.0.authorized_ttl,
            false => self.0.unauthorized_ttl,
        };
        if !ttl.is_zero() && text.len() < QUESTION_BYTES {
            let ttl = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
            let until = later(state.clock.now(), ttl);
            let known = (until, status.clone());
            self.0.known.lock().put(text.to_owned(), known);
        }
        decision(&status)
    }
}

impl fmt::Debug for AuthorizationWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AuthorizationWebhook");
        shown
            .field("kubeconfig", &self.0.kubeconfig)
            .finish_non_exhaustive()
    }
}

/// The decision in the status of a review.
fn decision(status: &Value) -> Decision {
    let reason = status["reason"].as_str().unwrap_or_default().to_owned();
    match (status["denied"] == true, status["allowed"] == true) {
        (true, true) => Decision::Failed {
            is_denied: true,
            reason,
            error: "webhook subject access review returned both allow and deny response".to_owned(),
        },
        (true, false) => Decision::Denied(reason),
        (false, true) => Decision::Allowed(reason),
        (false, false) => Decision::NoOpinion(reason),
    }
}

/// An object of the texts that are not empty.
fn texts(fields: &[(&str, &str)]) -> Value {
    let fields = fields.iter().filter(|(_, text)| !text.is_empty());
    fields
        .map(|(field, text)| ((*field).to_owned(), Value::from(*text)))
        .collect::<Map>()
        .into()
}

fn resource(attributes: &Attributes<'_>) -> Value {
    let Attributes::Resource {
        verb,
        group,
        version,
        resource,
        subresource,
        namespace,
        name,
        selectors,
    } = attributes
    else {
        return Value::Null;
    };
    let mut asked = texts(&[
        ("namespace", namespace),
        ("verb", verb),
        ("group", group),
        ("version", version),
        ("resource", resource),
        ("subresource", subresource),
        ("name", name),
    ]);
    for (field, requirements) in [
        ("fieldSelector", field_requirements(&selectors.field)),
        ("labelSelector", label_requirements(&selectors.label)),
    ] {
        if !requirements.is_empty() {
            asked[field] = json!({ "requirements": requirements });
        }
    }
    asked
}

fn field_requirements(selector: &str) -> Vec<Value> {
    let selector = FieldSelector::parse(selector).unwrap_or_default();
    let terms = selector.terms().iter();
    terms
        .map(|term| {
            let operator = if term.negated { "NotIn" } else { "In" };
            json!({ "key": term.field, "operator": operator, "values": [term.value] })
        })
        .collect()
}

fn label_requirements(selector: &str) -> Vec<Value> {
    let selector = LabelSelector::parse(selector).unwrap_or_default();
    let requirements = selector.requirements().iter();
    requirements
        .filter_map(|own| {
            let operator = match own.operator() {
                Operator::In | Operator::Equals | Operator::DoubleEquals => "In",
                Operator::NotIn | Operator::NotEquals => "NotIn",
                Operator::Exists => "Exists",
                Operator::DoesNotExist => "DoesNotExist",
                // Reviews have no such operators, and only fewer objects fulfil them.
                Operator::GreaterThan | Operator::LessThan => return None,
            };
            let mut requirement = json!({ "key": own.key(), "operator": operator });
            if !own.values().is_empty() {
                requirement["values"] = json!(own.values());
            }
            Some(requirement)
        })
        .collect()
}

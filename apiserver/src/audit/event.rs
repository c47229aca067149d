//! Events in the form of `audit.k8s.io/v1`, and as a line of text.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::html_escape;
use crate::status::quoted;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// The user, the request, the times, and the code of the response.
    Metadata,
    /// Also the object in the request.
    Request,
    /// Also the object in the response.
    RequestResponse,
}

impl Level {
    /// Every level, in ascending order.
    pub const ALL: [Self; 4] = [
        Self::None,
        Self::Metadata,
        Self::Request,
        Self::RequestResponse,
    ];

    /// Returns the name of the level in policies and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// The moment of a request at which an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// The user is known, and nothing has been decided yet.
    RequestReceived,
    /// The head of the response is sent. Only long-running requests, such as watches, have this stage.
    ResponseStarted,
    /// The whole response is sent.
    ResponseComplete,
    /// A handler has panicked.
    Panic,
}

impl Stage {
    /// Every stage, in the order in which upstream lists them.
    pub const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    /// Returns the name of the stage in policies and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// A user as events name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UserInfo {
    /// The name; empty before authentication.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// The unique identifier, which most users lack.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Further facts, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The object of a request. Absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The plural name of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name; for a new object the name in the body.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The uid that the body states.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The API version, without the group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The version that the body states.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// The status of a response. A response that is no `Status` only has a code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ResponseStatus {
    pub(super) metadata: Empty,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The message for humans.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reason for machines.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The details, as JSON.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "raw")]
    pub details: Option<Arc<RawValue>>,
    /// The code of the response.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The metadata of a status, which Go never leaves out.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Empty {}

fn raw<S: Serializer>(json: &Option<Arc<RawValue>>, serializer: S) -> Result<S::Ok, S::Error> {
    json.as_deref().serialize(serializer)
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

/// A request at one of its stages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// How much is recorded.
    pub level: Level,
    /// The identifier of the request: the `Audit-Id` header of the response.
    pub audit_id: String,
    /// The stage.
    pub stage: Stage,
    /// Path and query.
    pub request_uri: String,
    /// The verb; the method in lower case for a path that names no resource.
    pub verb: String,
    /// The authenticated user.
    pub user: UserInfo,
    /// The user that the request was answered as, if that is another.
    pub impersonated_user: Option<UserInfo>,
    /// The verb by which constrained impersonation was permitted; empty otherwise.
    pub impersonation_constraint: String,
    /// Addresses of proxies and of the client.
    pub source_ips: Vec<String>,
    /// The user agent.
    pub user_agent: String,
    /// The object; `None` for a path that names no resource.
    pub object_ref: Option<ObjectReference>,
    /// The status of the response, once there is one.
    pub response_status: Option<ResponseStatus>,
    /// The object in the request, or the patch, from [`Level::Request`] on.
    pub request_object: Option<Arc<RawValue>>,
    /// The object in the response at [`Level::RequestResponse`].
    pub response_object: Option<Arc<RawValue>>,
    /// The time at which the request came.
    pub request_received: Timestamp,
    /// The time of the stage.
    pub stage_time: Timestamp,
    /// The annotations of authorization and admission.
    pub annotations: BTreeMap<String, String>,
}

/// An event with upstream's fields in their order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: Level,
    #[serde(rename = "auditID")]
    audit_id: &'a str,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: &'a str,
    verb: &'a str,
    user: &'a UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<&'a UserInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_metadata: Option<AuthenticationMetadata<'a>>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[_]>::is_empty")]
    source_ips: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<&'a ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<&'a ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<&'a RawValue>,
    #[serde(serialize_with = "micro_time")]
    request_received_timestamp: Timestamp,
    #[serde(serialize_with = "micro_time")]
    stage_timestamp: Timestamp,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata<'a> {
    impersonation_constraint: &'a str,
}

fn micro_time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let time = time.to_zoned(TimeZone::UTC).datetime();
    serializer.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ"))
}

impl Event {
    /// Returns the event as `audit.k8s.io/v1`, in one line without its end.
    ///
    /// # Panics
    /// Never: each part is JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let constraint = self.impersonation_constraint.as_str();
        let metadata = AuthenticationMetadata {
            impersonation_constraint: constraint,
        };
        let document = Document {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: self.level,
            audit_id: &self.audit_id,
            stage: self.stage,
            request_uri: &self.request_uri,
            verb: &self.verb,
            user: &self.user,
            impersonated_user: self.impersonated_user.as_ref(),
            authentication_metadata: (!constraint.is_empty()).then_some(metadata),
            source_ips: &self.source_ips,
            user_agent: &self.user_agent,
            object_ref: self.object_ref.as_ref(),
            response_status: self.response_status.as_ref(),
            request_object: self.request_object.as_deref(),
            response_object: self.response_object.as_deref(),
            request_received_timestamp: self.request_received,
            stage_timestamp: self.stage_time,
            annotations: &self.annotations,
        };
        let text = serde_json::to_string(&document).expect("an event is JSON");
        html_escape(&text).into_owned()
    }

    /// Returns the event in the legacy format: one line with some of its facts, without its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let list = |texts: &[String]| {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            texts.join(",")
        };
        let or = |text: String, other: &str| match text.is_empty() {
            true => other.to_owned(),
            false => text,
        };
        let groups = match self.user.username.is_empty() {
            true => String::new(),
            false => list(&self.user.groups),
        };
        let user = or(self.user.username.clone(), "<none>");
        let other = self.impersonated_user.as_ref();
        let other_user = other.map_or_else(|| "<self>".to_owned(), |own| own.username.clone());
        let other_groups = other.map_or_else(String::new, |own| list(&own.groups));
        let namespace = self.object_ref.as_ref().map(|own| own.namespace.clone());
        let response = match &self.response_status {
            Some(status) => status.code.to_string(),
            None => "<deferred>".to_owned(),
        };
        let ip = self.source_ips.first().cloned();
        let fields = [
            ("id", self.audit_id.clone()),
            ("stage", self.stage.as_str().to_owned()),
            ("ip", or(ip.unwrap_or_default(), "<unknown>")),
            ("method", self.verb.clone()),
            ("user", user),
            ("groups", or(groups, "<none>")),
            ("as", other_user),
            ("asgroups", or(other_groups, "<lookup>")),
            ("user-agent", self.user_agent.clone()),
            ("namespace", or(namespace.unwrap_or_default(), "<none>")),
            ("uri", self.request_uri.clone()),
        ];
        let fields = fields.map(|(name, value)| format!("{name}={}", quoted(&value)));
        let time = self.request_received;
        format!("{time} AUDIT: {} response=\"{response}\"", fields.join(" "))
    }
}

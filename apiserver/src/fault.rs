//! Faults on the wire: failures that a test injects between clients and server, by rule.
//!
//! A [`Fault`] selects requests, how many of them it affects, and the effect on them. Rules are
//! evaluated in the order of their creation; the first that affects a request decides. Faults of a
//! plan come first, and requests that they let through reach the other rules. Nothing here is
//! random: the same requests in the same order meet the same faults.
//!
//! - `request_facts`: the requests that a fault is about
//! - `rule`: a fault in force, and what it has met
//! - `rules`: the faults of a server, and their effects
//! - [`points`](self::Point): requests and events that a fault could affect
//! - `text`: faults as JSON and YAML have them

mod branches;
mod deposed;
mod points;
mod request_facts;
mod rule;
mod rules;
mod text;

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;

use crate::status::ApiError;

pub use branches::Takes;
pub use points::{Hit, Point};
pub(crate) use request_facts::RequestFacts;
pub(crate) use rules::{EventEffect, Faults, Turn, View};
pub(crate) use text::VERBS;

/// The requests that a fault is about. An absent field matches every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requests {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: Option<String>,
    /// `pods`, `statefulsets.apps`, `pods/status`; without a subresource, requests for the object
    /// itself only.
    pub resource: Option<String>,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name: in the path, in the body of a create, or of the object in an event.
    pub name: Option<String>,
    /// The client: the product in the user agent, such as `statefulset-controller`.
    pub from: Option<String>,
}

/// The effect of a fault on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request is not executed; the response is this refusal.
    Refuse(Refusal),
    /// The request is executed, and the connection breaks before the response.
    DropResponse,
    /// The request is executed after this delay.
    Delay(Duration),
    /// The client dies with the request: there is no response, and
    /// [`ApiServer::crashes`](crate::ApiServer::crashes) notifies the owner of the client.
    Crash(Crash),
    /// The server restarts instead of executing the request: the connection breaks off, as do all watches, and past events
    /// are forgotten.
    Restart,
    /// All watches of the server end with 410 Expired before the request is executed, so that each client lists again.
    Relist,
    /// All leases but those of nodes are released before the request is executed, and for this time their holders are
    /// answered as if they had renewed them. An update or a patch without a read before it does not show them the new holder.
    SecondLeader(Duration),
    /// The webhooks of admission and conversion that the request calls fail.
    Webhooks(WebhookFailure),
    /// The server's clock is set forward by this time, or back if it is negative, before the request is executed.
    Jump(SignedDuration),
    /// The server cannot be reached: 503, and open watches break off when the fault begins.
    Unreachable,
    /// A list or watch is served by a replica that lags by this many writes. A list that asks for
    /// the most recent state is not affected, as no server answers it from a stale cache.
    Stale(u64),
    /// A watch delivers nothing while the fault lasts, and then everything.
    Hold,
    /// A watch delivers its events in batches, one in each period of this length.
    Batch(Duration),
    /// A watch sends no bookmarks except the one that ends the initial events.
    WithholdBookmarks,
    /// A resumed watch repeats this many events that were delivered before.
    Repeat(u32),
    /// The connection breaks off instead of the event.
    Break,
    /// The watch ends with 410 Expired instead of the event.
    Expire,
    /// The event and later ones are withheld for this time; then the watch ends with 410 Expired,
    /// so that the client lists again and never sees the events in between.
    MissEvents(Duration),
    /// The event and later ones are withheld for this time, and then delivered.
    Late(Duration),
}

impl Effect {
    /// Whether the fault affects and counts the events of a watch instead of requests.
    #[must_use]
    pub fn is_of_events(&self) -> bool {
        matches!(
            self,
            Self::Break | Self::Expire | Self::MissEvents(_) | Self::Late(_)
        )
    }

    /// Whether an affected request is executed nevertheless, unless another fault prevents it.
    fn reaches_server(&self) -> bool {
        !matches!(
            self,
            Self::Refuse(_) | Self::Unreachable | Self::Restart | Self::Crash(Crash::Before)
        )
    }

    /// Whether the fault changes the view of a list or watch, not whether a request is answered.
    fn is_of_views(&self) -> bool {
        matches!(
            self,
            Self::Stale(_) | Self::Hold | Self::Batch(_) | Self::WithholdBookmarks
        )
    }
}

/// How the call of a webhook fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFailure {
    /// The connection is refused.
    Refuse,
    /// There is no response within the webhook's timeout.
    Timeout,
}

/// The moment at which a client dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Crash {
    /// Before the request is executed.
    Before,
    /// After the request is executed.
    After,
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The `reason` of the `Status`.
    #[serde(default)]
    pub reason: String,
    /// The `message` of the `Status`.
    #[serde(default)]
    pub message: String,
    /// The value of the header `Retry-After`.
    #[serde(default)]
    pub retry_after_seconds: Option<u32>,
}

/// One rule: `{name: …, on: {verb: create, resource: pods}, times: 2, refuse: {code: 500}}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "text::Fields")]
pub struct Fault {
    /// The name, by which the fault is lifted.
    pub name: String,
    /// The requests that the fault is about.
    pub requests: Requests,
    /// The number of matching requests that pass first.
    pub after: u32,
    /// The number of requests that the fault affects; all of them when absent.
    pub times: Option<u32>,
    /// The duration of the fault; when absent, it lasts until it is lifted.
    pub lasts: Option<Duration>,
    /// The effect on each of the requests.
    pub effect: Effect,
}

impl Refusal {
    pub(crate) fn to_error(&self) -> ApiError {
        ApiError::stated(
            self.code,
            &self.reason,
            &self.message,
            self.retry_after_seconds,
        )
    }

    /// The error of an unreachable server.
    pub(crate) fn unreachable() -> ApiError {
        ApiError::ServiceUnavailable(
            "the server is currently unable to handle the request".to_owned(),
        )
    }
}

//! Faults on the wire: what a test has go wrong between clients and server, by rule.
//!
//! A [`Fault`] says which requests it is about, which of those it meets, and what becomes of them.
//! Rules are looked at in the order in which they were made; the first that meets a request decides.
//! Faults that are planned strike before, on the way: what they let through comes to the others.
//! Nothing here is drawn at random: the same requests in the same order meet the same faults.
//!
//! - `rules`: the faults of a server, and what they do to whom
//! - [`points`](self::Point): where a fault could have met somebody
//! - `text`: faults as JSON and YAML have them

mod branches;
mod points;
mod rules;
mod text;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Deserialize;

use crate::status::ApiError;

pub use branches::Takes;
pub use points::{Meeting, Point};
pub(crate) use rules::{Asked, EventEffect, Faults, Turn, View};
pub(crate) use text::VERBS;

/// Which requests a fault is about. What is left out says nothing: without any field, all are meant.
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
    /// The object's name; of a create, the name in its body, of an event, that of the object.
    pub name: Option<String>,
    /// Who asks: the product in the user agent, such as `statefulset-controller`.
    pub from: Option<String>,
}

/// What becomes of a request that a fault meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is not carried out; this is the answer.
    Refuse(Refusal),
    /// It is carried out, and the connection breaks before the answer is there.
    LoseAnswer,
    /// It is carried out, so much later.
    Delay(Duration),
    /// The client dies with it: there is no answer, and whoever holds the client is told by
    /// [`ApiServer::crashes`](crate::ApiServer::crashes).
    Crash(Crash),
    /// The server cannot be reached: 503, and open watches break off when the fault begins.
    Unreachable,
    /// Of a list or a watch: it is answered by a replica that is so many writes behind. A list that
    /// asks for the most recent state is not, as no server answers it from a cache that is behind.
    Stale(u64),
    /// Of a watch: it delivers nothing while the fault lasts, and then everything.
    Hold,
    /// Of a watch: it delivers once in this time, everything that there is then.
    Batch(Duration),
    /// Of a watch: there are no bookmarks but the one that ends the initial events.
    WithholdBookmarks,
    /// Of a watch that resumes: it begins with so many events that were delivered before.
    Repeat(u32),
    /// Of an event: the connection breaks off in its place.
    Break,
    /// Of an event: the watch ends in its place with 410 Expired.
    Expire,
    /// Of an event: neither it nor what follows is delivered for so long; then the watch ends with
    /// 410 Expired, so that the client lists again and never sees what was between.
    Miss(Duration),
}

impl Effect {
    /// Whether it is events of a watch that are met and counted, not requests.
    #[must_use]
    pub fn is_of_events(&self) -> bool {
        matches!(self, Self::Break | Self::Expire | Self::Miss(_))
    }

    /// Whether a request that it meets is carried out nevertheless, if nothing else keeps it.
    fn reaches_server(&self) -> bool {
        !matches!(
            self,
            Self::Refuse(_) | Self::Unreachable | Self::Crash(Crash::Before)
        )
    }

    /// Whether it is what a request is shown that changes, not whether it is answered.
    fn is_of_views(&self) -> bool {
        matches!(
            self,
            Self::Stale(_) | Self::Hold | Self::Batch(_) | Self::WithholdBookmarks
        )
    }
}

/// When a client dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Crash {
    /// Before its request is carried out.
    Before,
    /// Behind it.
    After,
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The `reason` of the `Status`.
    #[serde(default)]
    pub reason: String,
    /// Its `message`.
    #[serde(default)]
    pub message: String,
    /// Sent as `Retry-After`.
    #[serde(default)]
    pub retry_after_seconds: Option<u32>,
}

/// One rule: `{name: …, on: {verb: create, resource: pods}, times: 2, refuse: {code: 500}}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "text::Fields")]
pub struct Fault {
    /// By which it is lifted.
    pub name: String,
    /// Which requests it is about.
    pub requests: Requests,
    /// So many of them pass first.
    pub after: u32,
    /// It meets so many; all of them when absent.
    pub times: Option<u32>,
    /// It ends so long after it was made; only when lifted when absent.
    pub lasts: Option<Duration>,
    /// What it does.
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

    /// What is said for a server that is not there.
    pub(crate) fn unreachable() -> ApiError {
        ApiError::ServiceUnavailable(
            "the server is currently unable to handle the request".to_owned(),
        )
    }
}

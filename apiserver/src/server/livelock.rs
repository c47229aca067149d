//! Clients that keep sending requests while simulated time stands still.
//!
//! Simulated time passes when every task waits. A controller whose own write wakes it again
//! keeps time from passing, so no timeout and no wait of a test would ever end. The server therefore
//! counts the requests of each instant. It answers no further request of a client that exceeds a
//! limit: time passes again, and the test learns who it was from
//! [`ApiServer::livelocks`](crate::ApiServer::livelocks).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ApiServer;
use crate::fault::RequestFacts;

/// The limits on the requests of one client within one instant of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivelockLimits {
    /// The number of requests with the same verb for the same object.
    pub same_request: u32,
    /// The number of all requests.
    pub requests: u32,
}

impl Default for LivelockLimits {
    /// 500 requests for one object and 50,000 in all.
    fn default() -> Self {
        Self {
            same_request: 500,
            requests: 50_000,
        }
    }
}

/// A client that exceeded a limit of [`LivelockLimits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Livelock {
    /// The client: the product in its user agent.
    pub user_agent: String,
    /// The verb of its last request.
    pub verb: String,
    /// The resource of its last request: `pods`, `statefulsets.apps/status`.
    pub resource: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name, if the path names an object.
    pub name: Option<String>,
    /// The number of requests within the instant: of this verb for this object, or of all requests
    /// if [`same_request`](Self::same_request) is false.
    pub requests: u32,
    /// Whether the limit is that of requests for one object.
    pub same_request: bool,
    /// The instant.
    pub time: Timestamp,
}

impl fmt::Display for Livelock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user_agent,
            verb,
            resource,
            requests,
            ..
        } = self;
        let name = self.name.as_deref().map(|name| match &self.namespace {
            Some(namespace) => format!(" {namespace}/{name}"),
            None => format!(" {name}"),
        });
        let name = name.unwrap_or_default();
        match self.same_request {
            true => write!(
                f,
                "{user_agent} sent {requests} requests to {verb} {resource}{name} within one instant"
            ),
            false => write!(
                f,
                "{user_agent} sent {requests} requests within one instant, the last to {verb} {resource}{name}"
            ),
        }
    }
}

impl ApiServer {
    /// The number of requests counted under livelock limits so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.core.livelocks.state.lock().requests
    }

    /// The clients that exceeded a limit of
    /// [`livelock_limits`](super::ApiServerBuilder::livelock_limits) so far, in the order in which
    /// they did.
    #[must_use]
    pub fn livelocks(&self) -> Vec<Livelock> {
        self.core.livelocks.list()
    }
}

/// Counts the requests of each instant.
#[derive(Debug, Default)]
pub(super) struct Livelocks {
    limits: Option<LivelockLimits>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    instant: Timestamp,
    clients: BTreeMap<Arc<str>, Counts>,
    /// The requests of all instants.
    requests: u64,
    found: Vec<Livelock>,
}

/// The requests of a client.
#[derive(Debug, Default)]
struct Counts {
    all: u32,
    by_object: BTreeMap<String, u32>,
}

impl Livelocks {
    pub(super) fn new(limits: Option<LivelockLimits>) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    /// Empty, with the same limits.
    pub(super) fn forked(&self) -> Self {
        Self::new(self.limits)
    }

    /// The clients that exceeded a limit, in the order in which they did.
    pub(super) fn list(&self) -> Vec<Livelock> {
        self.state.lock().found.clone()
    }

    /// Whether requests are counted.
    pub(super) fn are_limited(&self) -> bool {
        self.limits.is_some()
    }

    /// Counts a request; whether it is one that is not to be answered.
    pub(super) fn stop(&self, asked: Option<&RequestFacts>, now: Timestamp) -> bool {
        let (Some(limits), Some(asked)) = (self.limits, asked) else {
            return false;
        };
        let mut state = self.state.lock();
        state.requests += 1;
        let user_agent = asked.product();
        if state.found.iter().any(|own| own.user_agent == user_agent) {
            return true;
        }
        if state.instant != now {
            state.instant = now;
            state.clients.clear();
        }
        if !state.clients.contains_key(user_agent) {
            state.clients.insert(user_agent.into(), Counts::default());
        }
        let counts = state.clients.get_mut(user_agent);
        let counts = counts.expect("it has just been inserted");
        counts.all += 1;
        // Requests without a name, creates above all, may be for another object each.
        let same = asked.name().map_or(0, |name| {
            let object = format!(
                "{} {} {} {name}",
                asked.verb_text(),
                asked.resource_text(),
                asked.namespace().unwrap_or_default()
            );
            let count = counts.by_object.entry(object).or_default();
            *count += 1;
            *count
        });
        let same_request = same > limits.same_request;
        if !same_request && counts.all <= limits.requests {
            return false;
        }
        let found = Livelock {
            user_agent: user_agent.to_owned(),
            verb: asked.verb_text().to_owned(),
            resource: asked.resource_text(),
            namespace: asked.namespace().map(str::to_owned),
            name: asked.name().map(str::to_owned),
            requests: if same_request { same } else { counts.all },
            same_request,
            time: now,
        };
        tracing::warn!(%found, "no further request of the client is answered");
        state.found.push(found);
        true
    }
}

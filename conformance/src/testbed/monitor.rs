//! Mistakes of the controllers under test that show in their requests: repeated requests, leaked watches, writes
//! without a change, requests for resources or namespaces that do not exist.
//!
//! Only the controllers under test are observed, between them and the server. `settled` checks the rules that need a
//! settled cluster.

mod request;
mod settled;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Either, Full};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, Verb};
use parking_lot::Mutex;
use serde::Deserialize;
use tower::{Service, ServiceExt};

use crate::properties::Violation;
use crate::properties::general::{FINALIZERS, HOT_REQUEUE};
use request::{ObservedRequest, Scope};
pub(super) use settled::Settled;

/// A controller that repeats a request at this many different times...
const REQUESTS_MAX: u32 = 40;
/// ... within this time, while nothing is written, does not back off.
const REQUESTS_WITHIN: Duration = Duration::from_secs(300);
/// A controller that has this many equal watches open at once leaks them.
const WATCHES_MAX: usize = 30;
/// This many consecutive writes of an object that change nothing are idle writes.
const IDLE_WRITES_MAX: u32 = 10;
/// The maximum number of reported violations of one rule.
const FOUND_MAX: usize = 20;
/// Reports, which are written and read at fixed times.
const REPORTS: &[&str] = &["events", "leases"];

const LEAKED_WATCHES: &str = "no leaked watches";
const IDLE_WRITES: &str = "no idle writes";

/// The names of the rules.
pub(super) const RULES: [&str; 7] = [
    HOT_REQUEUE,
    LEAKED_WATCHES,
    IDLE_WRITES,
    settled::RESOURCES,
    settled::NAMESPACES,
    settled::SEEN,
    FINALIZERS,
];

/// The requests of the controllers under test so far, and the violations in them.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestMonitor(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The version of the last write when the last request was sent.
    rv: ResourceVersion,
    /// How often each request was sent since then.
    sent: BTreeMap<String, Times>,
    /// The writes of an object that changed nothing since its version.
    idle: BTreeMap<String, (ResourceVersion, Times)>,
    /// The number of open watches, by client and resource.
    watches: BTreeMap<String, usize>,
    scopes: BTreeMap<Scope, Responses>,
    found: Vec<Violation>,
}

/// The number of times that something happened, at different instants.
#[derive(Clone, Copy, Debug)]
struct Times {
    count: u32,
    first: Timestamp,
    last: Timestamp,
}

/// The responses to the requests of one scope.
#[derive(Debug, Default)]
struct Responses {
    /// The verb of the last request that was not a `get`, if there was one; otherwise of the first.
    verb: Option<Verb>,
    /// Lists and watches that were answered 404.
    missing: u32,
    /// Whether a list or watch was answered.
    found: bool,
    /// Whether there was another request than `get`.
    is_used: bool,
}

impl Times {
    fn at(now: Timestamp) -> Self {
        Self {
            count: 1,
            first: now,
            last: now,
        }
    }

    /// Counts once more, unless it was counted at this very time.
    fn again(&mut self, now: Timestamp) {
        if self.last != now {
            self.count += 1;
            self.last = now;
        }
    }

    fn duration(self) -> SignedDuration {
        self.last.duration_since(self.first)
    }
}

impl RequestMonitor {
    /// Returns the violations found so far, in order.
    pub(super) fn found(&self) -> Vec<Violation> {
        self.0.lock().found.clone()
    }

    /// Forgets the violations and counts so far; known scopes stay known.
    pub(super) fn forget(&self) {
        let mut state = self.0.lock();
        state.found.clear();
        state.sent.clear();
        state.idle.clear();
    }

    /// Counts a request; `rv` is the version of the last write before it.
    fn sends(&self, seen: &ObservedRequest, (rv, now): (ResourceVersion, Timestamp)) {
        let mut state = self.0.lock();
        if state.rv != rv {
            state.rv = rv;
            state.sent.clear();
        }
        let responses = state.scopes.entry(seen.scope.clone()).or_default();
        if responses.verb.is_none() || seen.verb != Verb::Get {
            responses.verb = Some(seen.verb);
        }
        responses.is_used |= seen.verb != Verb::Get;
        // A reopened watch does not count, and missing resources have a rule of their own.
        let is_missing = responses.missing > 0 && !responses.found;
        if seen.verb == Verb::Watch || is_missing || REPORTS.contains(&&*seen.scope.plural) {
            return;
        }
        let times = state.sent.entry(seen.signed());
        let times = times
            .and_modify(|times| times.again(now))
            .or_insert(Times::at(now));
        if times.count < REQUESTS_MAX {
            return;
        }
        let asking = std::mem::replace(times, Times::at(now));
        if asking.duration().unsigned_abs() <= REQUESTS_WITHIN {
            let agent = &seen.scope.user_agent;
            let what = format!(
                "{agent} repeated `{seen}` {} times in {:#} while nothing changed; wait for a change, or \
                 back off",
                asking.count,
                asking.duration(),
            );
            state.report(HOT_REQUEUE, what);
        }
    }

    /// Records an answer; `written_rv` is the version of an object that was written.
    fn answered(
        &self,
        seen: &ObservedRequest,
        code: u16,
        written_rv: Option<ResourceVersion>,
        now: Timestamp,
    ) {
        let mut state = self.0.lock();
        let is_list = matches!(seen.verb, Verb::List | Verb::Watch);
        if let Some(responses) = state.scopes.get_mut(&seen.scope) {
            responses.missing += u32::from(is_list && code == 404);
            responses.found |= is_list && (200..300).contains(&code);
        }
        let (Some(rv), false) = (written_rv, REPORTS.contains(&&*seen.scope.plural)) else {
            return;
        };
        let is_idle = rv <= seen.after_rv;
        let key = seen.signed();
        if !is_idle {
            state.idle.remove(&key);
            return;
        }
        let (known_rv, times) = state.idle.entry(key).or_insert((rv, Times::at(now)));
        if *known_rv == rv {
            times.again(now);
        } else {
            (*known_rv, *times) = (rv, Times::at(now));
        }
        if times.count == IDLE_WRITES_MAX && times.last == now {
            // The violation is reported once for this version.
            times.count += 1;
            let agent = &seen.scope.user_agent;
            let what = format!(
                "{agent} repeated `{seen}` {IDLE_WRITES_MAX} times without changing anything; compare with \
                 the object as read before writing"
            );
            state.report(IDLE_WRITES, what);
        }
    }

    fn open(&self, seen: &ObservedRequest) -> Open {
        let key = format!("{}{}", seen.signed(), seen.selectors);
        let mut state = self.0.lock();
        let open = state.watches.entry(key.clone()).or_default();
        *open += 1;
        if *open > WATCHES_MAX {
            let what = format!(
                "{} has more than {WATCHES_MAX} equal watches open: {seen}{}; share one, or drop the \
                 streams that are no longer read",
                seen.scope.user_agent, seen.selectors
            );
            state.report(LEAKED_WATCHES, what);
        }
        drop(state);
        Open {
            monitor: self.clone(),
            key,
        }
    }
}

impl State {
    /// Reports a violation once, and at most [`FOUND_MAX`] of one rule.
    fn report(&mut self, rule: &str, what: String) {
        let of_rule = self.found.iter().filter(|own| own.property == rule);
        let is_known = of_rule.clone().any(|own| own.what == what);
        if !is_known && of_rule.count() < FOUND_MAX {
            self.found.push(Violation {
                rv: self.rv,
                property: rule.to_owned(),
                what,
            });
        }
    }
}

/// A watch that is open.
struct Open {
    monitor: RequestMonitor,
    key: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.monitor.0.lock();
        if let Some(open) = state.watches.get_mut(&self.key) {
            *open -= 1;
            if *open == 0 {
                state.watches.remove(&self.key);
            }
        }
    }
}

/// Sits between the controllers under test and the wire.
#[derive(Clone)]
pub(super) struct Monitored<S> {
    inner: S,
    server: ApiServer,
    monitor: RequestMonitor,
}

impl<S> Monitored<S> {
    pub(super) fn new(inner: S, server: &ApiServer, monitor: &RequestMonitor) -> Self {
        Self {
            inner,
            server: server.clone(),
            monitor: monitor.clone(),
        }
    }
}

impl<S, B> Monitored<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body<Data = bytes::Bytes> + Send,
    B::Error: std::fmt::Debug,
{
    async fn pass(self, request: Request<Body>) -> Result<Response<MonitoredBody<B>>, Infallible> {
        let rv = self.server.resource_version();
        let Some(seen) = ObservedRequest::of(&request, rv) else {
            let answer = self.inner.oneshot(request).await?;
            return Ok(answer.map(|body| MonitoredBody::new(Either::Left(body), None)));
        };
        let now = || self.server.clock().now();
        self.monitor.sends(&seen, (rv, now()));
        let answer = self.inner.oneshot(request).await?;
        let code = answer.status().as_u16();
        if !seen.may_be_idle || code != 200 || answer.body().size_hint().exact().is_none() {
            self.monitor.answered(&seen, code, None, now());
            let is_open = seen.verb == Verb::Watch && code == 200;
            let open = is_open.then(|| self.monitor.open(&seen));
            return Ok(answer.map(|body| MonitoredBody::new(Either::Left(body), open)));
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("it is whole").to_bytes();
        let version = serde_json::from_slice(&body).ok();
        let version = version.and_then(|object: Versioned| object.metadata.resource_version);
        let written_rv = version.and_then(|version| version.parse().ok());
        self.monitor.answered(&seen, code, written_rv, now());
        let body = MonitoredBody::new(Either::Right(Full::new(body)), None);
        Ok(Response::from_parts(head, body))
    }
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
}

impl<S, B> Service<Request<Body>> for Monitored<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    type Response = Response<MonitoredBody<B>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}

/// An answer's body, and the watch that it is.
pub(super) struct MonitoredBody<B> {
    inner: Either<B, Full<bytes::Bytes>>,
    _open: Option<Open>,
}

impl<B> MonitoredBody<B> {
    fn new(inner: Either<B, Full<bytes::Bytes>>, open: Option<Open>) -> Self {
        Self { inner, _open: open }
    }
}

impl<B> http_body::Body for MonitoredBody<B>
where
    B: http_body::Body<Data = bytes::Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = bytes::Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        std::pin::Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

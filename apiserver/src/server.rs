//! The server: the state that requests share, and the way from a request to its handler.

mod aggregation;
mod api_services;
mod audit;
mod bootstrap;
mod builder;
mod control;
mod credentials;
mod filters;
mod flags;
mod flow_control;
mod fork;
mod identity;
mod import;
mod leaders;
mod listener;
mod live;
mod livelock;
mod load;
mod local_webhooks;
mod manifests;
mod offload;
mod panics;
mod paths;
mod respond;
mod served;
mod service;
mod stall;
mod state;
#[cfg(feature = "tls")]
mod tls;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::aggregator;
use crate::apiextensions;
use crate::audit::Audit;
use crate::auth::{self, Peer};
use crate::clock::{Clock, nanos_between};
use crate::endpoints::body::{self, ResponseBody};
use crate::endpoints::health::Checked;
use crate::endpoints::negotiation::Accepted;
use crate::endpoints::{self, aggregated, compression, deadline, handlers, response};
use crate::fault::{Crash, Effect, Refusal, RequestFacts};
use crate::kubelet::Kubelet;
use crate::meta::ResourceVersion;
use crate::metrics::{Ended, RequestLabels, RequestMeter};
use crate::nesting::{self, Roomy, Sheltered};
use crate::registry::catalog::ResourceInfo;
use crate::request::RequestInfo;
use crate::request::options::Query;
use crate::status::ApiError;
use crate::storage::{JournalEntry, WatchControl};
use crate::store::AfterWrite;
use crate::webhook::WebhookCalls;

use audit::Trail;
use flow_control::{FlowControl, SeatRequest};
use livelock::Livelocks;
use local_webhooks::LocalWebhooks;
use offload::{Limit, Offload};
use panics::Panics;
use respond::Incoming;

pub use builder::{ApiServerBuilder, AuthorityError};
pub(crate) use credentials::LazyAuthority;
pub use credentials::SecretToken;
pub use flags::{FeatureGateError, FeatureGates, RuntimeConfig};
pub use fork::ForkError;
pub use import::{ImportError, ImportOptions, Imported};
pub use listener::{REQUEST_LOG, serve, serve_requests};
pub use live::Unstored;
pub use livelock::{Livelock, LivelockLimits};
pub use load::{LoadError, Loader};
pub use local_webhooks::Webhook;
pub use manifests::{Manifest, ManifestError, Manifests};
pub use served::NotServed;
pub use state::{ServerState, StateError};
#[cfg(feature = "tls")]
pub use tls::{ClientCertificate, ServingCertificate, ServingCertificateError, Tls, serve_tls};

/// Names of the control-plane components that run with a server.
type Components = Arc<Mutex<BTreeSet<&'static str>>>;

/// The controllers of the server.
const AFTER_WRITE: &[AfterWrite] = &[
    apiextensions::after_write,
    flow_control::after_write,
    aggregator::after_write,
];

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Core {
    state: endpoints::State,
    /// The OpenAPI documents, made on the first request.
    #[cfg(feature = "openapi")]
    openapi: endpoints::openapi::OpenApi,
    /// The authority that signs certificates for CertificateSigningRequests.
    pub(crate) authority: Arc<LazyAuthority>,
    /// The URL under which clients reach the server, once it is set.
    external_url: OnceLock<String>,
    /// The components that run with the server, as `componentstatuses` shows them.
    pub(crate) components: Components,
    /// The number of runs of each health check.
    checked: Checked,
    /// The time at which the server was made.
    started: Timestamp,
    local_webhooks: LocalWebhooks,
    panics: Panics,
    livelocks: Livelocks,
    flow_control: FlowControl,
    offload: Offload,
    /// The policy and the sinks of auditing, if requests are audited.
    audit: Option<Audit>,
}

impl Deref for Core {
    type Target = endpoints::State;

    fn deref(&self) -> &endpoints::State {
        &self.state
    }
}

impl Core {
    /// The resource that a request is for.
    fn resource(&self, info: &RequestInfo) -> Option<Arc<ResourceInfo>> {
        if info.is_proxy() {
            return None;
        }
        let (group, version, plural) = (&info.group, &info.version, &info.resource);
        if let Some(builtin) = self.served.resource(group, version, plural) {
            return Some(Arc::clone(builtin));
        }
        self.definitions.resource(group, version, plural)
    }
}

/// A handle to an in-memory API server; clones share one state.
///
/// It is a [`tower::Service`], so `kube::Client::new(server, "default")` is a client in process. The server runs no task of
/// its own: dropping the last handle drops all objects.
///
/// ```
/// use http::Request;
/// use kubeproof_apiserver::ApiServer;
/// use tower::Service;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let mut server = ApiServer::builder().seed(1).build();
/// let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
/// let request = Request::post("/api/v1/namespaces/default/configmaps")
///     .header("content-type", "application/json")
///     .body(map.to_owned())?;
/// let response = server.call(request).await?;
/// assert_eq!(response.status(), 201);
///
/// let request = Request::get("/api/v1/configmaps").body(String::new())?;
/// assert_eq!(server.call(request).await?.status(), 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cancel safety: dropping the future of a request leaves it either completely executed or not at all, except while it
/// waits for a webhook.
#[derive(Clone, Debug)]
pub struct ApiServer {
    core: Arc<Sheltered<Core>>,
}

/// A handle to a server that may be gone, for parts that the server itself owns.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeakApiServer {
    core: Weak<Sheltered<Core>>,
}

impl WeakApiServer {
    /// The server, if it is still there.
    pub(crate) fn upgrade(&self) -> Option<ApiServer> {
        let core = self.core.upgrade()?;
        Some(ApiServer { core })
    }
}

impl ApiServer {
    /// A builder with the defaults of [`ApiServerBuilder`].
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// The state that requests share.
    #[cfg(test)]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// The server of the state that `core` makes of a handle to it.
    fn cyclic(core: impl FnOnce(WeakApiServer) -> Core) -> Self {
        let core =
            Arc::new_cyclic(|weak| Sheltered::new(core(WeakApiServer { core: weak.clone() })));
        Self { core }
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Reports in `componentstatuses` that `scheduler` or `controller-manager` runs with this
    /// server; call it before the first request.
    pub fn set_component_running(&self, name: &'static str) {
        self.core.components.lock().insert(name);
    }

    /// Sets the URL, such as `https://127.0.0.1:6443`, under which clients reach the server; only
    /// the first call has an effect. The issuer's discovery document points there for the public
    /// keys.
    pub fn set_external_url(&self, url: &str) {
        let _ = self.core.external_url.set(url.to_owned());
    }

    /// Lets `kubelet` serve the containers of all nodes. Without a kubelet, nodes cannot be
    /// reached.
    pub fn set_kubelet(&self, kubelet: Arc<dyn Kubelet>) {
        *self.core.kubelet.lock() = Some(kubelet);
    }

    /// The latest `resourceVersion` assigned.
    #[must_use]
    pub fn resource_version(&self) -> ResourceVersion {
        self.core.storage.resource_version()
    }

    /// Woken with the latest `resourceVersion` after each commit.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.core.storage.subscribe()
    }

    /// Every commit so far, in order of `resourceVersion`; empty unless the journal is on.
    #[must_use]
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.core.storage.journal()
    }

    /// The commits after the first `seen`, in the order they were made.
    #[must_use]
    pub fn journal_after(&self, seen: usize) -> Vec<JournalEntry> {
        self.core.storage.journal_after(seen)
    }

    /// Every commit since the last call, in the order they were made. The journal then forgets
    /// them, so that a long run can write them out as they come.
    #[must_use]
    pub fn take_journal(&self) -> Vec<JournalEntry> {
        self.core.storage.take_journal()
    }

    /// The panics of request handlers so far, each with its request. A panic is a bug of this
    /// server; the client gets a 500.
    #[must_use]
    pub fn panics(&self) -> Vec<String> {
        self.core.panics.list()
    }

    /// Answers one request. Never fails: an error is a `Status` in the response, and a panic is a
    /// 500.
    ///
    /// Cancel safety: an object is written in one step after the body has been read and webhooks
    /// have answered, so a dropped call has either not happened or happened whole; a deletion of
    /// many that waits for webhooks may have deleted some.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes>,
    {
        self.handle_from(None, request).await
    }

    /// [`Self::handle`] for a request from the other end of a connection.
    async fn handle_from<B>(
        &self,
        peer: Option<&Peer>,
        request: Request<B>,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes>,
    {
        let (parts, body) = request.into_parts();
        let audit_id = filters::audit_id(&self.core, &parts.headers);
        let takes_gzip = compression::accepts_gzip(&parts.headers);
        let mut trail = Trail::new(&audit_id, peer);
        let request_line = panics::RequestLine::of(&parts);
        let answer = Roomy::new(self.answer(parts, body, &mut trail));
        let (response, panic) = self
            .core
            .panics
            .recover(request_line, &audit_id, answer)
            .await;
        let mut response = trail.finish(response, panic.as_deref());
        if takes_gzip {
            response = compression::compress(response);
        }
        let flow = trail.flow.take();
        drop(trail);
        filters::add_headers(&mut response, audit_id, flow);
        response
    }

    #[expect(
        clippy::too_many_lines,
        reason = "the way of a request, one step after the other"
    )]
    async fn answer<B>(
        &self,
        mut parts: Parts,
        body: B,
        trail: &mut Trail<'_>,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes>,
    {
        // Simulated time does not pass while the server works.
        let started = self.core.clock.is_real().then(Instant::now);
        let path = parts.uri.path();
        let query_text = parts.uri.query().unwrap_or_default();
        if let Some(refused) = filters::refuse_path(path, &parts.uri) {
            return refused;
        }
        let info = RequestInfo::parse(&parts.method, path, query_text);
        let query = Query::parse(query_text);
        let is_long_running = info.as_ref().is_some_and(RequestInfo::is_long_running);
        let failed = |error: &ApiError| paths::unrouted(error, &parts.headers, &query);
        let most = self.core.timeouts.request;
        let timeout = match is_long_running {
            true => Ok(None),
            false => deadline::request_timeout(&query, most).map(Some),
        };
        let received = self.core.clock.now();
        let asked = (info.as_ref(), received);
        let timeout = match timeout {
            Ok(timeout) => timeout,
            Err(error) => return self.refused(trail, &parts, asked, failed(&error)),
        };
        let is_mutating = !matches!(parts.method, Method::GET | Method::HEAD);
        let metrics = &self.core.metrics;
        let _in_flight = (!is_long_running).then(|| metrics.in_flight(is_mutating));
        let authenticated = self.authenticated(&parts, trail.peer, received).await;
        let (user, authenticated) = match authenticated {
            Ok(authenticated) => authenticated,
            Err(error) => return self.refused(trail, &parts, asked, failed(&error)),
        };
        if let Some(lost) = self.audit(trail, &parts, info.as_ref(), (&user, received)) {
            return lost;
        }
        let record = trail.record().cloned();
        let authenticated = (user, authenticated);
        let identified = self.identify(authenticated, &parts, asked.0, record.as_deref());
        let (user, attributes, identified) = match identified.await {
            Ok(identified) => identified,
            Err(error) => return response::unsniffed(failed(&error)),
        };
        let is_watch = info.as_ref().is_some_and(RequestInfo::is_watch);
        // Connections to containers are not counted as work of this server.
        if is_watch || !is_long_running {
            let flows = &self.core.flow_control;
            trail.flow = flows.classify(&self.core.storage, &user, &attributes);
        }
        let request = SeatRequest {
            user: &user,
            attributes: &attributes,
            arrived: identified,
            timeout: timeout.unwrap_or(most),
            is_watch,
            is_mutating,
            metrics,
        };
        let seat = match &trail.flow {
            Some(flow) => flow.seat(request, &self.core.clock).await.map(Some),
            None => Ok(None),
        };
        let seat = match seat {
            Ok(seat) => seat,
            Err(too_many) => {
                if let Some(info) = &info {
                    metrics.dropped(RequestLabels::unresolved(info, &query));
                }
                return response::too_many_requests(too_many.retry_after);
            }
        };
        let seated = seat.as_ref().map(|seat| (seat.since, seat.waited));
        let (asked, queued) = seated.unwrap_or((identified, 0));
        let authorize = || auth::authorize(&self.core, &user, &attributes);
        let decision = auth::resolved(&self.core, authorize).await;
        let nanos = nanos_between(asked, self.core.clock.now());
        metrics.access().authorized(&decision, nanos);
        trail.decided(&decision);
        if let Some(error) = decision.error() {
            return filters::internal_error(&parts.uri, error);
        }
        if !decision.is_allowed() {
            let forbidden = attributes.forbidden(&user, decision.reason());
            return response::unsniffed(failed(&forbidden));
        }
        drop(attributes);
        if paths::is_unknown(path) {
            return response::error(&ApiError::PageNotFound, Accepted::JSON);
        }
        if let Some(entry) = self.aggregated(path) {
            let body = match body::read_within(body, timeout, aggregation::BODY_BYTES_MAX).await {
                Ok(body) => body,
                Err(error) => return failed(&error),
            };
            let passed = aggregation::Passed {
                body,
                user,
                audit_id: trail.audit_id.clone(),
                client: trail.peer.and_then(Peer::address),
                timeout,
                parts,
            };
            return Box::pin(self.pass_on(entry, passed)).await;
        }
        let Some(info) = info else {
            let body = match control::body_bytes_max(path) {
                Some(bytes_max) => body::read_within(body, timeout, bytes_max).await,
                None => Ok(Bytes::new()),
            };
            let body = match body {
                Ok(body) => body,
                Err(error) => return failed(&error),
            };
            let (method, headers) = (&parts.method, &parts.headers);
            let is_aggregated = aggregated::is_asked_for(headers);
            let labels = RequestLabels::of_path(method, path, is_aggregated);
            let request = paths::NonResourceRequest {
                method: method.clone(),
                path: path.to_owned(),
                query: query_text.to_owned(),
                headers: headers.clone(),
                body,
            };
            // Boxed, as few requests are of this kind.
            let response = Box::pin(self.non_resource_within(request, started.is_some())).await;
            if let Some(labels) = labels {
                let meter = RequestMeter {
                    metrics: Arc::clone(metrics),
                    clock: self.core.clock.clone(),
                    received,
                    queued,
                    labels: Arc::new(labels.of_agent(header(headers, &USER_AGENT))),
                };
                meter.finish(Ended {
                    code: response.status().as_u16(),
                    bytes: response.body().bytes().map(Bytes::len),
                    webhooks: 0,
                    listed: None,
                });
            }
            return response;
        };
        let Some(resource) = self.core.resource(&info) else {
            // Only groups with built-in resources answer for what they do not have.
            return match self.core.served.group(&info.group) {
                None => response::error(&ApiError::PageNotFound, Accepted::JSON),
                Some(_) => failed(&ApiError::NoSuchPath),
            };
        };
        let accepted = match handlers::negotiate(&parts.headers, &query, &info, &resource) {
            Ok(accepted) => accepted,
            Err(error) if resource.custom.is_some() => return failed(&error),
            Err(error) => {
                // A missing route is reported before an unacceptable media type.
                return match handlers::route(&info, &resource, &query) {
                    Ok(_) => failed(&error),
                    Err(unserved) => failed(&unserved),
                };
            }
        };
        let body = match body::read(body, timeout).await {
            Ok(body) => body,
            Err(error) => {
                if matches!(error, ApiError::Timeout { .. }) {
                    metrics.timed_out(&Arc::new(RequestLabels::unresolved(&info, &query)));
                }
                return failed(&error);
            }
        };
        let limit = Limit::of(&info, started, timeout);
        let user_agent = header(&parts.headers, &USER_AGENT);
        let faults = &self.core.faults;
        let rv = self.core.storage.resource_version();
        let is_asked = self.core.livelocks.are_limited() || !faults.is_idle();
        let asked = is_asked.then(|| RequestFacts::of(&info, user_agent));
        let asked = asked.flatten();
        if self.core.livelocks.stop(asked.as_ref(), received) {
            drop(seat);
            std::future::pending::<()>().await;
        }
        let met = faults.meet(asked, &body, rv);
        let effects = &met.effects;
        for effect in effects {
            match effect {
                Effect::Delay(time) => tokio::time::sleep(*time).await,
                Effect::Crash(Crash::Before) => match faults.crash().await {},
                Effect::Jump(time) => self.jump(*time),
                Effect::SecondLeader(time) => self.depose(*time).await,
                Effect::Relist => self.control_watches(WatchControl::Expire, None),
                Effect::Restart => {
                    self.restart();
                    return Response::new(ResponseBody::dropped());
                }
                _ => {}
            }
        }
        let refusal = effects.iter().find_map(|effect| match effect {
            Effect::Refuse(refusal) => Some(refusal.to_error()),
            Effect::Unreachable => Some(Refusal::unreachable()),
            _ => None,
        });
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let labels = RequestLabels::served(&resource, (&info, &query), &parts.headers)
            .with_body(info.verb, body.len())
            .of_agent(user_agent);
        let meter = RequestMeter {
            metrics: Arc::clone(metrics),
            clock: self.core.clock.clone(),
            received,
            queued,
            labels: Arc::new(labels),
        };
        let calls = Arc::new(WebhookCalls::failing(met.webhook_failure()));
        let incoming = Box::new(Incoming {
            info,
            resource,
            query,
            user,
            user_agent: user_agent.into(),
            headers: self.without_credentials(parts.headers),
            body,
            accepted,
            upgrade,
            meter,
            audit: record,
            calls: Arc::clone(&calls),
        });
        let response = match refusal {
            Some(error) => paths::unrouted(&error, &incoming.headers, &incoming.query),
            None => {
                let is_deep = handlers::may_nest(&incoming.headers, &incoming.info, &incoming.body);
                nesting::make_room(is_deep).await;
                self.respond_within(incoming, limit).await
            }
        };
        if let Some(pacer) = self.core.pacer.as_ref().filter(|_| !is_long_running) {
            let has_written = self.core.storage.resource_version() > rv;
            match is_mutating {
                false => pacer.hold_read().await,
                true if has_written => pacer.hold_write().await,
                true => {}
            }
        }
        if calls.has_any() {
            faults.note_webhooks(&met);
        }
        for effect in effects {
            match effect {
                Effect::DropResponse => return response.map(|_| ResponseBody::dropped()),
                Effect::Crash(Crash::After) => match faults.crash().await {},
                _ => {}
            }
        }
        response
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

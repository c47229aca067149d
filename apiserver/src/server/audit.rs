//! Auditing of requests on their way: the stages and their events.
//!
//! Source: `WithAudit`, `WithFailedAuthenticationAudit` and `withFailedRequestAudit` in
//! `k8s.io/apiserver/pkg/endpoints/filters`.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Response};
use jiff::Timestamp;

use super::flow_control::Flow;
use super::{ApiServer, filters, header};
use crate::audit::{Facts, Record, RequestAttributes, ResourceAttributes, Shown, Stage};
use crate::auth::{Attributes, Peer, User};
use crate::endpoints::body::ResponseBody;
use crate::endpoints::streams::Session;
use crate::request::{Decision, RequestInfo};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The size up to which the body of a success is looked at, in case it is a `Status`.
const STATUS_BYTES_MAX: usize = 4 * 1024;

/// The facts of a request that outlast its handler.
pub(super) struct Trail<'r> {
    /// The other end of the request's connection.
    pub(super) peer: Option<&'r Peer>,
    /// The flow that the request belongs to, once it is classified.
    pub(super) flow: Option<Arc<Flow>>,
    pub(super) audit_id: &'r HeaderValue,
    audited: Option<Audited>,
}

/// A request that is audited and has no answer yet.
struct Audited {
    record: Arc<Record>,
    stages: Stages,
}

/// The stages of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stages {
    /// Refused before its user was known: the start of the response is its only stage.
    Refused,
    /// Received and completed.
    Short,
    /// Received, started and completed.
    Long,
}

/// Makes the last event of a long-running request when it is dropped.
struct Completion(Arc<Record>);

impl Drop for Completion {
    fn drop(&mut self) {
        self.0.reach(Stage::ResponseComplete);
    }
}

impl<'r> Trail<'r> {
    pub(super) fn new(audit_id: &'r HeaderValue, peer: Option<&'r Peer>) -> Self {
        Self {
            peer,
            flow: None,
            audit_id,
            audited: None,
        }
    }

    /// The record of the request, if it is audited.
    pub(super) fn record(&self) -> Option<&Arc<Record>> {
        self.audited.as_ref().map(|own| &own.record)
    }

    /// Notes what authorization has decided.
    pub(super) fn decided(&self, decision: &Decision) {
        if let Some(record) = self.record() {
            if decision.error().is_some() {
                record.annotate("authorization.k8s.io/reason", "internal error");
                return;
            }
            let reason = decision.reason();
            let decision = match decision.is_allowed() {
                true => "allow",
                false => "forbid",
            };
            record.annotate("authorization.k8s.io/decision", decision);
            record.annotate("authorization.k8s.io/reason", reason);
        }
    }

    /// Makes the events of the answer, which after a panic is the server's own.
    pub(super) fn finish(
        &mut self,
        mut response: Response<ResponseBody>,
        panic: Option<&str>,
    ) -> Response<ResponseBody> {
        let Some(Audited { record, stages }) = self.audited.take() else {
            return response;
        };
        if let Some(reason) = panic {
            record.panicked(reason);
            record.reach(Stage::Panic);
            return response;
        }
        if record.wants_response() {
            response = response.map(ResponseBody::gathered);
        }
        record.respond(response.status().as_u16(), shown(&record, &response));
        if stages != Stages::Short {
            record.reach(Stage::ResponseStarted);
        }
        if stages == Stages::Refused {
            return response;
        }
        let completion = Completion(record);
        match response.extensions().get::<Session>() {
            Some(session) => session.hold(completion),
            None => response = response.map(|body| body.holding(completion)),
        }
        response
    }
}

impl Drop for Trail<'_> {
    /// Makes the events of a request whose client has left before the answer.
    fn drop(&mut self) {
        if let Some(Audited { record, stages }) = self.audited.take() {
            record.left();
            if stages != Stages::Short {
                record.reach(Stage::ResponseStarted);
            }
            if stages != Stages::Refused {
                record.reach(Stage::ResponseComplete);
            }
        }
    }
}

/// The object in a response, if it is wanted or may be a `Status`.
fn shown(record: &Record, response: &Response<ResponseBody>) -> Option<Shown> {
    let body = response.body().bytes()?;
    let may_be_status = !response.status().is_success() || body.len() <= STATUS_BYTES_MAX;
    match record.wants_response() || may_be_status {
        true => Shown::of(header(response.headers(), &CONTENT_TYPE), body),
        false => None,
    }
}

impl ApiServer {
    /// Begins to audit the request of `user`; answers the refusal if its first event is lost.
    pub(super) fn audit(
        &self,
        trail: &mut Trail<'_>,
        parts: &Parts,
        info: Option<&RequestInfo>,
        (user, received): (&User, Timestamp),
    ) -> Option<Response<ResponseBody>> {
        let record = self.audit_record(trail, parts, info, (Some(user), received))?;
        let is_stored = record.reach(Stage::RequestReceived);
        if !is_stored {
            return Some(filters::internal_error(
                &parts.uri,
                "failed to store audit event",
            ));
        }
        let stages = match info.is_some_and(RequestInfo::is_long_running) {
            true => Stages::Long,
            false => Stages::Short,
        };
        trail.audited = Some(Audited { record, stages });
        None
    }

    /// Passes on the refusal of a request whose user is not known, and begins to audit it.
    pub(super) fn refused(
        &self,
        trail: &mut Trail<'_>,
        parts: &Parts,
        (info, received): (Option<&RequestInfo>, Timestamp),
        refusal: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        let record = self.audit_record(trail, parts, info, (None, received));
        trail.audited = record.map(|record| Audited {
            record,
            stages: Stages::Refused,
        });
        refusal
    }

    fn audit_record(
        &self,
        trail: &Trail<'_>,
        parts: &Parts,
        info: Option<&RequestInfo>,
        (user, received): (Option<&User>, Timestamp),
    ) -> Option<Arc<Record>> {
        let audit = self.core.audit.as_ref()?;
        let path = parts.uri.path();
        let attributes = info.map(Attributes::of);
        let method = parts.method.as_str().to_lowercase();
        let (verb, resource) = match &attributes {
            Some(Attributes::Resource {
                verb,
                group,
                version,
                resource,
                subresource,
                namespace,
                name,
                ..
            }) => {
                let resource = ResourceAttributes {
                    group,
                    version,
                    resource,
                    subresource,
                    namespace,
                    name,
                };
                (verb.as_ref(), Some(resource))
            }
            Some(Attributes::Path { .. }) | None => (method.as_str(), None),
        };
        let attributes = RequestAttributes {
            user: user.map(|user| (user.name.as_str(), user.groups.as_slice())),
            verb,
            path,
            resource,
        };
        let audit_id = String::from_utf8_lossy(trail.audit_id.as_bytes());
        audit.record(&attributes, &self.core.clock, || Facts {
            audit_id: audit_id.into_owned(),
            request_uri: request_uri(parts).to_owned(),
            user: user.map(User::to_audited).unwrap_or_default(),
            source_ips: source_ips(parts, trail.peer),
            user_agent: header(&parts.headers, &USER_AGENT).to_owned(),
            received,
        })
    }
}

fn request_uri(parts: &Parts) -> &str {
    let whole = parts.uri.path_and_query();
    whole.map_or("/", |whole| whole.as_str())
}

/// The addresses that a request has come over, the client's last. Only that of the connection is no claim.
fn source_ips(parts: &Parts, peer: Option<&Peer>) -> Vec<String> {
    let claimed = |name: &HeaderName, headers: &HeaderMap| -> Vec<IpAddr> {
        let texts = header(headers, name).split(',');
        texts.filter_map(|text| text.trim().parse().ok()).collect()
    };
    let mut addresses = claimed(&FORWARDED_FOR, &parts.headers);
    for address in claimed(&REAL_IP, &parts.headers) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let peer = peer.and_then(Peer::address);
    addresses.extend(peer.filter(|peer| addresses.last() != Some(peer)));
    addresses.iter().map(ToString::to_string).collect()
}

//! The answer of a handler, and the response made of it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, Response};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;

use super::ApiServer;
use crate::audit::Record;
use crate::auth::User;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::negotiation::Accepted;
use crate::endpoints::{handlers, response};
use crate::metrics::families::number;
use crate::metrics::{Ended, RequestMeter};
use crate::registry::catalog::ResourceInfo;
use crate::request::RequestInfo;
use crate::request::options::Query;
use crate::status::ApiError;
use crate::webhook::WebhookCalls;

/// A request that has been read whole and is allowed; its resource is known.
pub(super) struct Incoming {
    pub(super) info: RequestInfo,
    pub(super) resource: Arc<ResourceInfo>,
    pub(super) query: Query,
    pub(super) user: Arc<User>,
    pub(super) user_agent: Arc<str>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) accepted: Accepted,
    pub(super) upgrade: Option<OnUpgrade>,
    pub(super) meter: RequestMeter,
    pub(super) audit: Option<Arc<Record>>,
    pub(super) calls: Arc<WebhookCalls>,
}

impl ApiServer {
    pub(super) async fn respond(&self, incoming: Box<Incoming>) -> Response<ResponseBody> {
        if !self.core.faults.is_idle()
            && let Some(conversion) = incoming.resource.conversion()
        {
            // Each request calls the webhook, so that it can be down.
            conversion.forget();
        }
        // Boxed, as the future of a request is moved.
        let request = Box::new(handlers::Request {
            state: &self.core,
            info: incoming.info,
            resource: incoming.resource,
            query: incoming.query,
            user: incoming.user,
            user_agent: incoming.user_agent,
            headers: incoming.headers,
            body: incoming.body,
            accepted: incoming.accepted,
            upgrade: Mutex::new(incoming.upgrade),
            warnings: Mutex::default(),
            meter: incoming.meter,
            audit: incoming.audit,
            webhooks: AtomicU64::new(0),
            calls: incoming.calls,
            listed: OnceLock::new(),
        });
        let response = handlers::handle(&request).await;
        finish(*request, response)
    }
}

/// Makes the response of a handler's answer: a failure is a `Status`, warnings are headers, and the
/// request is counted.
fn finish(request: handlers::Request<'_>, answer: handlers::Answer) -> Response<ResponseBody> {
    let unserved = matches!(
        answer,
        Err(ApiError::MethodNotAllowed | ApiError::NoSuchPath)
    );
    let failed = |error| response::error(&error, request.accepted_failure());
    let mut response = answer.unwrap_or_else(failed);
    // A watch counts itself when it is over; what no route serves, upstream does not count.
    if let Some(body) = response.body().bytes().filter(|_| !unserved) {
        request.meter.finish(Ended {
            code: response.status().as_u16(),
            bytes: Some(body.len()),
            webhooks: number(&request.webhooks),
            listed: request.listed.get().copied(),
        });
    }
    let deprecation = request.resource.warning.clone().filter(|_| !unserved);
    if let (Some(_), Some(record)) = (&deprecation, &request.audit) {
        record.annotate("k8s.io/deprecated", "true");
    }
    let mut warnings: Vec<String> = deprecation.into_iter().collect();
    warnings.append(&mut request.warnings.into_inner());
    response::add_warnings(&mut response, &warnings);
    response
}

//! Requests for group versions that services serve: they are passed on.
//!
//! Source: `pkg/apiserver/handler_proxy.go` of kube-aggregator, and Go's `httputil.ReverseProxy`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;

use super::{ApiServer, filters};
use crate::aggregator::{
    Connection, Streamed, Unreached, name_user, remove_hop_by_hop, remove_prefixed,
};
use crate::api_services::Entry;
use crate::auth::User;
use crate::endpoints::body::{Dropped, ResponseBody};
use crate::endpoints::response;
use crate::meta::GroupVersion;
use crate::webhook::resolve;

/// The number of bytes that are read of a request's body. Upstream leaves a limit to the service.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The time that a request for a discovery document may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The body of the answer to a request that the service redirects, as with `--aggregator-reject-forwarding-redirect`.
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// A request to be passed on.
pub(super) struct Passed {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    pub(super) user: Arc<User>,
    pub(super) audit_id: HeaderValue,
    /// The address of the client.
    pub(super) client: Option<IpAddr>,
    /// The time that the answer may take to begin.
    pub(super) timeout: Option<Duration>,
}

impl ApiServer {
    /// The APIService with a service that serves `path`, if any.
    pub(super) fn aggregated(&self, path: &str) -> Option<Entry> {
        let openapi = path.strip_prefix("/openapi/v3");
        let path = openapi.unwrap_or(path);
        let mut segments = path.strip_prefix("/apis/")?.splitn(3, '/');
        let (group, version) = (segments.next()?, segments.next()?);
        let services = &self.core.api_services;
        let registered = services.registered(&self.core.storage);
        if registered.remote.is_empty() {
            return None;
        }
        let version = GroupVersion {
            group: group.to_owned(),
            version: version.to_owned(),
        };
        let entry = registered.remote.get(&version)?;
        let has_document = || services.discovered(&version)?.openapi;
        (openapi.is_none() || has_document().is_some()).then(|| entry.clone())
    }

    /// Passes a request on to the service of an APIService.
    ///
    /// Cancel safety: dropping the call closes the connection to the service, which may have seen the request.
    pub(super) async fn pass_on(&self, entry: Entry, passed: Passed) -> Response<ResponseBody> {
        let unavailable = || response::text(503, "service unavailable\n");
        let backend = &entry.backend;
        if !entry.is_available {
            return unavailable();
        }
        let (namespace, name, port) = &backend.service;
        let client = self.core.webhook_client();
        let Ok(address) = resolve(&client, namespace, name, *port) else {
            return unavailable();
        };
        let path = passed.parts.uri.path();
        let is_discovery = path.trim_matches('/').split('/').count() == 3;
        let limit = match is_discovery {
            true => Some(DISCOVERY_TIMEOUT),
            false => passed.timeout,
        };
        let exchange = async {
            let connection = Connection::open(&self.core, backend, address).await?;
            let request = self.request_to(passed, &address.to_string());
            let sent = connection.send(request).await;
            sent.map_err(Unreached::Failed)
        };
        let answered = match limit {
            Some(limit) => self.core.clock.on_the_wire(limit, exchange).await,
            None => Some(exchange.await),
        };
        let late = || Err(Unreached::Failed("context deadline exceeded".to_owned()));
        match answered.unwrap_or_else(late) {
            Ok(response) => answer(response),
            Err(Unreached::Config(why)) => response::text(500, format!("{why}\n")),
            Err(Unreached::Failed(why)) => {
                let why = format!("error trying to reach service: {why}\n");
                response::text(503, why)
            }
        }
    }

    /// The request that the service gets.
    fn request_to(&self, passed: Passed, host: &str) -> Request<Full<Bytes>> {
        let Passed {
            parts,
            body,
            user,
            audit_id,
            client,
            ..
        } = passed;
        let path = parts.uri.path();
        let whole = parts.uri.path_and_query().map_or(path, |own| own.as_str());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = whole.parse().expect("it is the path of a request");
        let value = |text: &str| HeaderValue::from_str(text).expect("paths and addresses are text");
        let uri = value(path);
        let mut headers = self.without_credentials(parts.headers);
        remove_hop_by_hop(&mut headers);
        remove_prefixed(&mut headers, "impersonate-");
        headers.remove(HOST);
        headers.remove(CONTENT_LENGTH);
        filters::set_audit_id(&mut headers, audit_id);
        if let Some(client) = client {
            let before = headers.get_all(&FORWARDED_FOR).iter();
            let before = before.filter_map(|own| own.to_str().ok().map(str::to_owned));
            let all: Vec<String> = before.chain([client.to_string()]).collect();
            headers.insert(FORWARDED_FOR, value(&all.join(", ")));
        }
        headers.insert(FORWARDED_URI, uri);
        headers.insert(FORWARDED_HOST, value(host));
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
        name_user(&user, &mut headers);
        *request.headers_mut() = headers;
        request
    }
}

/// The answer of a service, as the client gets it.
fn answer(response: Response<Streamed>) -> Response<ResponseBody> {
    let is_redirect = response.status().is_redirection();
    if is_redirect
        && response
            .headers()
            .get(LOCATION)
            .is_some_and(|to| !to.is_empty())
    {
        return response::whole(502, "text/plain; charset=utf-8", REDIRECTED);
    }
    let (mut head, body) = response.into_parts();
    remove_hop_by_hop(&mut head.headers);
    // Whether a page of another origin may read an answer is for this server to say.
    remove_prefixed(&mut head.headers, "access-control-");
    head.extensions = http::Extensions::new();
    head.version = http::Version::HTTP_11;
    let body = body.map(|piece| piece.map_err(|_| Dropped));
    Response::from_parts(head, ResponseBody::stream(body))
}

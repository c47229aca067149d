//! The server: what all requests share, and the way from a request to its handler.

mod builder;
mod listener;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, HOST, IF_NONE_MATCH, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::auth::{self, Attributes, Decision, Tokens, User};
use crate::clock::{Clock, Entropy};
use crate::endpoints::body::{self, ResponseBody};
use crate::endpoints::negotiation::Accepted;
use crate::endpoints::options::{Query, pairs};
use crate::endpoints::request_info::RequestInfo;
use crate::endpoints::{discovery, handlers, health, openapi, response};
use crate::registry::catalog::{Catalog, ResourceInfo};
use crate::registry::definition::Definitions;
use crate::status::ApiError;
use crate::storage::{JournalEntry, Storage};

pub use builder::ApiServerBuilder;
pub use listener::serve;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) storage: Storage,
    /// The built-in resources.
    pub(crate) catalog: &'static Catalog,
    /// Custom resources, and with them all of discovery.
    pub(crate) definitions: Definitions,
    /// Built when first asked for: it holds a hash of every document.
    openapi_index: OnceLock<Bytes>,
    /// The administrator's token; without one, everybody is the administrator.
    pub(crate) token: Option<String>,
    /// Tokens issued to service accounts.
    pub(crate) tokens: Tokens,
}

impl Core {
    /// The resource that a request is for.
    fn resource(&self, info: &RequestInfo) -> Option<Arc<ResourceInfo>> {
        let (group, version, plural) = (&info.group, &info.version, &info.resource);
        if let Some(builtin) = self.catalog.resource(group, version, plural) {
            return Some(Arc::clone(builtin));
        }
        self.definitions.resource(group, version, plural)
    }
}

/// A handle to an in-memory API server; clones share one state.
///
/// It is a [`tower::Service`], so a `kube::Client` can hold it in process. Dropping the last handle
/// drops all objects and ends nothing else: the server has no task of its own.
#[derive(Clone, Debug)]
pub struct ApiServer {
    core: Arc<Core>,
}

impl ApiServer {
    /// A builder with the defaults of [`ApiServerBuilder`].
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// The latest `resourceVersion` given out.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.core.storage.revision()
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

    /// The commits behind the first `seen`, in the order they were made.
    #[must_use]
    pub fn journal_after(&self, seen: usize) -> Vec<JournalEntry> {
        self.core.storage.journal_after(seen)
    }

    /// Forgets all past events, as etcd's compaction does: watches and lists from before now are
    /// answered 410 Expired.
    pub fn compact(&self) {
        self.core.storage.compact();
    }

    /// Answers one request. Never fails: whatever goes wrong is a `Status` in the response.
    ///
    /// Cancel safety: everything is written in one step after the body has been read, so a dropped
    /// call has either not happened or happened whole.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes>,
    {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query_text = parts.uri.query().unwrap_or_default().to_owned();
        let info = RequestInfo::parse(&parts.method, &path, &query_text);
        let user = match self.admit(&parts, info.as_ref()) {
            Ok(user) => user,
            Err(error) => return response::error(&error, Accepted::JSON),
        };
        let Some(info) = info else {
            return self.non_resource(&parts.method, &path, &query_text, &parts.headers);
        };
        let query = Query::parse(&query_text);
        let accepted = match handlers::negotiate(&parts.headers, &query, info.verb) {
            Ok(accepted) => accepted,
            Err(error) => return response::error(&error, Accepted::JSON),
        };
        let Some(resource) = self.core.resource(&info) else {
            let version = self.core.catalog.version(&info.group, &info.version);
            return match version {
                None => response::error(&ApiError::PageNotFound, accepted),
                Some(_) => response::error(&ApiError::NoSuchPath, accepted),
            };
        };
        let body = match body::read(body).await {
            Ok(body) => body,
            Err(error) => return response::error(&error, accepted),
        };
        let user_agent = header(&parts.headers, &USER_AGENT);
        let request = handlers::Request {
            core: &self.core,
            info,
            resource,
            query,
            user,
            user_agent: user_agent.into(),
            headers: parts.headers,
            body,
            accepted,
            warnings: Mutex::default(),
        };
        let answer = handlers::handle(&request);
        let unserved = matches!(
            answer,
            Err(ApiError::MethodNotAllowed | ApiError::NoSuchPath)
        );
        let mut response = answer.unwrap_or_else(|error| response::error(&error, accepted));
        let mut warnings = request.warnings.into_inner();
        warnings.extend(request.resource.warning.clone().filter(|_| !unserved));
        response::add_warnings(&mut response, &warnings);
        response
    }

    /// The user of a request, who may do what it asks for.
    fn admit(&self, parts: &Parts, info: Option<&RequestInfo>) -> Result<User, ApiError> {
        let user = auth::authenticate(&self.core, &parts.headers)?;
        let user = auth::impersonate(&self.core, user, &parts.headers)?;
        let attributes = info.map_or_else(
            || Attributes::Path {
                verb: parts.method.as_str().to_lowercase(),
                path: parts.uri.path().to_owned(),
            },
            RequestInfo::attributes,
        );
        match auth::authorize(&self.core, &user, &attributes) {
            Decision::Allowed(_) => Ok(user),
            Decision::Denied => Err(attributes.forbidden(&user)),
        }
    }

    /// Paths that name no resource: discovery, OpenAPI, health, version.
    fn non_resource(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        headers: &HeaderMap,
    ) -> Response<ResponseBody> {
        let query_pairs: Vec<(String, String)> = pairs(query).collect();
        if let Some(answer) = health::answer(path, &query_pairs) {
            return response::whole(answer.status, answer.content_type, answer.body);
        }
        if *method != Method::GET && *method != Method::HEAD {
            return response::error(&ApiError::MethodNotAllowed, Accepted::JSON);
        }
        let query = Query::parse(query);
        let accepted = match handlers::negotiate(headers, &query, None) {
            Ok(accepted) => accepted,
            Err(error) => return response::error(&error, Accepted::JSON),
        };
        let catalog = &*self.core.definitions.catalog();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let aggregated = discovery::accepts_aggregated(header(headers, &ACCEPT));
        let document = match parts.as_slice() {
            [""] => Some(discovery::root_paths(catalog)),
            ["version"] => Some(discovery::version()),
            ["api"] if aggregated => {
                return aggregated_discovery(&discovery::aggregated_api(catalog), headers);
            }
            ["apis"] if aggregated => {
                return aggregated_discovery(&discovery::aggregated_apis(catalog), headers);
            }
            ["api"] => Some(discovery::api_versions(catalog, header(headers, &HOST))),
            ["apis"] => Some(discovery::api_group_list(catalog)),
            ["api", version] => discovery::api_resource_list(catalog, "", version),
            ["apis", group] => discovery::api_group(catalog, group),
            ["apis", group, version] => discovery::api_resource_list(catalog, group, version),
            ["openapi", "v3"] => {
                let index = self
                    .core
                    .openapi_index
                    .get_or_init(|| Bytes::from(openapi::index(catalog).to_string()));
                // Upstream's handler sets no type, and Go's guess at the content is this one.
                return response::whole(200, "text/plain; charset=utf-8", index.clone());
            }
            ["openapi", "v3", key @ ..] => {
                return match openapi::document(catalog, &key.join("/")) {
                    Some(document) => response::value(200, &document, Accepted::JSON),
                    None => response::empty(404),
                };
            }
            _ => None,
        };
        match document {
            Some(document) => response::value(200, &document, accepted),
            None => response::error(&ApiError::PageNotFound, accepted),
        }
    }
}

/// An aggregated document with its ETag: a client that holds it is told so.
fn aggregated_discovery(
    document: &serde_json::Value,
    headers: &HeaderMap,
) -> Response<ResponseBody> {
    let body = document.to_string();
    let etag = format!("\"{:016X}\"", fnv1a(body.as_bytes()));
    let held = header(headers, &IF_NONE_MATCH) == etag;
    let mut response = if held {
        response::whole(304, discovery::AGGREGATED_CONTENT_TYPE, Bytes::new())
    } else {
        response::whole(200, discovery::AGGREGATED_CONTENT_TYPE, body)
    };
    if let Ok(etag) = etag.parse() {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// 64-bit FNV-1a: a change of the document changes it, which is all an ETag must do.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn header<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}

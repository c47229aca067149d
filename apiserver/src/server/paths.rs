//! Paths that name no resource: discovery, OpenAPI, health, metrics, version.
//!
//! Upstream has two routers. One knows what methods its paths take, agrees on a representation and
//! answers failures as a `Status`; it has the paths below `/api`, `/version` and each built-in
//! group. The other looks at the path alone, so whatever it serves it serves to any method.

use std::collections::BTreeSet;
use std::pin::Pin;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HOST, HeaderValue};
use http::{HeaderMap, Method, Response};
use tokio::runtime::Handle;

use super::{ApiServer, control, header};
use crate::aggregator::discovery::Remote;
use crate::auth::{ISSUER, ISSUER_PATH, KEY_SET_PATH};
use crate::endpoints::body::ResponseBody;
use crate::endpoints::negotiation::{self, Accepted, Produces};
use crate::endpoints::zpages::{Facts, Page};
use crate::endpoints::{aggregated, discovery, health, response, zpages};
use crate::json::Value;
use crate::metrics;
use crate::metrics::{Shown, families, process};
use crate::registry::catalog::Catalog;
use crate::request::options::{Query, pairs};
use crate::status::ApiError;

/// A request for a path that names no resource.
pub(super) struct NonResourceRequest {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl NonResourceRequest {
    /// Whether the answer may take long: documents about all resources, or all objects.
    fn may_take_long(&self) -> bool {
        self.path.starts_with("/openapi/")
            || self.path == "/metrics"
            || control::is_snapshot(&self.path)
    }
}

impl ApiServer {
    /// Answers a path that names no resource, on a blocking thread if it takes long in real time.
    pub(super) async fn non_resource_within(
        &self,
        request: NonResourceRequest,
        is_real: bool,
    ) -> Response<ResponseBody> {
        if control::is_import(&request.path) || control::is_advance(&request.path, &request.query) {
            return self.awaited(request).await;
        }
        let may_take_long = is_real && request.may_take_long();
        let answer = move |server: &Self| {
            let NonResourceRequest {
                method,
                path,
                query,
                headers,
                body,
            } = &request;
            server.non_resource(method, path, query, headers, body)
        };
        match Handle::try_current() {
            Ok(runtime) if may_take_long => {
                let server = self.clone();
                self.beside_workers(runtime, async move { answer(&server) })
                    .await
            }
            _ => answer(self),
        }
    }

    /// Answers an import, or lets time pass. Objects of an import are requests of their own, so the type of this future has to be
    /// its own, too.
    fn awaited(
        &self,
        request: NonResourceRequest,
    ) -> Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send + '_>> {
        Box::pin(async move {
            let answer = match request.method {
                Method::POST if control::is_import(&request.path) => {
                    let query: Vec<(String, String)> = pairs(&request.query).collect();
                    self.answer_import(&query, &request.body).await
                }
                Method::POST => self.answer_advance(&request.query).await,
                _ => Err(ApiError::MethodNotAllowed),
            };
            answer.map_or_else(
                |error| response::error(&error, Accepted::JSON),
                |result| response::value(200, &result, Accepted::JSON),
            )
        })
    }

    /// Answers a path that names no resource.
    pub(super) fn non_resource(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response<ResponseBody> {
        let query_pairs: Vec<(String, String)> = pairs(query).collect();
        if let Some(answer) = health::answer(path, &query_pairs) {
            self.core.checked.note(path, &query_pairs);
            return response::text(answer.status, answer.body);
        }
        if control::is_snapshot(path) {
            return match *method {
                Method::GET => response::whole(200, "application/x-ndjson", self.state().to_text()),
                _ => response::error(&ApiError::MethodNotAllowed, Accepted::JSON),
            };
        }
        if let Some(answer) = control::answer(self, method, path, &query_pairs, body) {
            return answer.map_or_else(
                |error| response::error(&error, Accepted::JSON),
                |status| response::value(200, &status, Accepted::JSON),
            );
        }
        if path == "/metrics" {
            return self.metrics();
        }
        if path == "/metrics/slis" {
            let text = families::exposition(self.core.checked.families());
            return response::whole(200, metrics::CONTENT_TYPE, text);
        }
        let now = self.core.clock.now();
        if let Some(page) = Page::at(path) {
            let modes = self.core.authorizers.shown();
            let facts = Facts {
                started: self.core.started,
                now,
                authorization: &modes,
                plugins: self.core.plugins,
                service_ranges: self.core.service_ranges,
            };
            return page.answer(facts, headers);
        }
        // A client that has seen the condition Established of a definition finds its resources.
        self.core.definitions.passes.wait();
        let remote = Remote::of(&self.core);
        #[cfg(feature = "openapi")]
        {
            if path.starts_with("/openapi/") {
                self.core.openapi.follow(&self.core.definitions);
            }
            if let Some(answer) = self.core.openapi.answer(path, &query_pairs, headers, now) {
                return match (&remote, path) {
                    (Some(remote), "/openapi/v3") => {
                        answer.map(|index| with_documents(remote, index))
                    }
                    _ => answer,
                };
            }
        }
        if let Some(answer) = self.issuer(method, path, headers, query) {
            return answer;
        }
        let catalog = &*self.core.definitions.catalog();
        if matches!(path, "/" | "/index.html") {
            return self.root(catalog, remote.as_ref());
        }
        let is_read = *method == Method::GET;
        if (is_read || path == "/apis")
            && let Some(answer) = aggregated::answer((catalog, remote.as_ref()), path, headers)
        {
            return answer;
        }
        let query = Query::parse(query);
        if let Some(document) =
            served_to_any_method(&self.core.served, (catalog, remote.as_ref()), path)
        {
            return negotiated(&document, headers, &query);
        }
        if !is_routed(&self.core.served, path) {
            return response::error(&ApiError::PageNotFound, Accepted::JSON);
        }
        if matches!(path, "/version" | "/version/") {
            if !is_read {
                return unrouted(&ApiError::MethodNotAllowed, headers, &query);
            }
            return match negotiation::routed_to(headers, &["application/json"]) {
                Ok(()) => response::whole(200, "application/json", discovery::VERSION),
                Err(refusal) => unrouted(&refusal, headers, &query),
            };
        }
        match routed(catalog, path, header(headers, &HOST)) {
            Some(document) if is_read => {
                let pretty = query.get("pretty");
                match negotiation::accepted(headers, pretty, Produces::Objects, true) {
                    Ok(_) => negotiated(&document, headers, &query),
                    Err(error) => unrouted(&error, headers, &query),
                }
            }
            Some(_) => unrouted(&ApiError::MethodNotAllowed, headers, &query),
            None => unrouted(&ApiError::NoSuchPath, headers, &query),
        }
    }

    /// The paths that the server has.
    fn root(&self, catalog: &Catalog, remote: Option<&Remote<'_>>) -> Response<ResponseBody> {
        let has_issuer = self.core.tokens.is_discoverable();
        let mut paths = discovery::root_paths(catalog, has_issuer);
        if let Some(remote) = remote {
            remote.add_paths(&mut paths);
        }
        let accepted = Accepted {
            pretty: true,
            ..Accepted::JSON
        };
        response::value(200, &paths, accepted)
    }

    /// What says who issues the tokens of service accounts, so that others can verify them.
    fn issuer(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        query: &str,
    ) -> Option<Response<ResponseBody>> {
        let below = |root: &str| {
            path.strip_prefix(root)
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (rest, content_type) = match (below(ISSUER_PATH), below(KEY_SET_PATH)) {
            (Some(rest), _) => (rest, "application/json"),
            (_, Some(rest)) => (rest, "application/jwk-set+json"),
            _ => return None,
        };
        let tokens = &self.core.tokens;
        if !tokens.is_discoverable() {
            return None;
        }
        let refusal = match (rest, method) {
            ("" | "/", &Method::GET) => negotiation::routed_to(headers, &[content_type]).err(),
            ("" | "/", _) => Some(ApiError::MethodNotAllowed),
            _ => Some(ApiError::NoSuchPath),
        };
        if let Some(refusal) = refusal {
            return Some(unrouted(&refusal, headers, &Query::parse(query)));
        }
        let url = self.core.external_url.get().map_or(ISSUER, String::as_str);
        let document = match content_type {
            "application/json" => tokens.discovery(url),
            _ => tokens.key_set(),
        };
        let mut response = response::whole(200, content_type, document);
        let fresh = HeaderValue::from_static("public, max-age=3600");
        response.headers_mut().insert(CACHE_CONTROL, fresh);
        Some(response)
    }

    fn metrics(&self) -> Response<ResponseBody> {
        let catalog = self.core.definitions.catalog();
        let resources = catalog.groups().iter().flat_map(|group| &group.versions);
        let resources: Vec<_> = resources.flat_map(|own| &own.resources).collect();
        // A resource may have objects before the first request for it.
        for resource in resources.iter().filter(|own| own.has_verb("list")) {
            self.core.storage.table(resource.gvr());
        }
        let names = resources.iter().map(|own| own.gvr());
        let names = names.map(|gvr| (gvr.group.as_str(), gvr.resource.as_str()));
        let names: BTreeSet<(&str, &str)> = names.collect();
        let is_served = |group: &str, resource: &str| names.contains(&(group, resource));
        let storage = &self.core.storage;
        let mut others = self.core.flow_control.families(storage);
        let core = &self.core;
        others.extend(zpages::families(core.max_unavailable_stateful_set));
        others.extend(process::families(&core.clock, core.started));
        let has_plugin = |plugin| core.plugins.calls(plugin);
        let shown = Shown {
            now: core.clock.now(),
            storage,
            is_served: &is_served,
            has_plugin: &has_plugin,
            configured: &core.webhooks.configured(storage),
        };
        let text = core.metrics.text(&shown, others);
        response::whole(200, metrics::CONTENT_TYPE, text)
    }
}

/// The failure of a router without a route, or without a media type that the client accepts.
pub(super) fn unrouted(
    error: &ApiError,
    headers: &HeaderMap,
    query: &Query,
) -> Response<ResponseBody> {
    let accepted = negotiation::accepted_failure(headers, query.get("pretty"));
    response::error(error, accepted)
}

/// The index of OpenAPI documents with those of services.
#[cfg(feature = "openapi")]
fn with_documents(remote: &Remote<'_>, index: ResponseBody) -> ResponseBody {
    let read = |bytes: &Bytes| serde_json::from_slice::<Value>(bytes).ok();
    let Some(mut document) = index.bytes().and_then(read) else {
        return index;
    };
    remote.add_documents(&mut document);
    ResponseBody::whole(document.to_string())
}

/// A document of a handler that negotiates for itself.
fn negotiated(document: &Value, headers: &HeaderMap, query: &Query) -> Response<ResponseBody> {
    match negotiation::accepted_plain(headers, query.get("pretty")) {
        Ok(accepted) => response::value(200, document, accepted),
        Err(refusal) => unrouted(&refusal, headers, query),
    }
}

/// Whether no router knows a path because one of its first segments is empty.
pub(super) fn is_unknown(path: &str) -> bool {
    path.starts_with("//") || path.starts_with("/apis//")
}

/// Path segments; a slash at the end adds none.
fn segments(path: &str) -> Vec<&str> {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.strip_suffix('/').unwrap_or(path).split('/').collect()
}

/// The groups, a group, and a version of a group that has custom resources only.
fn served_to_any_method(
    builtin: &Catalog,
    (catalog, remote): (&Catalog, Option<&Remote<'_>>),
    path: &str,
) -> Option<Value> {
    match segments(path).as_slice() {
        ["apis"] => {
            let mut list = discovery::api_group_list(catalog);
            if let Some(remote) = remote {
                remote.add_groups(&mut list);
            }
            Some(list)
        }
        ["apis", group] => {
            let local = discovery::api_group(catalog, group);
            match remote {
                Some(remote) => remote.group(group, local.as_ref()).or(local),
                None => local,
            }
        }
        ["apis", group, version] if builtin.group(group).is_none() => {
            discovery::api_resource_list(catalog, group, version)
        }
        _ => None,
    }
}

/// Whether the path is below one that the router of methods has.
fn is_routed(builtin: &Catalog, path: &str) -> bool {
    match segments(path).as_slice() {
        ["api" | "version", ..] => true,
        ["apis", group, ..] => !group.is_empty() && builtin.group(group).is_some(),
        _ => false,
    }
}

/// The discovery document at `path`; `None` for other paths.
fn routed(catalog: &Catalog, path: &str, host: &str) -> Option<Value> {
    match segments(path).as_slice() {
        ["api"] => Some(discovery::api_versions(catalog, host)),
        ["api", version] => discovery::api_resource_list(catalog, "", version),
        ["apis", group, version] => discovery::api_resource_list(catalog, group, version),
        _ => None,
    }
}

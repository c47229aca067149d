//! Requests, as far as rules look at them.

use std::fmt;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use kube::client::Body;

/// A request for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedRequest {
    pub(super) scope: Scope,
    pub(super) verb: &'static str,
    subresource: String,
    name: Option<String>,
    /// The selectors of a watch, with a space before each.
    pub(super) selectors: String,
    /// Whether it is a write that a controller is not meant to send unless it changes something.
    pub(super) may_be_idle: bool,
    /// The version of the last write before it.
    pub(super) after_rv: u64,
}

/// A user agent and the resource and namespace that it asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scope {
    pub(super) user_agent: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    /// The namespace; `None` for cluster-scoped resources, and for requests across all namespaces.
    pub(super) namespace: Option<String>,
}

impl Scope {
    /// `pods`, `statefulsets.apps`.
    pub(super) fn resource(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

impl fmt::Display for ObservedRequest {
    /// `get configmaps default/a`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scope,
            verb,
            subresource,
            name,
            ..
        } = self;
        write!(f, "{verb} {}{subresource}", scope.resource())?;
        match (&scope.namespace, name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (Some(namespace), None) => write!(f, " in namespace {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) => Ok(()),
        }
    }
}

impl ObservedRequest {
    /// The request with who sends it.
    pub(super) fn signed(&self) -> String {
        format!("{} {self}", self.scope.user_agent)
    }

    /// `None` for a path that is not a resource's.
    pub(super) fn of(request: &Request<Body>, after_rv: u64) -> Option<Self> {
        let header = |name| {
            let value = request.headers().get(name);
            let text = value.and_then(|value| value.to_str().ok());
            text.unwrap_or_default()
        };
        let mut segments = request.uri().path().split('/').skip(1);
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let version = segments.next()?;
        let mut rest: Vec<&str> = segments.collect();
        // A namespace is a resource, too, with subresources of its own.
        let is_within = rest.first() == Some(&"namespaces")
            && rest
                .get(2)
                .is_some_and(|part| !["status", "finalize"].contains(part));
        let namespace = is_within.then(|| rest.drain(..2).nth(1)).flatten();
        let (plural, name) = (rest.first()?, rest.get(1));
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query
            .split('&')
            .any(|pair| ["watch=true", "watch=1"].contains(&pair));
        let selectors = query.split('&').filter(|pair| pair.contains("Selector="));
        let method = request.method();
        let verb = match (method, name) {
            (&Method::GET, None) if is_watch => "watch",
            (&Method::GET, None) => "list",
            (&Method::GET, Some(_)) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, Some(_)) => "delete",
            (&Method::DELETE, None) => "deletecollection",
            _ => return None,
        };
        let is_apply = header(CONTENT_TYPE).starts_with("application/apply-patch");
        let below = rest.get(2..).unwrap_or_default();
        Some(Self {
            scope: Scope {
                user_agent: crate::user_agent::actor(header(USER_AGENT)).to_owned(),
                group: group.to_owned(),
                version: version.to_owned(),
                plural: (*plural).to_owned(),
                namespace: namespace.map(str::to_owned),
            },
            verb,
            subresource: below.iter().map(|part| format!("/{part}")).collect(),
            name: name.map(|name| (*name).to_owned()),
            selectors: selectors.map(|pair| format!(" {pair}")).collect(),
            // To apply the same again is how server-side apply is meant to be used.
            may_be_idle: matches!(verb, "update" | "patch") && !is_apply,
            after_rv,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(method: &str, uri: &str) -> String {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(USER_AGENT, "own/1.0").body(Body::empty());
        let seen = ObservedRequest::of(&request.unwrap(), 0);
        seen.map_or_else(String::new, |seen| {
            format!("{} {seen}{}", seen.scope.user_agent, seen.selectors)
        })
    }

    #[test]
    fn requests_are_told_as_faults_tell_them() {
        for (method, uri, told) in [
            ("GET", "/api/v1/pods", "own list pods"),
            (
                "GET",
                "/apis/apps/v1/namespaces/a/deployments?watch=true&fieldSelector=b",
                "own watch deployments.apps in namespace a fieldSelector=b",
            ),
            ("GET", "/api/v1/namespaces/a", "own get namespaces a"),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                "own update namespaces/finalize a",
            ),
            (
                "PATCH",
                "/apis/example.com/v1/namespaces/a/sites/b/status",
                "own patch sites.example.com/status a/b",
            ),
            (
                "POST",
                "/api/v1/namespaces/a/configmaps",
                "own create configmaps in namespace a",
            ),
            ("DELETE", "/api/v1/nodes/n", "own delete nodes n"),
            ("GET", "/version", ""),
            ("GET", "/apis/apps/v1", ""),
        ] {
            assert_eq!(words(method, uri), told, "{method} {uri}");
        }
    }
}

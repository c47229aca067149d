//! The attributes of a request that the rules look at.

use std::fmt;

use http::Request;
use http::header::{CONTENT_TYPE, USER_AGENT};
use kube::client::Body;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{RequestInfo, Verb};

/// A request for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedRequest {
    pub(super) scope: Scope,
    pub(super) verb: Verb,
    subresource: String,
    name: Option<String>,
    /// The selectors of a watch, with a space before each.
    pub(super) selectors: String,
    /// Whether it is a write that a controller is not meant to send unless it changes something.
    pub(super) may_be_idle: bool,
    /// The version of the last write before it.
    pub(super) after_rv: ResourceVersion,
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
        write!(f, "{} {}{subresource}", verb.as_str(), scope.resource())?;
        match (&scope.namespace, name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (Some(namespace), None) => write!(f, " in namespace {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) => Ok(()),
        }
    }
}

impl ObservedRequest {
    /// The request after the user agent of its sender.
    pub(super) fn signed(&self) -> String {
        format!("{} {self}", self.scope.user_agent)
    }

    /// Reads a request sent after the write of version `after_rv`; `None` for a path of no resource.
    pub(super) fn of(request: &Request<Body>, after_rv: ResourceVersion) -> Option<Self> {
        let header = |name| {
            let value = request.headers().get(name);
            let text = value.and_then(|value| value.to_str().ok());
            text.unwrap_or_default()
        };
        let query = request.uri().query().unwrap_or_default();
        let info = RequestInfo::parse(request.method(), request.uri().path(), query)?;
        let verb = info.verb?;
        let selectors = query.split('&').filter(|pair| pair.contains("Selector="));
        let is_apply = header(CONTENT_TYPE).starts_with("application/apply-patch");
        let below = info.subresource.iter().chain(&info.rest);
        Some(Self {
            verb,
            subresource: below.map(|part| format!("/{part}")).collect(),
            name: info.name,
            scope: Scope {
                user_agent: crate::user_agent::actor(header(USER_AGENT)).to_owned(),
                group: info.group,
                version: info.version,
                plural: info.resource,
                namespace: info.namespace,
            },
            selectors: selectors.map(|pair| format!(" {pair}")).collect(),
            // To apply the same again is how server-side apply is meant to be used.
            may_be_idle: matches!(verb, Verb::Update | Verb::Patch) && !is_apply,
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
        let seen = ObservedRequest::of(&request.unwrap(), ResourceVersion::ZERO);
        seen.map_or_else(String::new, |seen| {
            format!("{} {seen}{}", seen.scope.user_agent, seen.selectors)
        })
    }

    #[test]
    fn requests_are_described_as_in_fault_plans() {
        for (method, uri, expected) in [
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
            assert_eq!(words(method, uri), expected, "{method} {uri}");
        }
    }
}

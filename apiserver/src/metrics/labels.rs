//! The labels of a request in metrics.

use std::sync::Arc;

use http::{HeaderMap, Method};

use crate::patch::PatchType;
use crate::registry::catalog::ResourceInfo;
use crate::registry::core::event;
use crate::request::options::Query;
use crate::request::{RequestInfo, Verb};

/// Subresources that are connections.
const CONNECTS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The labels of a request in metrics.
#[derive(Clone, Debug)]
pub(crate) struct RequestLabels {
    verb: &'static str,
    pub(super) dry_run: &'static str,
    names: Names,
    subresource: String,
    scope: &'static str,
    component: &'static str,
    /// Whether the route reads: the sizes of its answers are of interest.
    pub(super) is_read: bool,
    /// The verb of a body that was read, and its size.
    pub(super) body: Option<(&'static str, usize)>,
    /// Whether clients should use another resource.
    pub(super) is_deprecated: bool,
    /// Whether the client calls itself an API server.
    pub(super) is_own: bool,
}

/// The resource of a request.
#[derive(Clone, Debug)]
enum Names {
    Served(Arc<ResourceInfo>),
    /// The names in the path.
    InPath {
        group: String,
        version: String,
        resource: String,
    },
}

/// The number of objects behind a list, and the state that the client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The number of objects inspected.
    pub(crate) fetched: usize,
    pub(crate) returned: usize,
    /// Whether the client asked for the latest state.
    pub(crate) is_consistent: bool,
    /// Whether the objects had to be as new as some version.
    pub(crate) awaits_version: bool,
}

impl RequestLabels {
    /// The labels of a request for a resource that need not be served.
    pub(crate) fn unresolved(info: &RequestInfo, query: &Query) -> Self {
        let names = Names::InPath {
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
        };
        Self::new(info, query, false, names)
    }

    /// The labels of a request for `resource` with these `headers`.
    pub(crate) fn served(
        resource: &Arc<ResourceInfo>,
        (info, query): (&RequestInfo, &Query),
        headers: &HeaderMap,
    ) -> Self {
        let is_patch = info.verb == Some(Verb::Patch);
        let is_apply = is_patch && PatchType::of(headers) == Ok(PatchType::Apply);
        let names = Names::Served(Arc::clone(resource));
        Self {
            is_deprecated: resource.warning.is_some(),
            ..Self::new(info, query, is_apply, names)
        }
    }

    /// The labels of a request for a path that names no resource, if upstream counts it: probes,
    /// OpenAPI v3, and the aggregated discovery that the answer may be.
    pub(crate) fn of_path(method: &Method, path: &str, is_aggregated: bool) -> Option<Self> {
        let (subresource, component) = match path {
            "/healthz" | "/livez" | "/readyz" => (path, ""),
            "/openapi/v3" => ("openapi/v3", ""),
            "/api" if is_aggregated => ("api", "apiserver"),
            "/apis" if is_aggregated => ("apis", "apiserver"),
            _ if path.starts_with("/openapi/v3/") => ("openapi/v3/", ""),
            _ => return None,
        };
        let verbs = ["POST", "PUT", "PATCH", "DELETE"];
        let verb = match *method {
            Method::GET | Method::HEAD => "GET",
            _ => {
                let mut verbs = verbs.into_iter();
                verbs
                    .find(|verb| *verb == method.as_str())
                    .unwrap_or("other")
            }
        };
        Some(Self {
            verb,
            dry_run: "",
            names: Names::InPath {
                group: String::new(),
                version: String::new(),
                resource: String::new(),
            },
            subresource: subresource.to_owned(),
            scope: "",
            component,
            is_read: true,
            body: None,
            is_deprecated: false,
            is_own: false,
        })
    }

    fn new(info: &RequestInfo, query: &Query, is_apply: bool, names: Names) -> Self {
        let scope = match (&info.name, &info.namespace) {
            (Some(_), _) => "resource",
            _ if info.verb == Some(Verb::Create) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        let subresource = info.subresource.clone().unwrap_or_default();
        let verb = match info.verb {
            _ if CONNECTS.contains(&subresource.as_str()) => "CONNECT",
            Some(Verb::Watch) => "WATCH",
            Some(Verb::List) => "LIST",
            Some(Verb::Get) => "GET",
            Some(Verb::Create) => "POST",
            Some(Verb::Update) => "PUT",
            Some(Verb::Patch) if is_apply => "APPLY",
            Some(Verb::Patch) => "PATCH",
            Some(Verb::Delete | Verb::DeleteCollection) => "DELETE",
            None => "other",
        };
        let dry_run = match query.get("dryRun") {
            None => "",
            Some(_) if query.all("dryRun").all(|value| value == "All") => "All",
            Some(_) => "invalid",
        };
        let is_read = match info.verb {
            Some(Verb::Get | Verb::List) => verb != "CONNECT" || subresource == "log",
            // The path below `watch` is a route of its own.
            Some(Verb::Watch) => query.flag("watch"),
            _ => false,
        };
        Self {
            verb,
            dry_run,
            names,
            subresource,
            scope,
            component: "apiserver",
            is_read,
            body: None,
            is_deprecated: false,
            is_own: false,
        }
    }

    /// These labels for a request with a body of this size.
    pub(crate) fn with_body(mut self, verb: Option<Verb>, bytes: usize) -> Self {
        let verb = match verb {
            _ if self.verb == "CONNECT" => None,
            Some(Verb::Create) => Some("create"),
            Some(Verb::Update) => Some("update"),
            Some(Verb::Patch) => Some("patch"),
            Some(Verb::Delete) => Some("delete"),
            Some(Verb::DeleteCollection) => Some("delete_collection"),
            Some(Verb::Get | Verb::List | Verb::Watch) | None => None,
        };
        self.body = verb.map(|verb| (verb, bytes));
        self
    }

    /// These labels for a request with this `user_agent`.
    pub(crate) fn of_agent(mut self, user_agent: &str) -> Self {
        self.is_own = user_agent.starts_with("kube-apiserver/");
        self
    }

    /// Whether an answer to either request is counted by the same metrics.
    pub(super) fn counts_as(&self, other: &Self) -> bool {
        let same_names = match (&self.names, &other.names) {
            (Names::Served(own), Names::Served(others)) => Arc::ptr_eq(own, others),
            _ => self.of_watch() == other.of_watch(),
        };
        let texts = |own: &Self| (own.verb, own.dry_run, own.scope, own.component);
        let flags = |own: &Self| (own.is_read, own.is_deprecated, own.is_own);
        let body = |own: &Self| own.body.map(|(verb, _)| verb);
        same_names
            && texts(self) == texts(other)
            && self.subresource == other.subresource
            && flags(self) == flags(other)
            && body(self) == body(other)
    }

    pub(super) fn of_watch(&self) -> [&str; 3] {
        match &self.names {
            Names::Served(info) => {
                let gvr = info.gvr();
                [&gvr.group, &gvr.version, &gvr.resource]
            }
            Names::InPath {
                group,
                version,
                resource,
            } => [group, version, resource],
        }
    }

    /// The labels of the table that has the objects.
    pub(super) fn of_cache(&self) -> [&str; 2] {
        let [group, _, resource] = self.of_watch();
        let group = if group == event::GROUP { "" } else { group };
        [group, resource]
    }

    pub(super) fn of_request(&self) -> [&str; 7] {
        let [group, version, resource] = self.of_watch();
        [
            self.verb,
            group,
            version,
            resource,
            &self.subresource,
            self.scope,
            self.component,
        ]
    }

    pub(super) fn with_dry_run(&self) -> [&str; 8] {
        let [group, version, resource] = self.of_watch();
        [
            self.dry_run,
            self.verb,
            group,
            version,
            resource,
            &self.subresource,
            self.scope,
            self.component,
        ]
    }
}

//! The resource request in a method and path, as upstream reads it.

use std::borrow::Cow;

use http::Method;

use super::options;
use crate::meta::selector::FieldSelector;
use crate::meta::validation::path_segment_name;

/// A verb that is part of the path, before the resource.
const PROXY: &str = "proxy";

/// The action that a request takes on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// GET of a collection with `watch=true`, or below `/watch`.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    /// Returns the verb as RBAC rules name it: `get`, `deletecollection`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// The operation on an object, as admission names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is updated or patched.
    Update,
    /// An object is deleted, or marked as deleted.
    Delete,
    /// A connection to the backend of an object; the options of the connection are admitted.
    Connect,
}

impl Operation {
    /// Returns the operation as admission reviews name it, such as `CREATE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The resource request in a method and path: the verb, the resource and the object. Paths of no resource, such as
/// `/healthz` and `/apis/apps/v1`, have no `RequestInfo`.
///
/// ```
/// use http::Method;
/// use kubeproof_machinery::request::{RequestInfo, Verb};
///
/// let path = "/apis/apps/v1/namespaces/default/statefulsets/web/scale";
/// let info = RequestInfo::parse(&Method::PATCH, path, "").unwrap();
/// assert_eq!((info.verb, &*info.resource), (Some(Verb::Patch), "statefulsets"));
/// assert_eq!(info.namespace.as_deref(), Some("default"));
/// assert_eq!(info.subresource.as_deref(), Some("scale"));
/// ```
///
/// Source: `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version in the path: `v1`.
    pub version: String,
    /// The namespace in the path; `None` for cluster-scoped resources, and for requests across all namespaces. A
    /// Namespace itself is a name and no namespace.
    pub namespace: Option<String>,
    /// The plural name of the resource: `statefulsets`. It need not be served.
    pub resource: String,
    /// The name of the object; `None` for a collection.
    pub name: Option<String>,
    /// `status` and the like.
    pub subresource: Option<String>,
    /// Path segments after the subresource.
    pub rest: Vec<String>,
    /// `None` for a method that is not served here, such as HEAD.
    pub verb: Option<Verb>,
    /// The verb that authorization checks, empty for an unknown method. It is also set for requests
    /// that are not served, such as HEAD and `proxy`.
    pub asked: &'static str,
    /// The name that the field selector of a list or watch requires.
    pub selected_name: Option<String>,
    /// The field selector of a request for many objects, as the query has it.
    pub field_selector: Option<String>,
    /// The label selector of a request for many objects, as the query has it.
    pub label_selector: Option<String>,
}

impl RequestInfo {
    /// Reads a path below `/api/VERSION` or `/apis/GROUP/VERSION`, without looking at which resources are served.
    /// `query` is the part of the URL after the `?`, or empty. Returns `None` for a path without a resource.
    #[must_use]
    pub fn parse(method: &Method, path: &str, query: &str) -> Option<Self> {
        // Escaped slashes also separate segments. A path without `%` is taken as it is.
        let path = match path.as_bytes().contains(&b'%') {
            true => percent_encoding::percent_decode_str(path).decode_utf8_lossy(),
            false => Cow::Borrowed(path),
        };
        let mut rest = path.trim_matches('/').split('/');
        let (group, version) = match rest.next()? {
            "api" => ("", rest.next()?),
            "apis" => (rest.next()?, rest.next()?),
            _ => return None,
        };
        let special = match rest.clone().next() {
            Some("watch") => Some("watch"),
            Some(PROXY) => Some(PROXY),
            _ => None,
        };
        if special.is_some() {
            rest.next();
        }
        let legacy_watch = special == Some("watch");
        // `namespaces/N` is the namespace of the resource after it, or a resource itself at the
        // end.
        let mut namespace = None;
        let mut within = rest.clone();
        if within.next() == Some("namespaces") {
            namespace = within.next();
            let own = matches!(within.clone().next(), None | Some("status" | "finalize"));
            if !own {
                rest = within;
            }
        }
        let resource = rest.next()?;
        let name = rest.next();
        let subresource = rest.next().filter(|_| special != Some(PROXY));
        if resource == "namespaces" && namespace.is_some() && name.is_some() {
            namespace = None;
        }
        // A path with an empty namespace is of all namespaces.
        let namespace = namespace.filter(|own| !own.is_empty());
        // The query of a request for one object says nothing here.
        let query = if name.is_none() { query } else { "" };
        let [watch, field_selector, label_selector] =
            options::first(query, ["watch", "fieldSelector", "labelSelector"]);
        let wants_watch = watch.is_some_and(|value| options::is_true(&value));
        let is_watch = legacy_watch || (name.is_none() && wants_watch);
        let verb = match *method {
            _ if legacy_watch => Some(Verb::Watch),
            Method::GET | Method::HEAD if is_watch => Some(Verb::Watch),
            Method::GET | Method::HEAD if name.is_some() => Some(Verb::Get),
            Method::GET | Method::HEAD => Some(Verb::List),
            Method::POST => Some(Verb::Create),
            Method::PUT => Some(Verb::Update),
            Method::PATCH => Some(Verb::Patch),
            Method::DELETE if name.is_some() => Some(Verb::Delete),
            Method::DELETE => Some(Verb::DeleteCollection),
            _ => None,
        };
        // No route answers to HEAD, and those below `watch` answer to GET only.
        let is_routed = *method == Method::GET || (*method != Method::HEAD && !legacy_watch);
        let selects = special.is_none() && matches!(verb, Some(Verb::List | Verb::Watch));
        let selected_name = field_selector.as_deref().filter(|_| selects);
        let selected_name = selected_name.and_then(name_selected_by);
        let many = Some(Verb::DeleteCollection) == verb || selects;
        let selector = |value: Option<Cow<'_, str>>| {
            let value = value.filter(|_| many && special.is_none());
            value.map(Cow::into_owned)
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.map(str::to_owned),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            rest: rest.map(str::to_owned).collect(),
            verb: verb.filter(|_| is_routed),
            asked: special.or(verb.map(Verb::as_str)).unwrap_or_default(),
            selected_name,
            field_selector: selector(field_selector),
            label_selector: selector(label_selector),
        })
    }

    /// Whether the path ends after `watch` or `proxy`, without a resource; upstream fails there.
    pub fn lacks_kind(path: &str) -> bool {
        let path = path.trim_matches('/');
        let Some((above, "watch" | PROXY)) = path.rsplit_once('/') else {
            return false;
        };
        let mut parts = above.split('/');
        matches!(
            (parts.next(), parts.count()),
            (Some("api"), 1) | (Some("apis"), 2)
        )
    }

    /// Whether the request may stay open: no deadline applies, and it is counted separately.
    pub fn is_long_running(&self) -> bool {
        const SUBRESOURCES: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
        let subresource = self.subresource.as_deref().unwrap_or_default();
        self.is_watch() || self.is_proxy() || SUBRESOURCES.contains(&subresource)
    }

    /// Whether the request is a watch, which lasts until the client ends it.
    pub fn is_watch(&self) -> bool {
        self.asked == "watch"
    }

    /// Whether the path has the obsolete `proxy` form, which no server routes.
    pub fn is_proxy(&self) -> bool {
        self.asked == PROXY
    }
}

/// The value that a field selector requires of `metadata.name`, if it is a valid name.
fn name_selected_by(selector: &str) -> Option<String> {
    let selector = FieldSelector::parse(selector).ok()?;
    let name = selector.requires_exact_match("metadata.name")?;
    path_segment_name(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_upstream_reads_them() {
        let table: &[(&str, &str, &str)] = &[
            ("GET", "/api/v1/namespaces/ns/pods/p", "get /v1 pods ns p -"),
            ("GET", "/api/v1/namespaces/ns/pods", "list /v1 pods ns - -"),
            ("GET", "/api/v1/pods?watch=true", "watch /v1 pods - - -"),
            (
                "GET",
                "/api/v1/watch/namespaces/ns/pods",
                "watch /v1 pods ns - -",
            ),
            ("GET", "/api/v1/namespaces", "list /v1 namespaces - - -"),
            ("GET", "/api/v1/namespaces//pods", "list /v1 pods - - -"),
            ("GET", "/api/v1/namespaces/ns", "get /v1 namespaces - ns -"),
            (
                "PUT",
                "/api/v1/namespaces/ns/finalize",
                "update /v1 namespaces - ns finalize",
            ),
            (
                "POST",
                "/api/v1/namespaces/ns/pods/p/binding",
                "create /v1 pods ns p binding",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/ns/statefulsets/w/scale",
                "patch apps/v1 statefulsets ns w scale",
            ),
            (
                "DELETE",
                "/api/v1/nodes",
                "deletecollection /v1 nodes - - -",
            ),
            ("DELETE", "/api/v1/nodes/n", "delete /v1 nodes - n -"),
            ("GET", "/api/v1/pods?watch=0&watch=1", "list /v1 pods - - -"),
            ("GET", "/api/v1/pods?watch=x", "watch /v1 pods - - -"),
            (
                "GET",
                "/api/v1/namespaces/ns/pods/p?watch=1",
                "get /v1 pods ns p -",
            ),
            (
                "GET",
                "/api/v1/namespaces/ns%2Fpods/p%6Fd",
                "get /v1 pods ns pod -",
            ),
            ("HEAD", "/api/v1/nodes/n", "? /v1 nodes - n -"),
            (
                "POST",
                "/api/v1/watch/namespaces/ns/pods",
                "? /v1 pods ns - -",
            ),
        ];
        for (method, uri, want) in table {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let info =
                RequestInfo::parse(&method.parse().unwrap(), path, query).expect("a resource path");
            let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let got = format!(
                "{} {}/{} {} {} {} {}",
                info.verb.map_or("?", Verb::as_str),
                info.group,
                info.version,
                info.resource,
                dash(&info.namespace),
                dash(&info.name),
                dash(&info.subresource)
            );
            assert_eq!(got, *want, "{method} {uri}");
        }
        for path in ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz"] {
            assert_eq!(RequestInfo::parse(&Method::GET, path, ""), None, "{path}");
        }
    }
}

//! What a request asks for, read off its method and path. Mirrors apiserver's `RequestInfo`.

use http::Method;

use crate::auth::Attributes;
use crate::meta::selector::FieldSelector;
use crate::meta::validation::path_segment_name;

/// What is to be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
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

/// A request on a resource path; all other paths are not of this form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Path segments behind the subresource.
    pub(crate) rest: Vec<String>,
    /// `None` for a method that resources do not know.
    pub(crate) verb: Option<Verb>,
    /// The one name that the field selector of a list or watch lets through.
    selected_name: Option<String>,
}

impl RequestInfo {
    /// Reads a path below `/api/V` or `/apis/G/V`; `None` when it names no resource.
    pub(crate) fn parse(method: &Method, path: &str, query: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').map(|part| {
            percent_encoding::percent_decode_str(part)
                .decode_utf8_lossy()
                .into_owned()
        });
        let (group, version) = match parts.next()?.as_str() {
            "api" => (String::new(), parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut rest: Vec<String> = parts.collect();
        let legacy_watch = rest.first().is_some_and(|part| part == "watch");
        if legacy_watch {
            rest.remove(0);
        }
        // `namespaces/N` is the namespace of what follows it, and a resource when nothing does.
        let mut namespace = None;
        if rest.len() > 1 && rest[0] == "namespaces" {
            namespace = Some(rest[1].clone());
            let own = rest.len() == 2 || matches!(rest[2].as_str(), "status" | "finalize");
            if !own {
                rest.drain(..2);
            }
        }
        let mut rest = rest.into_iter();
        let resource = rest.next().filter(|resource| !resource.is_empty())?;
        let name = rest.next();
        let subresource = rest.next();
        if resource == "namespaces" && namespace.is_some() && name.is_some() {
            namespace = None;
        }
        let watch = legacy_watch || (name.is_none() && wants_watch(query));
        let verb = match *method {
            Method::GET if watch => Some(Verb::Watch),
            Method::GET if name.is_some() => Some(Verb::Get),
            // HEAD is no verb of a resource: upstream refuses it.
            Method::GET => Some(Verb::List),
            Method::POST => Some(Verb::Create),
            Method::PUT => Some(Verb::Update),
            Method::PATCH => Some(Verb::Patch),
            Method::DELETE if name.is_some() => Some(Verb::Delete),
            Method::DELETE => Some(Verb::DeleteCollection),
            _ => None,
        };
        let rest = rest.collect();
        let selected_name = match verb {
            Some(Verb::List | Verb::Watch) if name.is_none() => selected_name(query),
            _ => None,
        };
        Some(Self {
            group,
            version,
            namespace,
            resource,
            name,
            subresource,
            rest,
            verb,
            selected_name,
        })
    }

    /// What authorization must allow. A namespace is in itself.
    pub(crate) fn attributes(&self) -> Attributes {
        let text = |part: Option<&String>| part.cloned().unwrap_or_default();
        let own = self.group.is_empty() && self.resource == "namespaces";
        let namespace = if own { &self.name } else { &self.namespace };
        Attributes::Resource {
            verb: self.verb.map_or("", Verb::as_str).to_owned(),
            group: self.group.clone(),
            resource: self.resource.clone(),
            subresource: text(self.subresource.as_ref()),
            namespace: text(namespace.as_ref()),
            name: text(self.name.as_ref().or(self.selected_name.as_ref())),
        }
    }
}

/// The value that `metadata.name` must have, if a selector asks for one that names have.
fn selected_name(query: &str) -> Option<String> {
    let (_, selector) = super::options::pairs(query).find(|(key, _)| key == "fieldSelector")?;
    let selector = FieldSelector::parse(&selector).ok()?;
    let name = selector.requires_exact_match("metadata.name")?;
    path_segment_name(name).is_empty().then(|| name.to_owned())
}

fn wants_watch(query: &str) -> bool {
    super::options::pairs(query)
        .find(|(key, _)| key == "watch")
        .is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
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

    #[test]
    fn a_list_of_one_name_is_authorized_by_it() {
        let name_of = |uri: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let info = RequestInfo::parse(&Method::GET, path, query).expect("a resource path");
            let Attributes::Resource { name, .. } = info.attributes() else {
                unreachable!("a resource path");
            };
            name
        };
        assert_eq!(name_of("/api/v1/pods?fieldSelector=metadata.name%3Dp"), "p");
        assert_eq!(name_of("/api/v1/pods?fieldSelector=metadata.name!%3Dp"), "");
        assert_eq!(
            name_of("/api/v1/pods?fieldSelector=metadata.name%3Da/b"),
            ""
        );
        let named = "/api/v1/namespaces/n/pods/q?fieldSelector=metadata.name%3Dp";
        assert_eq!(name_of(named), "q");
    }
}

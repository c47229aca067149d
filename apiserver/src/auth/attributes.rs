//! The attributes of an action that needs a permission.

use std::borrow::Cow;

use super::User;
use crate::json::Value;
use crate::meta::GroupResource;
use crate::request::RequestInfo;
use crate::status::{ApiError, quoted};

/// The attributes of an action that needs a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes<'a> {
    /// Something to a resource; `""` where a part is absent.
    Resource {
        verb: Cow<'a, str>,
        group: Cow<'a, str>,
        /// The version of the group, or `*` for any.
        version: Cow<'a, str>,
        resource: Cow<'a, str>,
        subresource: Cow<'a, str>,
        namespace: Cow<'a, str>,
        name: Cow<'a, str>,
        selectors: Selectors<'a>,
    },
    /// Something to another path.
    Path {
        verb: Cow<'a, str>,
        path: Cow<'a, str>,
    },
}

/// The conditions on the objects of a request, in the form of a query; empty if absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selectors<'a> {
    pub(crate) field: Cow<'a, str>,
    pub(crate) label: Cow<'a, str>,
}

/// Any version of a group.
pub(crate) const ANY_VERSION: &str = "*";

impl<'a> Attributes<'a> {
    /// What authorization must allow. A namespace is in itself.
    pub(crate) fn of(info: &'a RequestInfo) -> Self {
        let text = |part: Option<&'a String>| Cow::from(part.map_or("", String::as_str));
        let own = info.group.is_empty() && info.resource == "namespaces";
        let namespace = if own { &info.name } else { &info.namespace };
        let name = info.name.as_ref().or(info.selected_name.as_ref());
        Self::Resource {
            verb: info.asked.into(),
            group: (&info.group).into(),
            version: (&info.version).into(),
            resource: (&info.resource).into(),
            subresource: text(info.subresource.as_ref()),
            namespace: text(namespace.as_ref()),
            name: text(name),
            selectors: Selectors {
                field: text(info.field_selector.as_ref()),
                label: text(info.label_selector.as_ref()),
            },
        }
    }
}

impl Attributes<'_> {
    /// The refusal of this to `user`, and `why` if there is more to say.
    pub(crate) fn forbidden(&self, user: &User, why: &str) -> ApiError {
        let user = quoted(&user.name);
        let (resource, name, message) = match self {
            Self::Path { verb, path } => {
                let none = GroupResource {
                    group: String::new(),
                    resource: String::new(),
                };
                (
                    none,
                    "",
                    format!("User {user} cannot {verb} path {}", quoted(path)),
                )
            }
            Self::Resource {
                verb,
                group,
                resource,
                subresource,
                namespace,
                name,
                ..
            } => {
                let scope = match namespace.as_ref() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quoted(namespace)),
                };
                let (whole, of) = (quoted(&joined(resource, subresource)), quoted(group));
                let message =
                    format!("User {user} cannot {verb} resource {whole} in API group {of} {scope}");
                let resource = GroupResource {
                    group: group.to_string(),
                    resource: resource.to_string(),
                };
                (resource, name.as_ref(), message)
            }
        };
        // Upstream lets no refusal look like HTML.
        let mut message = message
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        if !why.is_empty() {
            message = format!("{message}: {why}");
        }
        ApiError::Forbidden {
            resource,
            name: name.to_owned(),
            message,
            causes: Vec::new(),
        }
    }

    pub(super) fn verb(&self) -> &str {
        match self {
            Self::Resource { verb, .. } | Self::Path { verb, .. } => verb,
        }
    }

    /// Another verb on the same resource or path.
    pub(crate) fn with_verb(&self, other: String) -> Self {
        let mut attributes = self.clone();
        match &mut attributes {
            Self::Resource { verb, .. } | Self::Path { verb, .. } => *verb = other.into(),
        }
        attributes
    }

    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path { .. } => "",
        }
    }

    pub(super) fn is_granted_by(&self, rule: &Value) -> bool {
        match self {
            Self::Path { verb, path } => {
                has(rule, "verbs", verb)
                    && entries(rule, "nonResourceURLs").any(|own| match own.strip_suffix('*') {
                        Some(prefix) => path.starts_with(prefix),
                        None => own == path,
                    })
            }
            Self::Resource {
                verb,
                group,
                resource,
                subresource,
                name,
                ..
            } => {
                let whole = joined(resource, subresource);
                let any = format!("*/{subresource}");
                let named = entries(rule, "resourceNames").next().is_none()
                    || entries(rule, "resourceNames").any(|own| own == name);
                let matches = |own: &str| {
                    own == "*" || own == whole || (!subresource.is_empty() && own == any)
                };
                named
                    && has(rule, "verbs", verb)
                    && has(rule, "apiGroups", group)
                    && entries(rule, "resources").any(matches)
            }
        }
    }
}

fn joined(resource: &str, subresource: &str) -> String {
    match subresource {
        "" => resource.to_owned(),
        subresource => format!("{resource}/{subresource}"),
    }
}

fn entries<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    let entries = rule[field].as_array().into_iter().flatten();
    entries.filter_map(Value::as_str)
}

fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    entries(rule, field).any(|own| own == "*" || own == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_sees_what_no_route_serves() {
        let asked = |method: &str, uri: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let info = RequestInfo::parse(&method.parse().unwrap(), path, query).unwrap();
            match Attributes::of(&info) {
                Attributes::Resource { verb, name, .. } => format!("{verb} {name}"),
                Attributes::Path { .. } => unreachable!("a resource path"),
            }
        };
        assert_eq!(asked("HEAD", "/api/v1/nodes/n"), "get n");
        assert_eq!(asked("HEAD", "/api/v1/nodes"), "list ");
        assert_eq!(asked("POST", "/api/v1/watch/nodes"), "watch ");
        assert_eq!(asked("GET", "/api/v1/proxy/nodes/n/healthz"), "proxy n");
        assert_eq!(asked("POST", "/api/v1//secrets"), "create secrets");
        assert_eq!(
            asked("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dn"),
            "list n"
        );
        assert_eq!(
            asked("GET", "/api/v1/nodes?fieldSelector=metadata.name!%3Dn"),
            "list "
        );
        assert_eq!(
            asked("DELETE", "/api/v1/nodes?fieldSelector=metadata.name%3Dn"),
            "deletecollection "
        );
    }

    #[test]
    fn a_verb_in_the_path_needs_something_to_act_on() {
        for path in ["/api/v1/watch", "/apis/apps/v1/watch/", "/api/v1/proxy"] {
            assert!(RequestInfo::lacks_kind(path), "{path}");
        }
        for path in ["/api/v1/watch/pods", "/api/v1/pods", "/apis/watch"] {
            assert!(!RequestInfo::lacks_kind(path), "{path}");
        }
    }
}

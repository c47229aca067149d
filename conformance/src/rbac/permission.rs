//! Permissions of RBAC, and the requests that needed them.

use std::collections::BTreeSet;
use std::fmt;

/// Paths that every authenticated user may get, by the roles `system:discovery` and `system:public-info-viewer`. A `*` at
/// the end stands for any rest.
const PUBLIC_PATHS: [&str; 10] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version*",
];
/// Resources that every authenticated user may create, by the role `system:basic-user`.
const PUBLIC_RESOURCES: [&str; 3] = [
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
];

/// Where a permission is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In all namespaces, or for what has no namespace.
    Cluster,
    /// In one namespace.
    Namespace(String),
}

/// The subject matter of a permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A resource.
    Resource {
        /// The API group; empty for the core group.
        group: String,
        /// The plural name, with the subresource: `deployments/status`.
        resource: String,
    },
    /// A path that names no resource.
    Path(String),
}

/// A permission that a request needed. Its text is `create deployments.apps in shop`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Where it is needed.
    pub scope: Scope,
    /// The resource or path.
    pub target: Target,
    /// The verb of RBAC.
    pub verb: String,
}

/// The requests that needed a permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// The number of requests that were refused for want of it.
    pub(super) refused: u32,
    /// The names of the objects; an empty text is that of a request without a name.
    pub(super) names: BTreeSet<String>,
    /// Of the verbs `escalate` and `bind`: the permissions that each write has granted; `None` if the log does not tell.
    pub(super) granted: BTreeSet<Option<BTreeSet<Permission>>>,
}

impl Permission {
    /// Whether every authenticated user has it.
    pub(super) fn is_public(&self) -> bool {
        match &self.target {
            Target::Path(path) => {
                let is_read = ["get", "head"].contains(&&*self.verb);
                let mut public = PUBLIC_PATHS.iter();
                is_read && public.any(|public| is_path_of(public, path))
            }
            Target::Resource { group, resource } => {
                let name = format!("{resource}.{group}");
                self.verb == "create" && PUBLIC_RESOURCES.contains(&&*name)
            }
        }
    }
}

/// Whether `rule`, a path that may end with `*`, is about `path`.
pub(super) fn is_path_of(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == rule,
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target)?;
        match &self.scope {
            Scope::Cluster => Ok(()),
            Scope::Namespace(namespace) => write!(f, " in {namespace}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Resource { group, resource } if group.is_empty() => f.write_str(resource),
            Self::Resource { group, resource } => match resource.split_once('/') {
                Some((resource, subresource)) => write!(f, "{resource}.{group}/{subresource}"),
                None => write!(f, "{resource}.{group}"),
            },
        }
    }
}

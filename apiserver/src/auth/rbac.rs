//! The permissions of a user: everything for `system:masters`, else the grants of roles.

use serde_json::{Value, json};

use super::State;
use super::{Authorization, MASTERS, SERVICE_ACCOUNT_PREFIX, User};
use crate::meta::{GroupResource, GroupVersionResource};
use crate::metrics::access::Access;
use crate::request::{Decision, RequestInfo};
use crate::status::{ApiError, quoted};
use crate::storage::{ObjectKey, Storage};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of an action that needs a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// Something to a resource; `""` where a part is absent.
    Resource {
        verb: String,
        group: String,
        resource: String,
        subresource: String,
        namespace: String,
        name: String,
    },
    /// Something to another path.
    Path { verb: String, path: String },
}

impl Attributes {
    /// What authorization must allow. A namespace is in itinfo.
    pub(crate) fn of(info: &RequestInfo) -> Self {
        let text = |part: Option<&String>| part.cloned().unwrap_or_default();
        let own = info.group.is_empty() && info.resource == "namespaces";
        let namespace = if own { &info.name } else { &info.namespace };
        let name = info.name.as_ref().or(info.selected_name.as_ref());
        Self::Resource {
            verb: info.asked.to_owned(),
            group: info.group.clone(),
            resource: info.resource.clone(),
            subresource: text(info.subresource.as_ref()),
            namespace: text(namespace.as_ref()),
            name: name.cloned().unwrap_or_default(),
        }
    }
}

/// Rules, and who grants them to the user.
struct Grant {
    rules: Vec<Value>,
    reason: String,
}

impl Attributes {
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
            } => {
                let scope = match namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quoted(namespace)),
                };
                let (whole, of) = (quoted(&joined(resource, subresource)), quoted(group));
                let message =
                    format!("User {user} cannot {verb} resource {whole} in API group {of} {scope}");
                let resource = GroupResource {
                    group: group.clone(),
                    resource: resource.clone(),
                };
                (resource, name.as_str(), message)
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
            Self::Resource { verb, .. } | Self::Path { verb, .. } => *verb = other,
        }
        attributes
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path { .. } => "",
        }
    }

    fn is_granted_by(&self, rule: &Value) -> bool {
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

/// Whether `user` may do it.
pub(crate) fn authorize(state: &State, user: &User, attributes: &Attributes) -> Decision {
    let access = state.metrics.access();
    decide(
        state.authorization,
        &state.storage,
        access,
        (user, attributes),
    )
}

/// Decides whether `user` has the permission, by the roles in `storage` under RBAC. Counts
/// permissions granted.
pub(crate) fn decide(
    authorization: Authorization,
    storage: &Storage,
    access: &Access,
    (user, attributes): (&User, &Attributes),
) -> Decision {
    let decision = decision(authorization, storage, user, attributes);
    if !user.is_privileged() && matches!(decision, Decision::Allowed(_)) {
        match authorization {
            Authorization::AlwaysAllow => access.allowed_by_default(),
            Authorization::Rbac => access.allowed_by_roles(),
        }
    }
    decision
}

fn decision(
    authorization: Authorization,
    storage: &Storage,
    user: &User,
    attributes: &Attributes,
) -> Decision {
    if authorization == Authorization::AlwaysAllow || user.is_in(MASTERS) {
        return Decision::Allowed(String::new());
    }
    let Grants { found, missing } = grants(storage, user, attributes.namespace());
    let granting = found.into_iter().find(|grant| {
        grant
            .rules
            .iter()
            .any(|rule| attributes.is_granted_by(rule))
    });
    match (granting, unresolved(&missing, None)) {
        (Some(grant), _) => Decision::Allowed(grant.reason),
        (None, None) => Decision::Denied(String::new()),
        (None, Some(missing)) => Decision::Denied(format!("RBAC: {missing}")),
    }
}

/// Returns all rules that grant `user` something in `namespace`, and the errors of the roles that are
/// bound and missing. Upstream names those by `asking`, the resource of the request, where it reads
/// roles from storage rather than from its caches.
pub(crate) fn rules_of(
    state: &State,
    user: &User,
    namespace: &str,
    asking: Option<&GroupResource>,
) -> (Vec<Value>, Option<String>) {
    if state.authorization == Authorization::AlwaysAllow {
        let everything = [
            json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }),
            json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }),
        ];
        return (everything.into(), None);
    }
    let Grants { found, missing } = grants(&state.storage, user, namespace);
    let rules = found.into_iter().flat_map(|grant| grant.rules);
    (rules.collect(), unresolved(&missing, asking))
}

/// The errors of missing roles, as upstream's aggregate words them.
fn unresolved(missing: &[Missing], asking: Option<&GroupResource>) -> Option<String> {
    let mut errors: Vec<String> = Vec::new();
    for Missing { kind, name } in missing {
        let error = match asking {
            Some(resource) => format!("{resource} {} not found", quoted(name)),
            None => format!("{kind}.{GROUP} {} not found", quoted(name)),
        };
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    match errors.len() {
        0 | 1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}

/// A role that is bound and does not exist.
struct Missing {
    /// In small letters.
    kind: String,
    name: String,
}

/// What bindings grant a user.
#[derive(Default)]
struct Grants {
    found: Vec<Grant>,
    missing: Vec<Missing>,
}

fn grants(storage: &Storage, user: &User, namespace: &str) -> Grants {
    let mut grants = Grants::default();
    bound(storage, user, None, &mut grants);
    if !namespace.is_empty() {
        bound(storage, user, Some(namespace), &mut grants);
    }
    grants
}

/// The grants of the ClusterRoleBindings, or of the RoleBindings of a namespace.
fn bound(storage: &Storage, user: &User, namespace: Option<&str>, grants: &mut Grants) {
    let (plural, kind) = match namespace {
        None => ("clusterrolebindings", "ClusterRoleBinding"),
        Some(_) => ("rolebindings", "RoleBinding"),
    };
    let bindings = storage.table(&gvr(plural)).snapshot();
    for binding in bindings.range(namespace, None) {
        let binding = &binding.value();
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let own = namespace.unwrap_or_default();
        let Some(subject) = subjects
            .into_iter()
            .find(|subject| is_meant(subject, user, own))
        else {
            continue;
        };
        let Some(rules) = rules(storage, &binding["roleRef"], namespace) else {
            let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
            grants.missing.push(Missing {
                kind: text("kind").to_lowercase(),
                name: text("name").to_owned(),
            });
            continue;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut name = text(&binding["metadata"]["name"]);
        if let Some(namespace) = namespace {
            name = format!("{name}/{namespace}");
        }
        let mut subject_name = text(&subject["name"]);
        if subject["kind"] == "ServiceAccount" {
            let namespace = subject["namespace"].as_str().unwrap_or(own);
            subject_name = format!("{subject_name}/{namespace}");
        }
        let role = &binding["roleRef"];
        let reason = format!(
            "RBAC: allowed by {kind} {name:?} of {} {:?} to {} {subject_name:?}",
            text(&role["kind"]),
            text(&role["name"]),
            text(&subject["kind"]),
        );
        grants.found.push(Grant { rules, reason });
    }
}

fn is_meant(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str().unwrap_or_default() {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let namespace = subject["namespace"].as_str().unwrap_or(namespace);
            let own = user.name.strip_prefix(SERVICE_ACCOUNT_PREFIX);
            let own = own.and_then(|own| own.strip_prefix(namespace)?.strip_prefix(':'));
            !namespace.is_empty() && own == Some(name)
        }
        _ => false,
    }
}

/// The rules of the role that a binding refers to, if there is such a role.
pub(super) fn rules(
    storage: &Storage,
    role: &Value,
    namespace: Option<&str>,
) -> Option<Vec<Value>> {
    let name = role["name"].as_str()?;
    let (plural, namespace) = match role["kind"].as_str()? {
        "ClusterRole" => ("clusterroles", None),
        "Role" => ("roles", namespace),
        _ => return None,
    };
    let role = storage
        .table(&gvr(plural))
        .get(&ObjectKey::new(namespace, name));
    let role = role?;
    Some(
        role.value()["rules"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
    )
}

fn gvr(plural: &str) -> GroupVersionResource {
    GroupVersionResource {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        resource: plural.to_owned(),
    }
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

//! The permissions by stored roles.

use super::{Attributes, SERVICE_ACCOUNT_PREFIX, User};
use crate::json::Value;
use crate::meta::{GroupResource, GroupVersionResource};
use crate::request::Decision;
use crate::status::{aggregate, quoted};
use crate::storage::{ObjectKey, Storage};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// Rules, and who grants them to the user.
struct Grant {
    rules: Vec<Value>,
    reason: String,
}

/// Decides by the roles in `storage`.
pub(super) fn decide(storage: &Storage, user: &User, attributes: &Attributes<'_>) -> Decision {
    let Grants { found, missing } = grants(storage, user, attributes.namespace());
    let granting = found.into_iter().find(|grant| {
        grant
            .rules
            .iter()
            .any(|rule| attributes.is_granted_by(rule))
    });
    match (granting, aggregate(unresolved(&missing, None))) {
        (Some(grant), _) => Decision::Allowed(grant.reason),
        (None, None) => Decision::NoOpinion(String::new()),
        (None, Some(missing)) => Decision::NoOpinion(format!("RBAC: {missing}")),
    }
}

/// Returns all rules that grant `user` something in `namespace`, and the errors of the roles that are
/// bound and missing. Upstream names those by `asking`, the resource of the request, where it reads
/// roles from storage rather than from its caches.
pub(super) fn rules_of(
    storage: &Storage,
    user: &User,
    namespace: &str,
    asking: Option<&GroupResource>,
) -> (Vec<Value>, Vec<String>) {
    let Grants { found, missing } = grants(storage, user, namespace);
    let rules = found.into_iter().flat_map(|grant| grant.rules);
    (rules.collect(), unresolved(&missing, asking))
}

/// The errors of missing roles.
fn unresolved(missing: &[Missing], asking: Option<&GroupResource>) -> Vec<String> {
    let errors = missing.iter().map(|Missing { kind, name }| match asking {
        Some(resource) => format!("{resource} {} not found", quoted(name)),
        None => format!("{kind}.{GROUP} {} not found", quoted(name)),
    });
    errors.collect()
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
            "RBAC: allowed by {kind} {} of {} {} to {} {}",
            quoted(&name),
            text(&role["kind"]),
            quoted(&text(&role["name"])),
            text(&subject["kind"]),
            quoted(&subject_name),
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

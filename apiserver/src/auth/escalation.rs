//! Privilege escalation: a user can grant only own permissions, unless permitted to escalate or
//! bind.

use std::collections::BTreeSet;

use super::rbac::{self, GROUP};
use super::{ANY_VERSION, Attributes, RequestAttributes, Selectors, State, User, authorize};
use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::object::{meta_mut, name, namespace};
use crate::registry::catalog::ResourceInfo;
use crate::status::{ApiError, aggregate, quoted};

/// A part of a rule: one verb on one resource or path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Right {
    group: String,
    resource: String,
    name: Option<String>,
    /// Instead of group and resource.
    path: Option<String>,
    verb: String,
}

/// Checks that the requester may write a role or binding; `old` is what it replaces.
///
/// # Errors
/// `Forbidden` if it would grant more than they have, `NotFound` for a binding to no role.
pub(crate) fn check(
    state: &State,
    attributes: RequestAttributes<'_>,
    resource: &ResourceInfo,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let user = attributes.user;
    let gvr = resource.gvr();
    if gvr.group != GROUP || user.is_privileged() {
        return Ok(());
    }
    let check = Check {
        state,
        user,
        resource: gvr.group_resource(),
        namespace: namespace(object),
        name: name(object),
        requested: attributes.name,
    };
    if old.is_some_and(|old| only_collects_garbage(object, old)) {
        return Ok(());
    }
    match gvr.resource.as_str() {
        "roles" | "clusterroles" => check.role(object, old),
        "rolebindings" | "clusterrolebindings" => check.binding(object),
        _ => Ok(()),
    }
}

struct Check<'a> {
    state: &'a State,
    user: &'a User,
    resource: GroupResource,
    namespace: &'a str,
    name: &'a str,
    /// The name in the path, which a creation does not have.
    requested: &'a str,
}

impl Check<'_> {
    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let attributes = Attributes::Resource {
            verb: verb.into(),
            group: GROUP.into(),
            version: ANY_VERSION.into(),
            resource: resource.into(),
            subresource: "".into(),
            namespace: self.namespace.into(),
            name: name.into(),
            selectors: Selectors::default(),
        };
        authorize(self.state, self.user, &attributes).is_allowed()
    }

    fn forbidden(&self, message: String) -> ApiError {
        ApiError::Forbidden {
            resource: self.resource.clone(),
            name: self.name.to_owned(),
            message,
            causes: Vec::new(),
        }
    }

    fn role(&self, role: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        if self.may("escalate", &self.resource.resource, self.requested) {
            return Ok(());
        }
        self.grants(&role["rules"])?;
        let aggregates = |role: &Value| !role["aggregationRule"].is_null();
        if aggregates(role) || old.is_some_and(aggregates) {
            let everything = crate::json::json!([
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
                { "nonResourceURLs": ["*"], "verbs": ["*"] },
            ]);
            self.grants(&everything).map_err(|_| {
                let message = "must have cluster-admin privileges to use the aggregationRule";
                self.forbidden(message.to_owned())
            })?;
        }
        Ok(())
    }

    fn binding(&self, binding: &Value) -> Result<(), ApiError> {
        let role = &binding["roleRef"];
        let text = |field: &str| role[field].as_str().unwrap_or_default();
        let plural = match text("kind") {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            kind => {
                return Err(ApiError::Unknown(format!(
                    "unsupported role reference kind: {kind:?}"
                )));
            }
        };
        if self.may("bind", plural, text("name")) {
            return Ok(());
        }
        let namespace = Some(self.namespace).filter(|own| !own.is_empty());
        if (plural, namespace) == ("roles", None) {
            let message = "Namespace parameter required.";
            return Err(ApiError::BadRequest(message.to_owned()));
        }
        let rules = rbac::rules(&self.state.storage, role, namespace);
        // Upstream names the resource of the request, not that of the role.
        let rules = rules.ok_or_else(|| ApiError::NotFound {
            resource: self.resource.clone(),
            name: text("name").to_owned(),
        })?;
        self.grants(&Value::Array(rules))
    }

    /// Refuses rules that the user's own do not cover.
    fn grants(&self, rules: &Value) -> Result<(), ApiError> {
        let (storage, resource) = (&self.state.storage, Some(&self.resource));
        let (own, unresolved) = rbac::rules_of(storage, self.user, self.namespace, resource);
        let wanted = rules.as_array().into_iter().flatten().flat_map(rights);
        let missing: Vec<Right> = wanted
            .filter(|right| !own.iter().any(|rule| right.is_covered_by(rule)))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = self.user.groups.iter().map(|own| quoted(own)).collect();
        let missing: Vec<String> = compact(missing).into_iter().collect();
        let unresolved = aggregate(unresolved).map(|why| format!("; resolution errors: [{why}]"));
        Err(self.forbidden(format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}{}",
            quoted(&self.user.name),
            groups.join(" "),
            missing.join("\n"),
            unresolved.unwrap_or_default()
        )))
    }
}

/// Whether an update does no more than the garbage collector does before an object goes.
fn only_collects_garbage(new: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        let metadata = meta_mut(&mut object);
        for field in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
            metadata.remove(field);
        }
        object
    };
    without(new) == without(old)
}

fn texts<'v>(rule: &'v Value, field: &str) -> impl Iterator<Item = &'v str> + Clone {
    let entries = rule[field].as_array().map_or(&[][..], Vec::as_slice);
    entries.iter().filter_map(Value::as_str)
}

/// The rights that a rule grants, one by one.
fn rights(rule: &Value) -> Vec<Right> {
    let mut rights = Vec::new();
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            for verb in texts(rule, "verbs") {
                let right = Right {
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    verb: verb.to_owned(),
                    ..Right::default()
                };
                let named = texts(rule, "resourceNames").map(|name| Right {
                    name: Some(name.to_owned()),
                    ..right.clone()
                });
                let before = rights.len();
                rights.extend(named);
                if rights.len() == before {
                    rights.push(right);
                }
            }
        }
    }
    for path in texts(rule, "nonResourceURLs") {
        rights.extend(texts(rule, "verbs").map(|verb| Right {
            path: Some(path.to_owned()),
            verb: verb.to_owned(),
            ..Right::default()
        }));
    }
    rights
}

impl Right {
    fn is_covered_by(&self, rule: &Value) -> bool {
        let has =
            |field: &str, wanted: &str| texts(rule, field).any(|own| own == "*" || own == wanted);
        if !has("verbs", &self.verb) {
            return false;
        }
        if let Some(path) = &self.path {
            return texts(rule, "nonResourceURLs").any(|own| match own.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => own == path,
            });
        }
        let below = self
            .resource
            .split_once('/')
            .map(|(_, below)| format!("*/{below}"));
        let of_resource = texts(rule, "resources")
            .any(|own| own == "*" || own == self.resource || below.as_deref() == Some(own));
        let mut names = texts(rule, "resourceNames").peekable();
        let of_name = match &self.name {
            _ if names.peek().is_none() => true,
            None => false,
            Some(name) => names.any(|own| own == name),
        };
        has("apiGroups", &self.group) && of_resource && of_name
    }
}

/// Rights as rules: the verbs on one resource or path together, sorted by their texts.
fn compact(rights: Vec<Right>) -> BTreeSet<String> {
    let mut rules: Vec<(Right, Vec<String>)> = Vec::new();
    for mut right in rights {
        let verb = std::mem::take(&mut right.verb);
        let known = rules
            .iter_mut()
            .find(|(own, _)| *own == right && right.path.is_none());
        match known {
            Some((_, verbs)) => verbs.push(verb),
            None => rules.push((right, vec![verb])),
        }
    }
    let shown = rules.into_iter().map(|(right, verbs)| {
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("{verb:?}")).collect();
        let what = match right.path {
            Some(path) => format!("NonResourceURLs:[{path:?}]"),
            None => {
                let name = right.name.map(|name| format!(", ResourceNames:[{name:?}]"));
                format!(
                    "APIGroups:[{:?}], Resources:[{:?}]{}",
                    right.group,
                    right.resource,
                    name.unwrap_or_default()
                )
            }
        };
        format!("{{{what}, Verbs:[{}]}}", verbs.join(" "))
    });
    shown.collect()
}

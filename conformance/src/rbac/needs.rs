//! The permissions that requests needed, by user, from events of `audit.k8s.io/v1`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubeproof_machinery::json::Value;
use serde::Deserialize;

use super::grants::{self, Grant};
use super::permission::{Permission, Scope, Target, Uses};
use crate::user_agent;

/// The group of users who need no role.
const MASTERS: &str = "system:masters";
/// The prefix of the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The code of a request that has created an object.
const CREATED: u16 = 201;
/// The code of a request without permission.
const FORBIDDEN: u16 = 403;

/// The permissions that one user needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserNeeds {
    /// The user name.
    pub user: String,
    /// The product in the user agents of an administrator, who may stand for several programs.
    pub product: Option<String>,
    pub(super) permissions: BTreeMap<Permission, Uses>,
    /// The writes of roles and bindings.
    pub(super) grants: Vec<Grant>,
}

/// The permissions that the requests of a log needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    users: BTreeMap<(String, Option<String>), UserNeeds>,
    /// The requests read so far, which have several events.
    seen: BTreeSet<String>,
}

/// A line that is not an audit event.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LogError {
    /// The number of the line, counted from one.
    pub line: usize,
    /// The fault.
    pub message: String,
}

/// An event, as far as it is about permissions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    kind: String,
    stage: String,
    #[serde(rename = "auditID")]
    audit_id: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    #[serde(default)]
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectReference>,
    response_status: Option<Status>,
    request_object: Option<Value>,
    response_object: Option<Value>,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ObjectReference {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    api_group: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

impl Needs {
    /// Adds the requests of a log with an event in each line. Requests without a user are left out, and those that every
    /// authenticated user may send.
    ///
    /// # Errors
    /// The first line that is not an event.
    pub fn read(&mut self, log: &str) -> Result<(), LogError> {
        for (index, line) in log.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |message: String| LogError {
                line: index + 1,
                message,
            };
            let event: Event = serde_json::from_str(line)
                .map_err(|error| wrong(format!("not an audit event: {error}")))?;
            if event.kind != "Event" {
                return Err(wrong(format!("{:?} is not an audit event", event.kind)));
            }
            self.take(event);
        }
        self.conclude();
        Ok(())
    }

    /// Adds the verbs that writes of roles and bindings needed in addition to their own.
    fn conclude(&mut self) {
        let all: Vec<Grant> = self
            .users
            .values()
            .flat_map(|user| user.grants.clone())
            .collect();
        for user in self.users.values_mut() {
            grants::conclude(&mut user.permissions, &user.grants, all.iter());
        }
    }

    fn take(&mut self, event: Event) {
        let status = event.response_status.as_ref();
        let code = status.map_or(0, |status| status.code);
        let message = status.map_or_else(String::new, |status| status.message.clone());
        let objects = [event.response_object, event.request_object];
        let user = event.impersonated_user.unwrap_or(event.user);
        if event.stage == "RequestReceived" || user.username.is_empty() {
            return;
        }
        if !self.seen.insert(event.audit_id) {
            return;
        }
        let (scope, target, name) = match event.object_ref {
            Some(object) if !object.resource.is_empty() => {
                let resource = match object.subresource.as_str() {
                    "" => object.resource,
                    subresource => format!("{}/{subresource}", object.resource),
                };
                let scope = match object.namespace.as_str() {
                    // A namespace is an object without a namespace, though its path names it.
                    "" => Scope::Cluster,
                    _ if resource == "namespaces" || resource.starts_with("namespaces/") => {
                        Scope::Cluster
                    }
                    namespace => Scope::Namespace(namespace.to_owned()),
                };
                let group = object.api_group;
                (scope, Target::Resource { group, resource }, object.name)
            }
            _ => {
                let path = event.request_uri.split('?').next().unwrap_or_default();
                (Scope::Cluster, Target::Path(path.to_owned()), String::new())
            }
        };
        // A patch or an update that creates the object is authorized for that, too.
        let creates = code == CREATED && matches!(event.verb.as_str(), "patch" | "update");
        let verbs = [Some(event.verb.as_str()), creates.then_some("create")];
        let is_master = user.groups.iter().any(|group| group == MASTERS);
        let product = is_master.then(|| user_agent::product(&event.user_agent).to_owned());
        let key = (user.username.clone(), product.clone());
        let needs = self.users.entry(key).or_insert_with(|| UserNeeds {
            user: user.username,
            product,
            permissions: BTreeMap::new(),
            grants: Vec::new(),
        });
        let asked = Permission {
            scope: scope.clone(),
            target: target.clone(),
            verb: event.verb.clone(),
        };
        needs
            .grants
            .extend(Grant::of(&asked, &name, objects, &message));
        for verb in verbs.into_iter().flatten() {
            let permission = Permission {
                scope: scope.clone(),
                target: target.clone(),
                verb: verb.to_owned(),
            };
            if permission.is_public() {
                continue;
            }
            let uses = needs.permissions.entry(permission).or_default();
            uses.refused += u32::from(code == FORBIDDEN);
            uses.names.insert(name.clone());
        }
    }

    /// The users who needed a permission, by name.
    pub fn users(&self) -> impl Iterator<Item = &UserNeeds> {
        let users = self.users.values();
        users.filter(|needs| !needs.permissions.is_empty())
    }
}

impl UserNeeds {
    /// Namespace and name of the service account that the user is.
    #[must_use]
    pub fn service_account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
    }

    /// The permissions for which requests were refused, each with the number of requests.
    pub fn refused(&self) -> impl Iterator<Item = (&Permission, u32)> {
        let all = self.permissions.iter();
        let all = all.map(|(permission, uses)| (permission, uses.refused));
        all.filter(|(_, refused)| *refused > 0)
    }

    /// Whether roles or bindings were written of which the log does not tell what they grant. RBAC lets only those grant
    /// permissions who have them, or who may `escalate` or `bind`.
    #[must_use]
    pub fn grants_permissions(&self) -> bool {
        self.grants.iter().any(Grant::is_open)
    }
}

impl fmt::Display for UserNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.product {
            Some(product) => write!(f, "{} ({product})", self.user),
            None => f.write_str(&self.user),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{log, request};
    use super::*;

    fn described(log: &str) -> Vec<String> {
        let mut needs = Needs::default();
        needs.read(log).unwrap();
        let each = needs.users().flat_map(|user| {
            let permissions = user.permissions.iter();
            permissions.map(move |(one, uses)| format!("{user}: {one} {}", uses.refused))
        });
        each.collect()
    }

    #[test]
    fn each_request_needs_its_verb_in_its_namespace() {
        let log = log(&[
            request("list", "apps deployments", "", 200),
            request("get", "apps deployments/status", "shop/web", 200),
            request("delete", " configmaps", "shop/a", 403),
            request("delete", " configmaps", "shop/b", 403),
            request("patch", " configmaps", "shop/c", 201),
            request("get", " namespaces", "shop/shop", 200),
            request(
                "create",
                "authorization.k8s.io selfsubjectaccessreviews",
                "",
                201,
            ),
        ]);
        let user = "system:serviceaccount:shop:operator";
        assert_eq!(
            described(&log),
            [
                "get namespaces 0",
                "list deployments.apps 0",
                "create configmaps in shop 0",
                "delete configmaps in shop 2",
                "patch configmaps in shop 0",
                "get deployments.apps/status in shop 0",
            ]
            .map(|permission| format!("{user}: {permission}"))
        );
    }

    #[test]
    fn events_of_one_request_count_once_and_paths_count_unless_public() {
        let mut received = request("watch", " pods", "", 403);
        received["stage"] = "RequestReceived".into();
        let started = request("watch", " pods", "", 403);
        let mut completed = started.clone();
        completed["stage"] = "ResponseComplete".into();
        let path = |path: &str| {
            let mut event = request("get", " ", "", 200);
            event["requestURI"] = path.into();
            event["objectRef"].take();
            event
        };
        let events = [
            path("/metrics?a=b"),
            path("/apis/apps/v1"),
            path("/version/"),
        ];
        let log = log(&[&[received, started, completed][..], &events].concat());
        let user = "system:serviceaccount:shop:operator";
        let wanted = ["watch pods 1", "get /metrics 0"];
        assert_eq!(described(&log), wanted.map(|one| format!("{user}: {one}")));
    }

    #[test]
    fn administrators_are_told_apart_by_their_programs_and_the_impersonated_count() {
        let mut admin = request("get", " pods", "a/b", 200);
        admin["user"] =
            kubeproof_machinery::json::json!({"username": "admin", "groups": [MASTERS]});
        admin["userAgent"] = "manager/v1 (linux)".into();
        let mut other = admin.clone();
        other["userAgent"] = "kubectl/v1.36".into();
        let mut impersonating = admin.clone();
        impersonating["impersonatedUser"] = kubeproof_machinery::json::json!({"username": "jane"});
        other["auditID"] = "other".into();
        impersonating["auditID"] = "impersonating".into();
        let log = log(&[admin, other, impersonating]);
        assert_eq!(
            described(&log),
            [
                "admin (kubectl): get pods in a 0",
                "admin (manager): get pods in a 0",
                "jane: get pods in a 0",
            ]
        );
    }

    #[test]
    fn a_line_that_is_no_event_is_named() {
        let wrong = |log: &str| Needs::default().read(log).unwrap_err().to_string();
        assert!(wrong("\n{").starts_with("line 2: not an audit event: "));
        let status = log(&[request("get", " pods", "", 200)]).replace("\"Event\"", "\"Policy\"");
        assert_eq!(wrong(&status), "line 1: \"Policy\" is not an audit event");
    }
}

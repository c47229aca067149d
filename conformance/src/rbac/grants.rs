//! Roles and bindings that users wrote. RBAC lets only those grant permissions who have them, or who may `escalate` the role
//! or `bind` it.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_machinery::json::Value;

use super::permission::{Permission, Scope, Target, Uses};

/// The group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";
/// The verb of those who may write a role with permissions that they do not have.
const ESCALATE: &str = "escalate";
/// The verb of those who may bind a role with permissions that they do not have.
pub(super) const BIND: &str = "bind";
/// The beginning of a refusal's reason.
const REFUSAL: &str = "is attempting to grant RBAC permissions not currently held";

/// The role of a binding: `roles` or `clusterroles`, and its name.
type RoleReference = (String, String);

/// The write of a role or binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    scope: Scope,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    resource: String,
    name: String,
    /// The object as the log has it.
    object: Option<Value>,
    /// Whether it was refused because the user had not what it grants.
    is_refused: bool,
}

impl Grant {
    /// The write with `permission`, if it is that of a role or binding.
    pub(super) fn of(
        permission: &Permission,
        name: &str,
        objects: [Option<Value>; 2],
        message: &str,
    ) -> Option<Self> {
        let Target::Resource { group, resource } = &permission.target else {
            return None;
        };
        let is_write = ["create", "update", "patch"].contains(&&*permission.verb);
        if group != GROUP || !is_write || resource.contains('/') {
            return None;
        }
        // A patch or a refusal is not the object.
        let key = match resource.ends_with("bindings") {
            true => "roleRef",
            false => "rules",
        };
        let mut objects = objects.into_iter().flatten();
        let object = objects.find(|object| object.get(key).is_some());
        let stated = object
            .as_ref()
            .and_then(|one| one["metadata"]["name"].as_str());
        let name = stated.unwrap_or(name).to_owned();
        Some(Self {
            scope: permission.scope.clone(),
            resource: resource.clone(),
            name,
            object,
            is_refused: message.contains(REFUSAL),
        })
    }

    /// Whether the log leaves open which permissions it grants, and whether the user had them.
    pub(super) fn is_open(&self) -> bool {
        self.object.is_none() && !self.is_refused
    }

    fn is_binding(&self) -> bool {
        self.resource.ends_with("bindings")
    }

    /// The permissions in the rules of this role, as far as they are in force in `scope`.
    fn granted(&self, scope: &Scope) -> Option<BTreeSet<Permission>> {
        let rules = self.object.as_ref()?["rules"].as_array()?;
        Some(
            rules
                .iter()
                .flat_map(|rule| permissions(rule, scope))
                .collect(),
        )
    }

    /// The role that this binding is about.
    fn role(&self) -> Option<RoleReference> {
        let reference = &self.object.as_ref()?["roleRef"];
        let plural = match reference["kind"].as_str()? {
            "Role" => "roles",
            _ => "clusterroles",
        };
        Some((plural.to_owned(), reference["name"].as_str()?.to_owned()))
    }
}

/// The permissions of a rule in `scope`; a `*` stands for itself.
fn permissions(rule: &Value, scope: &Scope) -> Vec<Permission> {
    let texts = |key: &str| -> Vec<String> {
        let values = rule[key].as_array().into_iter().flatten();
        values
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let paths = texts("nonResourceURLs").into_iter().map(Target::Path);
    let mut targets: Vec<Target> = paths.collect();
    for group in texts("apiGroups") {
        let resources = texts("resources").into_iter();
        targets.extend(resources.map(|resource| Target::Resource {
            group: group.clone(),
            resource,
        }));
    }
    let verbs = texts("verbs");
    let each = targets.into_iter().flat_map(|target| {
        verbs.iter().map(move |verb| Permission {
            scope: scope.clone(),
            target: target.clone(),
            verb: verb.clone(),
        })
    });
    each.collect()
}

/// Adds to what a user needed the verbs `escalate` and `bind` for the writes of roles and bindings that grant what the user
/// did not need otherwise, or that were refused for it. `all` are the writes of all users.
pub(super) fn conclude<'a>(
    needed: &mut BTreeMap<Permission, Uses>,
    own: &[Grant],
    all: impl Iterator<Item = &'a Grant> + Clone,
) {
    needed.retain(|permission, _| !is_verb_of_grants(permission));
    let mut concluded: Vec<(Permission, Uses)> = Vec::new();
    for grant in own.iter().filter(|grant| !grant.is_open()) {
        let (verb, resources, name, granted) = match (grant.is_binding(), grant.role()) {
            (false, _) => {
                let granted = grant.granted(&grant.scope);
                (
                    ESCALATE,
                    vec![grant.resource.clone()],
                    String::new(),
                    granted,
                )
            }
            (true, Some((plural, name))) => {
                let is_role = |one: &&Grant| {
                    let is_near = plural == "clusterroles" || one.scope == grant.scope;
                    one.resource == plural && one.name == name && is_near
                };
                let role = all.clone().filter(is_role).last();
                let granted = role.and_then(|role| role.granted(&grant.scope));
                (BIND, vec![plural], name, granted)
            }
            // A refusal does not name the role.
            (true, None) => {
                let mut resources = vec!["clusterroles".to_owned()];
                if grant.resource == "rolebindings" {
                    resources.push("roles".to_owned());
                }
                (BIND, resources, String::new(), None)
            }
        };
        let has = |permission: &Permission| {
            let everywhere = Permission {
                scope: Scope::Cluster,
                ..permission.clone()
            };
            needed.contains_key(permission) || needed.contains_key(&everywhere)
        };
        let granted_all = granted.as_ref();
        let has_all = granted_all.is_some_and(|granted| granted.iter().all(has));
        if has_all && !grant.is_refused {
            continue;
        }
        for resource in resources {
            let permission = Permission {
                scope: grant.scope.clone(),
                target: Target::Resource {
                    group: GROUP.to_owned(),
                    resource,
                },
                verb: verb.to_owned(),
            };
            let uses = Uses {
                refused: u32::from(grant.is_refused),
                names: BTreeSet::from([name.clone()]),
                granted: BTreeSet::from([granted.clone()]),
            };
            concluded.push((permission, uses));
        }
    }
    for (permission, uses) in concluded {
        let sum = needed.entry(permission).or_default();
        sum.refused += uses.refused;
        sum.names.extend(uses.names);
        sum.granted.extend(uses.granted);
    }
}

/// Whether no request has the verb.
fn is_verb_of_grants(permission: &Permission) -> bool {
    let is_of_group = match &permission.target {
        Target::Resource { group, .. } => group == GROUP,
        Target::Path(_) => false,
    };
    is_of_group && [ESCALATE, BIND].contains(&&*permission.verb)
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::super::tests::{log, request};
    use super::super::{GivenRoles, Needs};
    use super::*;

    /// The user `operator` gets pods and writes a Role `made` and a binding of it.
    fn written(rules: &Value, code: u16, message: &str) -> Needs {
        let mut role = request("create", &format!("{GROUP} roles"), "shop/", code);
        role["requestObject"] = json!({"metadata": {"name": "made"}, "rules": rules});
        role["responseStatus"]["message"] = message.into();
        let mut binding = request("create", &format!("{GROUP} rolebindings"), "shop/", 201);
        let reference = json!({"kind": "Role", "name": "made"});
        binding["requestObject"] = json!({"metadata": {"name": "made"}, "roleRef": reference});
        let pods = request("get", " pods", "shop/a", 200);
        let mut needs = Needs::default();
        needs.read(&log(&[role, binding, pods])).unwrap();
        needs
    }

    fn rules(needs: &Needs) -> String {
        let roles = needs.users().next().unwrap().roles();
        assert_eq!(roles.len(), 1);
        roles[0]["rules"].to_string()
    }

    fn rule(verb: &str) -> Value {
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}])
    }

    const PODS: &str = r#"{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}"#;

    #[test]
    fn who_grants_what_it_does_not_need_may_escalate_and_bind() {
        let needs = written(&rule("delete"), 201, "");
        let wanted = format!(
            "[{PODS},{},{},{}]",
            r#"{"apiGroups":["rbac.authorization.k8s.io"],"resources":["rolebindings"],"verbs":["create"]}"#,
            r#"{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["create","escalate"]}"#,
            r#"{"apiGroups":["rbac.authorization.k8s.io"],"resourceNames":["made"],"resources":["roles"],"verbs":["bind"]}"#,
        );
        assert_eq!(rules(&needs), wanted);
        assert!(!needs.users().next().unwrap().grants_permissions());
    }

    #[test]
    fn who_needs_what_it_grants_needs_neither() {
        let verbs = ["\"escalate\"", "\"bind\""];
        let printed = rules(&written(&rule("get"), 201, ""));
        assert!(
            verbs.iter().all(|verb| !printed.contains(verb)),
            "{printed}"
        );
        let printed = rules(&written(&rule("*"), 201, ""));
        assert!(verbs.iter().all(|verb| printed.contains(verb)), "{printed}");
    }

    #[test]
    fn a_refusal_shows_the_need_without_a_body_and_a_success_does_not() {
        let write = |code: u16, message: &str| {
            let mut role = request("update", &format!("{GROUP} clusterroles"), "/made", code);
            role["responseStatus"]["message"] = message.into();
            let mut needs = Needs::default();
            needs.read(&log(&[role])).unwrap();
            needs
        };
        let refused = write(403, &format!("user \"u\" (groups=[]) {REFUSAL}:\n"));
        assert!(rules(&refused).contains(r#""verbs":["update","escalate"]"#));
        let passed = write(200, "");
        assert!(!rules(&passed).contains(ESCALATE));
        assert!(passed.users().next().unwrap().grants_permissions());
        let other = write(403, "forbidden: User \"u\" cannot update resource");
        assert!(!rules(&other).contains(ESCALATE));
    }

    #[test]
    fn a_given_role_with_the_granted_permissions_lacks_nothing() {
        let needs = written(&rule("delete"), 201, "");
        let compare = |verbs: &[&str]| {
            let role = json!({
                "kind": "Role", "metadata": {"name": "own", "namespace": "shop"},
                "rules": [
                    {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
                    {"apiGroups": [GROUP], "resources": ["roles", "rolebindings"], "verbs": ["create"]},
                ],
            });
            let compared = GivenRoles::of(vec![role]).compare(needs.users().next().unwrap());
            let lacking = compared.lacking.iter().map(ToString::to_string);
            (lacking.collect::<Vec<_>>(), compared.beyond)
        };
        assert_eq!(compare(&["get", "delete"]), (vec![], vec![]));
        let (lacking, _) = compare(&["get"]);
        assert_eq!(
            lacking,
            [
                "bind roles.rbac.authorization.k8s.io in shop",
                "escalate roles.rbac.authorization.k8s.io in shop",
            ]
        );
    }
}

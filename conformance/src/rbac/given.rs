//! Roles of manifests, compared with the permissions that a user needed.

use std::collections::BTreeSet;

use kubeproof_machinery::json::Value;

use super::needs::UserNeeds;
use super::permission::{Permission, Scope, Target, Uses, is_path_of};

const ANY: &str = "*";

/// The Roles, ClusterRoles and bindings of manifests.
#[derive(Clone, Debug, Default)]
pub struct GivenRoles {
    roles: Vec<Value>,
    bindings: Vec<Value>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The permissions that were needed and no role grants.
    pub lacking: Vec<Permission>,
    /// The permissions that roles grant and no request needed, in words: `ClusterRole manager: delete secrets`.
    pub beyond: Vec<String>,
}

/// A rule in force for a user.
struct Rule<'a> {
    /// `ClusterRole manager`
    role: String,
    /// The namespace in which the rule is in force; `None` for all of them.
    namespace: Option<&'a str>,
    rule: &'a Value,
}

impl GivenRoles {
    /// Takes the roles and bindings out of `objects`; those of a `List` count, too.
    #[must_use]
    pub fn of(objects: Vec<Value>) -> Self {
        let mut given = Self::default();
        for object in objects {
            given.take(object);
        }
        given
    }

    fn take(&mut self, mut object: Value) {
        match object["kind"].as_str().unwrap_or_default() {
            "Role" | "ClusterRole" => self.roles.push(object),
            "RoleBinding" | "ClusterRoleBinding" => self.bindings.push(object),
            kind if kind.ends_with("List") => {
                if let Value::Array(items) = object["items"].take() {
                    items.into_iter().for_each(|item| self.take(item));
                }
            }
            _ => {}
        }
    }

    /// The number of Roles and ClusterRoles.
    #[must_use]
    pub fn count(&self) -> usize {
        self.roles.len()
    }

    /// Compares the roles with what a user needed. A role that no binding of the manifests names is taken to be bound to
    /// the user: a Role in its namespace, a ClusterRole everywhere.
    #[must_use]
    pub fn compare(&self, needs: &UserNeeds) -> Comparison {
        let rules = self.rules(needs);
        let lacking = needs.permissions.iter();
        let lacking = lacking
            .filter(|(permission, uses)| !rules.iter().any(|rule| rule.covers(permission, uses)))
            .filter(|(_, uses)| !has_granted(&rules, uses));
        let mut beyond = BTreeSet::new();
        for rule in &rules {
            beyond.extend(rule.beyond(needs));
        }
        Comparison {
            lacking: lacking.map(|(permission, _)| permission.clone()).collect(),
            beyond: beyond.into_iter().collect(),
        }
    }

    /// The rules in force for a user.
    fn rules<'a>(&'a self, needs: &UserNeeds) -> Vec<Rule<'a>> {
        let mut rules = Vec::new();
        for role in &self.roles {
            let (kind, name) = (text(&role["kind"]), text(&role["metadata"]["name"]));
            let own_namespace = role["metadata"]["namespace"].as_str();
            let bindings = self.bindings.iter();
            let mut bindings = bindings.filter(|binding| {
                let reference = &binding["roleRef"];
                text(&reference["kind"]) == kind && text(&reference["name"]) == name
            });
            let mut namespaces: Vec<Option<&str>> = Vec::new();
            let mut is_bound = false;
            for binding in &mut bindings {
                is_bound = true;
                if binds(binding, needs) {
                    namespaces.push(match text(&binding["kind"]) {
                        "ClusterRoleBinding" => None,
                        _ => binding["metadata"]["namespace"].as_str().or(own_namespace),
                    });
                }
            }
            if !is_bound {
                namespaces.push(own_namespace);
            }
            for namespace in namespaces {
                for rule in role["rules"].as_array().into_iter().flatten() {
                    rules.push(Rule {
                        role: format!("{kind} {name}"),
                        namespace,
                        rule,
                    });
                }
            }
        }
        rules
    }
}

/// Whether the rules have all that writes of roles and bindings have granted, which then need no verb of their own.
fn has_granted(rules: &[Rule<'_>], uses: &Uses) -> bool {
    let has = |permission: &Permission| {
        let mut rules = rules.iter();
        rules.any(|rule| rule.is_in_force(&permission.scope) && rule.matches(permission))
    };
    let mut granted = uses.granted.iter();
    !uses.granted.is_empty()
        && granted.all(|one| one.as_ref().is_some_and(|one| one.iter().all(has)))
}

/// Whether a binding is for the user: it names the user or service account, or one of the groups of a service account.
fn binds(binding: &Value, needs: &UserNeeds) -> bool {
    let subjects = binding["subjects"].as_array();
    subjects.into_iter().flatten().any(|subject| {
        let name = text(&subject["name"]);
        match (text(&subject["kind"]), needs.service_account()) {
            ("ServiceAccount", Some((namespace, account))) => {
                let stated = subject["namespace"].as_str();
                let stated = stated.or(binding["metadata"]["namespace"].as_str());
                name == account && stated.is_none_or(|stated| stated == namespace)
            }
            // The program of an administrator may be bound to any account.
            ("ServiceAccount", None) => needs.product.is_some(),
            ("User", _) => name == needs.user,
            ("Group", account) => {
                let of_namespace =
                    |(namespace, _)| name == format!("system:serviceaccounts:{namespace}");
                let is_own = name == "system:serviceaccounts" && account.is_some();
                name == "system:authenticated" || is_own || account.is_some_and(of_namespace)
            }
            _ => false,
        }
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Whether a rule's word for a resource is about `resource`, which may have a subresource.
fn is_resource_of(rule: &str, resource: &str) -> bool {
    let subresource = resource.split_once('/').map(|(_, subresource)| subresource);
    let of_any = rule.strip_prefix("*/");
    rule == ANY || rule == resource || of_any.is_some() && of_any == subresource
}

impl Rule<'_> {
    /// Whether the rule grants the permission for all objects that it was needed for.
    fn covers(&self, permission: &Permission, uses: &Uses) -> bool {
        let mut names = texts(&self.rule["resourceNames"]).peekable();
        let is_for_names = match names.peek() {
            None => true,
            Some(_) => {
                let named: BTreeSet<&str> = names.collect();
                uses.names.iter().all(|name| named.contains(name.as_str()))
            }
        };
        is_for_names && self.is_in_force(&permission.scope) && self.matches(permission)
    }

    fn is_in_force(&self, scope: &Scope) -> bool {
        match (self.namespace, scope) {
            (None, _) => true,
            (Some(own), Scope::Namespace(namespace)) => own == namespace,
            (Some(_), Scope::Cluster) => false,
        }
    }

    /// Whether verb and target are those of the rule.
    fn matches(&self, permission: &Permission) -> bool {
        let has_verb =
            texts(&self.rule["verbs"]).any(|verb| verb == ANY || verb == permission.verb);
        let has_target = match &permission.target {
            Target::Path(path) => {
                texts(&self.rule["nonResourceURLs"]).any(|rule| is_path_of(rule, path))
            }
            Target::Resource { group, resource } => {
                let mut groups = texts(&self.rule["apiGroups"]);
                let mut resources = texts(&self.rule["resources"]);
                groups.any(|own| own == ANY || own == group)
                    && resources.any(|own| is_resource_of(own, resource))
            }
        };
        has_verb && has_target
    }

    /// The permissions of the rule that no request needed, one for each verb and target.
    fn beyond(&self, needs: &UserNeeds) -> Vec<String> {
        let granted = needs.permissions.values().flat_map(|uses| &uses.granted);
        let needed = needs.permissions.keys().chain(granted.flatten().flatten());
        let needed = needed.filter(|one| self.is_in_force(&one.scope));
        let needed: Vec<&Permission> = needed.filter(|one| self.matches(one)).collect();
        let mut targets: Vec<(Target, String)> = Vec::new();
        for group in texts(&self.rule["apiGroups"]) {
            for resource in texts(&self.rule["resources"]) {
                let target = Target::Resource {
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                };
                let words = target.to_string();
                targets.push((target, words));
            }
        }
        for path in texts(&self.rule["nonResourceURLs"]) {
            targets.push((Target::Path(path.to_owned()), path.to_owned()));
        }
        let mut beyond = Vec::new();
        for (target, words) in &targets {
            for verb in texts(&self.rule["verbs"]) {
                let of_part = |one: &&&Permission| {
                    (verb == ANY || verb == one.verb) && is_target_of(target, &one.target)
                };
                let used: Vec<&&Permission> = needed.iter().filter(of_part).collect();
                let is_exact = used
                    .iter()
                    .any(|one| one.verb == verb && one.target == *target);
                let place = match self.namespace {
                    Some(namespace) => format!(" in {namespace}"),
                    None => String::new(),
                };
                let granted = format!("{}: {verb} {words}{place}", self.role);
                let wider: BTreeSet<String> = used
                    .iter()
                    .map(|one| format!("{} {}", one.verb, one.target))
                    .collect();
                match (is_exact, wider.is_empty()) {
                    (true, _) => {}
                    (false, true) => beyond.push(granted),
                    (false, false) => {
                        let wider: Vec<String> = wider.into_iter().collect();
                        beyond.push(format!("{granted}, of which only {}", wider.join(", ")));
                    }
                }
            }
        }
        beyond
    }
}

/// Whether the target of a rule is about `target`.
fn is_target_of(rule: &Target, target: &Target) -> bool {
    match (rule, target) {
        (Target::Path(rule), Target::Path(path)) => is_path_of(rule, path),
        (
            Target::Resource { group, resource },
            Target::Resource {
                group: of,
                resource: what,
            },
        ) => (group == ANY || group == of) && is_resource_of(resource, what),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::super::Needs;
    use super::super::tests::{log, request};
    use super::*;

    fn compare(objects: Vec<Value>) -> (Vec<String>, Vec<String>) {
        let log = log(&[
            request("list", " secrets", "shop/", 200),
            request("get", " configmaps", "shop/settings", 200),
            request("list", "apps deployments", "", 403),
        ]);
        let mut needs = Needs::default();
        needs.read(&log).unwrap();
        let compared = GivenRoles::of(objects).compare(needs.users().next().unwrap());
        let lacking = compared.lacking.iter().map(ToString::to_string);
        (lacking.collect(), compared.beyond)
    }

    fn role(kind: &str, rules: Value) -> Value {
        let mut role = json!({"kind": kind, "metadata": {"name": "manager"}, "rules": rules});
        if kind == "Role" {
            role["metadata"]["namespace"] = "shop".into();
        }
        role
    }

    fn binding(kind: &str, role: &str, account: &str) -> Value {
        json!({
            "kind": kind,
            "metadata": {"name": "manager", "namespace": "shop"},
            "roleRef": {"kind": role, "name": "manager"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "shop"}],
        })
    }

    #[test]
    fn a_role_lacks_what_was_needed_and_has_what_was_not() {
        let rules = json!([
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "delete"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["settings"]},
        ]);
        let role = role("Role", rules);
        let (lacking, beyond) = compare(vec![json!({"kind": "List", "items": [role]})]);
        assert_eq!(lacking, ["list deployments.apps"]);
        assert_eq!(beyond, ["Role manager: delete secrets in shop"]);
    }

    #[test]
    fn wildcards_are_wider_than_what_was_needed() {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let (lacking, beyond) = compare(vec![role("ClusterRole", rules)]);
        assert!(lacking.is_empty(), "{lacking:?}");
        let wider = "ClusterRole manager: * *.*, of which only get configmaps, list deployments.apps, \
                     list secrets";
        assert_eq!(beyond, [wider]);
        let rules = json!([
            {"apiGroups": [""], "resources": ["*"], "verbs": ["get", "list"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]);
        let (lacking, beyond) = compare(vec![role("ClusterRole", rules)]);
        assert!(lacking.is_empty(), "{lacking:?}");
        assert_eq!(
            beyond,
            [
                "ClusterRole manager: get *, of which only get configmaps",
                "ClusterRole manager: get /metrics",
                "ClusterRole manager: list *, of which only list secrets",
            ]
        );
    }

    #[test]
    fn bindings_say_where_a_role_is_in_force_and_for_whom() {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "get"]}]);
        let cluster_role = || role("ClusterRole", rules.clone());
        let lacking = |kind: &str, account: &str| {
            compare(vec![cluster_role(), binding(kind, "ClusterRole", account)]).0
        };
        assert_eq!(lacking("ClusterRoleBinding", "operator"), [""; 0]);
        assert_eq!(
            lacking("RoleBinding", "operator"),
            ["list deployments.apps"]
        );
        assert_eq!(lacking("ClusterRoleBinding", "other").len(), 3);
    }

    #[test]
    fn names_of_a_rule_have_to_be_those_of_all_objects() {
        let rules = json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["other"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"], "resourceNames": ["a"]},
        ]);
        let (lacking, _) = compare(vec![role("Role", rules)]);
        let wanted = [
            "list deployments.apps",
            "get configmaps in shop",
            "list secrets in shop",
        ];
        assert_eq!(lacking, wanted);
    }
}

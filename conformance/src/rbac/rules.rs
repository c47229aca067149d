//! The fewest rules that grant the permissions of a user, as Roles and ClusterRoles.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_machinery::json::{Value, json};

use super::grants::BIND;
use super::needs::UserNeeds;
use super::permission::{Permission, Scope, Target};

/// The order in which roles list verbs; others follow by name.
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

impl UserNeeds {
    /// Returns the least roles: a ClusterRole for what is needed in all namespaces, and a Role for each namespace with
    /// what is needed in addition. Resources with equal verbs share a rule.
    #[must_use]
    pub fn roles(&self) -> Vec<Value> {
        let mut scopes: BTreeMap<&Scope, Vec<&Permission>> = BTreeMap::new();
        for permission in self.permissions.keys() {
            let everywhere = Permission {
                scope: Scope::Cluster,
                ..permission.clone()
            };
            let is_extra =
                permission.scope == Scope::Cluster || !self.permissions.contains_key(&everywhere);
            if is_extra {
                let of_scope = scopes.entry(&permission.scope).or_default();
                of_scope.push(permission);
            }
        }
        let roles = scopes.into_iter();
        let roles = roles.map(|(scope, permissions)| self.role(scope, &permissions));
        roles.collect()
    }

    fn role(&self, scope: &Scope, permissions: &[&Permission]) -> Value {
        let mut metadata = json!({"name": self.role_name()});
        let kind = match scope {
            Scope::Cluster => "ClusterRole",
            Scope::Namespace(namespace) => {
                metadata["namespace"] = namespace.as_str().into();
                "Role"
            }
        };
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "rules": self.rules(permissions),
        })
    }

    /// The name of the service account or program.
    fn role_name(&self) -> String {
        let account = self.service_account().map(|(_, name)| name);
        let name = account.or(self.product.as_deref()).unwrap_or(&self.user);
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let name = name.replace(|letter| !allowed(letter), "-").to_lowercase();
        match name.trim_matches(['-', '.']) {
            "" => "program".to_owned(),
            name => name.to_owned(),
        }
    }
}

impl UserNeeds {
    /// The rules for these permissions. One who may bind a role may bind only that.
    fn rules(&self, permissions: &[&Permission]) -> Vec<Value> {
        let (binds, others): (Vec<&Permission>, Vec<&Permission>) =
            permissions.iter().partition(|one| one.verb == BIND);
        let mut rules = rules(&others);
        for permission in binds {
            let mut rule = self::rules(&[permission]).swap_remove(0);
            let names = &self.permissions[permission].names;
            if names.iter().all(|name| !name.is_empty()) {
                rule["resourceNames"] = names.iter().map(String::as_str).collect();
            }
            rules.push(rule);
        }
        rules
    }
}

fn rules(permissions: &[&Permission]) -> Vec<Value> {
    let mut verbs: BTreeMap<&Target, BTreeSet<&str>> = BTreeMap::new();
    for permission in permissions {
        let of_target = verbs.entry(&permission.target).or_default();
        of_target.insert(&permission.verb);
    }
    // Targets of one group with equal verbs, in the order of the first.
    let mut shared: Vec<(Option<&str>, Vec<&str>, Vec<&str>)> = Vec::new();
    for (target, verbs) in verbs {
        let (group, name) = match target {
            Target::Resource { group, resource } => (Some(group.as_str()), resource.as_str()),
            Target::Path(path) => (None, path.as_str()),
        };
        let verbs = in_order(verbs);
        let same = shared
            .iter_mut()
            .find(|(of, own, _)| *of == group && *own == verbs);
        match same {
            Some((_, _, names)) => names.push(name),
            None => shared.push((group, verbs, vec![name])),
        }
    }
    let rules = shared.into_iter().map(|(group, verbs, names)| match group {
        Some(group) => json!({"apiGroups": [group], "resources": names, "verbs": verbs}),
        None => json!({"nonResourceURLs": names, "verbs": verbs}),
    });
    rules.collect()
}

fn in_order(verbs: BTreeSet<&str>) -> Vec<&str> {
    let mut verbs: Vec<&str> = verbs.into_iter().collect();
    let place = |verb: &&str| VERBS.iter().position(|own| own == verb);
    verbs.sort_by_key(|verb| place(verb).unwrap_or(VERBS.len()));
    verbs
}

#[cfg(test)]
mod tests {
    use super::super::Needs;
    use super::super::tests::{log, request};

    #[test]
    fn resources_with_equal_verbs_share_a_rule_and_namespaces_add_what_is_missing() {
        let log = log(&[
            request("watch", "apps deployments", "", 200),
            request("list", "apps deployments", "", 200),
            request("list", "apps statefulsets", "", 200),
            request("watch", "apps statefulsets", "", 200),
            request("list", "apps deployments", "shop/", 200),
            request("approve", "x.io things", "shop/a", 200),
            request("get", "x.io things", "shop/a", 200),
            request("patch", "x.io things/status", "shop/a", 200),
        ]);
        let mut needs = Needs::default();
        needs.read(&log).unwrap();
        let roles = needs.users().next().unwrap().roles();
        let manifests: Vec<String> = roles.iter().map(ToString::to_string).collect();
        assert_eq!(
            manifests,
            [
                r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"operator"},"rules":[{"apiGroups":["apps"],"resources":["deployments","statefulsets"],"verbs":["list","watch"]}]}"#,
                r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"operator","namespace":"shop"},"rules":[{"apiGroups":["x.io"],"resources":["things"],"verbs":["get","approve"]},{"apiGroups":["x.io"],"resources":["things/status"],"verbs":["patch"]}]}"#,
            ]
        );
    }
}

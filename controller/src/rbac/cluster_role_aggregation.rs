//! The cluster role aggregation controller: a ClusterRole with an aggregation rule has the rules of those
//! that it selects.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{Patch, PatchParams};
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::json;

/// The controller's name: its user agent, and the manager of the rules it applies.
pub const NAME: &str = "clusterrole-aggregation-controller";

struct Controller {
    ctx: Context,
    /// One key for all roles: whichever changes, any other may select it.
    queue: WorkQueue<ObjectKey>,
    roles: Informer<ClusterRole>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        queue: WorkQueue::new(),
        roles: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.roles, |_| {
            controller.queue.add(ObjectKey {
                namespace: String::new(),
                name: String::new(),
            });
        })
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, _: &ObjectKey) -> Result<Option<Duration>, Error> {
        let roles = self.roles.all();
        let mut failed = Ok(None);
        for role in &roles {
            let rules = aggregated(role, roles.iter().map(|role| &**role));
            let known = role.rules.as_deref().unwrap_or_default();
            let Some(rules) = rules.filter(|rules| rules != known) else {
                continue;
            };
            if let Err(error) = self.apply(&role.name_any(), &rules).await {
                failed = Err(error);
            }
        }
        failed
    }
}

impl Controller {
    async fn apply(&self, name: &str, rules: &[PolicyRule]) -> Result<(), Error> {
        let applied = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name },
            "rules": rules,
        });
        let api: Api<ClusterRole> = Api::all(self.ctx.client.clone());
        let params = PatchParams::apply(NAME).force();
        match api.patch(name, &params, &Patch::Apply(applied)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The rules of all `roles` that the aggregation rule of `role` selects, by their names, each once; none for a
/// role that aggregates nothing.
fn aggregated<'a>(
    role: &ClusterRole,
    roles: impl Iterator<Item = &'a ClusterRole>,
) -> Option<Vec<PolicyRule>> {
    let selectors = role
        .aggregation_rule
        .as_ref()?
        .cluster_role_selectors
        .iter();
    let selectors = selectors.flatten().cloned().map(Selector::try_from);
    let selectors: Vec<Selector> = selectors.filter_map(Result::ok).collect();
    let selects = |other: &ClusterRole| {
        let mut selectors = selectors.iter();
        selectors.any(|selector| selector.matches(other.labels()))
    };
    let other = |other: &&ClusterRole| other.metadata.name != role.metadata.name;
    let mut selected: Vec<&ClusterRole> = roles.filter(other).filter(|it| selects(it)).collect();
    selected.sort_by_key(|role| role.metadata.name.clone());
    let mut rules: Vec<PolicyRule> = Vec::new();
    for rule in selected.iter().flat_map(|role| role.rules.iter().flatten()) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn role(name: &str, label: &str, verbs: &[&str]) -> ClusterRole {
        let rules = verbs
            .iter()
            .map(|verb| json!({"apiGroups": [""], "verbs": [verb]}));
        let rules: Vec<_> = rules.collect();
        let metadata = json!({"name": name, "labels": {"to": label}});
        from_value(json!({"metadata": metadata, "rules": rules})).unwrap()
    }

    #[test]
    fn the_rules_of_the_selected_are_taken_in_the_order_of_names_and_each_once() {
        let mut whole = role("whole", "a", &["old"]);
        assert_eq!(aggregated(&whole, std::iter::empty()), None);
        let selectors = json!({"clusterRoleSelectors": [
            {"matchLabels": {"to": "a"}}, {"matchExpressions": [{"key": "to", "operator": "In", "values": ["b"]}]},
        ]});
        whole.aggregation_rule = from_value(selectors).unwrap();
        let others = [
            role("three", "b", &["list"]),
            role("one", "a", &["get", "list"]),
            role("two", "c", &["delete"]),
            whole.clone(),
        ];
        let rules = aggregated(&whole, others.iter()).unwrap();
        let verbs: Vec<&str> = rules
            .iter()
            .flat_map(|rule| &rule.verbs)
            .map(String::as_str)
            .collect();
        assert_eq!(verbs, ["get", "list"]);
        assert_eq!(aggregated(&whole, std::iter::empty()), Some(Vec::new()));
    }
}

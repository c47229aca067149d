//! The pods that a pod is spread with if it does not say so itself.
//!
//! Source: `pkg/scheduler/framework/plugins/helper/spread.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::store::{ObjectKey, Store};

/// The Services and sets of the cluster.
#[derive(Default)]
pub(super) struct Sets {
    pub(super) services: Store<Service>,
    pub(super) controllers: Store<ReplicationController>,
    pub(super) replica_sets: Store<ReplicaSet>,
    pub(super) stateful_sets: Store<StatefulSet>,
}

impl Sets {
    pub(super) fn are_synced(&self) -> bool {
        self.services.is_synced()
            && self.controllers.is_synced()
            && self.replica_sets.is_synced()
            && self.stateful_sets.is_synced()
    }

    /// Returns the selector of the pods that the pod's Services and its set select together; that
    /// of all pods if it has neither (`DefaultSelector`).
    pub(super) fn spread_selector(&self, pod: &Pod) -> Selector {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let mut labels = BTreeMap::new();
        for service in self.services.in_namespace(&namespace) {
            let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone());
            if let Some(own) = selector.filter(|own| selects(own, pod)) {
                labels.extend(own);
            }
        }
        let Some(owner) = controller_of(&pod.metadata) else {
            return labels.into_iter().collect();
        };
        let key = ObjectKey {
            namespace,
            name: owner.name.clone(),
        };
        let of_set: Option<LabelSelector> = match (&*owner.api_version, &*owner.kind) {
            ("v1", "ReplicationController") => {
                let set = self.controllers.get(&key);
                let selector = set.and_then(|set| set.spec.as_ref()?.selector.clone());
                labels.extend(selector.unwrap_or_default());
                None
            }
            ("apps/v1", "ReplicaSet") => {
                let set = self.replica_sets.get(&key);
                set.and_then(|set| Some(set.spec.as_ref()?.selector.clone()))
            }
            ("apps/v1", "StatefulSet") => {
                let set = self.stateful_sets.get(&key);
                set.and_then(|set| Some(set.spec.as_ref()?.selector.clone()))
            }
            _ => None,
        };
        let mut selector: Selector = labels.into_iter().collect();
        if let Some(Ok(own)) = of_set.map(Selector::try_from) {
            selector.extend(own);
        }
        selector
    }
}

/// Returns whether a Service with this selector has the pod.
fn selects(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let selector: Selector = selector.clone().into_iter().collect();
    selector.matches(&pod.metadata.labels.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use kubeproof_machinery::json::{Value, json};
    use kubeproof_runtime::decode::from_value;
    use std::sync::Arc;

    use super::*;

    fn sets() -> Sets {
        let mut sets = Sets::default();
        let metadata = |name: &str| json!({ "name": name, "namespace": "default" });
        let service = |name: &str, selector: Value| -> Event<Arc<Service>> {
            let object = json!({ "metadata": metadata(name), "spec": { "selector": selector } });
            Event::Apply(Arc::new(from_value(object).unwrap()))
        };
        sets.services.apply(service("web", json!({ "app": "web" })));
        sets.services
            .apply(service("tier", json!({ "tier": "front" })));
        sets.services.apply(service("none", Value::Null));
        let set = json!({
            "metadata": metadata("web"),
            "spec": { "selector": { "matchLabels": { "hash": "1" } }, "template": {} },
        });
        let set = from_value(set).unwrap();
        sets.replica_sets.apply(Event::Apply(Arc::new(set)));
        let controller = json!({
            "metadata": metadata("web"), "spec": { "selector": { "rc": "web" } },
        });
        let controller = from_value(controller).unwrap();
        sets.controllers.apply(Event::Apply(Arc::new(controller)));
        sets
    }

    fn pod(labels: &Value, owner: Option<(&str, &str)>) -> Pod {
        let owners = owner.map(|(version, kind)| {
            json!([{ "apiVersion": version, "kind": kind, "name": "web", "uid": "u", "controller": true }])
        });
        let metadata = json!({
            "name": "p", "namespace": "default", "labels": labels, "ownerReferences": owners,
        });
        from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn services_and_the_set_of_a_pod_select_together() {
        let sets = sets();
        let both = json!({ "app": "web", "tier": "front" });
        for (labels, owner, expected) in [
            (json!({}), None, ""),
            (json!({ "app": "db" }), None, ""),
            (json!({ "app": "web" }), None, "app=web"),
            (both.clone(), None, "app=web,tier=front"),
            (
                both.clone(),
                Some(("apps/v1", "ReplicaSet")),
                "app=web,tier=front,hash=1",
            ),
            (json!({}), Some(("v1", "ReplicationController")), "rc=web"),
            // There is no such set.
            (json!({}), Some(("apps/v1", "StatefulSet")), ""),
            (both, Some(("batch/v1", "Job")), "app=web,tier=front"),
        ] {
            let selector = sets.spread_selector(&pod(&labels, owner));
            assert_eq!(selector.to_string(), expected, "{labels} {owner:?}");
        }
    }
}

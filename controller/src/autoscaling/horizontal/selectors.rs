//! Which autoscalers' targets have the same pods.
//!
//! Source: `hpaSelectors` in `pkg/controller/podautoscaler/horizontal.go` of Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use kubeproof_machinery::meta::selector::LabelSelector;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::store::ObjectKey;

/// The selectors of the targets of autoscalers.
#[derive(Default)]
pub(super) struct Selectors {
    by_autoscaler: BTreeMap<ObjectKey, LabelSelector>,
}

impl Selectors {
    /// Notes an autoscaler, which selects nothing before its first sync.
    pub(super) fn register(&mut self, key: &ObjectKey) {
        let selectors = &mut self.by_autoscaler;
        let nothing = LabelSelector::nothing;
        selectors.entry(key.clone()).or_insert_with(nothing);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.by_autoscaler.remove(key);
    }

    /// Sets the selector of an autoscaler that is still there.
    pub(super) fn set(&mut self, key: &ObjectKey, selector: LabelSelector) {
        if let Some(held) = self.by_autoscaler.get_mut(key) {
            *held = selector;
        }
    }

    /// The autoscalers of the namespace that select one of `pods`, by name, as `namespace/name`. (Upstream's order is
    /// random.)
    pub(super) fn selecting(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<String> {
        let own = self.by_autoscaler.iter();
        own.filter(|(key, _)| key.namespace == namespace)
            .filter(|(_, selector)| pods.iter().any(|pod| selector.matches_map(pod.labels())))
            .map(|(key, _)| format!("{}/{}", key.namespace, key.name))
            .collect()
    }
}

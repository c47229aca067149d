//! The scheduler's placement of pods and volumes: where volumes are, and where to provision them.
//!
//! Source: plugin `VolumeBinding` of kube-scheduler.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorTerm, PersistentVolumeClaim, Pod};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, PersistentVolume};
use kube::Api;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kubeproof_runtime::pod::{claims, is_not_owner};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::answered;
use kubeproof_runtime::volume::{SELECTED_NODE, class_of, waits_for_consumer};
use serde_json::json;

use super::Scheduler;

/// The constraints of a pod's volumes on its node.
pub(super) struct Wishes {
    /// The pod with the node affinities of its volumes added.
    pub(super) pod: Arc<Pod>,
    /// Claims whose volumes are provisioned once the pod has a node.
    pub(super) delayed: Vec<Arc<PersistentVolumeClaim>>,
}

impl Scheduler {
    /// Collects the constraints of the volumes of `pod`.
    pub(super) fn wishes(&self, key: &ObjectKey, pod: &Arc<Pod>) -> Wishes {
        let mut wishes = Wishes {
            pod: Arc::clone(pod),
            delayed: Vec::new(),
        };
        let mut required: Vec<Vec<NodeSelectorTerm>> = Vec::new();
        for used in claims(pod) {
            let claim = self.claims.get(&ObjectKey {
                namespace: key.namespace.clone(),
                name: used.name.into_owned(),
            });
            let Some(claim) = claim else { continue };
            match self.volume_of(claim) {
                Some(volume) => required.extend(affinity_of(volume)),
                None if self.is_delayed(claim) => {
                    required.extend(claim.annotations().get(SELECTED_NODE).map(|node| {
                        let hostname = NodeSelectorRequirement {
                            key: "metadata.name".to_owned(),
                            operator: "In".to_owned(),
                            values: Some(vec![node.clone()]),
                        };
                        vec![NodeSelectorTerm {
                            match_fields: Some(vec![hostname]),
                            ..NodeSelectorTerm::default()
                        }]
                    }));
                    wishes.delayed.push(Arc::clone(claim));
                }
                None => {}
            }
        }
        if !required.is_empty() {
            let mut wished = (**pod).clone();
            required
                .iter()
                .for_each(|terms| require(&mut wished, terms));
            wishes.pod = Arc::new(wished);
        }
        wishes
    }

    /// The reason why the claims of `pod` keep it from every node (`PreFilter`).
    pub(super) fn unusable_claim(&self, key: &ObjectKey, pod: &Pod) -> Option<String> {
        if !self.follows_volumes {
            return None;
        }
        let mut has_unbound = false;
        for used in claims(pod) {
            let name = used.name.into_owned();
            let claim = self.claims.get(&ObjectKey {
                namespace: key.namespace.clone(),
                name: name.clone(),
            });
            let Some(claim) = claim else {
                return Some(match used.is_ephemeral {
                    true => format!(
                        "waiting for ephemeral volume controller to create the \
                         persistentvolumeclaim {name:?}"
                    ),
                    false => format!("persistentvolumeclaim {name:?} not found"),
                });
            };
            let status = claim.status.as_ref();
            let volume = claim
                .spec
                .as_ref()
                .and_then(|spec| spec.volume_name.clone());
            let volume = volume.unwrap_or_default();
            if status.and_then(|status| status.phase.as_deref()) == Some("Lost") {
                return Some(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
                ));
            }
            if claim.metadata.deletion_timestamp.is_some() {
                return Some(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if used.is_ephemeral
                && let Some(error) = is_not_owner(pod, claim)
            {
                return Some(error);
            }
            has_unbound |= volume.is_empty() && !self.is_delayed(claim);
        }
        has_unbound.then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    }

    fn volume_of(&self, claim: &PersistentVolumeClaim) -> Option<&PersistentVolume> {
        let name = claim.spec.as_ref()?.volume_name.clone()?;
        let key = ObjectKey {
            namespace: String::new(),
            name,
        };
        self.volumes.get(&key).map(|volume| &**volume)
    }

    fn is_delayed(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = class_of(claim).map(|name| ObjectKey {
            namespace: String::new(),
            name: name.to_owned(),
        });
        let class = class.and_then(|key| self.classes.get(&key));
        let spec = claim.spec.as_ref();
        let volume = spec.and_then(|spec| spec.volume_name.as_deref());
        volume.unwrap_or_default().is_empty()
            && class.is_some_and(|class| waits_for_consumer(class))
    }

    /// Annotates `claims` with `node` as the place of their volumes.
    pub(super) async fn select_node(
        &self,
        claims: &[Arc<PersistentVolumeClaim>],
        node: &str,
    ) -> Result<(), kube::Error> {
        for claim in claims {
            if claim.annotations().get(SELECTED_NODE).map(String::as_str) == Some(node) {
                continue;
            }
            let namespace = claim.namespace().unwrap_or_default();
            let api: Api<PersistentVolumeClaim> =
                Api::namespaced(self.ctx.client.clone(), &namespace);
            let annotations = json!({ SELECTED_NODE: node });
            let metadata = json!({ "uid": claim.metadata.uid, "annotations": annotations });
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            let params = PatchParams::default();
            match api.patch(&claim.name_any(), &params, &patch).await {
                Err(error) if answered(&error, 404) || answered(&error, 409) => {}
                patched => _ = patched?,
            }
        }
        Ok(())
    }
}

fn affinity_of(volume: &PersistentVolume) -> Option<Vec<NodeSelectorTerm>> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    Some(affinity.required.as_ref()?.node_selector_terms.clone())
}

/// Adds `terms` as a requirement to the pod's node affinity.
fn require(pod: &mut Pod, terms: &[NodeSelectorTerm]) {
    let spec = pod.spec.get_or_insert_default();
    let affinity = spec.affinity.get_or_insert_default();
    let affinity = affinity.node_affinity.get_or_insert_default();
    let required = &mut affinity.required_during_scheduling_ignored_during_execution;
    let own = required.take().map(|own| own.node_selector_terms);
    let own = own.unwrap_or_else(|| vec![NodeSelectorTerm::default()]);
    let both = |one: &NodeSelectorTerm, other: &NodeSelectorTerm| {
        let join = |a: &Option<Vec<NodeSelectorRequirement>>, b: &Option<Vec<_>>| {
            let all: Vec<_> = a.iter().chain(b).flatten().cloned().collect();
            (!all.is_empty()).then_some(all)
        };
        NodeSelectorTerm {
            match_expressions: join(&one.match_expressions, &other.match_expressions),
            match_fields: join(&one.match_fields, &other.match_fields),
        }
    };
    let pairs = own
        .iter()
        .flat_map(|one| terms.iter().map(move |other| both(one, other)));
    *required = Some(NodeSelector {
        node_selector_terms: pairs.collect(),
    });
}

//! The conditions and events of pods on a failed node.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;
use serde_json::json;

use super::Controller;

/// The node that a pod is bound to.
pub(super) fn node_of(pod: &Pod) -> Option<&String> {
    let node = pod.spec.as_ref()?.node_name.as_ref()?;
    Some(node).filter(|node| !node.is_empty())
}

/// Marks pods that are bound to a node which has failed already.
pub(super) struct Bound<'a>(pub(super) &'a Controller);

impl Reconcile for Bound<'_> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.0.pods.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let Some(node) = node_of(&pod) else {
            return Ok(None);
        };
        let ready = {
            let state = self.0.state.lock();
            let health = state.health.get(node);
            health.and_then(|health| health.ready.as_ref().map(|ready| ready.status.clone()))
        };
        let exists = self.0.nodes.get("", node).is_some();
        if exists && ready.is_some_and(|ready| ready != "True") {
            self.0.mark_not_ready(&[pod]).await?;
        }
        Ok(None)
    }
}

impl Controller {
    /// Sets the condition Ready of each pod to False where it is not.
    pub(super) async fn mark_not_ready(&self, pods: &[Arc<Pod>]) -> Result<(), Error> {
        let mut errors = Vec::new();
        for pod in pods {
            let conditions = pod.status.iter().flat_map(|status| &status.conditions);
            let ready = conditions
                .flatten()
                .find(|condition| condition.type_ == "Ready");
            if ready.is_none_or(|ready| ready.status == "False") {
                continue;
            }
            let patch = json!({
                "metadata": { "uid": pod.uid(), "resourceVersion": pod.resource_version() },
                "status": { "conditions": [{
                    "type": "Ready",
                    "status": "False",
                    "lastTransitionTime": Time((self.ctx.now)()),
                }] },
            });
            let namespace = pod.namespace().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
            let params = PatchParams::default();
            let patch = Patch::Strategic(patch);
            match api.patch_status(&pod.name_any(), &params, &patch).await {
                Ok(_) => {}
                Err(error) => {
                    let error = Error::from(error);
                    if error.is_not_found() {
                        continue;
                    }
                    errors.push(error);
                }
            }
            let involved = reference_to("v1", "Pod", &pod.metadata);
            let message = "Node is not ready";
            self.recorder
                .publish(&involved, EventType::Warning, "NodeNotReady", message)
                .await;
        }
        Error::collect(errors)
    }
}

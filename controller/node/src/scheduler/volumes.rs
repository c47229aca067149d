//! The scheduler's part in binding volumes: which volume a claim gets, and where to provision others.
//!
//! Source: `BindPodVolumes` of the plugin VolumeBinding.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubeproof_machinery::json::json;
use kubeproof_runtime::sync_error::answered;
use kubeproof_runtime::volume::{BOUND_BY_CONTROLLER, SELECTED_NODE, claim_reference};

use super::Scheduler;
use crate::fit::Bindings;

impl Scheduler {
    /// Ties existing volumes to their claims, and asks for the other volumes on `node`. The volume
    /// controller does the rest.
    pub(super) async fn bind_volumes(
        &self,
        bindings: &Bindings,
        node: &str,
    ) -> Result<(), kube::Error> {
        for (claim, volume) in &bindings.existing {
            self.tie(claim, volume).await?;
        }
        for claim in &bindings.provisioned {
            self.select_node(claim, node).await?;
        }
        Ok(())
    }

    async fn tie(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), kube::Error> {
        let spec = volume.spec.as_ref();
        let tied = spec.and_then(|spec| spec.claim_ref.as_ref());
        if tied.is_some_and(|tied| tied.uid == claim.metadata.uid) {
            return Ok(());
        }
        let mut metadata = json!({
            "uid": volume.metadata.uid,
            "resourceVersion": volume.metadata.resource_version,
        });
        if tied.is_none() {
            metadata["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
        }
        let patch = Patch::Merge(json!({
            "metadata": metadata,
            "spec": { "claimRef": claim_reference(claim) },
        }));
        let api: Api<PersistentVolume> = Api::all(self.ctx.client.clone());
        let params = PatchParams::default();
        match api.patch(&volume.name_any(), &params, &patch).await {
            Err(error) if !answered(&error, 404) && !answered(&error, 409) => Err(error),
            _ => Ok(()),
        }
    }

    /// Annotates `claim` with `node` as the place of its volume.
    async fn select_node(
        &self,
        claim: &PersistentVolumeClaim,
        node: &str,
    ) -> Result<(), kube::Error> {
        if claim.annotations().get(SELECTED_NODE).map(String::as_str) == Some(node) {
            return Ok(());
        }
        let namespace = claim.namespace().unwrap_or_default();
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let annotations = json!({ SELECTED_NODE: node });
        let metadata = json!({ "uid": claim.metadata.uid, "annotations": annotations });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let params = PatchParams::default();
        match api.patch(&claim.name_any(), &params, &patch).await {
            Err(error) if !answered(&error, 404) && !answered(&error, 409) => Err(error),
            _ => Ok(()),
        }
    }
}

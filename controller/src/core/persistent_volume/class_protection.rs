//! Keeps a VolumeAttributesClass from going while a claim or a volume names it.
//!
//! Source: `pkg/controller/volume/vacprotection/vac_protection_controller.go`.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Controller;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::answered;

const VAC_PROTECTION: &str = "kubernetes.io/vac-protection";

impl Controller {
    /// Queues every terminating class, to check whether it is still named.
    pub(super) fn dirty_leaving_classes(&mut self) {
        let leaving = self
            .classes
            .iter()
            .filter(|class| class.metadata.deletion_timestamp.is_some());
        self.dirty_classes
            .extend(leaving.map(|class| ObjectKey::of(&**class)));
    }

    /// Adds the finalizer to a class, or removes it from a deleted class that no claim or volume
    /// names.
    pub(super) async fn sync_class(&self, key: &ObjectKey) -> Result<(), kube::Error> {
        let Some(class) = self.classes.get(key) else {
            return Ok(());
        };
        let mut finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        let protected = finalizers
            .iter()
            .any(|finalizer| finalizer == VAC_PROTECTION);
        match (class.metadata.deletion_timestamp.is_some(), protected) {
            (false, false) => finalizers.push(VAC_PROTECTION.to_owned()),
            (true, true) if !self.is_named(&key.name) => {
                finalizers.retain(|finalizer| finalizer != VAC_PROTECTION);
            }
            _ => return Ok(()),
        }
        let patch = json!({ "metadata": {
            "uid": class.metadata.uid,
            "resourceVersion": class.metadata.resource_version,
            "finalizers": finalizers,
        } });
        let client = self.class_protection.client.clone();
        let api: Api<VolumeAttributesClass> = Api::all(client);
        let params = PatchParams::default();
        match api.patch(&key.name, &params, &Patch::Merge(patch)).await {
            Err(error) if answered(&error, 404) => Ok(()),
            patched => patched.map(|_| ()),
        }
    }

    fn is_named(&self, class: &str) -> bool {
        self.claims.iter().any(|claim| claim_names(claim, class))
            || self
                .volumes
                .iter()
                .any(|volume| volume_names(volume, class))
    }
}

/// Whether the claim requests the class, has it, or is being changed to it.
fn claim_names(claim: &PersistentVolumeClaim, class: &str) -> bool {
    let wanted = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let status = claim.status.as_ref();
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let target = status
        .and_then(|status| status.modify_volume_status.as_ref())
        .and_then(|modify| modify.target_volume_attributes_class_name.as_deref());
    [wanted, current, target].contains(&Some(class))
}

fn volume_names(volume: &PersistentVolume, class: &str) -> bool {
    let spec = volume.spec.as_ref();
    spec.and_then(|spec| spec.volume_attributes_class_name.as_deref()) == Some(class)
}

//! Lets volumes grow with their claims, as a storage driver's resizer does: at once, whether a pod uses
//! them or not, so nothing is left for a node to do.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kubeproof_runtime::pod_resources::amount;
use serde_json::{Value, json};

use super::binder::{PROVISIONED_BY, PROVISIONER};

const STORAGE: &str = "storage";

/// The next write of an expansion.
#[derive(Debug, PartialEq)]
enum Growth {
    /// Enlarges the volume.
    Volume(Value),
    /// Updates the status of the claim.
    Claim(Value),
}

/// The next write by which `volume` becomes as large as `claim`, which is bound to it, asks.
fn growth(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Growth> {
    let provisioner = volume.annotations().get(PROVISIONED_BY);
    if provisioner.is_none_or(|name| name != PROVISIONER) {
        return None;
    }
    let spec = claim.spec.as_ref()?;
    let asked_for = spec.resources.as_ref()?.requests.as_ref()?.get(STORAGE)?;
    let of_volume = volume.spec.as_ref()?.capacity.as_ref()?.get(STORAGE)?;
    let of_claim = claim.status.as_ref()?.capacity.as_ref()?.get(STORAGE)?;
    let size = |quantity: &Quantity| amount(STORAGE, quantity);
    if size(of_volume) < size(asked_for) {
        let spec = json!({ "capacity": { STORAGE: asked_for } });
        return Some(Growth::Volume(json!({ "spec": spec })));
    }
    (size(of_claim) < size(of_volume)).then(|| {
        let status = json!({ "capacity": { STORAGE: of_volume } });
        Growth::Claim(json!({ "metadata": { "uid": claim.metadata.uid }, "status": status }))
    })
}

/// Takes the next step; what follows it is due when its event has come.
pub(super) async fn expand(
    client: &Client,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), kube::Error> {
    let params = PatchParams::default();
    match growth(claim, volume) {
        None => {}
        Some(Growth::Volume(patch)) => {
            let api: Api<PersistentVolume> = Api::all(client.clone());
            let patch = Patch::Merge(patch);
            api.patch(&volume.name_any(), &params, &patch).await?;
        }
        Some(Growth::Claim(patch)) => {
            let namespace = claim.namespace().unwrap_or_default();
            let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
            let patch = Patch::Merge(patch);
            api.patch_status(&claim.name_any(), &params, &patch).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn next(asked_for: &str, volume: &str, of_claim: &str, provisioner: &str) -> Option<Growth> {
        let claim = json!({
            "metadata": {"name": "data", "uid": "c"},
            "spec": {"resources": {"requests": {"storage": asked_for}}},
            "status": {"capacity": {"storage": of_claim}},
        });
        let volume = json!({
            "metadata": {"name": "v", "annotations": {PROVISIONED_BY: provisioner}},
            "spec": {"capacity": {"storage": volume}},
        });
        let claim = from_value(claim).unwrap();
        growth(&claim, &from_value(volume).unwrap())
    }

    #[test]
    fn the_volume_grows_first_and_then_the_claim_says_so() {
        let volume = json!({"spec": {"capacity": {"storage": "2Gi"}}});
        assert_eq!(
            next("2Gi", "1Gi", "1Gi", PROVISIONER),
            Some(Growth::Volume(volume))
        );
        let status = json!({"capacity": {"storage": "2Gi"}});
        let claim = json!({"metadata": {"uid": "c"}, "status": status});
        assert_eq!(
            next("2Gi", "2Gi", "1Gi", PROVISIONER),
            Some(Growth::Claim(claim))
        );
        assert_eq!(next("2Gi", "2Gi", "2048Mi", PROVISIONER), None);
        assert_eq!(next("1Gi", "2Gi", "2Gi", PROVISIONER), None);
        assert_eq!(next("2Gi", "1Gi", "1Gi", "example.io/other"), None);
    }
}

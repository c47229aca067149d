//! Creates and deletes volumes that another party binds, as a storage driver's provisioner does
//! next to upstream's controllers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::reflector::Watches;
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::sync_error::answered;
use kubeproof_runtime::volume::SELECTED_NODE;
use serde_json::json;

use super::binder::{self, LOCAL_PATH, PROVISIONED_BY, STORAGE_PROVISIONER};
use super::expansion;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The class of claims that name none.
const CLASS: &str = "standard";

enum Update {
    Claim(Event<Arc<PersistentVolumeClaim>>),
    Volume(Event<Arc<PersistentVolume>>),
}

/// The source of events about claims.
const EVENT_SOURCE: &str = "rancher.io/local-path_local-path-provisioner";

struct Provisioner {
    ctx: Context,
    recorder: Recorder,
    /// Somebody else expands volumes.
    only_provisions: bool,
}

/// Offers a default class and serves the claims that the volume controller hands over, for as long as
/// it is polled. It expands volumes unless it `only_provisions`.
pub(crate) async fn run(ctx: Context, only_provisions: bool) {
    let ctx = ctx.for_component("local-path-provisioner");
    let provisioner = Provisioner {
        recorder: Recorder::new(ctx.clone(), EVENT_SOURCE),
        ctx: ctx.clone(),
        only_provisions,
    };
    let mut failures = 0;
    while let Err(error) = offer_class(&ctx).await {
        tracing::warn!(%error, "no default storage class");
        failures += 1;
        tokio::time::sleep(retry_after(failures)).await;
    }
    let mut watches = Watches::new(&ctx.client)
        .watch(Update::Volume)
        .watch(Update::Claim);
    loop {
        let update = watches.next().await;
        failures = 0;
        while let Err(error) = provisioner.serve(&update).await {
            tracing::warn!(%error, "volume not provisioned or deleted");
            failures += 1;
            tokio::time::sleep(retry_after(failures)).await;
        }
    }
}

/// Creates the default class, unless there is a default one already.
async fn offer_class(ctx: &Context) -> Result<(), kube::Error> {
    let api: Api<StorageClass> = Api::all(ctx.client.clone());
    let classes = api.list(&ListParams::default()).await?;
    let is_default = |class: &StorageClass| {
        let annotation = class.annotations().get(DEFAULT_CLASS);
        annotation.is_some_and(|value| value == "true")
    };
    if classes.items.iter().any(is_default) {
        return Ok(());
    }
    let class = from_value(json!({
        "metadata": {"name": CLASS, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": LOCAL_PATH,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }));
    let class = class.map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &class).await {
        Err(error) if answered(&error, 409) => Ok(()),
        created => created.map(drop),
    }
}

impl Provisioner {
    async fn serve(&self, update: &Update) -> Result<(), kube::Error> {
        let expands = !self.only_provisions;
        match update {
            Update::Claim(event) => match event {
                Event::Apply(claim) | Event::InitApply(claim) if is_asked_for(claim) => {
                    self.provision(claim).await
                }
                Event::Apply(claim) | Event::InitApply(claim) if expands => {
                    expand(&self.ctx, claim).await
                }
                _ => Ok(()),
            },
            Update::Volume(event) => match event {
                Event::Apply(volume) | Event::InitApply(volume) if is_done_with(volume) => {
                    delete(&self.ctx, volume).await
                }
                Event::Apply(volume) if expands => expand_claim(&self.ctx, volume).await,
                _ => Ok(()),
            },
        }
    }

    async fn provision(&self, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
        let mut wanted = binder::provisioned_locally(claim);
        let spec = claim.spec.as_ref();
        if let Some(name) = spec.and_then(|spec| spec.storage_class_name.as_deref()) {
            let classes: Api<StorageClass> = Api::all(self.ctx.client.clone());
            let class = classes.get_opt(name).await?;
            if let Some(policy) = class.and_then(|class| class.reclaim_policy) {
                wanted["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
            }
        }
        let wanted = from_value(wanted).map_err(kube::Error::SerdeError)?;
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let message =
            format!("External provisioner is provisioning volume for claim \"{namespace}/{name}\"");
        self.record_event(claim, "Provisioning", &message).await;
        let api: Api<PersistentVolume> = Api::all(self.ctx.client.clone());
        match api.create(&PostParams::default(), &wanted).await {
            // Made before; the volume controller is about to bind it.
            Err(error) if answered(&error, 409) => return Ok(()),
            created => _ = created?,
        }
        let volume = binder::provisioned_name(claim);
        let message = format!("Successfully provisioned volume {volume}");
        self.record_event(claim, "ProvisioningSucceeded", &message)
            .await;
        Ok(())
    }

    async fn record_event(&self, claim: &PersistentVolumeClaim, reason: &str, message: &str) {
        let involved = reference_to("v1", "PersistentVolumeClaim", &claim.metadata);
        self.recorder
            .publish(&involved, EventType::Normal, reason, message)
            .await;
    }
}

/// Whether the volume controller waits for this provisioner to make a volume for the claim.
fn is_asked_for(claim: &PersistentVolumeClaim) -> bool {
    let provisioner = claim.annotations().get(STORAGE_PROVISIONER);
    let spec = claim.spec.as_ref();
    let volume = spec.and_then(|spec| spec.volume_name.as_deref());
    provisioner.is_some_and(|name| name == LOCAL_PATH)
        && claim.annotations().contains_key(SELECTED_NODE)
        && volume.unwrap_or_default().is_empty()
}

/// Whether the volume is of this provisioner, released, and to be deleted.
fn is_done_with(volume: &PersistentVolume) -> bool {
    let provisioner = volume.annotations().get(PROVISIONED_BY);
    let status = volume.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    provisioner.is_some_and(|name| name == LOCAL_PATH)
        && phase == Some("Released")
        && policy == Some("Delete")
        && volume.metadata.deletion_timestamp.is_none()
}

/// Lets the volume of a claim grow with it.
async fn expand(ctx: &Context, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
    let spec = claim.spec.as_ref();
    let Some(name) = spec.and_then(|spec| spec.volume_name.as_deref()) else {
        return Ok(());
    };
    let volumes: Api<PersistentVolume> = Api::all(ctx.client.clone());
    match volumes.get_opt(name).await? {
        Some(volume) => expansion::expand(&ctx.client, claim, &volume).await,
        None => Ok(()),
    }
}

/// Writes the capacity of a volume that has grown into its claim.
async fn expand_claim(ctx: &Context, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let spec = volume.spec.as_ref();
    let Some(claim) = spec.and_then(|spec| spec.claim_ref.as_ref()) else {
        return Ok(());
    };
    let namespace = claim.namespace.as_deref().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(ctx.client.clone(), namespace);
    let name = claim.name.as_deref().unwrap_or_default();
    match claims.get_opt(name).await? {
        Some(claim) => expansion::expand(&ctx.client, &claim, volume).await,
        None => Ok(()),
    }
}

async fn delete(ctx: &Context, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let api: Api<PersistentVolume> = Api::all(ctx.client.clone());
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: volume.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(&volume.name_any(), &params).await {
        // Gone, or another one of that name.
        Err(error) if answered(&error, 404) || answered(&error, 409) => Ok(()),
        deleted => deleted.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kubeproof_runtime::decode::from_value;
    use serde_json::Value;

    use super::*;

    fn claim(annotations: &Value, spec: &Value) -> PersistentVolumeClaim {
        let metadata = json!({"name": "c", "annotations": annotations});
        from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn a_claim_is_served_when_the_volume_controller_has_handed_it_over() {
        let ours = json!({STORAGE_PROVISIONER: LOCAL_PATH, SELECTED_NODE: "node-1"});
        let other = json!({STORAGE_PROVISIONER: "csi.example.com", SELECTED_NODE: "node-1"});
        let nowhere = json!({STORAGE_PROVISIONER: LOCAL_PATH});
        assert!(!is_asked_for(&claim(&nowhere, &json!({}))));
        assert!(is_asked_for(&claim(&ours, &json!({}))));
        assert!(!is_asked_for(&claim(&other, &json!({}))));
        assert!(!is_asked_for(&claim(&json!({}), &json!({}))));
        assert!(!is_asked_for(&claim(&ours, &json!({"volumeName": "v"}))));
        let mut terminating = claim(&ours, &json!({}));
        terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(is_asked_for(&terminating), "pods still hold the claim");
    }

    #[test]
    fn a_volume_is_deleted_when_it_is_ours_released_and_to_be_deleted() {
        let volume = |provisioner: &str, phase: &str, policy: &str| -> PersistentVolume {
            let metadata = json!({"name": "v", "annotations": {PROVISIONED_BY: provisioner}});
            let spec = json!({"persistentVolumeReclaimPolicy": policy});
            let status = json!({"phase": phase});
            let volume = json!({"metadata": metadata, "spec": spec, "status": status});
            from_value(volume).unwrap()
        };
        assert!(is_done_with(&volume(LOCAL_PATH, "Released", "Delete")));
        assert!(!is_done_with(&volume(
            "csi.example.com",
            "Released",
            "Delete"
        )));
        assert!(!is_done_with(&volume(LOCAL_PATH, "Bound", "Delete")));
        assert!(!is_done_with(&volume(LOCAL_PATH, "Released", "Retain")));
    }
}

//! Makes the claims of ephemeral volumes, which their pods own.
//!
//! Source: `pkg/controller/volume/ephemeral/controller.go`.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::controller_ref;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::pod::{
    claims, ephemeral_claim_name, is_not_owner, is_terminating, reference,
};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{ObjectKey, Store};
use kubeproof_runtime::sync_error::Error;

/// The user agent, and the source of the events.
const NAME: &str = "ephemeral-volume-controller";
const COMPONENT: &str = "ephemeral_volume";

/// Writes the claims of ephemeral volumes.
pub(super) struct EphemeralVolumes {
    ctx: Context,
    recorder: Recorder,
}

/// Whether the pod has ephemeral volumes.
pub(super) fn has_volumes(pod: &Pod) -> bool {
    claims(pod).any(|claim| claim.is_ephemeral)
}

/// Whether the claim of that name is for an ephemeral volume of the pod.
pub(super) fn uses(pod: &Pod, claim: &str) -> bool {
    claims(pod).any(|used| used.is_ephemeral && used.name == claim)
}

impl EphemeralVolumes {
    pub(super) fn new(ctx: &Context) -> Self {
        let ctx = ctx.for_component(NAME);
        Self {
            recorder: Recorder::new(ctx.clone(), COMPONENT),
            ctx,
        }
    }

    /// Makes the claims that the pod lacks, unless it is on its way out.
    pub(super) async fn sync(
        &self,
        pod: &Pod,
        known: &Store<PersistentVolumeClaim>,
    ) -> Result<(), Error> {
        if is_terminating(pod) {
            return Ok(());
        }
        let volumes = pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        for volume in volumes {
            if let Err(error) = self.make(pod, volume, known).await {
                let message = format!("ephemeral volume {}: {error}", volume.name);
                self.recorder
                    .publish(
                        &reference(pod),
                        EventType::Warning,
                        "FailedBinding",
                        &message,
                    )
                    .await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes the claim of the volume, if it is ephemeral and has none.
    async fn make(
        &self,
        pod: &Pod,
        volume: &Volume,
        known: &Store<PersistentVolumeClaim>,
    ) -> Result<(), Error> {
        let Some(ephemeral) = &volume.ephemeral else {
            return Ok(());
        };
        let key = ObjectKey {
            namespace: pod.namespace().unwrap_or_default(),
            name: ephemeral_claim_name(pod, volume),
        };
        if let Some(claim) = known.get(&key) {
            return is_not_owner(pod, claim).map_or(Ok(()), |error| Err(Error::Refused(error)));
        }
        let template = ephemeral.volume_claim_template.clone().unwrap_or_default();
        let meta = template.metadata.unwrap_or_default();
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                annotations: meta.annotations,
                labels: meta.labels,
                owner_references: Some(vec![controller_ref("v1", "Pod", &pod.metadata)]),
                ..ObjectMeta::default()
            },
            spec: Some(template.spec),
            status: None,
        };
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.ctx.client.clone(), &key.namespace);
        match api.create(&PostParams::default(), &claim).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let error = Error::from(error);
                Err(Error::Refused(format!("create PVC {}: {error}", key.name)))
            }
        }
    }
}

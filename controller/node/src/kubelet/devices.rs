//! The devices of a pod: it starts once its ResourceClaims are allocated and reserved for it.
//!
//! Every driver of a device is taken to run on the node.
//!
//! Source: `prepareResources` of `pkg/kubelet/cm/dra/manager.go`.

use std::time::Duration;

use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Api, ResourceExt};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::resource_claim::{
    check_owner, is_allocated, is_reserved_for, of_pod, used_claim,
};
use kubeproof_runtime::retry::retry_after;

use super::{Kubelet, Record};
use crate::environment::Missing;
use crate::identity;
use crate::lifecycle::Stage;

/// The kubelet's `syncFrequency`, and the longest time that is added to it at random, in milliseconds.
const RESYNC: Duration = Duration::from_secs(60);
const RESYNC_JITTER_MS: u64 = 30_000;

impl Kubelet {
    /// Reads the ResourceClaims of a pod that has no sandbox yet. Returns what keeps the pod from using them.
    pub(super) async fn prepare_devices(
        &self,
        pod: &Pod,
        record: &Record,
    ) -> Result<Result<(), Missing>, kube::Error> {
        if record.stage == Stage::Running {
            return Ok(Ok(()));
        }
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<ResourceClaim> = Api::namespaced(self.ctx.client.clone(), &namespace);
        for own in of_pod(pod) {
            let used = match used_claim(pod, own) {
                Ok(Some(used)) => used,
                Ok(None) => continue,
                Err(error) => return Ok(Err(Missing::Devices(error.to_string()))),
            };
            let claim = match api.get(used.name).await {
                Ok(claim) => claim,
                Err(kube::Error::Api(status)) => {
                    let error = format!("fetch ResourceClaim {}: {}", used.name, status.message);
                    return Ok(Err(Missing::Devices(error)));
                }
                Err(error) => return Err(error),
            };
            let checked = match used.is_generated {
                true => check_owner(pod, &claim),
                false => Ok(()),
            };
            if let Err(error) = checked.and_then(|()| check(pod, &claim)) {
                return Ok(Err(Missing::Devices(error)));
            }
        }
        Ok(Ok(()))
    }
}

impl Missing {
    /// Returns the time until a pod that cannot start is tried again, after `failures` failures in a row (at least one).
    ///
    /// Devices that are not ready are no error of the sync, so the pod waits for the next regular one: a minute, and up to
    /// half of that more. Source: `completeWork` of `pkg/kubelet/pod_workers.go`.
    pub(super) fn retry_after(&self, pod_uid: &str, failures: u32) -> Duration {
        match self {
            Self::Devices(_) => {
                let failures = failures.to_string();
                let more = identity::draw(&[pod_uid, "resync", &failures], RESYNC_JITTER_MS);
                RESYNC.saturating_add(Duration::from_millis(more))
            }
            Self::Object { .. } | Self::Key { .. } | Self::Volume { .. } => retry_after(failures),
        }
    }
}

/// Checks that the pod may use the devices of the claim, and that there are some.
fn check(pod: &Pod, claim: &ResourceClaim) -> Result<(), String> {
    let name = claim.name_any();
    if !is_reserved_for(claim, pod) {
        let [own, of_claim] = [pod.uid(), claim.uid()].map(Option::unwrap_or_default);
        let pod = pod.name_any();
        return Err(format!(
            "pod {pod} ({own}) is not allowed to use ResourceClaim {name} ({of_claim})"
        ));
    }
    match is_allocated(claim) {
        true => Ok(()),
        false => Err(format!("ResourceClaim {name}: not allocated")),
    }
}

//! Pods that no job counts any more: whatever kept them for counting lets them go.

use std::time::Duration;

use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::{API_VERSION, Controller, KIND, condition, pods, spec};
use crate::workload::event_handlers;
use kube::ResourceExt;

/// The controller, at work on pods.
pub(super) struct Orphans<'a>(pub(super) &'a Controller);

impl Reconcile for Orphans<'_> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let controller = self.0;
        let Some(pod) = controller.pods.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        if let Some(owner) = controller_of(&pod.metadata) {
            if owner.kind != KIND || owner.api_version != API_VERSION {
                return Ok(None);
            }
            let jobs = controller
                .jobs
                .in_namespace(&pod.namespace().unwrap_or_default());
            let job = event_handlers::owner(&pod.metadata, &jobs);
            // Adopted meanwhile, or none of this controller's business.
            if job
                .is_some_and(|job| spec::is_managed_elsewhere(job) || !condition::is_finished(job))
            {
                return Ok(None);
            }
        }
        if !pods::is_tracked(&pod) {
            return Ok(None);
        }
        match controller
            .release(&controller.pods_api(&key.namespace), &pod)
            .await
        {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(None),
        }
    }
}

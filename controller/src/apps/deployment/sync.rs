//! Syncs one deployment: selects the action by what changed.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use kube::api::PostParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::replica_sets::ReplicaSets;
use super::{Controller, KIND, is_paused, is_rolling, owner_ref, scale, status, stored_status};
use crate::workload::adoption::{self, Claims};
use crate::workload::event_handlers::Workload;

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(deployment) = self.deployments.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let selector = match Selector::try_from(deployment.selector()) {
            Ok(selector) => selector,
            Err(error) => {
                // Trying again would not help; the deployment has to change.
                tracing::error!(namespace = key.namespace, name = key.name, %error, "bad selector");
                return Ok(None);
            }
        };
        let mut deployment = Deployment::clone(&deployment);
        let sets = self.claim_sets(&deployment, &selector).await?;
        if deployment.metadata.deletion_timestamp.is_some() {
            let sets = ReplicaSets::of(&deployment, sets);
            return self.sync_status(&mut deployment, &sets).await;
        }
        if let Some(condition) = status::paused_or_resumed(&deployment, (self.ctx.now)()) {
            let mut status = stored_status(&deployment);
            status::set(&mut status, condition);
            self.write_status(&mut deployment, status).await?;
        }
        let mut sets = ReplicaSets::of(&deployment, sets);
        self.number_new(&mut deployment, &mut sets).await?;
        if is_paused(&deployment) || scale::is_scaling(&deployment, &sets) {
            let scales = scale::proportional(&deployment, &sets);
            self.scale(&deployment, &mut sets, scales).await?;
            if is_paused(&deployment) {
                self.clean_up(&deployment, &sets).await?;
            }
            return self.sync_status(&mut deployment, &sets).await;
        }
        let rolled = match is_rolling(&deployment) {
            true => self.roll(&mut deployment, &mut sets).await,
            false => self.recreate(&mut deployment, &mut sets).await,
        };
        match rolled {
            // No retry can succeed.
            Err(error) if error.is_namespace_terminating() => Ok(None),
            rolled => rolled,
        }
    }
}

impl Controller {
    /// The deployment's sets after adopting orphans and releasing strangers.
    async fn claim_sets(
        &self,
        deployment: &Deployment,
        selector: &Selector,
    ) -> Result<Vec<ReplicaSet>, Error> {
        let namespace = deployment.namespace().unwrap_or_default();
        let claims = Claims {
            api: Api::namespaced(self.ctx.client.clone(), &namespace),
            owner: &deployment.metadata,
            reference: owner_ref(deployment),
            finalizer: None,
        };
        let deployments = self.api(deployment);
        let confirm = adoption::confirm(&deployments, &deployment.metadata, KIND, "ReplicaSets");
        let uid = deployment.uid().unwrap_or_default();
        let cached = self.sets.claimable(&namespace, &uid);
        let matches = |set: &ReplicaSet| selector.matches(set.labels());
        let claimed = claims.claim_all(cached, matches, confirm, |_| {}).await?;
        Ok(claimed.iter().map(|set| ReplicaSet::clone(set)).collect())
    }

    /// Whether a pod of another set than the new one is there and may still run.
    pub(super) fn old_pods_run(&self, deployment: &Deployment, sets: &ReplicaSets) -> bool {
        if sets
            .old
            .iter()
            .any(|set| super::replica_sets::actual(set) > 0)
        {
            return true;
        }
        let namespace = deployment.namespace().unwrap_or_default();
        let is_old = |pod: &Pod| {
            let owner = controller_of(&pod.metadata);
            let mut old = sets.old.iter();
            owner.is_some_and(|owner| old.any(|set| Some(&owner.uid) == set.metadata.uid.as_ref()))
        };
        let pods = self.pods.in_namespace(&namespace);
        pods.iter()
            .any(|pod| is_old(pod) && !kubeproof_runtime::pod::is_finished(pod))
    }

    /// Writes the status of a deployment that is not rolling out.
    async fn sync_status(
        &self,
        deployment: &mut Deployment,
        sets: &ReplicaSets,
    ) -> Result<Option<Duration>, Error> {
        let status = status::compute(deployment, sets, (self.ctx.now)());
        if status != stored_status(deployment) {
            self.write_status(deployment, status).await?;
        }
        Ok(None)
    }

    /// Writes the status of a rollout; returns the time after which it has exceeded its deadline.
    pub(super) async fn sync_rollout_status(
        &self,
        deployment: &mut Deployment,
        sets: &ReplicaSets,
    ) -> Result<Option<Duration>, Error> {
        let now = (self.ctx.now)();
        let status = status::compute_rollout(deployment, sets, now);
        if status == stored_status(deployment) {
            return Ok(match status::requeue_stuck(deployment, &status, now) {
                Some(status::Requeue::After(wait)) => Some(wait),
                Some(status::Requeue::RateLimited) => {
                    self.queue.add_rate_limited(ObjectKey::of(deployment));
                    None
                }
                None => None,
            });
        }
        self.write_status(deployment, status).await?;
        Ok(None)
    }

    /// Writes status and annotations, and takes over what the server made of them.
    pub(super) async fn write_status(
        &self,
        deployment: &mut Deployment,
        status: DeploymentStatus,
    ) -> Result<(), Error> {
        deployment.status = Some(status);
        let name = deployment.name_any();
        let written = self
            .api(deployment)
            .replace_status(&name, &PostParams::default(), deployment)
            .await?;
        *deployment = written;
        Ok(())
    }

    pub(super) async fn record_event(
        &self,
        deployment: &Deployment,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        self.recorder
            .publish(&super::reference(deployment), event_type, reason, message)
            .await;
    }

    fn api(&self, deployment: &Deployment) -> Api<Deployment> {
        let namespace = deployment.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }

    pub(super) fn sets_api(&self, deployment: &Deployment) -> Api<ReplicaSet> {
        let namespace = deployment.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }
}

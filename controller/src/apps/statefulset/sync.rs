//! Syncs one set: reads, adopts, plans, acts, reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::store::{ObjectKey, resource_version};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::typed_cache::Previous;
use kubeproof_runtime::worker::Reconcile;

use super::Controller;
use super::apply::{Effects, write_status};
use super::reconcile::{Observed, reconcile};
use super::set::{KIND, Set};
use crate::workload::adoption::{self, Claims};
use crate::workload::revision_control::Chosen;
use crate::workload::stateful_identity;
use crate::workload::stateful_pod_control::StatefulPodControl;

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        self.check_caches(key)?;
        let Some(object) = self.sets.get(&key.namespace, &key.name) else {
            self.consistency.forget(key);
            self.read.forget(key);
            return Ok(None);
        };
        let read = |object: &_, before: Option<Previous<'_, Set>>| {
            Set::parse(object, before, self.settings)
        };
        let set = self.read.get(key, &object, read)?;
        let selector = match Selector::try_from(set.spec().selector.clone()) {
            Ok(selector) => selector,
            Err(error) => {
                // Trying again would not help; the set has to change.
                tracing::error!(namespace = key.namespace, name = key.name, %error, "bad selector");
                return Ok(None);
            }
        };
        self.adopt_revisions(&set, &selector).await?;
        let pods = self.claim_pods(&set, &selector).await?;
        self.update(&set, &selector, &pods).await
    }
}

impl Controller {
    /// Revisions, pods, status, history; history even when the rest failed.
    async fn update(
        &self,
        set: &Set,
        selector: &Selector,
        pods: &[Arc<Pod>],
    ) -> Result<Option<Duration>, Error> {
        let revisions = self.list_revisions(set, selector);
        let (chosen, updated) = match self.choose_revisions(set, &revisions).await {
            Ok(chosen) => {
                let updated = self.update_pods(set, &chosen, pods).await;
                (Some(chosen), updated)
            }
            Err(error) => (None, Err(error)),
        };
        if set.profile().is_old() && updated.is_err() {
            return updated;
        }
        let truncated = self
            .truncate_history(set, &revisions, chosen.as_ref(), pods)
            .await;
        match (updated, truncated) {
            (Ok(requeue_after), Ok(())) => Ok(requeue_after),
            (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
            (Err(error), Err(other)) => Err(Error::Many(vec![error, other])),
        }
    }

    async fn update_pods(
        &self,
        set: &Set,
        chosen: &Chosen,
        pods: &[Arc<Pod>],
    ) -> Result<Option<Duration>, Error> {
        let (current, update) = chosen.templates(&self.read_revisions)?;
        let claims = self.claims_of(set, pods);
        let observed = Observed {
            set,
            current: &current,
            update: &update,
            collision_count: chosen.collision_count,
            pods,
            claims: &claims,
            now: (self.ctx.now)(),
        };
        let plan = reconcile(observed);
        let mut status = plan.status;
        let effects = Effects {
            controller: self,
            observed,
            set,
            control: StatefulPodControl {
                client: &self.ctx.client,
                namespace: set.namespace(),
                recorder: &self.recorder,
                involved: set.reference(),
                has_lowercase_verbs: set.profile().is_old(),
                wrote_pod: &|rv| self.wrote_pod(set, rv),
                wrote_claim: &|rv| self.wrote_claim(set, rv),
            },
        };
        let acted = effects.run(plan.batches, &mut status).await;
        if acted.is_err() && set.profile().is_old() {
            return acted.map(|()| None);
        }
        let reported = write_status(self, set, status).await;
        // The error of the actions takes precedence over the error of the status update.
        acted.and(reported)?;
        Ok(plan.requeue_after)
    }

    /// The cached claims of the set's replicas and of `pods`, by name.
    pub(super) fn claims_of(
        &self,
        set: &Set,
        pods: &[Arc<Pod>],
    ) -> BTreeMap<String, Arc<PersistentVolumeClaim>> {
        let slots = (0..set.replicas()).map(|slot| set.start().saturating_add(slot));
        let others = pods
            .iter()
            .filter_map(|pod| stateful_identity::ordinal(pod));
        let ordinals: BTreeSet<i32> = slots.chain(others).collect();
        let identity = set.identity();
        let names = ordinals.into_iter();
        let names = names.flat_map(|ordinal| identity.claim_names(ordinal));
        names
            .filter_map(|name| Some((name.clone(), self.claims.get(set.namespace(), &name)?)))
            .collect()
    }

    /// The set's pods, by name, after adopting orphans and releasing strangers.
    async fn claim_pods(&self, set: &Set, selector: &Selector) -> Result<Vec<Arc<Pod>>, Error> {
        let claims = Claims {
            api: Api::namespaced(self.ctx.client.clone(), set.namespace()),
            owner: set.meta(),
            reference: set.owner_ref(),
            finalizer: None,
        };
        claims
            .claim_all(
                self.pods.claimable(set.namespace(), set.uid()),
                |pod| selector.matches(pod.labels()) && set.identity().has_member(pod),
                self.confirm_adoption(set, "Pods"),
                |pod| self.wrote_pod(set, resource_version(pod)),
            )
            .await
    }

    /// Confirms with the server, not the cache, that the set still exists and may adopt objects.
    pub(super) async fn confirm_adoption(
        &self,
        set: &Set,
        what: &'static str,
    ) -> Result<(), Error> {
        let api: Api<StatefulSet> = Api::namespaced(self.ctx.client.clone(), set.namespace());
        adoption::confirm(&api, set.meta(), KIND, what).await
    }
}

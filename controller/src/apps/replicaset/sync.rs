//! Syncs one set: claims pods, acts, reports.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSetStatus;
use kube::api::PostParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::consistency::ReadVersion;
use kubeproof_runtime::controller_ref::{controller_of, controller_ref};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::store::{ObjectKey, resource_version};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::{Reconcile, debounce_until};

use super::status::{self, Observed};
use super::{Controller, Set};
use crate::workload::adoption::{self, Claims};

/// The group resource of pods.
const PODS: &str = "pods";

impl<S: Set> Reconcile for Controller<S> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        if let Some(sets) = S::CONSISTENT {
            let caches: [(&'static str, &dyn ReadVersion); 2] =
                [(PODS, &self.pods), (sets, &self.sets)];
            self.consistency.ready(key, &caches).await?;
        }
        self.debounce(key).await;
        let Some(set) = self.sets.get(&key.namespace, &key.name) else {
            self.expectations.forget(key);
            self.consistency.forget(key);
            return Ok(None);
        };
        let may_apply = self.expectations.satisfied(key, (self.ctx.now)());
        let selector = match Selector::try_from(Set::selector(&*set)) {
            Ok(selector) => selector,
            Err(error) => {
                // Trying again would not help; the set has to change.
                tracing::error!(namespace = key.namespace, name = key.name, %error, "bad selector");
                return Ok(None);
            }
        };
        let uid = set.uid().unwrap_or_default();
        let pods = self.pods.claimable(&key.namespace, &uid);
        let terminating = pods.iter().filter(|pod| is_leaving(&*set, pod)).count();
        let active = self.claim_pods(&set, &selector, pods).await?;
        let applied = if may_apply && set.meta().deletion_timestamp.is_none() {
            self.apply(&set, &active).await
        } else {
            Ok(())
        };
        let observed = Observed {
            active: active.iter().map(|pod| &**pod).collect(),
            terminating,
            failure: applied.as_ref().err().map(ToString::to_string),
            now: (self.ctx.now)(),
        };
        let status = status::compute(&*set, &observed);
        let status = self.write_status(&*set, status).await?;
        applied?;
        Ok(recheck_after(&*set, &status))
    }
}

impl<S: Set> Controller<S> {
    /// Waits for more changes if the set has very many pods and none to create or delete. As the answer may read all pods,
    /// it is asked for again only after a change that may have made it another.
    async fn debounce(&self, key: &ObjectKey) {
        let mut answered = None;
        let is_urgent = || {
            let changes = self.urgent_changes.load(Ordering::Relaxed);
            answered.replace(changes) != Some(changes) && self.is_urgent(key)
        };
        debounce_until(self.count_pods(key), is_urgent).await;
    }

    /// The number of pods that the set controls.
    fn count_pods(&self, key: &ObjectKey) -> usize {
        let set = self.sets.get(&key.namespace, &key.name);
        let uid = set.and_then(|set| set.uid()).unwrap_or_default();
        match uid.is_empty() {
            true => 0,
            false => self.pods.count_controlled_by(&key.namespace, &uid),
        }
    }

    /// Whether there are pods to create or delete, or no set. A status can wait for more changes.
    fn is_urgent(&self, key: &ObjectKey) -> bool {
        let Some(set) = self.sets.get(&key.namespace, &key.name) else {
            return true;
        };
        let uid = set.uid().unwrap_or_default();
        let active = || {
            let pods = &self.pods;
            pods.count_controlled_where(&key.namespace, &uid, pod::is_active)
        };
        self.expectations.satisfied(key, (self.ctx.now)())
            && usize::try_from(set.replicas()).is_ok_and(|wanted| wanted != active())
    }

    /// The set's active pods, by name, after adopting orphans and releasing strangers.
    async fn claim_pods(
        &self,
        set: &Arc<S>,
        selector: &Selector,
        mut pods: Vec<Arc<Pod>>,
    ) -> Result<Vec<Arc<Pod>>, Error> {
        pods.retain(|pod| pod::is_active(pod));
        let claims = Claims {
            api: Api::namespaced(
                self.ctx.client.clone(),
                &set.namespace().unwrap_or_default(),
            ),
            owner: set.meta(),
            reference: controller_ref(S::API_VERSION, S::KIND, set.meta()),
            finalizer: None,
        };
        let sets = self.api(set);
        claims
            .claim_all(
                pods,
                |pod| selector.matches(pod.labels()),
                adoption::confirm(&sets, set.meta(), S::KIND, "Pods"),
                |pod| self.wrote_pod(set, pod),
            )
            .await
    }

    /// Writes `status` if the set's differs; a write that fails is tried once more.
    async fn write_status(
        &self,
        set: &S,
        mut status: ReplicaSetStatus,
    ) -> Result<ReplicaSetStatus, Error> {
        if !status::differs(set, &status) {
            return Ok(status);
        }
        // The generation that was acted on, also when the set has changed by the second attempt.
        status.observed_generation = set.meta().generation;
        let api = self.api(set);
        let name = set.name_any();
        let params = PostParams::default();
        let mut object = set.clone();
        object.set_status(status.clone());
        let written = match api.replace_status(&name, &params, &object).await {
            Ok(written) => written,
            Err(_) => {
                object = api.get(&name).await?;
                object.set_status(status.clone());
                api.replace_status(&name, &params, &object).await?
            }
        };
        if let Some(sets) = S::CONSISTENT {
            let at = self.sets.wrote_at(resource_version(&written));
            let uid = set.uid().unwrap_or_default();
            self.consistency
                .wrote_at(&ObjectKey::of(set), &uid, sets, at);
        }
        Ok(status)
    }

    /// Notes a write of a pod that the set controls.
    pub(super) fn wrote_pod(&self, set: &S, pod: &Pod) {
        let uid = set.uid().unwrap_or_default();
        let is_own = controller_of(&pod.metadata).is_some_and(|owner| owner.uid == uid);
        if S::CONSISTENT.is_some() && is_own {
            let at = self.pods.wrote_at(resource_version(pod));
            self.consistency
                .wrote_at(&ObjectKey::of(set), &uid, PODS, at);
        }
    }

    fn api(&self, set: &S) -> Api<S> {
        let namespace = set.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }
}

/// Whether the set controls the pod, which is on its way out.
fn is_leaving(set: &impl Set, pod: &Pod) -> bool {
    let owner = controller_of(&pod.metadata);
    pod::is_terminating(pod)
        && !pod::is_finished(pod)
        && owner.is_some_and(|owner| Some(&owner.uid) == set.meta().uid.as_ref())
}

/// Should the clocks of kubelets differ, availability is looked at once more.
fn recheck_after(set: &impl Set, status: &ReplicaSetStatus) -> Option<Duration> {
    let seconds = u64::try_from(set.min_ready_seconds()).ok()?;
    let wanted = set.replicas();
    let is_ready = status.ready_replicas.unwrap_or(0) == wanted;
    let is_available = status.available_replicas.unwrap_or(0) == wanted;
    (seconds > 0 && is_ready && !is_available).then(|| Duration::from_secs(seconds))
}

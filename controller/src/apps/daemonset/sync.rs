//! Syncs one set: revisions, pods, status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::consistency::ReadVersion;
use kubeproof_runtime::controller_ref::{controller_of, controller_ref, reference_to};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store::{ObjectKey, WrittenVersion, resource_version};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::backoff::Place;
use super::rollout::{Observed, Plan, is_rolling};
use super::{API_VERSION, Controller, KIND, min_ready_seconds, placement, rollout, status};
use crate::workload::adoption::{self, Claims};
use crate::workload::event_handlers::Workload;
use crate::workload::pod_control::{PodControl, pod_from_template, slow_start};

/// The most pods that one sync creates or deletes.
const BURST: usize = 250;
/// The group resources that the controller writes.
const PODS: &str = "pods";
const SETS: &str = "daemonsets.apps";

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let caches: [(&'static str, &dyn ReadVersion); 2] =
            [(PODS, &self.pods), (SETS, &self.sets)];
        self.consistency.ready(key, &caches).await?;
        let Some(set) = self.sets.get(&key.namespace, &key.name) else {
            self.expectations.forget(key);
            self.consistency.forget(key);
            return Ok(None);
        };
        let selector = match Selector::try_from(set.selector()) {
            Ok(selector) => selector,
            Err(error) => {
                // Trying again would not help; the set has to change.
                tracing::error!(namespace = key.namespace, name = key.name, %error, "bad selector");
                return Ok(None);
            }
        };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let revisions = self.revisions(&set, &selector).await?;
        let nodes = self.nodes.in_namespace("");
        let hash = revisions.hash();
        let is_due = self.expectations.satisfied(key, (self.ctx.now)());
        let managed = if is_due {
            self.update(&set, &selector, &nodes, &revisions).await
        } else {
            Ok(())
        };
        let pods = placement::by_node(&self.claim_pods(&set, &selector).await?);
        let observed = Observed {
            set: &set,
            nodes: &nodes,
            pods: &pods,
            hash,
            now: (self.ctx.now)(),
        };
        let mut computed = status::compute(observed);
        if is_due {
            computed.observed_generation = set.metadata.generation;
        }
        let recheck = recheck_after(&set, &computed);
        let reported = self.write_status(&set, computed).await;
        // A failed sync is looked at once more, too.
        if let Some(recheck) = recheck.filter(|_| reported.is_ok()) {
            self.queue.add_after(key.clone(), recheck);
        }
        managed?;
        reported?;
        Ok(None)
    }
}

/// Should the clocks of kubelets differ, availability is looked at once more.
fn recheck_after(
    set: &DaemonSet,
    status: &k8s_openapi::api::apps::v1::DaemonSetStatus,
) -> Option<Duration> {
    let seconds = u64::try_from(min_ready_seconds(set)).ok()?;
    let is_awaited = status.number_ready != status.number_available.unwrap_or(0);
    (seconds > 0 && is_awaited).then(|| Duration::from_secs(seconds))
}

impl Controller {
    /// Puts every node in order, then goes on with a rollout.
    async fn update(
        &self,
        set: &Arc<DaemonSet>,
        selector: &Selector,
        nodes: &[Arc<Node>],
        revisions: &super::history::Revisions,
    ) -> Result<(), Error> {
        let claimed = self.claim_pods(set, selector).await?;
        let pods = placement::by_node(&claimed);
        let observed = Observed {
            set,
            nodes,
            pods: &pods,
            hash: revisions.hash(),
            now: (self.ctx.now)(),
        };
        let mut plan = rollout::reconcile(observed);
        self.end(set, &mut plan).await;
        self.apply(set, plan, revisions.hash()).await?;
        let key = ObjectKey::of(&**set);
        if is_rolling(set) && self.expectations.satisfied(&key, (self.ctx.now)()) {
            // Pods that were created just now are unavailable, and count.
            let pods = placement::by_node(&self.claim_pods(set, selector).await?);
            let pods = &pods;
            let plan = rollout::roll(Observed { pods, ..observed })?;
            self.apply(set, plan, revisions.hash()).await?;
        }
        let live: BTreeSet<String> = claimed
            .iter()
            .map(|pod| pod::revision(pod).to_owned())
            .collect();
        self.truncate_history(set, &revisions.old, &live).await
    }

    /// Reports pods that ended and moves them to those to delete, unless it is too early.
    async fn end(&self, set: &DaemonSet, plan: &mut Plan) {
        for (node, pod) in std::mem::take(&mut plan.ended) {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let has_failed = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref())
                == Some("Failed");
            if !has_failed {
                let message = format!(
                    "Found succeeded daemon pod {namespace}/{name} on node {node}, will try to \
                     delete it"
                );
                self.record_event(set, EventType::Normal, "SucceededDaemonPod", &message)
                    .await;
            } else if let Some(wait) = self.back_off(set, &node) {
                self.queue.add_after(ObjectKey::of(set), wait);
                continue;
            } else {
                let message = format!(
                    "Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
                );
                self.record_event(set, EventType::Warning, "FailedDaemonPod", &message)
                    .await;
            }
            plan.delete.push(pod);
        }
    }

    /// The delay after which to look at the failed pod on `node` again; with none it is to be deleted.
    fn back_off(&self, set: &DaemonSet, node: &str) -> Option<Duration> {
        let observed = set
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        let place = Place {
            set: set.uid().unwrap_or_default(),
            generation: observed.unwrap_or(0),
            node: node.to_owned(),
        };
        self.backoffs.next(place, (self.ctx.now)())
    }

    async fn apply(&self, set: &Arc<DaemonSet>, mut plan: Plan, hash: &str) -> Result<(), Error> {
        plan.create.truncate(BURST);
        plan.delete.truncate(BURST);
        let key = ObjectKey::of(&**set);
        let uids = plan.delete.iter().filter_map(|pod| pod.uid()).collect();
        let now = (self.ctx.now)();
        self.expectations.expect(&key, plan.create.len(), uids, now);
        let control = PodControl {
            api: Api::namespaced(self.ctx.client.clone(), &key.namespace),
            recorder: &self.recorder,
            involved: reference_to(API_VERSION, KIND, &set.metadata),
        };
        let owner = controller_ref(API_VERSION, KIND, &set.metadata);
        let pod = pod_from_template(&placement::template(set, hash), owner);
        let mut errors = self.create(set, &control, &pod, &plan.create).await;
        for pod in &plan.delete {
            if let Err(error) = control.delete(&pod.name_any()).await {
                self.expectations
                    .deleted(&key, &pod.uid().unwrap_or_default());
                if !error.is_not_found() {
                    errors.push(error);
                }
            }
        }
        Error::collect(errors)
    }

    async fn create(
        &self,
        set: &DaemonSet,
        control: &PodControl<'_>,
        pod: &Pod,
        nodes: &[String],
    ) -> Vec<Error> {
        let mut errors = Vec::new();
        let mut left = nodes.iter();
        let mut missing = nodes.len();
        for size in slow_start(nodes.len()) {
            for node in left.by_ref().take(size) {
                let mut pod = pod.clone();
                placement::pin(pod.spec.get_or_insert_default(), node);
                match control.create(&pod).await {
                    Ok(created) => {
                        self.wrote_pod(set, &created);
                        missing -= 1;
                    }
                    // The namespace is terminating: no retry can succeed. The creation stays expected, as upstream's does.
                    Err(error) if error.is_namespace_terminating() => missing -= 1,
                    Err(error) => errors.push(error),
                }
            }
            if !errors.is_empty() {
                break;
            }
        }
        for _ in 0..missing {
            self.expectations.created(&ObjectKey::of(set));
        }
        errors
    }

    /// The set's pods, by name, after adopting orphans and releasing strangers.
    pub(super) async fn claim_pods(
        &self,
        set: &DaemonSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<Pod>>, Error> {
        let namespace = set.namespace().unwrap_or_default();
        let claims = Claims {
            api: Api::namespaced(self.ctx.client.clone(), &namespace),
            owner: &set.metadata,
            reference: controller_ref(API_VERSION, KIND, &set.metadata),
            finalizer: None,
        };
        let sets = self.api(set);
        let confirm = adoption::confirm(&sets, &set.metadata, KIND, "Pods");
        let matches = |pod: &Pod| selector.matches(pod.labels());
        let uid = set.uid().unwrap_or_default();
        let pods = self.pods.claimable(&namespace, &uid);
        let wrote = |pod: &Pod| self.wrote_pod(set, pod);
        claims.claim_all(pods, matches, confirm, wrote).await
    }

    /// Writes `status` if the set's differs; a write that fails is tried once more.
    async fn write_status(
        &self,
        set: &DaemonSet,
        status: k8s_openapi::api::apps::v1::DaemonSetStatus,
    ) -> Result<(), Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let (api, name, params) = (self.api(set), set.name_any(), PostParams::default());
        let mut object = set.clone();
        object.status = Some(status.clone());
        let written = match api.replace_status(&name, &params, &object).await {
            Ok(written) => written,
            Err(_) => {
                object = api.get(&name).await?;
                let live = object.status.take().unwrap_or_default();
                object.status = Some(status::onto(live, status));
                api.replace_status(&name, &params, &object).await?
            }
        };
        let at = self.sets.wrote_at(resource_version(&written));
        self.note_write(set, SETS, at);
        Ok(())
    }

    /// Notes a write of a pod that the set controls.
    fn wrote_pod(&self, set: &DaemonSet, pod: &Pod) {
        let owner = controller_of(&pod.metadata);
        if owner.is_some_and(|owner| Some(&owner.uid) == set.metadata.uid.as_ref()) {
            self.note_write(set, PODS, self.pods.wrote_at(resource_version(pod)));
        }
    }

    fn note_write(&self, set: &DaemonSet, resource: &'static str, at: WrittenVersion) {
        let uid = set.uid().unwrap_or_default();
        self.consistency
            .wrote_at(&ObjectKey::of(set), &uid, resource, at);
    }

    async fn record_event(
        &self,
        set: &DaemonSet,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let involved = reference_to(API_VERSION, KIND, &set.metadata);
        self.recorder
            .publish(&involved, event_type, reason, message)
            .await;
    }

    pub(super) fn api(&self, set: &DaemonSet) -> Api<DaemonSet> {
        let namespace = set.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }
}

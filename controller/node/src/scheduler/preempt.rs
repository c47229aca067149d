//! The scheduler's preemption of pods of lower priority.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodCondition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::pod::{Pod, conditions, reference};
use kubeproof_runtime::recorder::{EventParams, EventType};
use kubeproof_runtime::store;
use kubeproof_runtime::sync_error::answered;

use super::{Scheduler, scheduler_name};
use crate::fit::{self, Cluster, FitError, NoPlan, Plan};
use crate::status::wire_time;

/// The type and the reason of a preempted pod's condition.
const DISRUPTION: (&str, &str) = ("DisruptionTarget", "PreemptionByScheduler");

impl Scheduler {
    /// Plans the preemption for a pod. Returns what the scheduler says if no node qualifies.
    pub(super) fn plan(
        &self,
        pod: &Pod,
        cluster: &Cluster<'_>,
        fit_error: &FitError,
    ) -> Result<Plan, NoPlan> {
        let budgets = self.budgets.iter().cloned();
        fit::plan(pod, cluster, fit_error, &budgets.collect::<Vec<_>>())
    }

    /// Returns whether the victims of this pod's preemption have yet to end.
    ///
    /// Upstream does not retry such a pod before they have.
    pub(super) fn waits_for_victims(&self, pod: &Pod, fit_error: &FitError) -> bool {
        let Some(node) = self.nominated.get(&store::uid(pod)) else {
            return false;
        };
        // Waiting would not help: the pod would not fit there even without its victims.
        if !fit_error.may_pass(node) {
            return false;
        }
        self.pods.iter().any(|other| {
            let there = other.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            there == Some(node)
                && fit::priority(other) < fit::priority(pod)
                && self.is_displaced(other)
        })
    }

    /// Evicts the victims of a plan.
    pub(super) async fn preempt(&mut self, pod: &Pod, plan: &Plan) -> Result<(), kube::Error> {
        for victim in &plan.victims {
            if !self.is_displaced(victim) {
                self.displace(victim, scheduler_name(pod)).await?;
                self.displaced.insert(store::uid(&**victim));
            }
            let message = format!("Preempted by pod {} on node {}", store::uid(pod), plan.node);
            let params = EventParams {
                event_type: EventType::Normal,
                reason: "Preempted",
                action: "Preempting",
                message: &message,
            };
            let related = Some(reference(pod));
            let involved = reference(victim);
            self.report(pod, (&involved, related), params).await;
        }
        self.take_nominations(pod, &plan.node).await
    }

    /// Returns whether the pod is the victim of a preemption.
    fn is_displaced(&self, pod: &Pod) -> bool {
        is_marked(pod) || self.displaced.contains(&store::uid(pod))
    }

    async fn displace(&self, victim: &Pod, scheduler: &str) -> Result<(), kube::Error> {
        let (type_, reason) = DISRUPTION;
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let patch = json!({ "metadata": { "uid": store::uid(victim) }, "status": { "conditions": [{
            "type": type_,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": wire_time((self.ctx.now)()),
            "observedGeneration": victim.metadata.generation,
        }] } });
        self.patch_status(victim, patch).await?;
        let namespace = victim.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let params = DeleteParams::default();
        match pods.delete(&victim.name_any(), &params).await {
            Err(error) if !answered(&error, 404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Clears this node's nomination for pods of lower priority.
    async fn take_nominations(&mut self, pod: &Pod, node: &str) -> Result<(), kube::Error> {
        let waiting = self.pods.iter().filter(|other| {
            let nominated = self.nominated.get(&store::uid(&***other));
            nominated.is_some_and(|own| own == node) && fit::priority(other) < fit::priority(pod)
        });
        let waiting: Vec<Arc<Pod>> = waiting.cloned().collect();
        for other in waiting {
            let uid = store::uid(&*other);
            self.nominated.remove(&uid);
            self.refused.remove(&uid);
            let patch = json!({
                "metadata": { "uid": uid }, "status": { "nominatedNodeName": null },
            });
            self.patch_status(&other, patch).await?;
        }
        Ok(())
    }

    /// Patches a pod's status; a pod that is gone is not an error.
    pub(super) async fn patch_status(&self, pod: &Pod, patch: Value) -> Result<(), kube::Error> {
        let namespace = pod.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let patch = Patch::Strategic(patch);
        let params = PatchParams::default();
        match pods.patch_status(&pod.name_any(), &params, &patch).await {
            Err(error) if !answered(&error, 404) && !answered(&error, 409) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns whether the pod's status marks it as the victim of a preemption.
fn is_marked(pod: &Pod) -> bool {
    let is_target = |condition: &PodCondition| {
        let reason = condition.reason.as_deref().unwrap_or_default();
        (condition.type_.as_str(), reason) == DISRUPTION && condition.status == "True"
    };
    pod.metadata.deletion_timestamp.is_some() && conditions(pod).any(is_target)
}

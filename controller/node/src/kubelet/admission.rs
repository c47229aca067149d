//! Pods that a node rejects, regardless of who has bound them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kubeproof_machinery::json::json;
use kubeproof_runtime::node_affinity as affinity;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store::{self, ObjectKey};
use kubeproof_runtime::taints;
use kubeproof_runtime::tolerations::tolerated;

use super::{Kubelet, Record, Stage};
use crate::fit::{self, Load, Reason};
use crate::identity;
use crate::pace::after;
use crate::status::{ended_conditions, wire_time};

/// The minimum delay of a rejection. Without it, a controller that recreates the pod at once would
/// keep virtual time from advancing.
const REJECTION_MIN: Duration = Duration::from_secs(1);

/// A node's rejection of a pod, and the time of its report.
pub(super) struct Rejection {
    due: Timestamp,
    reason: String,
    message: String,
}

impl Kubelet {
    /// Returns the node's rejection of the pod, if any.
    pub(super) fn rejection(&self, pod: &Pod, node: usize) -> Option<Rejection> {
        let name = identity::node_name(node);
        let host = self.hosts.get(&ObjectKey {
            namespace: String::new(),
            name: name.clone(),
        })?;
        let others = self.records.of_node(node).filter(|record| {
            let over = matches!(record.stage, Stage::Ended | Stage::Released);
            !over && record.rejection.is_none()
        });
        let mut load = Load::default();
        let competes = pod.spec.as_deref().is_some_and(fit::competes);
        for record in others {
            let other = competes.then(|| self.pods.get(&record.key));
            match other.flatten() {
                Some(other) => load.add(other),
                None => load.count_one(),
            }
        }
        let (reason, message) = refusal(pod, host, &load)?;
        let wait = self.timings.start.max(REJECTION_MIN);
        Some(Rejection {
            due: after(self.now(), wait),
            reason,
            message,
        })
    }

    /// Returns whether the pod is rejected. Reports the rejection when it is due.
    pub(super) async fn is_rejected(&self, pod: &Pod, record: &mut Record) -> bool {
        if record.deleted.is_some() {
            record.rejection = None;
        }
        let Some(rejection) = &record.rejection else {
            return false;
        };
        if self.now() < rejection.due {
            record.wake = Some(rejection.due);
            return true;
        }
        if let Some(rejection) = record.rejection.take() {
            self.reject(pod, record, &rejection).await;
        }
        record.stage = Stage::Ended;
        record.wake = None;
        true
    }

    /// Reports the pod as failed.
    async fn reject(&self, pod: &Pod, record: &Record, rejection: &Rejection) {
        let Rejection {
            reason, message, ..
        } = rejection;
        self.record_event(pod, None, EventType::Warning, reason, message)
            .await;
        let now = self.now();
        let patch = json!({
            "metadata": { "uid": store::uid(pod) },
            "status": {
                "phase": "Failed",
                "reason": reason,
                "message": format!("Pod was rejected: {message}"),
                "startTime": wire_time(now),
                "observedGeneration": pod.metadata.generation,
                "conditions": ended_conditions(pod, now),
            },
        });
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &record.key.namespace);
        let params = PatchParams::default();
        let written = pods
            .patch_status(&record.key.name, &params, &Patch::Strategic(patch))
            .await;
        if let Err(error) = written {
            tracing::warn!(name = record.key.name, %error, "rejection not reported");
        }
    }
}

/// Returns the reason and the message of the first predicate of upstream's kubelet that rejects the
/// pod, regardless of the scheduler.
fn refusal(pod: &Pod, node: &Node, load: &Load) -> Option<(String, String)> {
    let spec = pod.spec.as_ref()?;
    // The kubelet does not reject a pod for an extended resource that no node has.
    let lacking = fit::lacking(spec, node, load).into_iter();
    let mut lacking = lacking.filter(|lack| lack.capacity > 0 || !lack.resource.contains('/'));
    if let Some(lack) = lacking.next() {
        let message = format!(
            "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
            lack.resource, lack.requested, lack.used, lack.capacity
        );
        return Some((format!("OutOf{}", lack.resource), message));
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let mut driving = taints::of(node)
        .iter()
        .filter(|taint| taint.effect == taints::NO_EXECUTE);
    let failed = if !affinity::matches(spec, node) {
        ("NodeAffinity", Reason::Affinity)
    } else if fit::ports_are_taken(spec, load) {
        ("NodePorts", Reason::Ports)
    } else if !driving.all(|taint| tolerated(taint, tolerations)) {
        ("TaintToleration", Reason::Tainted)
    } else {
        return None;
    };
    let (predicate, reason) = failed;
    let message = format!("Predicate {predicate} failed: {reason}");
    Some((predicate.to_owned(), message))
}

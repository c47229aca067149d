//! The pod garbage collector: removes pods that no kubelet will remove, as their node is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use kubeproof_runtime::clock::later;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::taints::{self, OUT_OF_SERVICE};

use crate::core::disruption_target::{self, Disruption};

/// The controller's name: its user agent.
pub const NAME: &str = "pod-garbage-collector";

/// The period of the collection.
const PERIOD: Duration = Duration::from_secs(20);
/// The time for which a node has to be missing before the API server is asked for it.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// The number of finished pods that are kept (`terminated-pod-gc-threshold`).
const FINISHED_MAX: usize = 12_500;

struct Collector {
    ctx: Context,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let collector = Collector {
        ctx: ctx.for_component(NAME),
        pods: Informer::new(),
        nodes: Informer::new(),
    };
    let work = async {
        let mut quarantine = BTreeMap::new();
        loop {
            collector.collect(&mut quarantine).await;
            tokio::time::sleep(PERIOD).await;
        }
    };
    Informers::new(&collector.ctx.client)
        .add(&collector.pods, |_| {})
        .add(&collector.nodes, |_| {})
        .run(work)
        .await;
}

impl Collector {
    async fn collect(&self, quarantine: &mut BTreeMap<String, Timestamp>) {
        let pods = self.pods.all();
        for pod in surplus(&pods, FINISHED_MAX) {
            self.remove(pod, None).await;
        }
        for pod in &pods {
            let node = node_of(pod).and_then(|name| self.nodes.get("", name));
            if pod::is_terminating(pod) && node.is_some_and(|node| is_out_of_service(&node)) {
                self.remove(pod, None).await;
            }
        }
        let gone = self.gone(&pods, quarantine).await;
        let orphaned = Disruption {
            reason: "DeletionByPodGC",
            message: "PodGC: node no longer exists",
        };
        for pod in &pods {
            if node_of(pod).is_some_and(|node| gone.contains(node)) {
                self.remove(pod, Some(orphaned)).await;
            }
        }
        for pod in &pods {
            if pod::is_terminating(pod) && node_of(pod).is_none() {
                self.remove(pod, None).await;
            }
        }
    }

    /// The nodes of pods that have been missing for the whole quarantine, and are.
    async fn gone(
        &self,
        pods: &[Arc<Pod>],
        quarantine: &mut BTreeMap<String, Timestamp>,
    ) -> BTreeSet<String> {
        let now = (self.ctx.now)();
        let is_missing = |name: &&str| self.nodes.get("", name).is_none();
        for node in pods
            .iter()
            .filter_map(|pod| node_of(pod))
            .filter(is_missing)
        {
            quarantine
                .entry(node.to_owned())
                .or_insert_with(|| later(now, QUARANTINE));
        }
        let due = quarantine.iter().filter(|(_, due)| **due <= now);
        let due: Vec<String> = due.map(|(node, _)| node.clone()).collect();
        let mut gone = BTreeSet::new();
        for node in due {
            quarantine.remove(&node);
            if self.nodes.get("", &node).is_some() {
                continue;
            }
            let api: Api<Node> = Api::all(self.ctx.client.clone());
            match api.get_opt(&node).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    gone.insert(node);
                }
                Err(error) => tracing::warn!(node, %error, "node not read"),
            }
        }
        gone
    }

    /// Marks a pod that has not finished as failed, and deletes it without grace.
    async fn remove(&self, pod: &Pod, disruption: Option<Disruption>) {
        match self.try_remove(pod, disruption).await {
            Err(error) if !error.is_not_found() => {
                let (ns, name) = (pod.namespace(), pod.name_any());
                tracing::warn!(ns, name, %error, "pod not removed");
            }
            _ => {}
        }
    }

    async fn try_remove(&self, pod: &Pod, disruption: Option<Disruption>) -> Result<(), Error> {
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
        if !pod::is_finished(pod) {
            disruption_target::write(&api, pod, disruption, Some("Failed"), (self.ctx.now)())
                .await?;
        }
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        api.delete(&pod.name_any(), &params).await?;
        Ok(())
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    Some(node).filter(|node| !node.is_empty())
}

/// Whether the node is not ready and has the taint by which an administrator declares it out of
/// service.
fn is_out_of_service(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let is_ready = conditions
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    !is_ready
        && taints::of(node)
            .iter()
            .any(|taint| taint.key == OUT_OF_SERVICE)
}

/// The finished pods beyond `max`: first those that were evicted, then the oldest.
fn surplus(pods: &[Arc<Pod>], max: usize) -> Vec<&Arc<Pod>> {
    let mut finished: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod::is_finished(pod)).collect();
    let surplus = finished.len().saturating_sub(max);
    finished.sort_by_cached_key(|pod| {
        let status = pod.status.as_ref();
        let reason = status.and_then(|status| status.reason.as_deref());
        let phase = status.and_then(|status| status.phase.as_deref());
        let is_evicted = phase == Some("Failed") && reason == Some("Evicted");
        let created = pod.creation_timestamp().map(|time| time.0);
        (!is_evicted, created, pod.name_any())
    });
    finished.truncate(surplus);
    finished
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    #[test]
    fn evicted_pods_go_before_older_ones() {
        let pod = |name: &str, phase: &str, reason: &str, second: u32| {
            let created = format!("2026-01-01T00:00:{second:02}Z");
            let pod = json!({"metadata": {"name": name, "creationTimestamp": created},
                "status": {"phase": phase, "reason": reason}});
            Arc::new(from_value::<Pod>(pod).unwrap())
        };
        let pods = [
            pod("old", "Succeeded", "", 1),
            pod("evicted", "Failed", "Evicted", 5),
            pod("running", "Running", "", 0),
            pod("young", "Failed", "", 3),
        ];
        let names = |max| {
            let surplus = surplus(&pods, max).into_iter();
            surplus.map(|pod| pod.name_any()).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["evicted", "old"]);
        assert_eq!(names(3), [""; 0]);
    }

    #[test]
    fn a_node_is_out_of_service_only_while_it_is_not_ready() {
        let node = |ready: &str| -> Node {
            from_value(json!({"metadata": {"name": "a"},
                "spec": {"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap()
        };
        assert!(is_out_of_service(&node("Unknown")));
        assert!(!is_out_of_service(&node("True")));
    }
}

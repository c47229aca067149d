//! Pods that were to be deleted and were not.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::pod::{self, Pod, Shared};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

/// How long a pod is taken to be about to be deleted.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
const TARGET: &str = "DisruptionTarget";

/// Sets the condition `DisruptionTarget` of pods to False when it has held for two minutes without a deletion.
///
/// Source: `syncStalePodDisruption` of the disruption controller.
pub(super) struct StaleTargets {
    ctx: Context,
    queue: WorkQueue<ObjectKey>,
}

impl StaleTargets {
    pub(super) fn new(ctx: Context) -> Self {
        Self {
            ctx,
            queue: WorkQueue::new(),
        }
    }

    /// Looks at the pod again when its condition is stale, if it has the condition.
    pub(super) fn see(&self, pod: &Pod) {
        if let Some(after) = stale_after(pod, (self.ctx.now)()) {
            self.queue.add_after(ObjectKey::of(pod), after);
        }
    }

    /// Works on the pods that were seen. Never returns.
    pub(super) async fn run(&self, pods: &Informer<Pod>) {
        worker::run(&Worker { all: self, pods }, &self.queue, 1).await;
    }
}

struct Worker<'a> {
    all: &'a StaleTargets,
    pods: &'a Informer<Pod>,
}

impl Reconcile for Worker<'_> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let ctx = &self.all.ctx;
        let now = (ctx.now)();
        let Some(after) = stale_after(&pod, now) else {
            return Ok(None);
        };
        if !after.is_zero() {
            return Ok(Some(after));
        }
        let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &key.namespace);
        let params = PostParams::default();
        api.replace_status(&pod.name_any(), &params, &reset(&pod, now))
            .await?;
        Ok(None)
    }
}

/// The time until the pod's condition is stale. A condition of the kubelet's and one of a pod that has ended are never stale.
fn stale_after(pod: &Pod, now: Timestamp) -> Option<Duration> {
    if pod::is_terminating(pod) || pod::is_finished(pod) {
        return None;
    }
    let condition = pod::condition(pod, TARGET).filter(|one| one.status == "True")?;
    if condition.reason.as_deref() == Some("TerminationByKubelet") {
        return None;
    }
    let since = condition.last_transition_time.as_ref();
    let since = since.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let left = TIMEOUT - now.duration_since(since);
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

/// The pod without the disruption.
fn reset(pod: &Pod, now: Timestamp) -> Pod {
    let mut pod = pod.clone();
    let generation = pod.metadata.generation;
    let conditions = pod
        .status
        .iter_mut()
        .flat_map(|status| &mut status.conditions);
    for condition in conditions.flatten().filter(|one| one.type_ == TARGET) {
        *condition = Shared::from(PodCondition {
            type_: TARGET.to_owned(),
            status: "False".to_owned(),
            observed_generation: generation,
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        });
    }
    pod
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = json!({"metadata": {"name": "a", "generation": 2}, "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        change(&mut pod);
        from_value(pod).unwrap()
    }

    #[test]
    fn a_condition_is_stale_after_two_minutes() {
        let after = |now: &str, change: fn(&mut Value)| {
            stale_after(&pod(change), now.parse().unwrap()).map(|after| after.as_secs())
        };
        assert_eq!(after("2026-01-01T00:00:30Z", |_| {}), Some(90));
        assert_eq!(after("2026-01-01T00:02:00Z", |_| {}), Some(0));
        assert_eq!(after("2026-01-01T00:05:00Z", |_| {}), Some(0));
        let never: [fn(&mut Value); 4] = [
            |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z"),
            |pod| pod["status"]["phase"] = json!("Failed"),
            |pod| pod["status"]["conditions"][1]["status"] = json!("False"),
            |pod| pod["status"]["conditions"][1]["reason"] = json!("TerminationByKubelet"),
        ];
        for change in never {
            assert_eq!(after("2026-01-01T00:05:00Z", change), None);
        }
    }

    #[test]
    fn a_reset_condition_has_no_reason() {
        let now = "2026-01-01T00:02:00Z";
        let pod = serde_json::to_value(reset(&pod(|_| {}), now.parse().unwrap())).unwrap();
        assert_eq!(
            pod["status"]["conditions"],
            json!([{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "False",
                "observedGeneration": 2, "lastTransitionTime": now}])
        );
    }
}

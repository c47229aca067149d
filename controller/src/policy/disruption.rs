//! The disruption controller: how many of a budget's pods may be evicted right now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::{controller_of, reference_to};
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::int_or_percent::{Round, resolve};
use kubeproof_runtime::pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "disruption-controller";
/// The time after which an eviction without a deletion is presumed to have failed.
const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
const ALLOWED: &str = "DisruptionAllowed";

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), "controllermanager"),
        ctx,
        queue: WorkQueue::new(),
        budgets: Informer::new(),
        pods: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.budgets, |change| {
            controller.queue.add(change.key())
        })
        .add(&controller.pods, |change| controller.pod_changed(change))
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

/// The numbers of pods that a budget protects.
#[derive(Clone, Copy, Debug)]
struct Protected {
    expected: i32,
    desired_healthy: i32,
}

impl Controller {
    fn pod_changed(&self, change: &Change<Pod>) {
        let (old, new) = (change.replaced(), change.object());
        for budget in self
            .budgets
            .in_namespace(&new.namespace().unwrap_or_default())
        {
            if selects(&budget, new) || old.is_some_and(|old| selects(&budget, old)) {
                self.queue.add(ObjectKey::of(&*budget));
            }
        }
    }

    /// How many pods the owners of `pods` want, and how many of them have to stay healthy.
    async fn protect(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> Result<Protected, Error> {
        let spec = budget.spec.clone().unwrap_or_default();
        let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        if let Some(limit) = &spec.max_unavailable {
            let expected = self.expected(pods).await?;
            let limit = resolve(limit, expected, Round::Up).unwrap_or(0);
            return Ok(Protected {
                expected,
                desired_healthy: (expected - limit).max(0),
            });
        }
        let Some(minimum) = &spec.min_available else {
            return Ok(Protected {
                expected: count,
                desired_healthy: 0,
            });
        };
        let is_share = matches!(
            minimum,
            k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(_)
        );
        let expected = if is_share {
            self.expected(pods).await?
        } else {
            count
        };
        Ok(Protected {
            expected,
            desired_healthy: resolve(minimum, expected, Round::Up).unwrap_or(0),
        })
    }

    /// The replicas of all owners of `pods`, each owner once.
    async fn expected(&self, pods: &[Arc<Pod>]) -> Result<i32, Error> {
        let mut by_owner: BTreeMap<String, i32> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = controller_of(&pod.metadata) else {
                continue;
            };
            if by_owner.contains_key(&owner.uid) {
                continue;
            }
            let namespace = pod.namespace().unwrap_or_default();
            let scale = self.scale_of(&namespace, owner).await?;
            let (uid, replicas) = scale.ok_or_else(|| Error::NoScale(pod.name_any()))?;
            by_owner.insert(owner.uid.clone(), 0);
            by_owner.insert(uid, replicas);
        }
        Ok(by_owner.values().sum())
    }

    /// The uid and the replicas of an owner; of a ReplicaSet's Deployment rather than of itself.
    async fn scale_of(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<(String, i32)>, Error> {
        let mut owner = owner.clone();
        loop {
            let (group, version) = owner
                .api_version
                .split_once('/')
                .unwrap_or(("", &owner.api_version));
            let kind_of = GroupVersionKind::gvk(group, version, &owner.kind);
            let resource = ApiResource::from_gvk(&kind_of);
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.ctx.client.clone(), namespace, &resource);
            let Some(object) = api.get_opt(&owner.name).await? else {
                return Ok(None);
            };
            match controller_of(&object.metadata) {
                Some(above) if owner.kind == "ReplicaSet" => owner = above.clone(),
                _ => {
                    let replicas = object.data.pointer("/spec/replicas");
                    let replicas = replicas.and_then(serde_json::Value::as_i64).unwrap_or(0);
                    let uid = object.metadata.uid.unwrap_or_default();
                    return Ok(Some((uid, i32::try_from(replicas).unwrap_or(i32::MAX))));
                }
            }
        }
    }

    /// Allows no disruptions when the expected number of pods is unknown.
    async fn fail_safe(&self, budget: &PodDisruptionBudget, error: &Error) -> Result<(), Error> {
        let message = format!("Failed to calculate the number of expected pods: {error}");
        let involved = reference_to("policy/v1", "PodDisruptionBudget", &budget.metadata);
        let reason = "CalculateExpectedPodCountFailed";
        self.recorder
            .publish(&involved, EventType::Warning, reason, &message)
            .await;
        let mut status = budget.status.clone().unwrap_or_default();
        status.disruptions_allowed = Some(0);
        let failed = condition(
            &budget.metadata,
            "False",
            "SyncFailed",
            &error.to_string(),
            (self.ctx.now)(),
        );
        set_condition(&mut status, failed);
        self.write(budget, status).await
    }

    async fn write(
        &self,
        budget: &PodDisruptionBudget,
        status: PodDisruptionBudgetStatus,
    ) -> Result<(), Error> {
        if budget.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut object = budget.clone();
        object.status = Some(status);
        let api: Api<PodDisruptionBudget> = Api::namespaced(
            self.ctx.client.clone(),
            &budget.namespace().unwrap_or_default(),
        );
        let (name, params) = (budget.name_any(), PostParams::default());
        api.replace_status(&name, &params, &object).await?;
        Ok(())
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(budget) = self.budgets.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selects(&budget, pod));
        if pods.is_empty() {
            let involved = reference_to("policy/v1", "PodDisruptionBudget", &budget.metadata);
            let message = "No matching pods found";
            self.recorder
                .publish(&involved, EventType::Normal, "NoPods", message)
                .await;
        }
        let protected = match self.protect(&budget, &pods).await {
            Ok(protected) => protected,
            Err(error) => {
                self.fail_safe(&budget, &error).await?;
                return Err(error);
            }
        };
        let now = (self.ctx.now)();
        let (status, recheck) = compute(&budget, &pods, protected, now);
        self.write(&budget, status).await?;
        Ok(recheck)
    }
}

/// An empty selector selects every pod of the namespace, none selects nothing.
fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector
        .and_then(|selector| Selector::try_from(selector).ok())
        .is_some_and(|selector| selector.matches(pod.labels()))
}

/// The status, and when an eviction in it times out.
fn compute(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    protected: Protected,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let stored = budget.status.clone().unwrap_or_default();
    let mut disrupted = stored.disrupted_pods.clone().unwrap_or_default();
    let mut recheck: Option<Timestamp> = None;
    disrupted.retain(|name, since| {
        let due = since.0 + EVICTION_TIMEOUT;
        let is_awaited = pods
            .iter()
            .any(|pod| pod.name_any() == *name && !pod::is_terminating(pod));
        let keeps = is_awaited && due > now;
        if keeps {
            recheck = Some(recheck.map_or(due, |known| known.min(due)));
        }
        keeps
    });
    let is_healthy = |pod: &&Arc<Pod>| {
        !pod::is_terminating(pod)
            && !disrupted.contains_key(&pod.name_any())
            && pod::has_ready_condition(pod)
    };
    let healthy = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let allowed = if protected.expected == 0 {
        0
    } else {
        (healthy - protected.desired_healthy).max(0)
    };
    let mut status = PodDisruptionBudgetStatus {
        conditions: stored.conditions,
        current_healthy: Some(healthy),
        desired_healthy: Some(protected.desired_healthy),
        disrupted_pods: Some(disrupted).filter(|disrupted| !disrupted.is_empty()),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(protected.expected),
        observed_generation: budget.metadata.generation,
    };
    let (holds, reason) = if allowed > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    set_condition(
        &mut status,
        condition(&budget.metadata, holds, reason, "", now),
    );
    let recheck = recheck.and_then(|due| Duration::try_from(due.duration_since(now)).ok());
    (status, recheck)
}

fn condition(
    meta: &ObjectMeta,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Condition {
    Condition {
        type_: ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: meta.generation,
        last_transition_time: Time(now),
    }
}

/// Replaces the condition of the same type; only a change of its status changes the transition
/// time.
fn set_condition(status: &mut PodDisruptionBudgetStatus, mut condition: Condition) {
    let conditions = status.conditions.get_or_insert_default();
    match conditions
        .iter_mut()
        .find(|known| known.type_ == condition.type_)
    {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time.clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T00:02:00Z";

    fn pod(name: &str, ready: &str) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn computed(disrupted: &Value, expected: i32, desired_healthy: i32) -> (Value, Option<u64>) {
        let budget = serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": 2},
            "status": {"disruptedPods": disrupted, "currentHealthy": 0, "desiredHealthy": 0,
                "disruptionsAllowed": 0, "expectedPods": 0},
        }))
        .unwrap();
        let pods = [pod("a", "True"), pod("b", "True"), pod("c", "False")];
        let protected = Protected {
            expected,
            desired_healthy,
        };
        let (status, recheck) = compute(&budget, &pods, protected, NOW.parse().unwrap());
        let recheck = recheck.map(|after| after.as_secs());
        (serde_json::to_value(status).unwrap(), recheck)
    }

    #[test]
    fn healthy_pods_beyond_those_desired_may_be_disrupted() {
        let table = [
            // expected, desired, allowed, reason
            (3, 1, 1, "SufficientPods"),
            (3, 2, 0, "InsufficientPods"),
            (3, 3, 0, "InsufficientPods"),
            (0, 0, 0, "InsufficientPods"),
        ];
        for (expected, desired, allowed, reason) in table {
            let (status, _) = computed(&json!({}), expected, desired);
            assert_eq!(status["disruptionsAllowed"], allowed);
            assert_eq!(status["currentHealthy"], 2);
            assert_eq!(status["conditions"][0]["reason"], reason);
            assert_eq!(status["observedGeneration"], 2);
        }
    }

    #[test]
    fn evicted_pods_do_not_count_until_their_eviction_times_out() {
        let disrupted = json!({"a": "2026-01-01T00:01:00Z", "b": "2026-01-01T00:00:00Z",
            "gone": "2026-01-01T00:01:59Z"});
        let (status, recheck) = computed(&disrupted, 3, 1);
        assert_eq!(
            status["disruptedPods"],
            json!({"a": "2026-01-01T00:01:00Z"})
        );
        assert_eq!(status["currentHealthy"], 1);
        assert_eq!(status["disruptionsAllowed"], 0);
        assert_eq!(recheck, Some(60));
    }
}

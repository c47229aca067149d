//! The status of a budget, computed without I/O.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::{condition, pod};

use super::expected::Protected;

/// The time after which an eviction without a deletion is presumed to have failed.
const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
const ALLOWED: &str = "DisruptionAllowed";

/// A status, and what follows from the evictions that it knows.
#[derive(Debug)]
pub(super) struct Computed {
    pub(super) status: PodDisruptionBudgetStatus,
    /// When the first of the evictions times out.
    pub(super) recheck: Option<Duration>,
    /// Pods whose evictions have timed out.
    pub(super) overdue: Vec<Arc<Pod>>,
}

/// Computes the status of a budget with these pods.
pub(super) fn compute(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    protected: Protected,
    now: Timestamp,
) -> Computed {
    let stored = budget.status.clone().unwrap_or_default();
    let mut disrupted = stored.disrupted_pods.clone().unwrap_or_default();
    let mut recheck: Option<Timestamp> = None;
    let mut overdue = Vec::new();
    disrupted.retain(|name, since| {
        let due = since.0 + EVICTION_TIMEOUT;
        let awaited = pods
            .iter()
            .find(|pod| pod.name_any() == *name && !pod::is_terminating(pod));
        let Some(awaited) = awaited else {
            return false;
        };
        if due < now {
            overdue.push(Arc::clone(awaited));
            return false;
        }
        recheck = Some(recheck.map_or(due, |known| known.min(due)));
        true
    });
    let is_evicted = |pod: &Pod| {
        let since = disrupted.get(&pod.name_any());
        since.is_some_and(|since| since.0 + EVICTION_TIMEOUT > now)
    };
    let is_healthy = |pod: &&Arc<Pod>| {
        !pod::is_terminating(pod) && !is_evicted(pod) && pod::has_ready_condition(pod)
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
    set_condition(&mut status, holds, reason, "", now);
    let recheck = recheck.and_then(|due| Duration::try_from(due.duration_since(now)).ok());
    Computed {
        status,
        recheck,
        overdue,
    }
}

/// The status of a budget that could not be computed, for the reason in `message`.
pub(super) fn failed(
    budget: &PodDisruptionBudget,
    message: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = Some(0);
    set_condition(&mut status, "False", "SyncFailed", message, now);
    status
}

/// Sets the condition of the status.
fn set_condition(
    status: &mut PodDisruptionBudgetStatus,
    holds: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let condition = Condition {
        type_: ALLOWED.to_owned(),
        status: holds.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: status.observed_generation,
        last_transition_time: Time(now),
    };
    condition::set(status.conditions.get_or_insert_default(), condition);
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T00:02:00Z";

    fn pod(name: &str, ready: &str) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(from_value(pod).unwrap())
    }

    fn computed(disrupted: &Value, expected: i32, desired_healthy: i32) -> (Value, Option<u64>) {
        let budget = from_value(json!({
            "metadata": {"name": "web", "generation": 2},
            "status": {"disruptedPods": disrupted, "currentHealthy": 0, "desiredHealthy": 0,
                "disruptionsAllowed": 0, "expectedPods": 0},
        }))
        .unwrap();
        let pods = [pod("a", "True"), pod("b", "True"), pod("c", "False")];
        let protected = Protected {
            expected,
            desired_healthy,
            has_unmanaged: false,
        };
        let computed = compute(&budget, &pods, protected, NOW.parse().unwrap());
        let recheck = computed.recheck.map(|after| after.as_secs());
        (serde_json::to_value(computed.status).unwrap(), recheck)
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
        let disrupted = json!({"a": "2026-01-01T00:01:00Z", "b": "2025-12-31T23:59:59Z",
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

    #[test]
    fn an_eviction_times_out_after_two_minutes() {
        for (since, ready, recheck, overdue) in [
            ("2026-01-01T00:00:01Z", 1, Some(1), 0),
            ("2026-01-01T00:00:00Z", 2, Some(0), 0),
            ("2025-12-31T23:59:59Z", 2, None, 1),
        ] {
            let budget = from_value(json!({"metadata": {"name": "web"},
                "status": {"disruptedPods": {"a": since}, "currentHealthy": 0,
                    "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}}));
            let pods = [pod("a", "True"), pod("b", "True")];
            let protected = Protected {
                expected: 2,
                desired_healthy: 1,
                has_unmanaged: false,
            };
            let computed = compute(&budget.unwrap(), &pods, protected, NOW.parse().unwrap());
            assert_eq!(computed.status.current_healthy, Some(ready), "{since}");
            assert_eq!(computed.recheck.map(|after| after.as_secs()), recheck);
            assert_eq!(computed.overdue.len(), overdue, "{since}");
        }
    }

    #[test]
    fn a_failure_leaves_the_numbers_and_allows_nothing() {
        let budget = from_value(json!({
            "metadata": {"name": "web", "generation": 2},
            "status": {"observedGeneration": 1, "currentHealthy": 3, "desiredHealthy": 1,
                "disruptionsAllowed": 2, "expectedPods": 3,
                "conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }));
        let status = failed(&budget.unwrap(), "no scale", NOW.parse().unwrap());
        assert_eq!(
            serde_json::to_value(status).unwrap(),
            json!({"observedGeneration": 1, "currentHealthy": 3, "desiredHealthy": 1,
                "disruptionsAllowed": 0, "expectedPods": 3,
                "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed",
                    "message": "no scale", "lastTransitionTime": NOW, "observedGeneration": 1}]})
        );
    }
}

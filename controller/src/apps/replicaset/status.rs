//! The status of a set: what is counted, and when it is worth a write.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};

use super::Set;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The findings and results of a sync.
pub(super) struct Observed<'a> {
    /// The set's pods that are neither finished nor terminating.
    pub(super) active: Vec<&'a Pod>,
    /// The number of the set's terminating pods.
    pub(super) terminating: usize,
    /// The error of creating or deleting pods.
    pub(super) failure: Option<String>,
    pub(super) now: Timestamp,
}

/// The set's status after a sync, all but the generation.
pub(super) fn compute(set: &impl Set, observed: &Observed<'_>) -> ReplicaSetStatus {
    let labels = set
        .template()
        .and_then(|template| template.metadata.as_ref()?.labels.clone());
    let labels = labels.unwrap_or_default();
    let number = |counted: usize| i32::try_from(counted).unwrap_or(i32::MAX);
    let is_labeled = |pod: &Pod| {
        let of_pod = pod.labels();
        labels
            .iter()
            .all(|(key, value)| of_pod.get(key) == Some(value))
    };
    let min_ready_seconds = set.min_ready_seconds();
    let (mut labeled, mut ready, mut available) = (0, 0, 0);
    for pod in &observed.active {
        labeled += usize::from(is_labeled(pod));
        // Only a ready pod can be available.
        if pod::has_ready_condition(pod) {
            ready += 1;
            let is_available = pod::is_available(pod, min_ready_seconds, observed.now);
            available += usize::from(is_available);
        }
    }
    let shown = |count: i32| Some(count).filter(|count| *count != 0);
    let stored = set.status();
    ReplicaSetStatus {
        replicas: number(observed.active.len()),
        fully_labeled_replicas: shown(number(labeled)),
        ready_replicas: shown(number(ready)),
        available_replicas: shown(number(available)),
        terminating_replicas: i32::try_from(observed.terminating).ok(),
        conditions: conditions(set, stored.conditions, observed),
        observed_generation: stored.observed_generation,
    }
}

/// Returns the conditions. A failure keeps its first message until it is over.
fn conditions(
    set: &impl Set,
    stored: Option<Vec<ReplicaSetCondition>>,
    observed: &Observed<'_>,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = stored.unwrap_or_default();
    let known = conditions.iter().any(|one| one.type_ == REPLICA_FAILURE);
    match &observed.failure {
        None => conditions.retain(|one| one.type_ != REPLICA_FAILURE),
        Some(_) if known => {}
        Some(message) => {
            let wanted = usize::try_from(set.replicas()).unwrap_or(0);
            let reason = if observed.active.len() < wanted {
                "FailedCreate"
            } else {
                "FailedDelete"
            };
            conditions.push(ReplicaSetCondition {
                type_: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(Time(observed.now)),
                reason: Some(reason.to_owned()),
                message: Some(message.clone()),
            });
        }
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

/// Whether `status` says something that the set's does not, as far as its kind can say it.
pub(super) fn differs(set: &impl Set, status: &ReplicaSetStatus) -> bool {
    let mut changed = set.clone();
    changed.set_status(status.clone());
    let stored = set.status();
    stored != changed.status() || stored.observed_generation != set.meta().generation
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    fn set(status: serde_json::Value) -> ReplicaSet {
        from_value(json!({
            "metadata": {"name": "web", "generation": 2},
            "spec": {"replicas": 3, "minReadySeconds": 10,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}}},
            "status": status,
        }))
        .unwrap()
    }

    fn pod(labels: serde_json::Value, ready_at: &str) -> Pod {
        from_value(json!({
            "metadata": {"labels": labels},
            "status": {"phase": "Running", "conditions": [{"type": "Ready",
                "status": if ready_at.is_empty() { "False" } else { "True" },
                "lastTransitionTime": if ready_at.is_empty() { "2026-01-01T00:00:00Z" }
                    else { ready_at }}]},
        }))
        .unwrap()
    }

    fn computed(set: &ReplicaSet, pods: &[Pod], failure: Option<&str>) -> serde_json::Value {
        let observed = Observed {
            active: pods.iter().collect(),
            terminating: 1,
            failure: failure.map(str::to_owned),
            now: "2026-01-01T00:01:00Z".parse().unwrap(),
        };
        serde_json::to_value(compute(set, &observed)).unwrap()
    }

    #[test]
    fn pods_are_counted_by_labels_readiness_and_its_age() {
        let pods = [
            pod(json!({"app": "web"}), ""),
            pod(
                json!({"app": "web", "tier": "front"}),
                "2026-01-01T00:00:55Z",
            ),
            pod(
                json!({"app": "web", "tier": "front", "x": "y"}),
                "2026-01-01T00:00:50Z",
            ),
        ];
        let expected = json!({"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 1, "terminatingReplicas": 1});
        assert_eq!(
            computed(&set(json!({"replicas": 0})), &pods, None),
            expected
        );
    }

    #[test]
    fn a_failure_is_reported_once_and_removed_when_over() {
        let first = computed(&set(json!({"replicas": 0})), &[], Some("no quota"));
        let condition = json!([{"type": "ReplicaFailure", "status": "True",
            "reason": "FailedCreate", "message": "no quota",
            "lastTransitionTime": "2026-01-01T00:01:00Z"}]);
        assert_eq!(first["conditions"], condition);
        let failed = set(first);
        let again = computed(&failed, &[], Some("still no quota"));
        assert_eq!(again["conditions"], condition);
        let over = computed(&failed, &[], None);
        assert_eq!(over.get("conditions"), None);
        let many = vec![pod(json!({}), ""); 4];
        let delete = computed(&set(json!({"replicas": 4})), &many, Some("no"));
        assert_eq!(delete["conditions"][0]["reason"], "FailedDelete");
    }

    #[test]
    fn a_status_is_written_for_a_new_generation_alone() {
        let current = set(json!({"replicas": 1, "observedGeneration": 2}));
        let status = current.status.clone().unwrap();
        assert!(!differs(&current, &status));
        let behind = set(json!({"replicas": 1, "observedGeneration": 1}));
        assert!(differs(&behind, &behind.status.clone().unwrap()));
    }
}

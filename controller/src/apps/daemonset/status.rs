//! The status of a set: nodes counted by what they should have and what they have.

use k8s_openapi::api::apps::v1::DaemonSetStatus;
use kube::ResourceExt;
use kubeproof_runtime::pod;

use super::min_ready_seconds;
use super::placement::{Suits, is_updated, suits};
use super::rollout::Observed;

/// The status, but for the generation.
pub(super) fn compute(observed: Observed<'_>) -> DaemonSetStatus {
    let stored = observed.set.status.clone().unwrap_or_default();
    let (mut available, mut updated) = (0, 0);
    let mut status = DaemonSetStatus {
        collision_count: stored.collision_count,
        conditions: stored.conditions,
        observed_generation: stored.observed_generation,
        ..DaemonSetStatus::default()
    };
    for node in observed.nodes {
        let first = observed
            .pods
            .get(&node.name_any())
            .and_then(|pods| pods.first());
        if suits(observed.set, node) != Suits::Yes {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        status.current_number_scheduled += 1;
        let is_ready = pod::has_ready_condition(pod);
        let is_available = pod::is_available(pod, min_ready_seconds(observed.set), observed.now);
        status.number_ready += i32::from(is_ready);
        available += i32::from(is_available);
        updated += i32::from(is_updated(observed.set, pod, observed.hash));
    }
    let shown = |count: i32| Some(count).filter(|count| *count != 0);
    status.number_available = shown(available);
    status.number_unavailable = shown(status.desired_number_scheduled - available);
    status.updated_number_scheduled = shown(updated);
    status
}

/// The computed numbers in a status that is newer than the one they were computed with.
pub(super) fn onto(live: DaemonSetStatus, computed: DaemonSetStatus) -> DaemonSetStatus {
    DaemonSetStatus {
        collision_count: live.collision_count,
        conditions: live.conditions,
        observed_generation: live.observed_generation.max(computed.observed_generation),
        ..computed
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DaemonSetCondition;

    use super::*;

    #[test]
    fn numbers_go_into_a_newer_status_and_leave_the_rest() {
        let live = DaemonSetStatus {
            collision_count: Some(2),
            conditions: Some(vec![DaemonSetCondition::default()]),
            observed_generation: Some(5),
            number_ready: 1,
            ..DaemonSetStatus::default()
        };
        let computed = DaemonSetStatus {
            collision_count: Some(1),
            observed_generation: Some(4),
            number_ready: 3,
            ..DaemonSetStatus::default()
        };
        let written = onto(live.clone(), computed);
        assert_eq!(written.number_ready, 3);
        assert_eq!(written.collision_count, live.collision_count);
        assert_eq!(written.conditions, live.conditions);
        assert_eq!(written.observed_generation, live.observed_generation);
    }
}

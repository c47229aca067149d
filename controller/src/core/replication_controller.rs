//! The controller of ReplicationControllers, which are ReplicaSets with a simpler selector.
//!
//! Source: pkg/controller/replication of Kubernetes, which shares its code in the same way.

use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition,
    ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kubeproof_runtime::context::Context;

use crate::apps::replicaset::{self, Set};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "replication-controller";

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    replicaset::run_for::<ReplicationController>(ctx).await;
}

impl Set for ReplicationController {
    const CONTROLLER: &'static str = NAME;
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicationController";
    const CONSISTENT: Option<&'static str> = None;

    fn selector(&self) -> LabelSelector {
        LabelSelector {
            match_labels: self.spec.as_ref().and_then(|spec| spec.selector.clone()),
            match_expressions: None,
        }
    }

    fn replicas(&self) -> i32 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn status(&self) -> ReplicaSetStatus {
        let status = self.status.clone().unwrap_or_default();
        let condition = |one: ReplicationControllerCondition| ReplicaSetCondition {
            type_: one.type_,
            status: one.status,
            reason: one.reason,
            message: one.message,
            last_transition_time: one.last_transition_time,
        };
        let conditions = status.conditions;
        ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            terminating_replicas: None,
            observed_generation: status.observed_generation,
            conditions: conditions.map(|all| all.into_iter().map(condition).collect()),
        }
    }

    /// The number of terminating pods is left out: ReplicationControllers do not report it.
    fn set_status(&mut self, status: ReplicaSetStatus) {
        let condition = |one: ReplicaSetCondition| ReplicationControllerCondition {
            type_: one.type_,
            status: one.status,
            reason: one.reason,
            message: one.message,
            last_transition_time: one.last_transition_time,
        };
        let conditions = status.conditions;
        self.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions: conditions.map(|all| all.into_iter().map(condition).collect()),
        });
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_reads_as_it_was_written_but_for_what_the_kind_has_not() {
        let mut controller = ReplicationController::default();
        let status: ReplicaSetStatus = from_value(json!({
            "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 1,
            "observedGeneration": 4, "conditions": [{"type": "ReplicaFailure", "status": "True",
                "reason": "FailedCreate", "message": "no quota"}],
        }))
        .unwrap();
        let mut given = status.clone();
        given.terminating_replicas = Some(1);
        controller.set_status(given);
        assert_eq!(Set::status(&controller), status);
    }
}

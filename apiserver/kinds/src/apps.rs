//! Workloads that run pods until they are deleted.

pub(crate) mod controller_revision;
pub mod conversion;
pub(crate) mod daemon_set;
pub mod deployment;
pub(crate) mod replica_set;
pub(crate) mod stateful_set;

use super::ApiGroup;

/// The strategies of `apps`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "apps",
    strategies: &[
        (
            "controllerrevisions",
            &controller_revision::ControllerRevision,
        ),
        ("daemonsets", &daemon_set::DaemonSet),
        ("deployments", &deployment::Deployment),
        ("replicasets", &replica_set::ReplicaSet),
        ("statefulsets", &stateful_set::StatefulSet),
    ],
};

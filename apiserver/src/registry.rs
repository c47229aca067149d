//! What is particular to each kind, and the generic store that reads and writes objects by it.
//!
//! Facts about kinds (names, columns, subresources) are data in `catalog`; behaviour is a
//! [`Strategy`] in the kind's own file.

pub(crate) mod catalog;
mod checks;
pub(crate) mod columns;
mod config_map;
mod controller_revision;
mod cron_job;
mod daemon_set;
mod deployment;
mod event;
mod job;
mod lease;
mod namespace;
mod node;
mod persistent_volume_claim;
pub(crate) mod pod;
mod pod_template;
mod pod_validation;
mod replica_set;
mod replication_controller;
mod secret;
mod service;
mod statefulset;
pub(crate) mod store;
mod strategy;
mod workload;

use crate::meta::GroupResource;

pub(crate) use strategy::{Context, Generic, Strategy};

/// The strategy of a resource: its own, or the generic one.
pub(crate) fn strategy(resource: &GroupResource) -> &'static dyn Strategy {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "namespaces") => &namespace::Namespace,
        ("", "nodes") => &node::Node,
        ("", "events") => &event::Event,
        ("", "configmaps") => &config_map::ConfigMap,
        ("", "secrets") => &secret::Secret,
        ("", "replicationcontrollers") => &replication_controller::ReplicationController,
        ("apps", "deployments") => &deployment::Deployment,
        ("apps", "replicasets") => &replica_set::ReplicaSet,
        ("apps", "daemonsets") => &daemon_set::DaemonSet,
        ("batch", "jobs") => &job::Job,
        ("batch", "cronjobs") => &cron_job::CronJob,
        ("", "pods") => &pod::Pod,
        ("", "persistentvolumeclaims") => &persistent_volume_claim::PersistentVolumeClaim,
        ("", "services") => &service::Service,
        ("apps", "controllerrevisions") => &controller_revision::ControllerRevision,
        ("apps", "statefulsets") => &statefulset::StatefulSet,
        ("coordination.k8s.io", "leases") => &lease::Lease,
        ("policy", "poddisruptionbudgets")
        | ("networking.k8s.io", "ingresses" | "networkpolicies")
        | ("autoscaling", _) => &Generic { generation: true },
        _ => &Generic { generation: false },
    }
}

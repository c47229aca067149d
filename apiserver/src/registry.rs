//! What is particular to each kind, and the generic store that reads and writes objects by it.
//!
//! Facts about kinds (names, columns, subresources) are data in `catalog`; behaviour is a
//! [`Strategy`] in the kind's own file.

pub(crate) mod catalog;
pub(crate) mod columns;
mod controller_revision;
pub(crate) mod event;
mod lease;
mod namespace;
mod node;
mod persistent_volume_claim;
pub(crate) mod pod;
mod pod_template;
mod pod_validation;
mod service;
mod statefulset;
pub(crate) mod store;
mod strategy;

use crate::meta::GroupResource;

pub(crate) use strategy::{Context, Generic, Strategy};

/// The strategy of a resource: its own, or the generic one.
pub(crate) fn strategy(resource: &GroupResource) -> &'static dyn Strategy {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "namespaces") => &namespace::Namespace,
        ("", "nodes") => &node::Node,
        ("" | event::GROUP, "events") => &event::Event,
        ("", "pods") => &pod::Pod,
        ("", "persistentvolumeclaims") => &persistent_volume_claim::PersistentVolumeClaim,
        ("", "services") => &service::Service,
        ("apps", "controllerrevisions") => &controller_revision::ControllerRevision,
        ("apps", "statefulsets") => &statefulset::StatefulSet,
        ("coordination.k8s.io", "leases") => &lease::Lease,
        ("apps", "deployments" | "replicasets" | "daemonsets")
        | ("batch", _)
        | ("policy", "poddisruptionbudgets")
        | ("networking.k8s.io", "ingresses" | "networkpolicies")
        | ("autoscaling", _)
        | ("", "replicationcontrollers") => &Generic { generation: true },
        _ => &Generic { generation: false },
    }
}

//! The core group, whose name is empty.

pub(crate) mod claim_spec;
pub mod component_status;
pub mod config_map;
pub mod embedded;
pub mod endpoints;
pub mod event;
pub(crate) mod limit_range;
pub mod namespace;
pub mod node;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub mod pod;
pub(crate) mod pod_template;
pub(crate) mod replication_controller;
pub(crate) mod resource_list;
pub mod resource_names;
pub mod resource_quota;
pub mod secret;
pub mod service;
pub mod service_account;

use super::rest::CreateRest;
use super::{ApiGroup, Virtual};

/// The strategies of the core group.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "",
    strategies: &[
        ("bindings", &Virtual(CreateRest::Binding)),
        ("componentstatuses", &component_status::ComponentStatus),
        ("configmaps", &config_map::ConfigMap),
        ("endpoints", &endpoints::Endpoints),
        ("events", &event::Event { strict: false }),
        ("limitranges", &limit_range::LimitRange),
        ("namespaces", &namespace::Namespace),
        ("nodes", &node::Node),
        (
            "persistentvolumeclaims",
            &persistent_volume_claim::PersistentVolumeClaim,
        ),
        ("persistentvolumes", &persistent_volume::PersistentVolume),
        ("pods", &pod::Pod),
        ("podtemplates", &pod_template::PodTemplate),
        (
            "replicationcontrollers",
            &replication_controller::ReplicationController,
        ),
        ("resourcequotas", &resource_quota::ResourceQuota),
        ("secrets", &secret::Secret),
        ("serviceaccounts", &service_account::ServiceAccount),
        ("services", &service::Service),
    ],
};

//! The controllers of the core group: namespaces, nodes, pods, services, volumes, quotas and service accounts.
//!
//! The controllers of EndpointSlices are here, too, because they share [`endpoints`]' view of a service
//! (`services`), as upstream's do.

pub mod bootstrap;
pub(crate) mod disruption_target;
pub mod endpoint_slice;
pub mod endpoint_slice_mirroring;
pub mod endpoints;
pub mod legacy_token_cleaner;
pub mod namespace;
pub mod node_lifecycle;
pub mod node_ttl;
pub mod persistent_volume;
pub mod pod_garbage_collector;
pub mod replication_controller;
pub mod resource_quota;
pub mod root_ca;
pub mod service_account;
pub mod service_account_tokens;
pub(crate) mod services;
pub mod taint_eviction;

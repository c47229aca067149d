//! Kubernetes controllers and simulated nodes on kube-rs.
//!
//! The code knows the API server only as an API: it runs unchanged against any cluster.

mod adoption;
pub mod advanced_statefulset;
mod claim;
pub mod clock;
pub mod cloneset;
pub mod context;
mod controller_ref;
pub mod daemonset;
pub mod deployment;
pub mod disruption;
mod disruption_target;
pub mod endpoint_slice;
pub mod endpoints;
pub mod error;
mod expectations;
pub mod garbage_collector;
mod history;
mod informer;
mod int_or_percent;
mod inventory;
pub mod json_diff;
pub mod kruise;
pub mod manager;
mod mirror;
mod named_expectations;
pub mod namespace;
pub mod node;
pub mod node_lifecycle;
pub mod persistent_volume;
mod pod;
mod pod_control;
pub mod pod_garbage_collector;
mod pod_ranking;
mod recorder;
pub mod replicaset;
pub mod resource_quota;
mod revision_control;
pub mod root_ca;
pub mod service_account;
mod services;
mod stateful_claims;
mod stateful_identity;
mod stateful_pod_control;
pub mod statefulset;
mod sync_error;
pub mod taint_eviction;
mod taints;
mod template_hash;
mod triggers;
mod version_expectations;
mod work_queue;
mod worker;

pub use error::Error;
pub use manager::{CONTROLLERS, KRUISE_CONTROLLERS, Manager, Options, Restarter};

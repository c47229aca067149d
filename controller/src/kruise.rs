//! What OpenKruise's workloads have in common, and their kinds.
//!
//! - [`strategy`], [`stateful_set`], [`clone_set`], [`v1alpha1`]: the kinds, as Rust types
//! - `lifecycle`: the states of a pod and the hooks between them
//! - `in_place`: updates of a pod that keep it
//! - `update_sort`: in which order pods are updated
//! - `refresh`: what is due for a pod whatever its workload does next
//! - `pod_writes`: carries out what was decided about a pod
//!
//! Source: openkruise/kruise at v1.9.

pub mod clone_set;
mod schema;
pub mod stateful_set;
pub mod strategy;
pub mod v1alpha1;

pub use clone_set::CloneSet;
pub use stateful_set::StatefulSet;

/// The group of all these kinds.
pub const GROUP: &str = "apps.kruise.io";
/// The version in which they are stored, and `apiVersion` of that.
pub const VERSION: &str = "v1beta1";
pub(crate) const API_VERSION: &str = "apps.kruise.io/v1beta1";

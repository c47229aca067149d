//! Kubernetes controllers and simulated nodes on kube-rs.
//!
//! The code knows the API server only as an API: it runs unchanged against any cluster.

pub mod clock;
pub mod context;
pub mod error;
pub mod garbage_collector;
mod inventory;
mod mirror;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod recorder;

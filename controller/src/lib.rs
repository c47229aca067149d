//! Kubernetes controllers and simulated nodes on kube-rs.
//!
//! The code knows the API server only as an API: it runs unchanged against any cluster.

mod claim;
pub mod clock;
pub mod context;
mod controller_ref;
mod history;
mod informer;
mod pod;
mod recorder;
pub mod statefulset;
mod work_queue;

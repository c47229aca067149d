//! Kubernetes controllers and simulated nodes on kube-rs.
//!
//! The code knows the API server only as an API: it runs unchanged against any cluster.

pub mod claim;
pub mod clock;
pub mod context;
pub mod controller_ref;
pub mod history;
pub(crate) mod informer;
pub mod pod;
pub mod recorder;
pub mod statefulset;
pub(crate) mod work_queue;

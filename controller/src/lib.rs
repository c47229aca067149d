//! Kubernetes controllers and simulated nodes on kube-rs.
//!
//! The code knows the API server only as an API: it runs unchanged against any cluster.
//!
//! [`Manager`] starts controllers by name ([`CONTROLLERS`], [`KRUISE_CONTROLLERS`]) and simulated nodes:
//!
//! - [`runtime`]: the plumbing, which knows no controller
//! - [`node`]: simulated nodes, with kubelet and scheduler
//! - `workload`: what workload controllers of several groups share
//! - [`admissionregistration`], [`apps`], [`batch`], [`certificates`], [`core`], [`policy`], [`rbac`]: the controllers of
//!   these API groups
//! - [`garbage_collector`]: the controller of all kinds
//! - [`kruise`]: the controllers and the node daemon of OpenKruise
//! - [`manager`], [`credentials`], [`error`]: starts them, with the API server's signers

pub mod admissionregistration;
pub mod apps;
pub mod batch;
pub mod certificates;
pub mod core;
pub mod credentials;
pub mod error;
pub mod garbage_collector;
pub mod kruise;
pub mod manager;
pub mod node;
pub mod policy;
pub mod rbac;
pub mod runtime;
mod workload;

pub use error::Error;
pub use manager::{CONTROLLERS, KRUISE_CONTROLLERS, Manager, Options, Restarter};
pub use runtime::mirror::BACKOFF_MAX as RETRY_MAX;
pub use runtime::supervisor::{Ended, panic_message};

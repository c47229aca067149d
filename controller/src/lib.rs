//! Kubernetes controllers on kube-rs, and a manager that runs them with simulated nodes.
//!
//! The code knows the API server only as an API: it runs unchanged against any cluster.
//!
//! [`Manager`] starts controllers by name ([`CONTROLLERS`], [`KRUISE_CONTROLLERS`]) and the nodes of [`kubeproof_node`].
//! The caches, queues and recorders are [`kubeproof_runtime`]'s.
//!
//! - `workload`: what workload controllers of several groups share
//! - [`admissionregistration`], [`apps`], [`autoscaling`], [`batch`], [`certificates`], [`core`], [`networking`], [`policy`],
//!   [`rbac`], [`resource`]: the controllers of these API groups
//! - [`cloud`]: load balancers, Ingresses and Gateways
//! - [`garbage_collector`]: the controller of all kinds
//! - [`kruise`]: the controllers and the node daemon of OpenKruise
//! - [`manager`], [`credentials`], [`error`]: starts them, with the API server's signers

pub mod admissionregistration;
pub mod apps;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod cloud;
pub mod core;
pub mod credentials;
pub mod error;
pub mod garbage_collector;
pub mod kruise;
pub mod manager;
pub mod networking;
pub mod policy;
pub mod rbac;
pub mod resource;
mod workload;

pub use cloud::{AddressPool, GATEWAY_CONTROLLER, InvalidPool, LoadBalancers};
pub use error::Error;
pub use kubeproof_node::{CompileSelector, DeviceSelector};
pub use kubeproof_runtime::retry::BACKOFF_MAX as RETRY_MAX;
pub use kubeproof_runtime::supervisor::{Ended, panic_message};
pub use manager::{
    CONTROLLERS, DISABLED_BY_DEFAULT, KRUISE_CONTROLLERS, Manager, Options, Restarter, known,
};

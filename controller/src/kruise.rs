//! OpenKruise: its kinds, their controllers, the modules that these share, and the daemon on its nodes.
//!
//! - [`api`]: the kinds, as Rust types
//! - [`advanced_statefulset`], [`cloneset`], [`image_pull_job`], [`launch_priority`], [`node_image`]: the controllers
//! - `lifecycle`: the states of a pod and the hooks between them
//! - `in_place`: updates of a pod that keep it
//! - `update_sort`: in which order pods are updated
//! - `daemon`: reports the containers of updated pods and restarts those with outdated variables
//! - `definition`: waits until a kind is defined
//! - `untyped`: objects whose version only the server knows
//! - `pre_download`: has nodes pull the images of an update before it reaches them
//! - `gates`: what upstream's feature gates turn on and off
//! - `refresh`: what is due for a pod whatever its workload does next
//! - `pod_writes`: carries out what was decided about a pod
//! - `status_write`: writes the status of a workload
//!
//! Source: openkruise/kruise at v1.9.

pub mod advanced_statefulset;
pub mod api;
pub mod cloneset;
pub(crate) mod container_hash;
pub(crate) mod daemon;
pub(crate) mod definition;
mod gates;
pub mod image_pull_job;
pub(crate) mod in_place;
pub mod launch_priority;
pub(crate) mod lifecycle;
pub mod node_image;
pub(crate) mod pod_readiness;
pub(crate) mod pod_writes;
pub(crate) mod pre_download;
pub(crate) mod refresh;
pub(crate) mod revision;
pub(crate) mod status_write;
pub(crate) mod untyped;
pub(crate) mod update_sort;

use kube::core::Selector;

pub use api::clone_set::CloneSet;
pub use api::image_pull_job::ImagePullJob;
pub use api::node_image::NodeImage;
pub use api::stateful_set::StatefulSet;
pub use api::v1alpha1;
pub use gates::{GateError, Gates};

/// The group of all these kinds.
pub const GROUP: &str = "apps.kruise.io";
/// The version in which they are stored, and `apiVersion` of that.
pub const VERSION: &str = "v1beta1";
pub(crate) const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A selector as Go prints it: without spaces between requirements.
pub(crate) fn selector_text(selector: &Selector) -> String {
    selector.to_string().replace(", ", ",")
}

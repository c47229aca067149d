//! The kinds of OpenKruise as Rust types: those of its workloads and of images.
//!
//! [`v1alpha1`] is the version of the workloads that is served and not stored.

pub mod clone_set;
pub mod image_pull_job;
pub mod node_image;
mod schema;
pub mod stateful_set;
pub mod strategy;
pub mod v1alpha1;

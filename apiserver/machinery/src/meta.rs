//! Names, group-version-resources, selectors, validation of names and access to metadata.

pub mod fields;
pub mod object;
pub mod order;
mod resource_version;
pub mod selector;
pub mod validation;
pub mod version;

/// The group in which events are new; they are stored in the core group.
pub const EVENTS_GROUP: &str = "events.k8s.io";

pub use crate::gvk::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource,
};
pub use resource_version::{ParseResourceVersionError, RequestedVersion, ResourceVersion};

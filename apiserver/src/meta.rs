//! Names, group-version-resources, selectors, validation of names and access to metadata.

pub(crate) mod fields;
pub(crate) mod go_json;
pub(crate) mod object;
pub(crate) mod order;
pub mod selector;
pub mod validation;
pub(crate) mod version;

/// The group in which events are new; they are stored in the core group.
pub(crate) const EVENTS_GROUP: &str = "events.k8s.io";

pub use crate::gvk::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource,
};

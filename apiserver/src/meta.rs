//! Names, group-version-resources, selectors, validation of names and access to metadata.

pub(crate) mod fields;
pub(crate) mod go_json;
mod gvk;
pub(crate) mod object;
pub(crate) mod order;
pub mod selector;
pub mod validation;

pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};

//! Names, group-version-resources and access to an object's metadata.

mod gvk;
pub mod selector;
pub mod validation;

pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};

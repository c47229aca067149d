//! An in-memory Kubernetes API server with the behaviour of v1.36.
//!
//! - [`meta`]: names, group-version-resources, selectors, access to an object's metadata
//! - [`patch`]: JSON, merge and strategic merge patches
//! - [`schema`]: the fields of every kind, decoding into them, quantities
//! - [`status`]: everything a handler may answer with instead of an object

pub mod meta;
pub mod patch;
pub mod schema;
pub mod status;

//! An in-memory Kubernetes API server with the behaviour of v1.36.
//!
//! - [`endpoints`]: discovery, health, OpenAPI, and objects as tables or metadata only
//! - [`meta`]: names, group-version-resources, selectors, access to an object's metadata
//! - [`registry`]: the facts about each resource, and its objects as cells of a table
//! - [`patch`]: JSON, merge and strategic merge patches
//! - [`schema`]: the fields of every kind, decoding into them, quantities
//! - [`status`]: everything a handler may answer with instead of an object
//! - [`clock`]: time and randomness
//! - `storage`: objects and their past events, by resource

pub mod clock;
pub mod endpoints;
pub mod meta;
pub mod registry;
pub mod patch;
pub mod schema;
pub mod status;
mod storage;

pub use clock::Clock;
pub use storage::{EventType, JournalEntry};

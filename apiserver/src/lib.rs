//! An in-memory Kubernetes API server with the behaviour of v1.36.
//!
//! - [`meta`]: names, group-version-resources, selectors, access to an object's metadata
//! - [`schema`]: the fields of every kind, decoding into them, quantities
//! - [`status`]: everything a handler may answer with instead of an object
//! - [`clock`]: time and randomness
//! - `storage`: objects and their past events, by resource

pub mod clock;
pub mod meta;
pub mod schema;
pub mod status;
mod storage;

pub use clock::Clock;
pub use storage::{EventType, JournalEntry};

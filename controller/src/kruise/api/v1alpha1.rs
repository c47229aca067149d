//! The version that is served and not stored, of both kinds.

pub mod clone_set;
pub mod stateful_set;

pub use clone_set::CloneSet;
pub use stateful_set::StatefulSet;

//! Objects as the cells of a Table's row: what `kubectl get` prints.
//!
//! The cells of a kind are in its strategy; this module has what kinds share.

mod column;
mod printable;
pub mod volume;
pub(crate) mod workload;

pub use column::Column;
pub use printable::{Printable, elapsed, first_three, human_duration, or_none, or_unset, scalar};

#[cfg(test)]
mod tests;

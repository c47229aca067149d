//! What is particular to a resource: its facts, and how its objects are shown.

pub mod catalog;
pub mod columns;

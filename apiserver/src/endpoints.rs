//! The documents and views that the server answers with.

pub mod discovery;
pub mod health;

//! The documents and views that the server answers with.

pub mod discovery;
pub mod health;
pub mod openapi;
pub mod partial;
pub mod table;

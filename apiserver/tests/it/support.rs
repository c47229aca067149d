//! What several modules share.

pub(crate) mod requests;
pub(crate) mod webhook_server;

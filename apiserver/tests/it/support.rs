//! What several modules share.

pub(crate) mod audit;
pub(crate) mod extension_server;
pub(crate) mod ports;
pub(crate) mod requests;
pub(crate) mod webhook_server;

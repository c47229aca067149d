//! From an HTTP request to an HTTP response.

pub(crate) mod aggregated;
pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod deadline;
pub(crate) mod discovery;
pub(crate) mod handlers;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod negotiation;
pub(crate) mod openapi;
pub(crate) mod options;
pub(crate) mod partial;
pub(crate) mod pretty;
pub(crate) mod request_info;
pub(crate) mod response;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod warnings;
pub(crate) mod watch;
pub(crate) mod yaml;
pub(crate) mod zpages;

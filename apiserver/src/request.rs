//! Requests: the path and method of a request, and the options in its query and body.

mod access;
pub(crate) mod info;
pub(crate) mod options;

pub(crate) use access::{Decision, ImpersonationMode};
pub(crate) use info::Operation;
pub use info::{RequestInfo, Verb};

//! Requests: the path and method of a request, and the options in its query and body.

mod access;
pub mod info;
pub mod options;

pub use access::{Decision, ImpersonationMode};
pub use info::{Operation, RequestInfo, Verb};

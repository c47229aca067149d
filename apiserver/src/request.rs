//! What a request asks for: its path and method, and the options in its query and body.

mod access;
pub(crate) mod info;
pub(crate) mod options;

pub(crate) use access::{Decision, ImpersonationMode};
pub(crate) use info::{Operation, RequestInfo, Verb};

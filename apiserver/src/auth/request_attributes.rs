//! The attributes of a request that admission sees: the user, the path, the options.

use std::sync::atomic::AtomicU64;

use super::User;
use crate::audit::Record;
use crate::json::Value;
use crate::meta::GroupVersionKind;
use crate::request::options::Query;
use crate::webhook::WebhookCalls;

/// The facts of a request that admission webhooks see, whichever object it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) user: &'a User,
    /// The verb, as roles name it.
    pub(crate) verb: &'a str,
    pub(crate) query: &'a Query,
    /// The namespace in the path; empty if the path names no namespace.
    pub(crate) namespace: &'a str,
    /// The name in the path.
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
    /// The kind of the written object; a subresource may have a kind of its own.
    pub(crate) kind: &'a GroupVersionKind,
    /// The options in the body of a DELETE.
    pub(crate) delete_options: Option<&'a Value>,
    /// The record of the request, if it is audited.
    pub(crate) audit: Option<&'a Record>,
    /// The nanoseconds spent waiting for webhooks.
    pub(crate) waited: &'a AtomicU64,
    /// The calls of webhooks.
    pub(crate) calls: &'a WebhookCalls,
}

//! What kube-aggregator does for APIServices whose group version a service serves: it checks the service, passes
//! requests on, and merges the discovery documents.
//!
//! - `availability`: the condition `Available`, as far as it follows from stored objects
//! - `backend`: connections to services
//! - `check`: requests to services that say whether they answer, and what they serve
//! - `discovery`: the documents of all groups
//!
//! Source: `k8s.io/kube-aggregator`.

mod availability;
mod backend;
mod check;
pub(crate) mod discovery;

pub(crate) use availability::{Finding, after_write, find, judge};
pub(crate) use backend::{
    Connection, Streamed, Unreached, name_user, remove_hop_by_hop, remove_prefixed,
};
pub(crate) use check::check;

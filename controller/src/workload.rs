//! The code that workload controllers of several groups share: pods, their owners, claims and revisions.
//!
//! - `event_handlers`: the workloads to sync after the change of an object
//! - `adoption`: adopts and releases the objects that a workload selects
//! - `pod_control`, `pod_ranking`: creates and deletes pods; orders them
//! - `stateful_identity`, `stateful_claims`, `stateful_pod_control`, `claim`: pods with ordinals and their claims
//! - `history`, `revision_control`: controller revisions
//! - `template_hash`: the hash of a pod template, as Go computes it
//!
//! Source: `pkg/controller` of Kubernetes, whose workload controllers share the same code.

pub(crate) mod adoption;
pub(crate) mod claim;
pub(crate) mod event_handlers;
pub(crate) mod history;
pub(crate) mod pod_control;
pub(crate) mod pod_ranking;
pub(crate) mod revision_control;
pub(crate) mod stateful_claims;
pub(crate) mod stateful_identity;
pub(crate) mod stateful_pod_control;
pub(crate) mod template_hash;

//! The beginning of a definition's end.

use super::conditions::{self, Condition};
use crate::json::Value;
use crate::meta::object::{finalizers, meta_mut, set_finalizers};

/// The finalizer that keeps a definition until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition whose deletion begins. It has no grace period, and its objects are always
/// deleted.
pub(super) fn begin(definition: &Value, now: &str) -> Value {
    let mut next = definition.clone();
    meta_mut(&mut next).insert("deletionTimestamp", now.into());
    let mut held: Vec<String> = finalizers(&next).map(str::to_owned).collect();
    if !held.iter().any(|own| own == FINALIZER) {
        held.push(FINALIZER.to_owned());
    }
    set_finalizers(&mut next, held);
    let pending = Condition {
        condition_type: "Terminating",
        status: "True",
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    };
    conditions::set(&mut next, pending, now);
    next
}

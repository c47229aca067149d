//! The readiness and availability of a CloneSet's pods.

use jiff::Timestamp;
use kubeproof_runtime::pod::{self, Pod};

use crate::kruise::{in_place, lifecycle};

/// Running and ready, for so long, and not in an update.
#[must_use]
pub(crate) fn is_update_ready(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    let condition = pod::condition(pod, in_place::READY_CONDITION);
    pod::is_ready(pod)
        && pod::is_available(pod, min_ready_seconds, now)
        && condition.is_none_or(|condition| condition.status == "True")
}

/// Whether the pod is available and its lifecycle state is normal.
#[must_use]
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    lifecycle::is_normal(pod) && is_update_ready(pod, min_ready_seconds, now)
}

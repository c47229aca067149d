//! Computes the numbers of pods that a CloneSet creates, deletes and updates.
//!
//! Source: openkruise/kruise pkg/controller/cloneset/sync/cloneset_sync_utils.go.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kubeproof_runtime::int_or_percent::{Round, resolve};

/// The numbers in the spec.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) replicas: i32,
    /// The number of pods that stay at other revisions than the update one.
    pub(crate) partition: i32,
    pub(crate) max_surge: i32,
    pub(crate) max_unavailable: i32,
    /// The most pods that may be unavailable during creation.
    pub(crate) scale_max_unavailable: i32,
    pub(crate) excludes_preparing_delete: bool,
    /// Whether updated pods may go back to the current revision.
    pub(crate) may_roll_back: bool,
}

/// The class of a pod in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Whether the pod is at the update revision.
    pub(crate) is_new: bool,
    pub(crate) standing: Standing,
}

/// How a pod stands; the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    PreparingDelete,
    /// The pod is marked for deletion.
    ToDelete,
    Unavailable,
    Available,
}

/// The numbers of pods to create and to delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Pods to create.
    pub(crate) up: i32,
    /// The number of pods to create now.
    pub(crate) up_limit: i32,
    /// The number of pods to create at the current revision; may exceed `up`.
    pub(crate) up_old: i32,
    /// Pods to delete, not counting those marked for deletion.
    pub(crate) down: i32,
    /// The number of pods to delete at other revisions than the update one; may exceed `down`.
    pub(crate) down_old: i32,
    /// The number of ready pods that may be deleted now.
    pub(crate) delete_ready_limit: i32,
    /// The number of pods above the replicas.
    pub(crate) surge: i32,
    /// The number of surge pods at the current revision.
    pub(crate) surge_old: i32,
    /// Pods to update; when negative, to take back.
    pub(crate) update: i32,
    /// The number of pods that the update may make unavailable.
    pub(crate) update_max_unavailable: i32,
}

/// The number of `replicas` that a partition keeps back.
///
/// A share is rounded up, but for one that is not the whole some pod is updated.
#[must_use]
pub(crate) fn partition(partition: Option<&IntOrString>, replicas: i32) -> i32 {
    let Some(partition) = partition else { return 0 };
    let Some(kept) = resolve(partition, replicas, Round::Up) else {
        return 0;
    };
    let is_share = matches!(partition, IntOrString::String(text) if text != "100%");
    let kept = match is_share && replicas > 1 && kept == replicas {
        true => replicas - 1,
        false => kept,
    };
    kept.clamp(0, replicas.max(0))
}

/// The pods of one revision.
#[derive(Clone, Copy, Default)]
struct Side {
    total: i32,
    preparing_delete: i32,
    to_delete: i32,
    unavailable: i32,
}

impl Side {
    fn add(&mut self, standing: Standing) {
        self.total += 1;
        match standing {
            Standing::PreparingDelete => self.preparing_delete += 1,
            Standing::ToDelete => self.to_delete += 1,
            Standing::Unavailable => self.unavailable += 1,
            Standing::Available => {}
        }
    }

    fn active(&self) -> i32 {
        self.total - self.preparing_delete
    }
}

/// The numbers for pods that count as `counted`.
#[must_use]
pub(crate) fn calculate(wanted: &Wanted, counted: impl IntoIterator<Item = Counted>) -> Numbers {
    let (mut new, mut old) = (Side::default(), Side::default());
    for pod in counted {
        let side = if pod.is_new { &mut new } else { &mut old };
        side.add(pod.standing);
    }
    let (replicas, partition) = (wanted.replicas, wanted.partition);
    let mut old_diff = old.active() - partition;
    let mut new_diff = new.active() - (replicas - partition);
    if !wanted.may_roll_back {
        old_diff = old_diff.max(0);
        new_diff = new_diff.min(0);
    }
    let pods = new.total + old.total;
    let preparing = new.preparing_delete + old.preparing_delete;
    let unavailable = preparing + new.unavailable + old.unavailable;
    let to_delete = new.to_delete + old.to_delete;
    let mut numbers = Numbers::default();
    if wanted.max_surge > 0 {
        let for_scale = (unavailable + to_delete - wanted.max_unavailable).clamp(0, to_delete);
        let for_scale_old = (for_scale - new.to_delete).max(0);
        let (for_update, for_update_old) = surge_of_update(old_diff, new_diff);
        let (surge, of_old) = match for_scale >= for_update {
            true => (for_scale, for_scale_old),
            false => (for_update, for_update_old),
        };
        numbers.surge = surge.min(wanted.max_surge);
        numbers.surge_old = of_old.min(numbers.surge);
    }
    let excluded = |of: i32| {
        if wanted.excludes_preparing_delete {
            of
        } else {
            0
        }
    };
    let total = pods - excluded(preparing);
    let total_old = old.total - excluded(old.preparing_delete);
    let wanted_total = replicas + numbers.surge;
    let wanted_old = partition + numbers.surge_old;
    if wanted_total > total {
        numbers.up = wanted_total - total;
        numbers.up_old = (wanted_old - total_old).max(0);
        let allowed = wanted.scale_max_unavailable.saturating_sub(unavailable);
        numbers.up_limit = numbers.up.min(allowed.max(0));
    }
    if total - to_delete > wanted_total {
        numbers.down = total - to_delete - wanted_total;
        numbers.down_old = (total_old - old.to_delete - wanted_old).max(0);
    }
    if to_delete > 0 || numbers.down > 0 {
        let limit = wanted.max_unavailable + (pods - replicas) - unavailable;
        numbers.delete_ready_limit = limit.max(0);
    }
    numbers.update = match old_diff.abs() <= new_diff.abs() {
        true => old_diff,
        false => -new_diff,
    };
    if numbers.update != 0 {
        numbers.update_max_unavailable = wanted.max_unavailable + pods - replicas;
    }
    numbers
}

/// The surge for an update, and how much of it is at the current revision: needed only while one
/// revision has too many pods and the other too few.
fn surge_of_update(old_diff: i32, new_diff: i32) -> (i32, i32) {
    if old_diff.signum() * new_diff.signum() >= 0 {
        return (0, 0);
    }
    let (surge, is_old) = match old_diff.abs() <= new_diff.abs() {
        true => (old_diff.abs(), old_diff < 0),
        false => (new_diff.abs(), new_diff > 0),
    };
    (surge, if is_old { surge } else { 0 })
}

#[cfg(test)]
mod tests;

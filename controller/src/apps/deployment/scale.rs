//! Plans the replicas of each ReplicaSet of a deployment, without I/O.

use std::cmp::Reverse;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;

use super::replica_sets::{ReplicaSets, age, available, is_active, sum_wanted, wanted};
use super::{fenceposts, is_rolling, replicas, revision, stored_status};

/// A ReplicaSet and the replicas it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) name: String,
    pub(super) replicas: i32,
}

impl Scale {
    fn to(set: &ReplicaSet, replicas: i32) -> Self {
        Self {
            name: set.name_any(),
            replicas,
        }
    }
}

/// The replicas of the new ReplicaSet, which has `current`, when all have `total`.
pub(super) fn new_replicas(deployment: &Deployment, current: i32, total: i32) -> i32 {
    let desired = replicas(deployment);
    if !is_rolling(deployment) {
        return desired;
    }
    let (surge, _) = fenceposts(deployment);
    let room = desired + surge - total;
    if room <= 0 {
        return current;
    }
    current + room.min(desired - current)
}

/// Whether the deployment was scaled since the sets in use were.
pub(super) fn is_scaling(deployment: &Deployment, sets: &ReplicaSets) -> bool {
    let desired = replicas(deployment);
    sets.all()
        .filter(|set| is_active(set))
        .any(|set| revision::desired_replicas(set).is_some_and(|known| known != desired))
}

/// Plans the scaling of sets after a change of the replicas alone, in proportion to their sizes.
///
/// Sets that keep their size are named too, for what is noted on them.
pub(super) fn proportional(deployment: &Deployment, sets: &ReplicaSets) -> Vec<Scale> {
    let desired = replicas(deployment);
    if let Some(only) = active_or_latest(sets) {
        return if wanted(only) == desired {
            Vec::new()
        } else {
            vec![Scale::to(only, desired)]
        };
    }
    if is_saturated(deployment, sets.new.as_ref()) {
        let old = sets.old.iter().filter(|set| is_active(set));
        return old.map(|set| Scale::to(set, 0)).collect();
    }
    if !is_rolling(deployment) {
        return Vec::new();
    }
    let mut active: Vec<&ReplicaSet> = sets.all().filter(|set| is_active(set)).collect();
    let (surge, _) = fenceposts(deployment);
    let allowed = if desired > 0 { desired + surge } else { 0 };
    let to_add = allowed - sum_wanted(active.iter().copied());
    if to_add > 0 {
        active.sort_by_key(|set| (Reverse(wanted(set)), Reverse(age(set))));
    } else {
        active.sort_by_key(|set| (Reverse(wanted(set)), age(set)));
    }
    let mut added = 0;
    let mut scales = Vec::new();
    for set in active {
        let share = share(set, deployment, to_add, added);
        added += share;
        scales.push(Scale::to(set, wanted(set) + share));
    }
    if let Some(largest) = scales.first_mut() {
        largest.replicas = (largest.replicas + to_add - added).max(0);
    }
    scales
}

/// The set that takes all replicas: the only one in use, or with none in use the latest.
fn active_or_latest(sets: &ReplicaSets) -> Option<&ReplicaSet> {
    let mut active = sets.all().filter(|set| is_active(set));
    match (active.next(), active.next()) {
        (None, _) => sets.new.as_ref().or(sets.old.last()),
        (only, None) => only,
        _ => None,
    }
}

/// Whether the new set carries the deployment alone.
fn is_saturated(deployment: &Deployment, new: Option<&ReplicaSet>) -> bool {
    let desired = replicas(deployment);
    new.is_some_and(|new| {
        wanted(new) == desired
            && revision::desired_replicas(new) == Some(desired)
            && available(new) == desired
    })
}

/// How many of the replicas `to_add` (or, if negative, to take away) fall to `set`.
fn share(set: &ReplicaSet, deployment: &Deployment, to_add: i32, added: i32) -> i32 {
    if to_add == added {
        return 0;
    }
    let share = fraction(set, deployment);
    let left = to_add - added;
    if to_add > 0 {
        share.min(left)
    } else {
        share.max(left)
    }
}

/// The growth of `set` when the deployment goes from the size noted on the set to its new one.
fn fraction(set: &ReplicaSet, deployment: &Deployment) -> i32 {
    let desired = replicas(deployment);
    if desired == 0 {
        return -wanted(set);
    }
    let (surge, _) = fenceposts(deployment);
    let before = revision::max_replicas(set)
        .filter(|max| *max > 0)
        .or(stored_status(deployment).replicas)
        .unwrap_or(0);
    if before == 0 {
        return 0;
    }
    let (now, before) = (i64::from(desired + surge), i64::from(before));
    let rounded = (2 * i64::from(wanted(set)) * now + before).div_euclid(2 * before);
    i32::try_from(rounded).unwrap_or(i32::MAX) - wanted(set)
}

/// How old sets give way in a rolling update: unhealthy replicas first, then as many as the
/// available ones allow.
pub(super) fn roll_old_down(deployment: &Deployment, sets: &ReplicaSets) -> Vec<Scale> {
    let mut old: Vec<(&ReplicaSet, i32)> = sets
        .old
        .iter()
        .filter(|set| is_active(set))
        .map(|set| (set, wanted(set)))
        .collect();
    let new_unavailable = sets
        .new
        .as_ref()
        .map_or(0, |new| wanted(new) - available(new));
    let (_, unavailable) = fenceposts(deployment);
    let min_available = replicas(deployment) - unavailable;
    let mut unhealthy_left = sum_wanted(sets.all()) - min_available - new_unavailable;
    if old.is_empty() || unhealthy_left <= 0 {
        return Vec::new();
    }
    let mut is_behind = false;
    for (set, size) in &mut old {
        if unhealthy_left <= 0 {
            break;
        }
        // The status is from before the set was scaled down: its available replicas are going.
        is_behind = available(set) > *size;
        if is_behind {
            break;
        }
        let unhealthy = (*size - available(set)).min(unhealthy_left);
        *size -= unhealthy;
        unhealthy_left -= unhealthy;
    }
    if !is_behind {
        let all_available: i32 = sets.all().map(available).sum();
        let mut spare = (all_available - min_available).max(0);
        for (_, size) in &mut old {
            let less = (*size).min(spare);
            *size -= less;
            spare -= less;
        }
    }
    let changed = old.into_iter().filter(|(set, size)| wanted(set) != *size);
    changed.map(|(set, size)| Scale::to(set, size)).collect()
}

/// Old sets beyond the history limit, oldest first. Sets that still have or want pods count, but
/// stay.
pub(super) fn to_clean_up<'a>(
    deployment: &Deployment,
    sets: &'a ReplicaSets,
) -> impl Iterator<Item = &'a ReplicaSet> + use<'a> {
    let limit = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.revision_history_limit)
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX);
    let is_alive = |set: &&ReplicaSet| set.metadata.deletion_timestamp.is_none();
    let excess = sets.old.iter().filter(is_alive).count();
    let excess = excess.saturating_sub(limit);
    let is_idle = |set: &&ReplicaSet| {
        let observed = set
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        super::replica_sets::actual(set) == 0
            && wanted(set) == 0
            && set.metadata.generation.unwrap_or(0) <= observed.unwrap_or(0)
    };
    sets.old
        .iter()
        .filter(is_alive)
        .take(excess)
        .filter(is_idle)
}

#[cfg(test)]
mod tests;

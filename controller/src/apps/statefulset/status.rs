//! The status of a set: what is counted, when a rollout is complete, what is worth a write.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSetStatus;
use kubeproof_runtime::pod::{self, Pod};

use super::Profile;
use super::set::{Set, Strategy};

/// The counters of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) current: i32,
    pub(crate) updated: i32,
}

/// A status as computed, before it takes its wire form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Computed {
    pub(crate) counters: Counters,
    pub(crate) observed_generation: i64,
    pub(crate) current_revision: String,
    pub(crate) update_revision: String,
    pub(crate) collision_count: i32,
}

impl Counters {
    /// Counts a pod by its revision; `both` says whether it may count as two.
    fn add_revision(&mut self, pod: &Pod, (current, updated): (&str, &str), both: bool) {
        let is_current = pod::revision(pod) == current;
        let is_updated = pod::revision(pod) == updated && (both || !is_current);
        self.current += i32::from(is_current);
        self.updated += i32::from(is_updated);
    }

    /// Counts a pod that was created just now.
    pub(crate) fn add_created(&mut self, pod: &Pod, revisions: (&str, &str), profile: Profile) {
        self.replicas += 1;
        self.add_revision(pod, revisions, profile.counts_both());
    }

    /// Counts the pods that the API server has stored.
    pub(crate) fn count<'a>(
        pods: impl Iterator<Item = &'a Pod>,
        revisions: (&str, &str),
        set: &Set,
        now: Timestamp,
    ) -> Self {
        let (profile, min_ready_seconds) = (set.profile(), set.min_ready_seconds());
        let mut counters = Self::default();
        for pod in pods.filter(|pod| pod::is_created(pod)) {
            counters.replicas += 1;
            if pod::is_ready(pod) {
                counters.ready += 1;
                let is_available = pod::is_available(pod, min_ready_seconds, now);
                counters.available += i32::from(is_available && !profile.is_old());
            }
            if !pod::is_terminating(pod) {
                counters.add_revision(pod, revisions, profile.counts_both());
            }
        }
        counters
    }
}

impl Computed {
    /// Makes the update revision the current one when every replica is ready at it.
    pub(crate) fn complete_rolling_update(&mut self, set: &Set) {
        let counters = &mut self.counters;
        // Old controllers took the pods there are for those wanted.
        let all = match set.profile().is_old() {
            true => counters.replicas,
            false => set.replicas(),
        };
        let is_complete = [counters.updated, counters.ready, counters.replicas] == [all; 3];
        if is_complete && set.strategy() != Strategy::OnDelete {
            counters.current = counters.updated;
            self.current_revision.clone_from(&self.update_revision);
        }
    }

    /// Whether `stored` lacks something that warrants a write; a collision alone does not.
    pub(crate) fn differs_from(&self, stored: &StatefulSetStatus) -> bool {
        let stored_counters = Counters {
            replicas: stored.replicas,
            ready: stored.ready_replicas.unwrap_or(0),
            available: stored.available_replicas.unwrap_or(0),
            current: stored.current_replicas.unwrap_or(0),
            updated: stored.updated_replicas.unwrap_or(0),
        };
        self.observed_generation > stored.observed_generation.unwrap_or(0)
            || self.counters != stored_counters
            || stored.current_revision.as_deref().unwrap_or_default() != self.current_revision
            || stored.update_revision.as_deref().unwrap_or_default() != self.update_revision
    }

    /// The wire form: Go leaves out zeros, except of the two counters that always show.
    pub(crate) fn to_wire(&self) -> StatefulSetStatus {
        let shown = |count: i32| Some(count).filter(|count| *count != 0);
        let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
        StatefulSetStatus {
            available_replicas: Some(self.counters.available),
            collision_count: Some(self.collision_count),
            conditions: None,
            current_replicas: shown(self.counters.current),
            current_revision: named(&self.current_revision),
            observed_generation: Some(self.observed_generation).filter(|number| *number != 0),
            ready_replicas: shown(self.counters.ready),
            replicas: self.counters.replicas,
            update_revision: named(&self.update_revision),
            updated_replicas: shown(self.counters.updated),
        }
    }
}

//! The states of its pods that the controller of a workload may know.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_apiserver::fault::{Effect, Fault};
use kubeproof_apiserver::{EventType, JournalEntry};
use serde_json::Value;

use super::pods::{is_active, is_changed_in_place, is_deletion, is_ready, name, namespace};

/// Whether the caches of controllers show the present.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caches {
    /// An event reaches them within the instant of virtual time in which it happens.
    #[default]
    Current,
    /// They may show any earlier state: faults hold events back, or time is real.
    MayLag,
}

impl Caches {
    /// Returns the caches of a run under virtual time with these faults.
    #[must_use]
    pub fn with<'a>(faults: impl IntoIterator<Item = &'a Fault>) -> Self {
        match faults.into_iter().any(delays_events) {
            true => Self::MayLag,
            false => Self::Current,
        }
    }
}

/// Whether controllers may learn late of what has happened.
fn delays_events(fault: &Fault) -> bool {
    let is_read = || {
        let verb = fault.requests.verb.as_deref();
        verb.is_none_or(|verb| ["get", "list", "watch"].contains(&verb))
    };
    match fault.effect {
        Effect::Stale(_)
        | Effect::Hold
        | Effect::Batch(_)
        | Effect::Repeat(_)
        | Effect::Break
        | Effect::Expire
        | Effect::MissEvents(_)
        | Effect::Delay(_)
        | Effect::Unreachable => true,
        Effect::Refuse(_) | Effect::DropResponse => is_read(),
        Effect::Crash(_) | Effect::WithholdBookmarks => false,
    }
}

/// A namespace and a name.
type Key = (String, String);

/// The states of pods that a controller may have in its cache: the present one, those of the present instant, and
/// the one before. Caches that may lag can have any state since the pod was created.
///
/// The controller knows its own writes.
#[derive(Debug)]
pub(super) struct KnownPods {
    caches: Caches,
    states: BTreeMap<Key, Vec<State>>,
}

#[derive(Debug)]
struct State {
    since: Timestamp,
    /// `None` when there is no pod, or when its containers have just been changed, which its conditions do not say.
    pod: Option<Arc<Value>>,
}

impl KnownPods {
    pub(super) fn new(caches: Caches) -> Self {
        Self {
            caches,
            states: BTreeMap::new(),
        }
    }

    /// Learns from a write. A controller `knows` of its own at once.
    pub(super) fn take(&mut self, entry: &JournalEntry, knows: bool) {
        if entry.gvr.resource != "pods" {
            return;
        }
        let (namespace, name) = (namespace(&entry.object), name(&entry.object));
        let key = (namespace.to_owned(), name.to_owned());
        let states = self.states.entry(key).or_default();
        match self.caches {
            _ if knows => states.clear(),
            Caches::MayLag if entry.event == EventType::Added => states.clear(),
            Caches::MayLag => {}
            Caches::Current => {
                let earlier = states.partition_point(|state| state.since < entry.time);
                states.drain(..earlier.saturating_sub(1));
            }
        }
        let is_told = entry.event != EventType::Deleted && !is_changed_in_place(entry);
        states.push(State {
            since: entry.time,
            pod: is_told.then(|| entry.object.shared()),
        });
    }

    /// Learns from a write by the pod's controller or by another client; returns whether it takes a pod down that was up.
    pub(super) fn is_taken_from_up(
        &mut self,
        entry: &JournalEntry,
        is_by_controller: bool,
    ) -> bool {
        let key = (namespace(&entry.object), name(&entry.object));
        let is_taken_down = is_deletion(entry) || is_changed_in_place(entry);
        let before = entry.previous.as_deref().filter(|_| is_taken_down);
        let was_up = before.is_some_and(|pod| is_ready(pod) && is_active(pod));
        let is_taken_from_up = was_up && self.is_up(key, entry.time);
        self.take(entry, is_by_controller);
        is_taken_from_up
    }

    /// Whether the controller may take the pod for one that is ready and stays, when it writes at the time `now`.
    pub(super) fn is_up(&self, (namespace, name): (&str, &str), now: Timestamp) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(states) = self.states.get(&key) else {
            return false;
        };
        let earlier = match self.caches {
            Caches::Current => states.partition_point(|state| state.since < now),
            Caches::MayLag => 0,
        };
        let known = states.iter().skip(earlier.saturating_sub(1));
        let mut known = known.filter_map(|state| state.pod.as_deref());
        known.any(|pod| is_ready(pod) && is_active(pod))
    }
}

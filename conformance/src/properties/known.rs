//! The states of its pods that the controller of a workload may know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kubeproof_apiserver::fault::{Crash, Effect, Fault, Hit};
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::pods::{is_active, is_changed_in_place, is_deletion, is_ready, name, namespace};
use crate::user_agent::actor;

/// Whether the caches of controllers show the present.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caches {
    /// An event reaches them within the instant of virtual time in which it happens.
    #[default]
    Current,
    /// They may show any earlier state: faults hold events back, or time is real.
    MayLag {
        /// By how much faults have set the clock forward, so that a short time may look longer.
        ahead: SignedDuration,
    },
}

impl Caches {
    /// Returns the caches of a run under virtual time with these faults, and how often it met each.
    #[must_use]
    pub fn with(met: &[(Fault, u32)]) -> Self {
        match met.iter().any(|(fault, _)| delays_events(fault)) {
            true => Self::lagging(met),
            false => Self::Current,
        }
    }

    /// Returns the caches of a run in which events take time, with these faults, and how often it met each.
    #[must_use]
    pub fn lagging(met: &[(Fault, u32)]) -> Self {
        let ahead = met.iter().filter_map(|(fault, times)| match fault.effect {
            Effect::Jump(by) if by.is_positive() => {
                Some(by.saturating_mul(i32::try_from(*times).unwrap_or(i32::MAX)))
            }
            _ => None,
        });
        Self::MayLag {
            ahead: ahead.fold(SignedDuration::ZERO, SignedDuration::saturating_add),
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
        | Effect::Late(_)
        | Effect::Restart
        | Effect::Relist
        | Effect::Delay(_)
        | Effect::Unreachable => true,
        Effect::Refuse(_) | Effect::DropResponse => is_read(),
        Effect::Crash(_)
        | Effect::Jump(_)
        | Effect::SecondLeader(_)
        | Effect::Webhooks(_)
        | Effect::WithholdBookmarks => false,
    }
}

/// Returns the versions of the writes in `journal` whose writer got no answer, because it met one of `faults` that carry a
/// write out and keep its answer.
pub(crate) fn unanswered(
    journal: &[JournalEntry],
    hits: &[Hit],
    faults: &[(Fault, u32)],
) -> BTreeSet<ResourceVersion> {
    let keeps_answer =
        |effect: &Effect| matches!(effect, Effect::DropResponse | Effect::Crash(Crash::After));
    let kept: BTreeSet<&str> = faults
        .iter()
        .filter(|(fault, _)| keeps_answer(&fault.effect))
        .map(|(fault, _)| fault.name.as_str())
        .collect();
    let hits = hits.iter().filter(|hit| kept.contains(&*hit.fault));
    let written = hits.filter_map(|hit| {
        // `what` ends with the client.
        let is_by_client = |entry: &&JournalEntry| {
            hit.what
                .ends_with(&format!(" from {}", actor(&entry.user_agent)))
        };
        let later = journal.iter().filter(|entry| entry.rv > hit.after_rv);
        let mut within = later.take_while(|entry| entry.time == hit.time);
        within.find(is_by_client).map(|entry| entry.rv)
    });
    written.collect()
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
            Caches::MayLag { .. } if entry.event == EventType::Added => states.clear(),
            Caches::MayLag { .. } => {}
            Caches::Current => {
                let earlier = states.partition_point(|state| state.since < entry.time);
                states.drain(..earlier.saturating_sub(1));
            }
        }
        let is_whole = entry.event != EventType::Deleted && !is_changed_in_place(entry);
        states.push(State {
            since: entry.time,
            pod: is_whole.then(|| entry.object.shared()),
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
            Caches::MayLag { .. } => 0,
        };
        let known = states.iter().skip(earlier.saturating_sub(1));
        let mut known = known.filter_map(|state| state.pod.as_deref());
        known.any(|pod| is_ready(pod) && is_active(pod))
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use kubeproof_apiserver::meta::GroupVersionResource;
    use kubeproof_machinery::json::{from_value, json};

    use super::*;

    fn entry(rv: u64, seconds: i64, user_agent: &str) -> JournalEntry {
        JournalEntry {
            rv: ResourceVersion::new(rv),
            time: Timestamp::UNIX_EPOCH + seconds.seconds(),
            gvr: GroupVersionResource {
                group: String::new(),
                version: "v1".to_owned(),
                resource: "pods".to_owned(),
            },
            event: EventType::Added,
            user_agent: user_agent.into(),
            object: json!({"metadata": {"name": "a"}}).into(),
            previous: None,
        }
    }

    #[test]
    fn a_write_without_an_answer_is_the_next_of_its_client() {
        let journal = [
            entry(1, 0, "c"),
            entry(2, 0, "other"),
            entry(3, 0, "c/1.0"),
            entry(4, 1, "c"),
        ];
        let fault = |effect: Value| -> Fault {
            let mut fault = json!({"name": "plan 1", "on": {"verb": "create", "resource": "pods"}});
            fault
                .as_object_mut()
                .unwrap()
                .extend(effect.as_object().unwrap().clone());
            from_value(fault).unwrap()
        };
        let unanswered = |effect: Value, after_rv: u64| {
            let hit = Hit {
                fault: "plan 1".to_owned(),
                after_rv: ResourceVersion::new(after_rv),
                time: Timestamp::UNIX_EPOCH,
                what: "create pods a from c".to_owned(),
            };
            let met = [(fault(effect), 1)];
            let found = super::unanswered(&journal, &[hit], &met);
            found
                .into_iter()
                .map(ResourceVersion::get)
                .collect::<Vec<_>>()
        };
        assert_eq!(unanswered(json!({"loseAnswer": true}), 1), [3]);
        assert_eq!(unanswered(json!({"loseAnswer": true}), 0), [1]);
        assert_eq!(unanswered(json!({"crash": "after"}), 1), [3]);
        assert_eq!(unanswered(json!({"crash": "before"}), 1), [0; 0]);
        let none = unanswered(json!({"loseAnswer": true}), 3);
        assert_eq!(none, [0; 0], "what is written later is another write");
    }
}

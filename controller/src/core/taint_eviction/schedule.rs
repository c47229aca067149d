//! The times at which pods are evicted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubeproof_runtime::store::ObjectKey;

/// The state of the eviction of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eviction {
    Scheduled {
        since: Timestamp,
        due: Timestamp,
    },
    /// The pod was evicted; this is not repeated while it exists.
    Done,
}

/// The evictions by pod.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    evictions: BTreeMap<ObjectKey, Eviction>,
}

impl Schedule {
    /// Schedules the eviction of the pod at `due`, unless an eviction is known already.
    pub(super) fn add(&mut self, key: &ObjectKey, since: Timestamp, due: Timestamp) {
        let eviction = Eviction::Scheduled { since, due };
        self.evictions.entry(key.clone()).or_insert(eviction);
    }

    /// Whether the pod's time has been running since before `now`: a later taint does not give it
    /// more.
    pub(super) fn holds_earlier(&self, key: &ObjectKey, now: Timestamp) -> bool {
        let held = self.evictions.get(key);
        matches!(held, Some(Eviction::Scheduled { since, .. }) if *since < now)
    }

    /// Cancels an eviction; returns whether it was pending.
    pub(super) fn cancel(&mut self, key: &ObjectKey) -> bool {
        matches!(self.evictions.remove(key), Some(Eviction::Scheduled { .. }))
    }

    /// The eviction failed for good.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.evictions.remove(key);
    }

    /// The pods that have to go by `now`, and when the next one has to.
    pub(super) fn due(&mut self, now: Timestamp) -> (Vec<ObjectKey>, Option<Timestamp>) {
        let mut gone = Vec::new();
        let mut next: Option<Timestamp> = None;
        for (key, eviction) in &mut self.evictions {
            let Eviction::Scheduled { due, .. } = *eviction else {
                continue;
            };
            if due <= now {
                gone.push((due, key.clone()));
                *eviction = Eviction::Done;
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        gone.sort();
        (gone.into_iter().map(|(_, key)| key).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn pods_go_in_the_order_of_their_time_and_once() {
        let mut schedule = Schedule::default();
        schedule.add(&key("a"), at(0), at(20));
        schedule.add(&key("b"), at(0), at(10));
        schedule.add(&key("c"), at(0), at(30));
        assert_eq!(
            schedule.due(at(20)),
            (vec![key("b"), key("a")], Some(at(30)))
        );
        schedule.add(&key("a"), at(25), at(25));
        assert_eq!(schedule.due(at(25)), (Vec::new(), Some(at(30))));
        assert!(!schedule.cancel(&key("a")), "it is past cancelling");
        assert!(schedule.cancel(&key("c")));
        assert_eq!(schedule.due(at(40)), (Vec::new(), None));
    }

    #[test]
    fn time_that_runs_is_not_extended() {
        let mut schedule = Schedule::default();
        schedule.add(&key("a"), at(0), at(20));
        assert!(schedule.holds_earlier(&key("a"), at(5)));
        assert!(!schedule.holds_earlier(&key("a"), at(0)));
        assert!(!schedule.holds_earlier(&key("b"), at(5)));
    }
}

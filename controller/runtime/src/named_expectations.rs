//! Writes of named objects that a controller has issued and not yet observed.
//!
//! Unlike [`Expectations`](crate::expectations::Expectations), which count, these have the names of
//! the objects, so no other creation or deletion fulfills them. They do not expire by themselves.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The expected change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// The object appears.
    Creation,
    /// The object disappears, or is marked as deleted.
    Deletion,
}

/// Expectations of each workload of a controller.
#[derive(Default)]
pub struct NamedExpectations {
    by_workload: Mutex<BTreeMap<ObjectKey, Open>>,
}

#[derive(Default)]
struct Open {
    names: BTreeSet<(Expected, String)>,
    /// When they were first found unfulfilled.
    since: Option<Timestamp>,
}

impl NamedExpectations {
    /// Waits for `name` from now on.
    pub fn expect(&self, key: &ObjectKey, expected: Expected, name: &str) {
        let mut by_workload = self.by_workload.lock();
        let open = by_workload.entry(key.clone()).or_default();
        open.names.insert((expected, name.to_owned()));
    }

    /// Ends an expectation: the change was observed, or will never be.
    pub fn observe(&self, key: &ObjectKey, expected: Expected, name: &str) {
        let mut by_workload = self.by_workload.lock();
        if let Some(open) = by_workload.get_mut(key) {
            open.names.remove(&(expected, name.to_owned()));
            if open.names.is_empty() {
                by_workload.remove(key);
            }
        }
    }

    /// Whether nothing is waited for.
    pub fn is_satisfied(&self, key: &ObjectKey) -> bool {
        !self.by_workload.lock().contains_key(key)
    }

    /// For how long something has been missing, since this was first asked; None when nothing is.
    pub fn unsatisfied_for(&self, key: &ObjectKey, now: Timestamp) -> Option<SignedDuration> {
        let mut by_workload = self.by_workload.lock();
        let open = by_workload.get_mut(key)?;
        Some(now.duration_since(*open.since.get_or_insert(now)))
    }

    /// The workload is gone, or nothing is waited for any more.
    pub fn forget(&self, key: &ObjectKey) {
        self.by_workload.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_expected_fulfils() {
        let expectations = NamedExpectations::default();
        let key = ObjectKey {
            namespace: "ns".to_owned(),
            name: "sample".to_owned(),
        };
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(expectations.unsatisfied_for(&key, at(0)), None);
        expectations.expect(&key, Expected::Creation, "a");
        expectations.expect(&key, Expected::Deletion, "b");
        expectations.observe(&key, Expected::Creation, "b");
        assert_eq!(
            expectations.unsatisfied_for(&key, at(5)),
            Some(SignedDuration::ZERO)
        );
        expectations.observe(&key, Expected::Creation, "a");
        let missing = expectations.unsatisfied_for(&key, at(65));
        assert_eq!(missing, Some(SignedDuration::from_secs(60)));
        assert!(!expectations.is_satisfied(&key));
        expectations.observe(&key, Expected::Deletion, "b");
        assert!(expectations.is_satisfied(&key));
        expectations.expect(&key, Expected::Creation, "a");
        assert_eq!(
            expectations.unsatisfied_for(&key, at(99)),
            Some(SignedDuration::ZERO)
        );
        expectations.forget(&key);
        assert!(expectations.is_satisfied(&key));
    }
}

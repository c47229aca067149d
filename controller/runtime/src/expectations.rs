//! Writes that a controller has issued and not yet observed, so that it does not repeat them.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The time after which an unobserved write is no longer expected.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// Expectations of each workload of a controller.
#[derive(Default)]
pub struct Expectations {
    by_workload: Mutex<BTreeMap<ObjectKey, Expected>>,
}

#[derive(Debug)]
struct Expected {
    creations: usize,
    /// Uids.
    deletions: BTreeSet<String>,
    since: Timestamp,
}

impl Expectations {
    /// Whether there is nothing left to wait for.
    pub fn satisfied(&self, key: &ObjectKey, now: Timestamp) -> bool {
        self.by_workload.lock().get(key).is_none_or(|expected| {
            let fulfilled = expected.creations == 0 && expected.deletions.is_empty();
            fulfilled || now.duration_since(expected.since) > TIMEOUT
        })
    }

    /// Expects these writes from now on, instead of earlier ones.
    pub fn expect(
        &self,
        key: &ObjectKey,
        creations: usize,
        deletions: BTreeSet<String>,
        now: Timestamp,
    ) {
        let expected = Expected {
            creations,
            deletions,
            since: now,
        };
        self.by_workload.lock().insert(key.clone(), expected);
    }

    /// Ends the expectation of one creation: it was observed, or will never be.
    pub fn created(&self, key: &ObjectKey) {
        if let Some(expected) = self.by_workload.lock().get_mut(key) {
            expected.creations = expected.creations.saturating_sub(1);
        }
    }

    /// The deletion of the object `uid` was seen, or will never be.
    pub fn deleted(&self, key: &ObjectKey, uid: &str) {
        if let Some(expected) = self.by_workload.lock().get_mut(key) {
            expected.deletions.remove(uid);
        }
    }

    /// The workload is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.by_workload.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_end_by_being_seen_or_by_timeout() {
        let expectations = Expectations::default();
        let key = ObjectKey {
            namespace: "ns".to_owned(),
            name: "web".to_owned(),
        };
        let start = Timestamp::UNIX_EPOCH;
        assert!(expectations.satisfied(&key, start), "nothing expected");

        expectations.expect(&key, 2, BTreeSet::from(["a".to_owned()]), start);
        expectations.created(&key);
        expectations.deleted(&key, "other");
        assert!(!expectations.satisfied(&key, start));
        expectations.deleted(&key, "a");
        assert!(!expectations.satisfied(&key, start));
        expectations.created(&key);
        assert!(expectations.satisfied(&key, start));

        expectations.expect(&key, 1, BTreeSet::new(), start);
        let later = |seconds| start + SignedDuration::from_secs(seconds);
        assert!(!expectations.satisfied(&key, later(300)));
        assert!(expectations.satisfied(&key, later(301)));
        expectations.forget(&key);
        assert!(expectations.satisfied(&key, start));
    }
}

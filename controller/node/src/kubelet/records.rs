//! The records of all pods, indexed by due time and by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Record;

/// Records by the uid of their pods. A record is taken out for a change, and put back.
#[derive(Default)]
pub(super) struct Records {
    by_uid: BTreeMap<Arc<str>, Box<Record>>,
    wakes: BTreeSet<(Timestamp, Arc<str>)>,
    by_node: BTreeMap<usize, BTreeSet<Arc<str>>>,
}

impl Records {
    pub(super) fn put(&mut self, record: Record) {
        let uid = Arc::clone(&record.uid);
        self.take(&uid);
        if let Some(wake) = record.wake {
            self.wakes.insert((wake, Arc::clone(&uid)));
        }
        let of_node = self.by_node.entry(record.node).or_default();
        of_node.insert(Arc::clone(&uid));
        self.by_uid.insert(uid, Box::new(record));
    }

    pub(super) fn take(&mut self, uid: &str) -> Option<Record> {
        let (uid, record) = self.by_uid.remove_entry(uid)?;
        if let Some(of_node) = self.by_node.get_mut(&record.node) {
            of_node.remove(&uid);
        }
        if let Some(wake) = record.wake {
            self.wakes.remove(&(wake, uid));
        }
        Some(*record)
    }

    pub(super) fn get(&self, uid: &str) -> Option<&Record> {
        self.by_uid.get(uid).map(|record| &**record)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        self.by_uid.values().map(|record| &**record)
    }

    pub(super) fn of_node(&self, node: usize) -> impl Iterator<Item = &Record> {
        let of_node = self.by_node.get(&node).into_iter().flatten();
        of_node.filter_map(|uid| self.get(uid))
    }

    /// Returns the earliest due time.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.wakes.first().map(|(wake, _)| *wake)
    }

    /// Returns the records that are due at `now`.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = &Record> {
        let due = self.wakes.iter().take_while(move |(wake, _)| *wake <= now);
        due.filter_map(|(_, uid)| self.get(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small() {
        let size = size_of::<Record>();
        assert!(size <= 360, "{size}");
    }
}

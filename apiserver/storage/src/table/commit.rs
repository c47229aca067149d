//! Writes to a table: the new object, its event in the window, and the wake-up of watchers.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::state::{Evictions, State};
use super::{Event, Table};
use crate::json::Value;
use crate::meta::ResourceVersion;
use crate::{EventType, JournalEntry, JournaledObject, ObjectKey, StoredObject};

/// The effect of a commit on a key.
#[derive(Debug)]
pub enum Change {
    /// Store this value.
    Put(Value),
    /// Remove the object, whose last state is this value.
    Remove(Value),
    /// Remove the object, whose last state is the stored one; see [`Table::removal`].
    RemoveStored,
}

/// A write that was decided on a read object; it fails if the object has changed since.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// The object to write.
    pub key: &'a ObjectKey,
    /// The object that the decision is based on; `None` if there was no object.
    pub expected: Option<&'a Arc<StoredObject>>,
    /// The write.
    pub change: Change,
    /// The time of the write, for the journal.
    pub time: Timestamp,
    /// The client that writes, for the journal.
    pub user_agent: &'a Arc<str>,
}

/// The error of a transaction: another writer has written the object since it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Conflict;

impl Transaction<'_> {
    /// Whether `current` is the object that the decision is based on.
    pub(super) fn expects(&self, current: Option<&Arc<StoredObject>>) -> bool {
        match (current, self.expected) {
            (None, None) => true,
            (Some(current), Some(expected)) => Arc::ptr_eq(current, expected),
            _ => false,
        }
    }
}

/// A write that is done and not announced yet.
pub(super) struct Written {
    object: Arc<StoredObject>,
    evictions: Evictions,
    /// The watchers that wait for such an object.
    woken: Vec<Arc<Notify>>,
}

impl Written {
    /// Drops the forms of objects that are not kept.
    pub(super) fn evict(&mut self) {
        self.evictions.carry_out();
    }
}

impl Table {
    /// The removal of `stored` as it is, prepared so that little is left to do under the lock: a text at
    /// another version, or a copy. The journal shows the value of what it records.
    pub fn removal(&self, stored: &StoredObject) -> Change {
        if self.versions.journal.is_none() && stored.has_object_meta() {
            stored.json();
            return Change::RemoveStored;
        }
        Change::Remove(Value::clone(&stored.value()))
    }

    /// Applies `commit` unless another writer has written the key since it was read.
    ///
    /// One guard assigns the version and appends the event, so window order is version order.
    pub fn commit(&self, commit: Transaction<'_>) -> Result<Arc<StoredObject>, Conflict> {
        let written = {
            let mut state = self.state.write();
            let current = state.objects.get(commit.key).cloned();
            if !commit.expects(current.as_ref()) {
                return Err(Conflict);
            }
            self.write(&mut state, commit, current)
        };
        Ok(self.announce(written))
    }

    /// Carries out a write that expects the object `previous`.
    pub(super) fn write(
        &self,
        state: &mut State,
        commit: Transaction<'_>,
        previous: Option<Arc<StoredObject>>,
    ) -> Written {
        let rv = self.versions.take();
        let event = state.apply(commit.key, commit.change, previous, rv);
        self.versions.record(|| JournalEntry {
            rv,
            time: commit.time,
            gvr: self.gvr.clone(),
            event: event.event_type,
            user_agent: Arc::clone(commit.user_agent),
            object: JournaledObject::of(&event.object),
            previous: event.previous.as_ref().map(JournaledObject::of),
        });
        let object = Arc::clone(&event.object);
        // The previous version keeps its labels and selectable fields, which selectors read.
        let evictions = state.keep_decoded(std::iter::once(Arc::clone(&object)));
        let compacted = state.compacted;
        let woken = state.groups.note(&event, compacted);
        Written {
            object,
            evictions,
            woken,
        }
    }

    /// Wakes the watchers of a write, after the table is unlocked.
    pub(super) fn announce(&self, mut written: Written) -> Arc<StoredObject> {
        written.evict();
        let Written { object, woken, .. } = written;
        if object.is_deep() {
            object.evict();
        }
        let rv = object.rv.get();
        self.changed.notify_waiters();
        woken.iter().for_each(|changed| changed.notify_waiters());
        self.versions.latest.send_if_modified(|latest| {
            let newer = rv > *latest;
            *latest = rv.max(*latest);
            newer
        });
        object
    }

    /// Makes a write of the past happen as it did, with the version that it took.
    ///
    /// Writes come in the order of their versions, and nothing else was written before.
    pub(crate) fn restore(&self, entry: &JournalEntry) {
        let metadata = &entry.object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let key = ObjectKey::new(metadata["namespace"].as_str(), name);
        let value = Value::clone(&entry.object);
        let change = match entry.event {
            EventType::Added | EventType::Modified => Change::Put(value),
            EventType::Deleted => Change::Remove(value),
        };
        let mut state = self.state.write();
        let previous = state.objects.get(&key).cloned();
        let event = state.apply(&key, change, previous, entry.rv);
        let mut evictions = state.keep_decoded(std::iter::once(Arc::clone(&event.object)));
        drop(state);
        evictions.carry_out();
    }
}

/// The object with this value at a version.
fn at_version(key: &ObjectKey, mut value: Value, rv: ResourceVersion) -> StoredObject {
    value["metadata"]["resourceVersion"] = rv.to_string().into();
    StoredObject::new(key.clone(), rv, value)
}

impl State {
    pub(super) fn apply(
        &mut self,
        key: &ObjectKey,
        change: Change,
        previous: Option<Arc<StoredObject>>,
        rv: ResourceVersion,
    ) -> Arc<Event> {
        let (is_removed, object) = match change {
            Change::Put(value) => (false, at_version(key, value, rv)),
            Change::Remove(value) => (true, at_version(key, value, rv)),
            Change::RemoveStored => {
                let stored = previous.as_ref().expect("a stored object is removed");
                let copied = || at_version(key, Value::clone(&stored.value()), rv);
                (true, stored.at_version(rv).unwrap_or_else(copied))
            }
        };
        // Any panic happens before the table is changed.
        let object = Arc::new(object);
        let event_type = if is_removed {
            self.objects.remove(key);
            EventType::Deleted
        } else {
            self.objects.insert(key.clone(), Arc::clone(&object));
            match previous {
                None => EventType::Added,
                Some(_) => EventType::Modified,
            }
        };
        let objects = self.objects.clone();
        let event = Arc::new(Event {
            rv,
            event_type,
            object,
            previous,
            objects,
            frame: OnceLock::new(),
            protobuf_frame: OnceLock::new(),
            weight: OnceLock::new(),
        });
        assert!(
            self.window.back().is_none_or(|last| last.rv < rv),
            "versions ascend"
        );
        while let Some(bytes) = self.window.get(self.weighed).and_then(|own| own.weight()) {
            self.window_bytes += bytes;
            self.weighed += 1;
        }
        self.window.push_back(Arc::clone(&event));
        self.events += 1;
        while self.window.len() > self.limits.events
            || (self.window_bytes > self.limits.bytes && self.weighed > 0)
        {
            self.forget_oldest();
        }
        event
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.window.pop_front() else {
            return;
        };
        if let Some(left) = self.weighed.checked_sub(1) {
            self.weighed = left;
            self.window_bytes -= oldest.weight().unwrap_or(0);
        }
        self.compacted = oldest.rv;
        self.base = oldest.objects.clone();
        self.base_is_initial = false;
    }
}

//! The journal: every commit of a server, for reports.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;

use super::{EventType, StoredObject};
use crate::json::Value;
use crate::meta::{GroupVersionResource, ResourceVersion};

/// The number of newest entries that keep their objects decoded; others are decoded on demand.
const DECODED_MAX: usize = 1024;

/// One commit, as the journal keeps it.
#[derive(Clone, Debug)]
pub struct JournalEntry {
    /// The `resourceVersion` the commit took.
    pub rv: ResourceVersion,
    /// The time of the commit, on the server's clock.
    pub time: Timestamp,
    /// The resource written.
    pub gvr: GroupVersionResource,
    /// The type of the event.
    pub event: EventType,
    /// `User-Agent` of the writer, empty for the server itself.
    pub user_agent: Arc<str>,
    /// The object after the commit; for a deletion its last state.
    pub object: JournaledObject,
    /// The object before the commit.
    pub previous: Option<JournaledObject>,
}

/// An object of a journal: its [`Value`], decoded from its text on first access.
///
/// An object nested more than a hundred levels deep is read and dropped under
/// [`on_deep_stack`](kubeproof_machinery::nesting::on_deep_stack).
#[derive(Clone, Debug)]
pub struct JournaledObject {
    /// The source of the value; absent for an object whose value was given.
    stored: Option<Arc<StoredObject>>,
    value: OnceLock<Arc<Value>>,
}

impl JournaledObject {
    pub(super) fn of(stored: &Arc<StoredObject>) -> Self {
        Self {
            stored: Some(Arc::clone(stored)),
            value: OnceLock::new(),
        }
    }

    /// The value, shared.
    #[must_use]
    pub fn shared(&self) -> Arc<Value> {
        Arc::clone(self.held())
    }

    /// Whether `other` is the same version of the object.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        match (&self.stored, &other.stored) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => Arc::ptr_eq(self.held(), other.held()),
        }
    }

    fn held(&self) -> &Arc<Value> {
        self.value.get_or_init(|| {
            let stored = self.stored.as_ref();
            stored.map_or_else(Arc::default, |stored| stored.value())
        })
    }

    fn evict(&mut self) {
        if self.stored.is_some() {
            self.value.take();
        }
    }
}

impl Deref for JournaledObject {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.held()
    }
}

impl From<Arc<Value>> for JournaledObject {
    fn from(value: Arc<Value>) -> Self {
        Self {
            stored: None,
            value: value.into(),
        }
    }
}

impl From<Value> for JournaledObject {
    fn from(value: Value) -> Self {
        Arc::new(value).into()
    }
}

/// The entries so far, in the order they were recorded.
#[derive(Debug, Default)]
pub(super) struct Journal(Vec<JournalEntry>);

impl Journal {
    /// Adds an entry, and evicts the decoded object of an older entry.
    pub(super) fn record(&mut self, entry: JournalEntry) {
        // While the object stays decoded, so does the `previous` object of later entries.
        if entry
            .object
            .stored
            .as_ref()
            .is_none_or(|own| !own.is_deep())
        {
            entry.object.held();
        }
        self.0.push(entry);
        if let Some(old) = self.0.len().checked_sub(DECODED_MAX + 1) {
            self.0[old].object.evict();
        }
    }

    /// Takes all entries out of the journal.
    pub(super) fn take(&mut self) -> Vec<JournalEntry> {
        std::mem::take(&mut self.0)
    }

    pub(super) fn entries(&self) -> &[JournalEntry] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::ObjectKey;

    fn entry(rv: ResourceVersion) -> JournalEntry {
        let key = ObjectKey::new(None, "a");
        let stored = StoredObject::new(key, rv, json!({ "data": { "rv": rv.get() } }));
        stored.evict();
        JournalEntry {
            rv,
            time: Timestamp::UNIX_EPOCH,
            gvr: GroupVersionResource {
                group: String::new(),
                version: "v1".to_owned(),
                resource: "configmaps".to_owned(),
            },
            event: EventType::Modified,
            user_agent: "".into(),
            object: JournaledObject::of(&Arc::new(stored)),
            previous: None,
        }
    }

    #[test]
    fn old_entries_keep_their_text_and_are_read_again() {
        let mut journal = Journal::default();
        let count = DECODED_MAX as u64 + 2;
        let versions = (0..count).map(ResourceVersion::new);
        versions.for_each(|rv| journal.record(entry(rv)));
        let decoded = |entry: &&JournalEntry| entry.object.value.get().is_some();
        assert_eq!(
            journal.entries().iter().filter(decoded).count(),
            DECODED_MAX
        );
        for (rv, entry) in journal.entries().iter().enumerate() {
            assert_eq!(entry.object["data"]["rv"], rv);
        }
    }
}

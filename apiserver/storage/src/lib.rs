//! Objects and their past events, by resource. Knows keys and versions, not HTTP and not kinds.
//!
//! One [`Storage`] holds a [`Table`] per resource; all share one version counter, as etcd has.

mod journal;
mod object;
mod pairs;
mod table;
mod text;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use dashmap::mapref::multiple::RefMulti;
use parking_lot::Mutex;
use tokio::sync::watch;

use kubeproof_machinery::{json, meta, nesting, schema};
use meta::EVENTS_GROUP;
use meta::{GroupResource, GroupVersionResource, ResourceVersion};

use journal::Journal;
pub use journal::{JournalEntry, JournaledObject};
pub use object::{ObjectKey, StoredObject};
pub use table::WatchControl;
pub use table::{
    Began, Change, Conflict, ControlCounts, Event, Filter, Joint, SelectedEvent, Snapshot,
    Subscription, Table, Transaction, WindowError, WindowLimits, watch_frame,
};

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

impl EventType {
    /// The `type` of the watch event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// The version counter, the latest published version and the journal; shared by all tables.
#[derive(Debug)]
pub struct Versions {
    counter: AtomicU64,
    latest: watch::Sender<u64>,
    journal: Option<Mutex<Journal>>,
}

impl Versions {
    /// The latest version given out.
    pub fn current(&self) -> ResourceVersion {
        ResourceVersion::new(self.counter.load(Ordering::Acquire))
    }

    /// The next version. Called only under the write lock of the table that commits it.
    fn take(&self) -> ResourceVersion {
        ResourceVersion::new(self.counter.fetch_add(1, Ordering::AcqRel) + 1)
    }

    fn record(&self, entry: impl FnOnce() -> JournalEntry) {
        if let Some(journal) = &self.journal {
            journal.lock().record(entry());
        }
    }
}

/// Makes the initial objects of a resource.
type InitialObjects = Arc<dyn Fn(&GroupResource) -> Vec<Arc<StoredObject>> + Send + Sync>;

/// The contents of a fresh storage. The objects of a resource are made when its table is first
/// opened.
#[derive(Clone)]
pub struct Initial {
    /// The version that storage starts at, at least that of every initial object.
    pub resource_version: ResourceVersion,
    /// Whether the storage was never written, so that the objects at each earlier version are
    /// known.
    pub is_fresh: bool,
    /// Makes the initial objects of a resource.
    pub objects: InitialObjects,
}

impl Initial {
    /// An empty storage at version 1.
    pub fn empty() -> Self {
        Self {
            resource_version: ResourceVersion::new(1),
            is_fresh: true,
            objects: Arc::new(|_| Vec::new()),
        }
    }
}

impl fmt::Debug for Initial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initial")
            .field("resource_version", &self.resource_version)
            .finish_non_exhaustive()
    }
}

/// All tables of a server.
#[derive(Debug)]
pub struct Storage {
    versions: Arc<Versions>,
    tables: DashMap<GroupResource, Arc<Table>>,
    /// The version at which a table was last dropped; new tables know no earlier versions.
    dropped: AtomicU64,
    /// The resources whose tables were dropped, of groups that built-in resources have, too.
    dropped_among_builtin: Mutex<BTreeSet<GroupResource>>,
    initial: Initial,
    window: WindowLimits,
}

impl Storage {
    /// Storage with its initial objects; each table remembers as much of its past as `window` says.
    pub fn new(initial: Initial, window: WindowLimits, journal: bool) -> Self {
        let versions = Versions {
            counter: AtomicU64::new(initial.resource_version.get()),
            latest: watch::Sender::new(initial.resource_version.get()),
            journal: journal.then(Mutex::default),
        };
        Self {
            versions: Arc::new(versions),
            tables: DashMap::new(),
            dropped: AtomicU64::new(0),
            dropped_among_builtin: Mutex::default(),
            initial,
            window,
        }
    }

    /// A storage of its own that holds what this one held at version `rv` (now, for `None`), with the
    /// past that is remembered. Objects are shared, none is copied.
    ///
    /// # Errors
    /// [`WindowError`] when that version is not remembered, or has not been given out yet.
    pub fn fork(&self, rv: Option<ResourceVersion>) -> Result<Self, WindowError> {
        let tables = self.tables();
        // All locks at once: nothing is written between one table and the next.
        let states: Vec<_> = tables.values().map(|table| (table, table.read())).collect();
        let current = self.versions.current();
        let rv = rv.unwrap_or(current);
        if rv > current {
            return Err(WindowError::Future { current });
        }
        let versions = Arc::new(Versions {
            counter: AtomicU64::new(rv.get()),
            latest: watch::Sender::new(rv.get()),
            journal: self.versions.journal.as_ref().map(|_| Mutex::default()),
        });
        let forked = DashMap::with_capacity(states.len());
        for ((key, _), (table, state)) in tables.iter().zip(&states) {
            let own = table.forked(state, rv, Arc::clone(&versions))?;
            forked.insert(key.clone(), Arc::new(own));
        }
        Ok(Self {
            versions,
            tables: forked,
            dropped: AtomicU64::new(self.dropped.load(Ordering::Acquire)),
            dropped_among_builtin: Mutex::new(self.dropped_among_builtin.lock().clone()),
            initial: self.initial.clone(),
            window: self.window,
        })
    }

    /// The table of a resource by its group and plural; see [`Self::table`].
    pub fn table_of(&self, group: &str, resource: &str) -> Arc<Table> {
        self.table(&GroupVersionResource {
            group: group.to_owned(),
            version: String::new(),
            resource: resource.to_owned(),
        })
    }

    /// The table of `gvr`'s resource, made on first use; versions of a resource share it,
    /// and so do the two groups that have events.
    pub fn table(&self, gvr: &GroupVersionResource) -> Arc<Table> {
        let asked: &dyn ResourceKey = &(canonical(&gvr.group), gvr.resource.as_str());
        if let Some(table) = self.tables.get(asked) {
            return Arc::clone(&table);
        }
        let mut key = gvr.group_resource();
        canonicalize(&mut key.group);
        let was_dropped = is_custom(&key) || self.dropped_among_builtin.lock().contains(&key);
        let table = self.tables.entry(key.clone()).or_insert_with(|| {
            let versions = Arc::clone(&self.versions);
            let objects = (self.initial.objects)(&key);
            let dropped = match was_dropped {
                true => ResourceVersion::new(self.dropped.load(Ordering::Acquire)),
                false => ResourceVersion::ZERO,
            };
            let began = Began {
                rv: self.initial.resource_version.max(dropped),
                is_first: self.initial.is_fresh && dropped <= self.initial.resource_version,
            };
            let mut gvr = gvr.clone();
            canonicalize(&mut gvr.group);
            Arc::new(Table::new(gvr, versions, (objects, began), self.window))
        });
        Arc::clone(&table)
    }

    /// Gives a resource its initial `objects`. Must be called before the table is first opened.
    pub fn hold(&self, mut gvr: GroupVersionResource, objects: Vec<Arc<StoredObject>>) {
        canonicalize(&mut gvr.group);
        let key = gvr.group_resource();
        // There may be many objects, and few are read.
        objects.iter().for_each(|object| object.evict());
        let began = Began {
            rv: self.initial.resource_version,
            is_first: false,
        };
        let table = Table::new(
            gvr,
            Arc::clone(&self.versions),
            (objects, began),
            self.window,
        );
        table.compress_texts();
        self.tables.insert(key, Arc::new(table));
    }

    /// Drops the table of a custom resource that is no longer served, unless it has objects.
    /// Watches of the table end.
    pub fn forget(&self, resource: &GroupResource) {
        if !is_custom(resource) {
            self.dropped_among_builtin.lock().insert(resource.clone());
        }
        // Updated before the removal, so that a caller that opens the table anew sees the version.
        let current = self.resource_version().get();
        self.dropped.fetch_max(current, Ordering::AcqRel);
        let removed = self.tables.remove_if(resource, |_, table| table.is_empty());
        if let Some((_, table)) = removed {
            table.retire();
        }
    }

    /// Replays past writes in a fresh storage, with their versions.
    pub fn restore(&self, entries: &[JournalEntry]) {
        for entry in entries {
            self.table(&entry.gvr).restore(entry);
            self.versions
                .counter
                .fetch_max(entry.rv.get(), Ordering::AcqRel);
            self.versions.record(|| entry.clone());
        }
        let current = self.versions.current();
        self.versions.latest.send_replace(current.get());
    }

    /// Drops the past events of a resource, or of all resources.
    pub fn compact(&self, resource: Option<&GroupResource>) {
        self.each_table(resource, Table::compact);
    }

    /// Asks the watches of a resource, or all watches, for `control`.
    pub fn control_watches(&self, control: WatchControl, resource: Option<&GroupResource>) {
        self.each_table(resource, |table| table.control_watches(control));
    }

    /// Every table with its resource, sorted.
    pub fn tables(&self) -> BTreeMap<GroupResource, Arc<Table>> {
        let pair = |entry: RefMulti<'_, GroupResource, Arc<Table>>| {
            (entry.key().clone(), Arc::clone(entry.value()))
        };
        self.tables.iter().map(pair).collect()
    }

    fn each_table(&self, resource: Option<&GroupResource>, visit: impl Fn(&Table)) {
        let Some(resource) = resource else {
            self.tables().values().for_each(|table| visit(table));
            return;
        };
        let mut key = resource.clone();
        canonicalize(&mut key.group);
        if let Some(table) = self.tables.get(&key).map(|table| Arc::clone(&table)) {
            visit(&table);
        }
    }

    /// Lets the next commit have the version `rv`, unless it is past.
    pub fn advance_to(&self, rv: ResourceVersion) {
        let before = rv.get().saturating_sub(1);
        self.versions.counter.fetch_max(before, Ordering::AcqRel);
    }

    /// Returns the version of the last commit.
    pub fn resource_version(&self) -> ResourceVersion {
        self.versions.current()
    }

    /// Returns a receiver that is notified of each published version.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.versions.latest.subscribe()
    }

    /// Every commit so far in order of version; empty unless the journal is on.
    pub fn journal(&self) -> Vec<JournalEntry> {
        let Some(journal) = &self.versions.journal else {
            return Vec::new();
        };
        let mut entries = journal.lock().entries().to_vec();
        entries.sort_by_key(|entry| entry.rv);
        entries
    }

    /// Takes every commit since the last call, in the order of recording, out of the journal.
    pub fn take_journal(&self) -> Vec<JournalEntry> {
        let journal = self.versions.journal.as_ref();
        journal.map_or_else(Vec::new, |journal| journal.lock().take())
    }

    /// Returns the entries after the first `seen`, in the order of recording.
    pub fn journal_after(&self, seen: usize) -> Vec<JournalEntry> {
        let Some(journal) = &self.versions.journal else {
            return Vec::new();
        };
        let journal = journal.lock();
        journal.entries().get(seen..).unwrap_or_default().to_vec()
    }
}

/// Whether a resource can only be a custom one, by its group.
fn is_custom(resource: &GroupResource) -> bool {
    resource.group.contains('.') && !resource.group.ends_with(".k8s.io")
}

/// Makes the group of events that of the table they are in.
fn canonicalize(group: &mut String) {
    if canonical(group).is_empty() {
        group.clear();
    }
}

fn canonical(group: &str) -> &str {
    if group == EVENTS_GROUP { "" } else { group }
}

/// The group and the name of a resource: a key of tables that need not own its texts.
trait ResourceKey {
    fn parts(&self) -> (&str, &str);
}

impl ResourceKey for GroupResource {
    fn parts(&self) -> (&str, &str) {
        (&self.group, &self.resource)
    }
}

impl ResourceKey for (&str, &str) {
    fn parts(&self) -> (&str, &str) {
        *self
    }
}

impl<'k> Borrow<dyn ResourceKey + 'k> for GroupResource {
    fn borrow(&self) -> &(dyn ResourceKey + 'k) {
        self
    }
}

impl PartialEq for dyn ResourceKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn ResourceKey + '_ {}

impl Hash for dyn ResourceKey + '_ {
    /// Equal to the derived one of [`GroupResource`].
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

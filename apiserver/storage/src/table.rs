//! One resource: its objects, and the window of its past events.
//!
//! Lock order: a table's lock, or those of several in the order of their resources, then the journal's. Nothing else is taken
//! under it.

mod commit;
mod frames;
mod groups;
mod plain_texts;
mod state;
mod subscription;
mod together;

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use imbl::{OrdMap, Vector};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

use super::{EventType, ObjectKey, StoredObject, Versions};
use crate::meta::GroupVersionResource;
use crate::meta::ResourceVersion;
use crate::schema::protobuf;
pub use commit::{Change, Conflict, Transaction};
use frames::Frames;
use groups::Groups;
pub use groups::{Filter, SelectedEvent};
use plain_texts::{Compression, PlainTexts};
use state::State;
pub use state::WindowLimits;
pub use subscription::Subscription;
pub use together::Joint;

/// A past event, shared by all who watch.
#[derive(Debug)]
pub struct Event {
    /// The version of the write.
    pub rv: ResourceVersion,
    /// The type, before selectors are applied.
    pub event_type: EventType,
    /// The object after the event; for a deletion its last state, at the deletion's version.
    pub object: Arc<StoredObject>,
    /// The object before the event: a selector may have matched it.
    pub previous: Option<Arc<StoredObject>>,
    /// All objects after the event: a list at this very version.
    objects: OrdMap<ObjectKey, Arc<StoredObject>>,
    frame: OnceLock<Bytes>,
    protobuf_frame: OnceLock<Bytes>,
    /// Bytes of its texts, once the window has counted them.
    weight: OnceLock<usize>,
}

impl Event {
    /// The object after the event and before it.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<StoredObject>> + Clone {
        std::iter::once(&self.object).chain(&self.previous)
    }

    /// Bytes of the event's texts; `None` while the object has none, which is not for long.
    fn weight(&self) -> Option<usize> {
        let json = self.object.known_bytes();
        let frames = [&self.frame, &self.protobuf_frame];
        let frames: usize = frames
            .iter()
            .filter_map(|frame| frame.get().map(Bytes::len))
            .sum();
        (json > 0).then(|| *self.weight.get_or_init(|| json + frames))
    }

    /// The line of a plain JSON watch, the same bytes for every watcher.
    pub fn frame(&self) -> Bytes {
        self.frame
            .get_or_init(|| watch_frame(self.event_type.as_str(), &self.object.json()))
            .clone()
    }

    /// The frame of a watch in protobuf, the same bytes for every watcher; `None` for a kind without a
    /// message.
    pub fn protobuf_frame(&self) -> Option<Bytes> {
        let document = self.object.protobuf()?;
        let frame = || protobuf::watch_frame(self.event_type.as_str(), &document.bytes());
        Some(self.protobuf_frame.get_or_init(frame).clone())
    }
}

/// One line of a watch stream.
pub fn watch_frame(event_type: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event_type.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// The objects of a resource at one version.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The version that the objects are at.
    pub rv: ResourceVersion,
    objects: OrdMap<ObjectKey, Arc<StoredObject>>,
}

impl Snapshot {
    /// Whether nothing was written between this and `other`.
    pub fn has_objects_of(&self, other: &Self) -> bool {
        self.objects.ptr_eq(&other.objects)
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(key)
    }

    /// Objects of `namespace` (all for `None`) in key order, from `start` on if given.
    pub fn range(
        &self,
        namespace: Option<&str>,
        start: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &Arc<StoredObject>> {
        let prefix = ObjectKey::prefix(namespace);
        let from = start
            .filter(|start| **start > prefix)
            .unwrap_or(&prefix)
            .clone();
        self.objects
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(key, _)| key.as_str().starts_with(prefix.as_str()))
            .map(|(_, object)| object)
    }
}

/// Numbers about a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How many objects there are.
    pub objects: usize,
    /// The latest version of the storage.
    pub rv: ResourceVersion,
    /// How many events there were since the table was opened.
    pub events: u64,
    /// How many events the window holds at most.
    pub capacity: usize,
}

/// Why the window can't serve a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// The version is before the oldest version in the window.
    Expired {
        /// The version before the oldest event held.
        compacted: ResourceVersion,
    },
    /// The version has not been assigned yet.
    Future {
        /// The latest version given out.
        current: ResourceVersion,
    },
}

/// Where the past of a table begins.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// The version that its events come after.
    pub rv: ResourceVersion,
    /// Whether the resource had no table before.
    pub is_first: bool,
}

/// A resource's objects and window, under one lock.
#[derive(Debug)]
pub struct Table {
    gvr: GroupVersionResource,
    versions: Arc<Versions>,
    state: RwLock<State>,
    changed: Arc<Notify>,
    /// Frames that equal watches share.
    frames: Frames,
    controls: ControlCounters,
    /// Whether the resource is not served any more.
    retired: AtomicBool,
}

/// A request to all watches of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchControl {
    /// Send a bookmark now, if the client allows bookmarks.
    Bookmark,
    /// End like a watch that has timed out.
    Close,
    /// End abruptly, as when the connection breaks.
    Drop,
    /// End with 410 Expired, so that the client lists again.
    Expire,
}

/// The number of requests for each [`WatchControl`]; a watch compares it with the number it has
/// handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounts {
    /// Requests for a bookmark.
    pub bookmarks: u64,
    /// Requests for a regular end.
    pub closes: u64,
    /// Requests for an abrupt end.
    pub drops: u64,
    /// Requests for an end with 410 Expired.
    pub expires: u64,
}

#[derive(Debug, Default)]
struct ControlCounters {
    bookmarks: AtomicU64,
    closes: AtomicU64,
    drops: AtomicU64,
    expires: AtomicU64,
}

impl Table {
    /// A table that holds `initial` objects, with no past before it `began`.
    pub(super) fn new(
        gvr: GroupVersionResource,
        versions: Arc<Versions>,
        (initial, began): (Vec<Arc<StoredObject>>, Began),
        limits: WindowLimits,
    ) -> Self {
        let initial = initial.into_iter();
        let base: OrdMap<_, _> = initial.map(|object| (object.key.clone(), object)).collect();
        let state = State {
            objects: base.clone(),
            window: Vector::new(),
            compacted: began.rv,
            base,
            base_is_initial: began.is_first,
            limits,
            weighed: 0,
            window_bytes: 0,
            events: 0,
            decoded: VecDeque::new(),
            decoded_bytes: 0,
            plain_texts: PlainTexts::default(),
            groups: Groups::default(),
        };
        Self {
            gvr,
            versions,
            state: RwLock::new(state),
            changed: Arc::default(),
            frames: Frames::default(),
            controls: ControlCounters::default(),
            retired: AtomicBool::new(false),
        }
    }

    /// A table of its own that holds what this one held at version `rv`, and its past.
    ///
    /// # Errors
    /// [`WindowError`] when that is not remembered, or not there yet.
    pub(super) fn forked(
        &self,
        state: &State,
        rv: ResourceVersion,
        versions: Arc<Versions>,
    ) -> Result<Self, WindowError> {
        let objects = match state.window.back() {
            // All that is remembered is older.
            last if last.is_none_or(|last| last.rv <= rv) && state.compacted <= rv => {
                state.objects.clone()
            }
            _ => state.objects_at(rv, ResourceVersion::MAX)?,
        };
        let mut window = state.window.clone();
        let future = window.split_off(state.events_until(rv));
        let weighed = state.weighed.min(window.len());
        let cut = future.iter().take(state.weighed - weighed);
        let cut: usize = cut.filter_map(|event| event.weight()).sum();
        let state = State {
            objects,
            window,
            compacted: state.compacted.min(rv),
            base: state.base.clone(),
            base_is_initial: state.base_is_initial,
            limits: state.limits,
            weighed,
            window_bytes: state.window_bytes - cut,
            events: 0,
            decoded: VecDeque::new(),
            decoded_bytes: 0,
            plain_texts: PlainTexts::default(),
            groups: Groups::default(),
        };
        Ok(Self {
            gvr: self.gvr.clone(),
            versions,
            state: RwLock::new(state),
            changed: Arc::default(),
            frames: Frames::default(),
            controls: ControlCounters::default(),
            retired: AtomicBool::new(false),
        })
    }

    /// Returns the resource, in the version of its first request.
    pub fn gvr(&self) -> &GroupVersionResource {
        &self.gvr
    }

    /// Compresses the texts of objects that were not written in this table, but for as many as may stay plain.
    pub(super) fn compress_texts(&self) {
        let mut state = self.state.write();
        let objects = state.objects.clone();
        let texts = objects
            .values()
            .flat_map(|object| state.plain_texts.keep(object, &objects));
        texts.for_each(Compression::carry_out);
    }

    /// Keeps writers out while the guard is held.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// Asks all watches for `control`; those that are stuck in a full socket see it later.
    pub fn control_watches(&self, control: WatchControl) {
        let count = match control {
            WatchControl::Bookmark => &self.controls.bookmarks,
            WatchControl::Close => &self.controls.closes,
            WatchControl::Drop => &self.controls.drops,
            WatchControl::Expire => &self.controls.expires,
        };
        count.fetch_add(1, Ordering::AcqRel);
        self.wake_all();
    }

    /// Ends all watches once they have delivered what happened: nothing more will.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Wakes all watches, those of subscriptions as well.
    fn wake_all(&self) {
        self.changed.notify_waiters();
        let groups = self.state.read().groups.all();
        groups.iter().for_each(|changed| changed.notify_waiters());
    }

    /// Whether the resource is no longer served; watches then end.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Returns the requests to watches so far.
    pub fn control_counts(&self) -> ControlCounts {
        ControlCounts {
            bookmarks: self.controls.bookmarks.load(Ordering::Acquire),
            closes: self.controls.closes.load(Ordering::Acquire),
            drops: self.controls.drops.load(Ordering::Acquire),
            expires: self.controls.expires.load(Ordering::Acquire),
        }
    }

    /// Returns the object with this key, as of the last commit.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.state.read().objects.get(key).cloned()
    }

    /// Returns the numbers about the table.
    pub fn facts(&self) -> Facts {
        let state = self.state.read();
        Facts {
            objects: state.objects.len(),
            rv: self.versions.current(),
            events: state.events,
            capacity: state.limits.events,
        }
    }

    /// The version of the last event. Without events in the window, the version of the last compaction.
    pub fn last_event(&self) -> ResourceVersion {
        let state = self.state.read();
        let last = state.window.back();
        last.map_or(state.compacted, |event| event.rv)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects now, with the version to watch from.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.read();
        // Read under the lock: a later commit to this table takes a greater version.
        Snapshot {
            rv: self.versions.current(),
            objects: state.objects.clone(),
        }
    }

    /// Whether nothing was written since `snapshot` of this table.
    pub fn is_as_in(&self, snapshot: &Snapshot) -> bool {
        self.state.read().objects.ptr_eq(&snapshot.objects)
    }

    /// The objects as they were at version `rv`.
    pub fn snapshot_at_version(&self, rv: ResourceVersion) -> Result<Snapshot, WindowError> {
        let state = self.state.read();
        let objects = state.objects_at(rv, self.versions.current())?;
        Ok(Snapshot { rv, objects })
    }

    /// The objects as they were `writes` before now, or as long ago as is remembered.
    pub fn snapshot_behind(&self, writes: u64) -> Snapshot {
        let state = self.state.read();
        let current = self.versions.current();
        let rv = current.before(writes).max(state.compacted);
        let objects = state.objects_at(rv, current);
        Snapshot {
            rv,
            objects: objects.expect("the window holds what is not compacted"),
        }
    }

    /// The version that has `events` events between itself and `rv`, or the oldest remembered.
    pub fn version_before(&self, rv: ResourceVersion, events: usize) -> ResourceVersion {
        let state = self.state.read();
        let known = state.events_until(rv);
        match known.saturating_sub(events).checked_sub(1) {
            Some(last) => state.window[last].rv,
            None => state.compacted.min(rv),
        }
    }

    /// Events above version `rv`, oldest first, at most `max`; and the version they reach to.
    pub fn events_after(
        &self,
        rv: ResourceVersion,
        max: usize,
    ) -> Result<(Vec<Arc<Event>>, ResourceVersion), WindowError> {
        let state = self.state.read();
        if rv < state.compacted {
            if !state.base_is_initial {
                return Err(WindowError::Expired {
                    compacted: state.compacted,
                });
            }
            let events = state.initial_events_after(rv, max);
            if let Some(last) = events.last() {
                let reached = last.rv;
                return Ok((events, reached));
            }
        }
        let start = state.events_until(rv);
        let end = start.saturating_add(max).min(state.window.len());
        let events: Vec<_> = match start < end {
            true => state
                .window
                .focus()
                .narrow(start..end)
                .into_iter()
                .cloned()
                .collect(),
            false => Vec::new(),
        };
        let complete = start + events.len() == state.window.len();
        let reached = if complete {
            self.versions.current()
        } else {
            events.last().map_or(rv, |event| event.rv)
        };
        Ok((events, reached.max(rv)))
    }

    /// Returns the notifier of the table, which wakes after each commit and upon requests to
    /// watches. A [`Subscription`] has its own.
    ///
    /// A `Notify` wakes waiters in the order of waiting; a watch channel would wake its receivers
    /// in random order, and so make the order of the clients' actions random.
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// The frame of the event at version `rv` for the watches that are called `name`: the one that another of them
    /// has made, or else what `make` returns. Only frames of the latest events are kept.
    pub fn shared_frame(
        &self,
        rv: ResourceVersion,
        name: String,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        self.frames.get_or_make((rv, name), make)
    }

    /// Forgets all past events, as etcd's compaction does: older versions are Expired from now on.
    pub fn compact(&self) {
        let mut state = self.state.write();
        let current = self.versions.current();
        state.window.clear();
        (state.weighed, state.window_bytes) = (0, 0);
        state.base = state.objects.clone();
        state.base_is_initial = false;
        state.compacted = current;
        drop(state);
        self.wake_all();
    }
}

#[cfg(test)]
mod informer;
#[cfg(test)]
mod tests;

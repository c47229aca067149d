//! The state under a table's lock: its objects, and the window of its past events.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use imbl::{OrdMap, Vector};

use super::groups::Groups;
use super::plain_texts::{Compression, PlainTexts};
use super::{Event, WindowError};
use crate::meta::ResourceVersion;
use crate::{EventType, ObjectKey, StoredObject};

/// The number of objects of a table that stay decoded: those of the latest writes, whose trees are
/// still in the processor's caches when they are dropped.
pub(super) const DECODED_MAX: usize = 32;

/// The limit of these objects' texts in bytes. Trees take ten times as much.
const DECODED_BYTES_MAX: usize = 1024 * 1024;

/// The limits of a table's window of past events; the first limit to be reached drops the oldest
/// events.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// How many events.
    pub events: usize,
    /// Bytes of their objects' JSON, and of the lines that watches were sent of them.
    pub bytes: usize,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(super) objects: OrdMap<ObjectKey, Arc<StoredObject>>,
    /// Ascending by `rv`; holds every event above `compacted`.
    pub(super) window: Vector<Arc<Event>>,
    /// Versions below this one are forgotten; a watch may start from it.
    pub(super) compacted: ResourceVersion,
    /// The objects at version `compacted`.
    pub(super) base: OrdMap<ObjectKey, Arc<StoredObject>>,
    /// Whether `base` is still the initial state of the table: lists can then read its past.
    pub(super) base_is_initial: bool,
    pub(super) limits: WindowLimits,
    /// How many of the oldest events are counted in `window_bytes`; only the newest are not yet.
    pub(super) weighed: usize,
    pub(super) window_bytes: usize,
    /// How many events there were since the table was opened.
    pub(super) events: u64,
    /// The objects written last, whose values are held, with the bytes of their texts as far as
    /// they are known; oldest first.
    pub(super) decoded: VecDeque<(Arc<StoredObject>, usize)>,
    pub(super) decoded_bytes: usize,
    /// The objects that are not decoded any more, and whose texts are not compressed yet.
    pub(super) plain_texts: PlainTexts,
    /// The watches of a part of the objects.
    pub(super) groups: Groups,
}

/// The evictions that a write causes. They are carried out after the table is unlocked.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// The objects to keep as text alone.
    decoded: Vec<Arc<StoredObject>>,
    /// The texts to compress.
    texts: Vec<Compression>,
}

impl Evictions {
    /// Carries them out, once.
    pub(super) fn carry_out(&mut self) {
        self.decoded.drain(..).for_each(|object| object.evict());
        self.texts.drain(..).for_each(Compression::carry_out);
    }
}

impl State {
    /// Keeps `objects` decoded, and returns what to evict for them.
    pub(super) fn keep_decoded(
        &mut self,
        objects: impl Iterator<Item = Arc<StoredObject>>,
    ) -> Evictions {
        // By the next write an object has its text, as its writer has been answered.
        for (object, bytes) in self.decoded.iter_mut().rev().take(2) {
            if *bytes == 0 {
                *bytes = object.known_bytes();
                self.decoded_bytes += *bytes;
            }
        }
        let before = self.decoded.len();
        for object in objects {
            let bytes = object.known_bytes();
            self.decoded_bytes += bytes;
            self.decoded.push_back((object, bytes));
        }
        let mut evictions = Evictions::default();
        for _ in 0..before {
            if self.decoded.len() <= DECODED_MAX && self.decoded_bytes <= DECODED_BYTES_MAX {
                break;
            }
            if let Some((object, bytes)) = self.decoded.pop_front() {
                self.decoded_bytes -= bytes;
                let texts = self.plain_texts.keep(&object, &self.objects);
                evictions.texts.extend(texts);
                evictions.decoded.push(object);
            }
        }
        evictions
    }

    /// The creations of initial objects above version `rv`, oldest first, at most `max`: the past
    /// of a table that has not forgotten anything.
    pub(super) fn initial_events_after(&self, rv: ResourceVersion, max: usize) -> Vec<Arc<Event>> {
        let mut objects: Vec<_> = self.base.values().filter(|own| own.rv > rv).collect();
        objects.sort_by_key(|object| object.rv);
        objects
            .into_iter()
            .take(max)
            .map(|object| {
                Arc::new(Event {
                    rv: object.rv,
                    event_type: EventType::Added,
                    object: Arc::clone(object),
                    previous: None,
                    objects: self.base.clone(),
                    frame: OnceLock::new(),
                    protobuf_frame: OnceLock::new(),
                    weight: OnceLock::new(),
                })
            })
            .collect()
    }

    /// How many events of the window there were at version `rv`.
    pub(super) fn events_until(&self, rv: ResourceVersion) -> usize {
        match self.window.binary_search_by(|event| event.rv.cmp(&rv)) {
            Ok(at) => at + 1,
            Err(at) => at,
        }
    }

    pub(super) fn objects_at(
        &self,
        rv: ResourceVersion,
        current: ResourceVersion,
    ) -> Result<OrdMap<ObjectKey, Arc<StoredObject>>, WindowError> {
        if rv > current {
            return Err(WindowError::Future { current });
        }
        if rv < self.compacted {
            if !self.base_is_initial {
                return Err(WindowError::Expired {
                    compacted: self.compacted,
                });
            }
            // Nothing was compacted yet: what there is now and was written later was not there.
            let then = self.base.iter().filter(|(_, object)| object.rv <= rv);
            return Ok(then
                .map(|(key, object)| (key.clone(), Arc::clone(object)))
                .collect());
        }
        let after = self.events_until(rv);
        Ok(match after.checked_sub(1) {
            Some(last) => self.window[last].objects.clone(),
            None => self.base.clone(),
        })
    }
}

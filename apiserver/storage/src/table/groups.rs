//! The groups of a table's watches.
//!
//! Watches that select the same objects share a group. A commit asks each group once whether the
//! event is its own, notes the event's version in the group's log, and wakes the group's watches
//! only. So a watch costs nothing while others are written, and reads nothing but its own events.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;

use super::Event;
use crate::meta::ResourceVersion;
use crate::{EventType, ObjectKey, StoredObject};

/// The objects that a watch selects.
pub trait Filter: fmt::Debug + Send + Sync {
    /// A text that filters have in common exactly if they select the same objects.
    fn name(&self) -> String;

    /// The only object that can be selected, if there is only one.
    fn key(&self) -> Option<ObjectKey>;

    /// Whether `object` is selected.
    fn selects(&self, object: &StoredObject) -> bool;

    /// The type of `event` for those who see only what is selected: a change can bring an object
    /// into the selection or take it out. `None` if the object is in it neither before nor after.
    fn event_type(&self, event: &Event) -> Option<EventType> {
        let now = event.event_type != EventType::Deleted && self.selects(&event.object);
        let before = event.previous.as_ref();
        match (before.is_some_and(|object| self.selects(object)), now) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }
}

/// An event, and its type after selection.
#[derive(Clone, Debug)]
pub struct SelectedEvent {
    /// The type for those who see only what is selected.
    pub event_type: EventType,
    /// The event.
    pub event: Arc<Event>,
}

/// The watches of one selection.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    filter: Arc<dyn Filter>,
    changed: Arc<Notify>,
    /// The selected events above version `complete_after`, with their types.
    pub(super) log: VecDeque<(ResourceVersion, EventType)>,
    complete_after: ResourceVersion,
    members: usize,
}

impl Group {
    /// Notes a selected event, and forgets those that the table has forgotten.
    fn note(&mut self, rv: ResourceVersion, event_type: EventType, compacted: ResourceVersion) {
        while let Some((oldest, _)) = self.log.front().filter(|(rv, _)| *rv <= compacted) {
            self.complete_after = *oldest;
            self.log.pop_front();
        }
        self.log.push_back((rv, event_type));
    }
}

/// The number of a group. Groups are woken in the order in which they began.
pub(super) type Number = u64;

/// The groups of a table's watches.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) groups: BTreeMap<Number, Group>,
    pub(super) by_name: BTreeMap<String, Number>,
    /// The groups of a single object, by its key.
    pub(super) of_one: BTreeMap<ObjectKey, Vec<Number>>,
    /// The other groups.
    of_many: Vec<Number>,
    begun: Number,
}

impl Groups {
    /// Notes a committed event; returns whom to wake.
    ///
    /// `compacted` is the version up to which the table has forgotten its events.
    pub(super) fn note(&mut self, event: &Event, compacted: ResourceVersion) -> Vec<Arc<Notify>> {
        let mut selected = Vec::new();
        let of_one = self.of_one.get(&event.object.key).into_iter().flatten();
        for number in of_one.chain(&self.of_many) {
            let group = self.groups.get_mut(number).expect("it is listed");
            if let Some(event_type) = group.filter.event_type(event) {
                group.note(event.rv, event_type, compacted);
                selected.push((*number, Arc::clone(&group.changed)));
            }
        }
        selected.sort_by_key(|(number, _)| *number);
        selected.into_iter().map(|(_, changed)| changed).collect()
    }

    /// The group of this number, if its log has all selected events above version `rv`.
    pub(super) fn complete_since(&self, number: Number, rv: ResourceVersion) -> Option<&Group> {
        let group = self.groups.get(&number);
        group.filter(|group| group.complete_after <= rv)
    }

    /// The notifiers of all groups.
    pub(super) fn all(&self) -> Vec<Arc<Notify>> {
        let groups = self.groups.values();
        groups.map(|group| Arc::clone(&group.changed)).collect()
    }

    pub(super) fn join(
        &mut self,
        filter: Arc<dyn Filter>,
        now: ResourceVersion,
    ) -> (Number, Arc<Notify>) {
        let name = filter.name();
        if let Some(number) = self.by_name.get(&name) {
            let group = self.groups.get_mut(number).expect("it is listed");
            group.members += 1;
            return (*number, Arc::clone(&group.changed));
        }
        self.begun += 1;
        let number = self.begun;
        match filter.key() {
            Some(key) => self.of_one.entry(key).or_default().push(number),
            None => self.of_many.push(number),
        }
        let changed = Arc::default();
        let group = Group {
            name: name.clone(),
            filter,
            changed: Arc::clone(&changed),
            log: VecDeque::new(),
            complete_after: now,
            members: 1,
        };
        self.groups.insert(number, group);
        self.by_name.insert(name, number);
        (number, changed)
    }

    pub(super) fn leave(&mut self, number: Number) {
        let Entry::Occupied(mut group) = self.groups.entry(number) else {
            return;
        };
        group.get_mut().members -= 1;
        if group.get().members > 0 {
            return;
        }
        let group = group.remove();
        self.by_name.remove(&group.name);
        match group.filter.key() {
            Some(key) => {
                if let Entry::Occupied(mut groups) = self.of_one.entry(key) {
                    groups.get_mut().retain(|own| *own != number);
                    if groups.get().is_empty() {
                        groups.remove();
                    }
                }
            }
            None => self.of_many.retain(|own| *own != number),
        }
    }
}

//! The objects of a cluster at one revision, as expressions see them.

use std::collections::BTreeMap;

use crate::cel::{Activation, Key, Map, Time, Value, of_json};
use crate::json::Value as Json;
use crate::storage::{EventType, JournalEntry, JournaledObject};

/// An API group and version, a namespace and a name.
type Identity = (String, String, String);

/// The objects of the requested kinds, at one revision and at the one before.
pub(super) struct ClusterState {
    kinds: BTreeMap<String, BTreeMap<Identity, Object>>,
    /// A list a kind, in the order of namespaces and names.
    lists: BTreeMap<Key, Value>,
    objects: Value,
    previous: Value,
    /// The object after the last write that was taken.
    object: Value,
    /// The object before that write.
    old_object: Value,
}

/// An object, and its value in expressions, which takes long to make.
struct Object {
    journaled: JournaledObject,
    value: Value,
}

impl ClusterState {
    /// No objects yet, of these kinds.
    pub(super) fn of_kinds<'k>(kinds: impl IntoIterator<Item = &'k str>) -> Self {
        let kinds: BTreeMap<String, _> = kinds
            .into_iter()
            .map(|kind| (kind.to_owned(), BTreeMap::new()))
            .collect();
        let empty = |kind: &String| (Key::String(kind.as_str().into()), Value::list(Vec::new()));
        let lists: BTreeMap<Key, Value> = kinds.keys().map(empty).collect();
        let objects = Value::Map(Map::new(lists.clone()));
        Self {
            kinds,
            lists,
            previous: objects.clone(),
            objects,
            object: Value::Null,
            old_object: Value::Null,
        }
    }

    /// Moves on by one write.
    pub(super) fn take(&mut self, entry: &JournalEntry) {
        self.previous = self.objects.clone();
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&entry.object["kind"]);
        let metadata = &entry.object["metadata"];
        let identity = (
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            text(&entry.object["apiVersion"]),
        );
        let mut objects = self.kinds.get_mut(&kind);
        let known = objects
            .as_mut()
            .and_then(|objects| objects.remove(&identity));
        let value = of_json(&entry.object);
        let object = Object {
            journaled: entry.object.clone(),
            value: value.clone(),
        };
        (self.object, self.old_object) = match (entry.event, &entry.previous) {
            (EventType::Added, _) | (EventType::Modified, None) => (value, Value::Null),
            (EventType::Modified, Some(previous)) => {
                let known = known.filter(|known| known.journaled.is(previous));
                let old = known.map_or_else(|| of_json(previous), |known| known.value);
                (value, old)
            }
            (EventType::Deleted, _) => (Value::Null, value),
        };
        let Some(objects) = objects else {
            return;
        };
        if entry.event != EventType::Deleted {
            objects.insert(identity, object);
        }
        let list = Value::list(objects.values().map(|own| own.value.clone()).collect());
        self.lists.insert(Key::String(kind.into()), list);
        self.objects = Value::Map(Map::new(self.lists.clone()));
    }

    /// Returns the values of all names after `entry`, the entry taken last.
    pub(super) fn behind(&self, entry: &JournalEntry) -> Activation {
        let resource = match entry.gvr.group.as_str() {
            "" => entry.gvr.resource.clone(),
            group => format!("{}.{group}", entry.gvr.resource),
        };
        let version = i64::try_from(entry.rv.get()).unwrap_or(i64::MAX);
        let event = [
            ("type", Value::string(entry.event.as_str())),
            ("resource", Value::string(&resource)),
            ("userAgent", Value::string(&entry.user_agent)),
            ("resourceVersion", Value::Int(version)),
            (
                "time",
                Value::Timestamp(Time::utc(entry.time.as_nanosecond())),
            ),
        ];
        let event = event.map(|(name, value)| (Key::String(name.into()), value));
        Activation::unpriced(BTreeMap::from([
            ("objects", self.objects.clone()),
            ("previous", self.previous.clone()),
            ("object", self.object.clone()),
            ("oldObject", self.old_object.clone()),
            ("event", Value::Map(Map::new(BTreeMap::from(event)))),
        ]))
    }
}

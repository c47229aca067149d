//! The objects of one kind as a watch has delivered them.
//!
//! A [`Store`](kubeproof_runtime::store::Store) holds whole objects. The graph has all that is needed of an object, so here
//! are only keys, uids and versions, which tell what an event has replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kubeproof_machinery::meta::ResourceVersion;
use kubeproof_runtime::store::{self, ObjectKey};

use super::Metadata;

/// The objects of a kind by key, and whether a list of them was complete.
#[derive(Default)]
pub(super) struct Objects {
    known: BTreeMap<Arc<ObjectKey>, Known>,
    /// The objects of a list until it ends.
    listing: Vec<Arc<Metadata>>,
    is_synced: bool,
}

/// The version of an object that was delivered last.
struct Known {
    uid: Arc<str>,
    /// Zero if it is not a number.
    rv: ResourceVersion,
}

/// The change of one object. An object that takes the name of another one is a second change.
pub(super) enum Change {
    /// The object is new, or has another version.
    Put {
        key: Arc<ObjectKey>,
        uid: Arc<str>,
        object: Arc<Metadata>,
    },
    /// The object is gone.
    Removed { uid: Arc<str> },
}

impl Objects {
    /// Whether the first list is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// The uids of all objects, by namespace, then name.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.known.values().map(|known| &known.uid)
    }

    /// Applies a watch event and returns the changes. Those of a list are in the order of the keys, deletions last.
    pub(super) fn apply(&mut self, event: Event<Arc<Metadata>>) -> Vec<Change> {
        let mut changes = Vec::new();
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => self.listing.push(object),
            Event::InitDone => {
                self.is_synced = true;
                self.replace(&mut changes);
            }
            Event::Apply(object) => self.put(key_of(&object), object, &mut changes),
            Event::Delete(object) => {
                let known = self.known.remove(&key_of(&object));
                let uid = known.map_or_else(|| store::uid(&*object).into(), |known| known.uid);
                changes.push(Change::Removed { uid });
            }
        }
        changes
    }

    /// Replaces the objects by those of a list; an object that the list lacks was deleted unseen.
    fn replace(&mut self, changes: &mut Vec<Change>) {
        let mut unlisted = std::mem::take(&mut self.known);
        let listing = std::mem::take(&mut self.listing);
        let mut listed: Vec<_> = listing
            .into_iter()
            .map(|object| (key_of(&object), object))
            .collect();
        listed.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (key, object) in listed {
            let known = unlisted.remove_entry(&key);
            let is_same = known.as_ref().is_some_and(|(_, known)| {
                let rv = store::resource_version(&*object);
                let is_same_version = rv == known.rv && rv != ResourceVersion::ZERO;
                is_same_version && *known.uid == store::uid(&*object)
            });
            self.known.extend(known);
            if !is_same {
                self.put(key, object, changes);
            }
        }
        let gone = unlisted.into_values();
        changes.extend(gone.map(|known| Change::Removed { uid: known.uid }));
    }

    fn put(&mut self, key: ObjectKey, object: Arc<Metadata>, changes: &mut Vec<Change>) {
        let (uid, rv) = (store::uid(&*object), store::resource_version(&*object));
        let (key, mut known) = self.known.remove_entry(&key).unwrap_or_else(|| {
            let uid = uid.as_str().into();
            (Arc::new(key), Known { uid, rv })
        });
        known.rv = rv;
        if *known.uid != *uid {
            let replaced = std::mem::replace(&mut known.uid, uid.into());
            changes.push(Change::Removed { uid: replaced });
        }
        changes.push(Change::Put {
            key: Arc::clone(&key),
            uid: Arc::clone(&known.uid),
            object,
        });
        self.known.insert(key, known);
    }
}

fn key_of(object: &Metadata) -> ObjectKey {
    ObjectKey::of(object)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    fn object(name: &str, uid: &str, rv: u64) -> Arc<Metadata> {
        let metadata = json!({ "name": name, "uid": uid, "resourceVersion": rv.to_string() });
        Arc::new(from_value(json!({ "metadata": metadata })).unwrap())
    }

    /// Applies a list of these objects.
    fn list<const N: usize>(objects: &mut Objects, of: [Arc<Metadata>; N]) -> Vec<String> {
        let mut events = vec![Event::Init];
        events.extend(of.map(Event::InitApply));
        events.push(Event::InitDone);
        let changes = events.into_iter().flat_map(|event| objects.apply(event));
        changes.map(shown).collect()
    }

    fn one(objects: &mut Objects, event: Event<Arc<Metadata>>) -> Vec<String> {
        objects.apply(event).into_iter().map(shown).collect()
    }

    fn shown(change: Change) -> String {
        match change {
            Change::Put { key, uid, object } => {
                assert_eq!(store::uid(&*object), *uid);
                format!("{}:{uid}", key.name)
            }
            Change::Removed { uid } => format!("-{uid}"),
        }
    }

    #[test]
    fn an_event_names_what_it_has_replaced() {
        let mut objects = Objects::default();
        let first = one(&mut objects, Event::Apply(object("a", "1", 1)));
        assert_eq!(first, ["a:1"]);
        let same = one(&mut objects, Event::Apply(object("a", "1", 2)));
        assert_eq!(same, ["a:1"]);
        let other = one(&mut objects, Event::Apply(object("a", "2", 4)));
        assert_eq!(other, ["-1", "a:2"]);
        // The deletion of another object of this name was missed.
        let last = one(&mut objects, Event::Delete(object("a", "3", 6)));
        assert_eq!(last, ["-2"]);
        let unknown = one(&mut objects, Event::Delete(object("b", "4", 7)));
        assert_eq!(unknown, ["-4"]);
        assert_eq!(objects.uids().count(), 0);
    }

    #[test]
    fn the_changes_of_an_object_share_its_key_and_uid() {
        let mut objects = Objects::default();
        let mut shared = Vec::new();
        for rv in [1, 2] {
            let object = object("a", "1", rv);
            let listed = [
                Event::Init,
                Event::InitApply(Arc::clone(&object)),
                Event::InitDone,
            ];
            let events = [Event::Apply(object)].into_iter().chain(listed);
            for change in events.flat_map(|event| objects.apply(event)) {
                match change {
                    Change::Put { key, uid, .. } => shared.push((key, uid)),
                    Change::Removed { uid } => panic!("{uid} was not removed"),
                }
            }
        }
        let [(first_key, first_uid), (key, uid)] = shared.as_slice() else {
            panic!("{shared:?}");
        };
        assert!(Arc::ptr_eq(first_key, key));
        assert!(Arc::ptr_eq(first_uid, uid));
    }

    #[test]
    fn versions_that_are_no_numbers_are_not_compared() {
        let mut objects = Objects::default();
        for _ in 0..2 {
            let metadata = json!({ "name": "a", "uid": "1", "resourceVersion": "7/" });
            let object = from_value(json!({ "metadata": metadata })).unwrap();
            assert_eq!(list(&mut objects, [Arc::new(object)]), ["a:1"]);
        }
    }

    #[test]
    fn a_list_reports_what_was_missed() {
        let mut objects = Objects::default();
        assert!(!objects.is_synced());
        let before = [("b", "2"), ("a", "1"), ("c", "3"), ("e", "5")];
        let before = before.map(|(name, uid)| object(name, uid, 1));
        assert_eq!(
            list(&mut objects, before),
            ["a:1", "b:2", "c:3", "e:5"],
            "in the order of the keys"
        );
        assert!(objects.is_synced());
        let after = [("d", "4", 6), ("b", "7", 7), ("a", "1", 1), ("e", "5", 2)];
        let after = after.map(|(name, uid, rv)| object(name, uid, rv));
        assert_eq!(
            list(&mut objects, after),
            ["-2", "b:7", "d:4", "e:5", "-3"],
            "nothing of an object at the version that is known"
        );
        let uids: Vec<_> = objects.uids().map(|uid| &**uid).collect();
        assert_eq!(uids, ["1", "7", "4", "5"]);
    }
}

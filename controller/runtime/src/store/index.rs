//! Where the objects of a store are, by key and by controller.
//!
//! It knows nothing of their type, so that its maps are the same machine code for all kinds: one per kind was an eighth of
//! the code of the controllers.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::keys::{self, Key};
use crate::controller_ref::controller_of;

/// The place of an object among those of its store. It is small, as 19 stores have a place for each pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u32);

impl Place {
    fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a store has fewer than four billion objects"))
    }

    /// The index of the object.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The places of some objects, by key.
pub(super) type Places = BTreeMap<Key, Place>;

/// The places of all objects of a store.
#[derive(Debug, Default)]
pub(super) struct Index {
    places: Places,
    /// Places without an object.
    free: Vec<Place>,
    /// The places by [`controller_key`], from when they are first asked for: few stores need them.
    by_controller: OnceLock<BTreeMap<String, Places>>,
}

impl Index {
    /// The place of the object with this key.
    pub(super) fn get(&self, key: &str) -> Option<Place> {
        self.places.get(key).copied()
    }

    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// All places, by namespace, then name.
    pub(super) fn all(&self) -> btree_map::Values<'_, Key, Place> {
        self.places.values()
    }

    /// The places of the objects of `namespace`, by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = Place> + use<'_> {
        let first = keys::text(namespace, "");
        let from = (Bound::Included(first.as_str()), Bound::Unbounded);
        let rest = self.places.range::<str, _>(from);
        let own = rest.take_while(move |(key, _)| key.text().starts_with(&first));
        own.map(|(_, place)| *place)
    }

    /// The places of the objects of `namespace` that the owner `uid` controls, by name; of the orphans if `uid` is empty.
    pub(super) fn controlled_by<'a>(
        &self,
        namespace: &str,
        uid: &str,
        meta: &dyn Fn(Place) -> &'a ObjectMeta,
    ) -> Option<&Places> {
        let index = self.by_controller.get_or_init(|| {
            let mut index = BTreeMap::<_, Places>::new();
            for (key, place) in &self.places {
                let of_controller = index.entry(controller_key(meta(*place))).or_default();
                of_controller.insert(key.clone(), *place);
            }
            index
        });
        index.get(&keys::text(namespace, uid))
    }

    /// The places of the objects of `namespace` without a controller or with the controller `uid`, by name.
    pub(super) fn claimable<'a>(
        &self,
        namespace: &str,
        uid: &str,
        meta: &dyn Fn(Place) -> &'a ObjectMeta,
    ) -> Vec<Place> {
        let own = self.controlled_by(namespace, uid, meta);
        let orphans = match uid {
            "" => None,
            _ => self.controlled_by(namespace, "", meta),
        };
        let Some(orphans) = orphans else {
            return own
                .into_iter()
                .flat_map(BTreeMap::values)
                .copied()
                .collect();
        };
        let mut both: Vec<_> = own.into_iter().flatten().chain(orphans).collect();
        both.sort_by_key(|(key, _)| *key);
        both.into_iter().map(|(_, place)| *place).collect()
    }

    /// The place of the object with this key; a free one if the key is new.
    pub(super) fn place(&mut self, key: &Key) -> Place {
        let next = self.free.last().copied();
        let next = next.unwrap_or_else(|| Place::new(self.places.len()));
        let place = *self.places.entry(key.clone()).or_insert(next);
        if place == next {
            self.free.pop();
        }
        place
    }

    /// Frees the place of the object with this key.
    pub(super) fn remove(&mut self, key: &str) -> Option<(Key, Place)> {
        let (key, place) = self.places.remove_entry(key)?;
        self.free.push(place);
        Some((key, place))
    }

    /// Notes that the object at `place` had the metadata `old`, and now has `new`.
    pub(super) fn changed(
        &mut self,
        (key, place): (&Key, Place),
        old: Option<&ObjectMeta>,
        new: Option<&ObjectMeta>,
    ) {
        let Some(index) = self.by_controller.get_mut() else {
            return;
        };
        if old.map(controller) == new.map(controller) {
            return;
        }
        if let Some(old) = old {
            remove_from(index, key, &controller_key(old));
        }
        if let Some(new) = new {
            let of_controller = index.entry(controller_key(new)).or_default();
            of_controller.insert(key.clone(), place);
        }
    }

    /// Takes their places from all objects, and returns these.
    pub(super) fn clear(&mut self) -> Places {
        self.free.clear();
        if let Some(index) = self.by_controller.get_mut() {
            index.clear();
        }
        std::mem::take(&mut self.places)
    }
}

/// The keys in their order, each with its place among `keys`. Equal keys stay in the order of their places.
pub(super) fn ordered(keys: Vec<Key>) -> Vec<(Key, Place)> {
    let places = keys.into_iter().enumerate();
    let mut ordered: Vec<_> = places
        .map(|(place, key)| (key, Place::new(place)))
        .collect();
    ordered.sort();
    ordered
}

fn remove_from(index: &mut BTreeMap<String, Places>, key: &Key, controller: &str) {
    if let Some(of) = index.get_mut(controller) {
        of.remove(key);
        if of.is_empty() {
            index.remove(controller);
        }
    }
}

/// The namespace of an object and the uid of its controller, empty if it has none.
fn controller(meta: &ObjectMeta) -> (&str, &str) {
    let namespace = meta.namespace.as_deref();
    let uid = controller_of(meta).map(|owner| owner.uid.as_str());
    (namespace.unwrap_or_default(), uid.unwrap_or_default())
}

/// [`controller`] as one text.
fn controller_key(meta: &ObjectMeta) -> String {
    let (namespace, uid) = controller(meta);
    keys::text(namespace, uid)
}

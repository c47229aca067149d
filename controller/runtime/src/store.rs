//! The objects of one resource by key, as a watch has delivered them.
//!
//! kube's reflector `Store` has no order and no indexes, and does not report the object that an
//! event replaced; a deterministic controller needs all three. A `Store` is plain data: an
//! [`Informer`](super::informer::Informer) shares one between tasks, and a controller with a single
//! loop owns its stores (see [`Watches`](super::reflector::Watches)).

mod index;
mod keys;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use kubeproof_machinery::meta::ResourceVersion;

use index::{Index, Place};
use keys::Key;

/// Namespace (empty at cluster scope) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Empty at cluster scope.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl ObjectKey {
    /// The key of `object`.
    pub fn of(object: &impl Resource) -> Self {
        Self {
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }
}

/// The change of one key, as event handlers get it.
#[derive(Debug)]
pub enum Change<K> {
    /// The key is new to the store.
    Added(Arc<K>),
    /// The object replaced an older version, or another object of the same name.
    Updated {
        /// The version that the store held.
        old: Arc<K>,
        /// The version that it holds now.
        new: Arc<K>,
    },
    /// The object is gone.
    Deleted {
        /// The version that the store held.
        old: Arc<K>,
        /// The final state by the event. If the deletion was missed and a list lacks the object,
        /// it is `old` (client-go's `DeletedFinalStateUnknown`).
        last: Arc<K>,
    },
}

impl<K> Change<K> {
    /// The newest version of the object.
    pub fn object(&self) -> &Arc<K> {
        let (Self::Added(object)
        | Self::Updated { new: object, .. }
        | Self::Deleted { last: object, .. }) = self;
        object
    }

    /// The version that an update replaced.
    pub fn replaced(&self) -> Option<&Arc<K>> {
        match self {
            Self::Updated { old, .. } => Some(old),
            Self::Added(_) | Self::Deleted { .. } => None,
        }
    }

    /// The versions that the store held before and holds now.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<K>> {
        let (before, now) = match self {
            Self::Added(new) => (None, Some(new)),
            Self::Updated { old, new } => (Some(old), Some(new)),
            Self::Deleted { old, .. } => (Some(old), None),
        };
        before.into_iter().chain(now)
    }
}

impl<K: Resource> Change<K> {
    /// The key that changed.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::of(&**self.object())
    }

    /// Whether a list has delivered the version that the store held already.
    fn is_resync(&self) -> bool {
        let Self::Updated { old, new } = self else {
            return false;
        };
        let (old, new) = (old.meta(), new.meta());
        old.resource_version == new.resource_version && old.uid == new.uid
    }

    /// Splits an update between two objects of one name into a deletion and an addition.
    fn by_uid(self) -> Vec<Self> {
        match self {
            Self::Updated { old, new } if old.meta().uid != new.meta().uid => vec![
                Self::Deleted {
                    last: Arc::clone(&old),
                    old,
                },
                Self::Added(new),
            ],
            one => vec![one],
        }
    }
}

/// A write with which a store has to catch up; the greater, the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrittenVersion {
    /// The resourceVersion.
    pub rv: ResourceVersion,
    lists_begun: u64,
}

/// The last version of every object that a watch has delivered.
#[derive(Debug)]
pub struct Store<K> {
    /// Each at its place in the index.
    objects: Vec<Option<Arc<K>>>,
    index: Index,
    /// The objects of a list until it ends.
    listing: Vec<Arc<K>>,
    /// The highest resourceVersion since the last list.
    high_water_mark: ResourceVersion,
    /// The number of lists that have begun and ended.
    lists_begun: u64,
    lists_ended: u64,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            index: Index::default(),
            listing: Vec::new(),
            high_water_mark: ResourceVersion::ZERO,
            lists_begun: 0,
            lists_ended: 0,
        }
    }
}

impl<K: Resource> Store<K> {
    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.lists_ended > 0
    }

    /// The object at `key`.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        let text = keys::text(&key.namespace, &key.name);
        self.index.get(&text).map(|place| self.at(place))
    }

    fn at(&self, place: Place) -> &Arc<K> {
        let object = self.objects[place.index()].as_ref();
        object.expect("the index names the places with objects")
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, by namespace, then name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.index.all().map(|place| self.at(*place))
    }

    /// The objects of `namespace`, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        let places = self.index.in_namespace(namespace);
        places.map(|place| self.at(place))
    }

    /// The objects of `namespace` that the owner `uid` controls, by name.
    pub fn controlled_by(&self, namespace: &str, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        let own = match uid {
            "" => None,
            _ => self.index.controlled_by(namespace, uid, &self.metadata()),
        };
        let places = own.into_iter().flat_map(index::Places::values);
        places.map(|place| self.at(*place))
    }

    /// The number of objects of `namespace` that the owner `uid` controls.
    pub fn count_controlled_by(&self, namespace: &str, uid: &str) -> usize {
        let own = self.index.controlled_by(namespace, uid, &self.metadata());
        own.map_or(0, index::Places::len)
    }

    /// Returns the objects of `namespace` without a controller or with the controller `uid`, by
    /// name.
    ///
    /// Objects of other controllers are not visited: the cost does not grow with their number.
    /// Source: upstream's index `podController` of `pkg/controller/controller_utils.go`.
    pub fn claimable(&self, namespace: &str, uid: &str) -> Vec<&Arc<K>> {
        let places = self.index.claimable(namespace, uid, &self.metadata());
        places.into_iter().map(|place| self.at(place)).collect()
    }

    fn metadata<'a>(&'a self) -> impl Fn(Place) -> &'a ObjectMeta {
        |place| self.at(place).meta()
    }

    /// Notes a write of this resource that brought it to version `rv`.
    pub fn wrote_at(&self, rv: ResourceVersion) -> WrittenVersion {
        WrittenVersion {
            rv,
            lists_begun: self.lists_begun,
        }
    }

    /// Whether the store holds `written` or something newer.
    ///
    /// A list begun after the write contains it, even if no object of the list is as new.
    ///
    /// # Errors
    /// The high-water mark, if the store is stale.
    pub fn ensure_ready(&self, written: WrittenVersion) -> Result<(), ResourceVersion> {
        if self.high_water_mark >= written.rv || self.lists_ended > written.lists_begun {
            return Ok(());
        }
        Err(self.high_water_mark)
    }

    /// Applies a watch event and returns the changes by key. The changes of a list are in the
    /// order of the keys, deletions last, and include the objects that did not change (upstream's
    /// resync).
    pub fn apply(&mut self, event: Event<Arc<K>>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.lists_begun += 1;
                self.listing.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listing.push(object);
                Vec::new()
            }
            Event::InitDone => {
                self.lists_ended = self.lists_begun;
                self.replace()
            }
            Event::Apply(object) => vec![self.put(&Key::of(&*object), object)],
            Event::Delete(last) => {
                self.high_water_mark = self.high_water_mark.max(resource_version(&*last));
                let old = self.remove(&*last);
                let old = old.unwrap_or_else(|| Arc::clone(&last));
                vec![Change::Deleted { old, last }]
            }
        }
    }

    /// Applies a watch event as [`Store::apply`] does, and returns the changes by uid: without
    /// resyncs, and with a deletion and an addition for a name that passed to another object.
    pub fn apply_by_uid(&mut self, event: Event<Arc<K>>) -> Vec<Change<K>> {
        let is_list = matches!(event, Event::InitDone);
        let changes = self.apply(event).into_iter();
        let changes = changes.filter(|change| !is_list || !change.is_resync());
        changes.flat_map(Change::by_uid).collect()
    }

    /// Replaces the objects by those of a list; an object that the list lacks was deleted unseen.
    fn replace(&mut self) -> Vec<Change<K>> {
        // A restarted server has lower versions than the one before.
        self.high_water_mark = ResourceVersion::ZERO;
        let mut unlisted = self.index.clear();
        let mut before = std::mem::take(&mut self.objects);
        let listed = std::mem::take(&mut self.listing);
        let keys = listed.iter().map(|new| Key::of(&**new)).collect();
        let mut listed: Vec<_> = listed.into_iter().map(Some).collect();
        let mut changes = Vec::with_capacity(listed.len());
        for (key, place) in index::ordered(keys) {
            let new = listed[place.index()].take().expect("each place comes once");
            let old = unlisted.remove(&key);
            let old = old.and_then(|place| before[place.index()].take());
            let _ = self.put(&key, Arc::clone(&new));
            changes.push(match old {
                Some(old) => Change::Updated { old, new },
                None => Change::Added(new),
            });
        }
        let deleted = unlisted
            .values()
            .filter_map(|place| before[place.index()].take());
        changes.extend(deleted.map(|old| Change::Deleted {
            last: Arc::clone(&old),
            old,
        }));
        changes
    }

    fn put(&mut self, key: &Key, new: Arc<K>) -> Change<K> {
        self.high_water_mark = self.high_water_mark.max(resource_version(&*new));
        let place = self.index.place(key);
        if place.index() == self.objects.len() {
            self.objects.push(None);
        }
        let old = self.objects[place.index()].replace(Arc::clone(&new));
        let before = old.as_ref().map(|old| old.meta());
        self.index.changed((key, place), before, Some(new.meta()));
        match old {
            Some(old) => Change::Updated { old, new },
            None => Change::Added(new),
        }
    }

    fn remove(&mut self, object: &K) -> Option<Arc<K>> {
        let (key, place) = self.index.remove(&keys::text_of(object))?;
        let removed = self.objects[place.index()].take()?;
        self.index
            .changed((&key, place), Some(removed.meta()), None);
        Some(removed)
    }
}

/// The version of `object`, zero if that is not a number: API concepts let clients compare
/// resourceVersions of one resource as integers.
pub fn resource_version(object: &impl ResourceExt) -> ResourceVersion {
    object
        .resource_version()
        .and_then(|rv| rv.parse().ok())
        .unwrap_or_default()
}

/// The uid, empty if it is absent.
pub fn uid(object: &impl Resource) -> String {
    object.uid().unwrap_or_default()
}

#[cfg(test)]
mod tests;

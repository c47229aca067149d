//! An ordered cache of one resource, fed by kube's watcher.
//!
//! kube's reflector `Store` has no order and no namespace index, and does not report the object
//! that an event replaced; a deterministic controller needs all three.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::controller_ref::controller_of;
use crate::mirror;
use crate::shared::Shared;

/// How many turns of the runtime a write's own event is waited for.
const FOLLOW_TURNS_MAX: usize = 64;

/// The last version of every object that the watch delivered.
pub struct Informer<K> {
    state: Mutex<State<K>>,
    synced: watch::Sender<bool>,
}

struct State<K> {
    /// By namespace, then name.
    objects: BTreeMap<String, BTreeMap<String, Arc<K>>>,
    /// The objects by namespace and uid of the controller, empty for orphans; then by name.
    by_controller: BTreeMap<(String, String), BTreeMap<String, Arc<K>>>,
    /// Collected between the start and the end of a list.
    listing: Vec<Arc<K>>,
    /// The highest resourceVersion seen.
    seen: u64,
    /// How many lists have begun and ended.
    lists_begun: u64,
    lists_ended: u64,
}

/// The effect of an event on the cache.
#[derive(Debug)]
pub enum Change<K> {
    /// The object is new to the cache.
    Added(Arc<K>),
    /// The object replaced an older version.
    Updated {
        /// The version before the event.
        old: Arc<K>,
        /// The version of the event.
        new: Arc<K>,
    },
    /// The object is gone; this is its last version.
    Deleted(Arc<K>),
}

/// A write that the cache has to catch up with; the greater, the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// The resourceVersion of the write.
    pub rv: u64,
    lists_begun: u64,
}

impl<K: Resource> Informer<K> {
    /// An empty cache, which no list has filled.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State::new()),
            synced: watch::Sender::new(false),
        }
    }

    /// The object of this name; `namespace` is empty at cluster scope.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.state.lock().objects.get(namespace)?.get(name).cloned()
    }

    /// The objects of `namespace`, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let state = self.state.lock();
        state
            .objects
            .get(namespace)
            .map(|of| of.values().cloned().collect())
            .unwrap_or_default()
    }

    /// The objects of `namespace` that the owner `uid` controls, by name.
    pub fn controlled_by(&self, namespace: &str, uid: &str) -> Vec<Arc<K>> {
        let state = self.state.lock();
        let key = (namespace.to_owned(), uid.to_owned());
        let own = state.by_controller.get(&key).filter(|_| !uid.is_empty());
        own.into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// How many these are.
    pub fn count_controlled_by(&self, namespace: &str, uid: &str) -> usize {
        let state = self.state.lock();
        let key = (namespace.to_owned(), uid.to_owned());
        state.by_controller.get(&key).map_or(0, BTreeMap::len)
    }

    /// Returns the objects of `namespace` without a controller or with the controller `uid`, by
    /// name.
    ///
    /// Objects of other controllers are not visited: the cost does not grow with their number.
    /// Source: upstream's index `podController` of `pkg/controller/controller_utils.go`.
    pub fn claimable(&self, namespace: &str, uid: &str) -> Vec<Arc<K>> {
        let state = self.state.lock();
        let of = |uid: &str| {
            state
                .by_controller
                .get(&(namespace.to_owned(), uid.to_owned()))
        };
        let (own, orphans) = (of(uid), of("").filter(|_| !uid.is_empty()));
        let both = own.into_iter().chain(orphans).flatten();
        let mut both: Vec<(&String, &Arc<K>)> = both.collect();
        both.sort_by_key(|(name, _)| *name);
        both.into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// All objects, by namespace, then name.
    pub fn all(&self) -> Vec<Arc<K>> {
        let state = self.state.lock();
        let objects = state.objects.values().flat_map(BTreeMap::values);
        objects.cloned().collect()
    }

    /// Notes a write of this resource that brought it to version `rv`.
    pub fn written(&self, rv: u64) -> Written {
        Written {
            rv,
            lists_begun: self.state.lock().lists_begun,
        }
    }

    /// Whether the cache holds `written` or something newer, and otherwise up to where it is.
    ///
    /// A list begun after the write contains it, even when nothing in it is as new.
    pub fn caught_up(&self, written: Written) -> Result<(), u64> {
        let state = self.state.lock();
        if state.seen >= written.rv || state.lists_ended > written.lists_begun {
            return Ok(());
        }
        Err(state.seen)
    }

    /// Lets the watch deliver `written`, if it is about to: where the server is near, an answer comes
    /// sooner than the event, which elsewhere comes while the answer is under way.
    pub async fn follow(&self, written: Written) {
        for _ in 0..FOLLOW_TURNS_MAX {
            if self.caught_up(written).is_ok() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits for the first list.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender lives as long as `self`.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Watches `api` and reports each change after the cache has taken it. Never returns.
    pub async fn run(&self, api: Api<Shared<K>>, on_change: impl FnMut(Change<K>))
    where
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.run_with(api, watcher::Config::default(), on_change)
            .await;
    }

    /// As [`Informer::run`], of what `config` selects.
    pub async fn run_with(
        &self,
        api: Api<Shared<K>>,
        config: watcher::Config,
        mut on_change: impl FnMut(Change<K>),
    ) where
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let path = api.resource_url().to_owned();
        let events = mirror::patient(move || watcher(api.clone(), config.clone()));
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let listed = matches!(event, watcher::Event::InitDone);
                    let changes = self.state.lock().take(Shared::unwrap(event));
                    changes.into_iter().for_each(&mut on_change);
                    if listed {
                        self.synced.send_replace(true);
                    }
                }
                Err(error) => mirror::warn_of(&path, &error),
            }
        }
    }
}

impl<K: Resource> State<K> {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            by_controller: BTreeMap::new(),
            listing: Vec::new(),
            seen: 0,
            lists_begun: 0,
            lists_ended: 0,
        }
    }

    fn take(&mut self, event: watcher::Event<Arc<K>>) -> Vec<Change<K>> {
        match event {
            watcher::Event::Init => {
                self.lists_begun += 1;
                self.listing.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listing.push(object);
                Vec::new()
            }
            watcher::Event::InitDone => {
                self.lists_ended = self.lists_begun;
                self.replace()
            }
            watcher::Event::Apply(object) => vec![self.put(object)],
            watcher::Event::Delete(object) => {
                self.seen = self.seen.max(resource_version(&*object));
                self.remove(&object);
                vec![Change::Deleted(object)]
            }
        }
    }

    /// Takes over a list; objects that it lacks were deleted unseen.
    fn replace(&mut self) -> Vec<Change<K>> {
        // A restarted server has lower versions than the one before.
        self.seen = 0;
        let before = std::mem::take(&mut self.objects);
        self.by_controller.clear();
        let listed = std::mem::take(&mut self.listing);
        let mut changes = Vec::new();
        for new in listed {
            let old = before
                .get(&key(&*new).0)
                .and_then(|of| of.get(&key(&*new).1))
                .cloned();
            let _ = self.put(new.clone());
            changes.push(match old {
                Some(old) => Change::Updated { old, new },
                None => Change::Added(new),
            });
        }
        for (namespace, objects) in before {
            for (name, old) in objects {
                if !self
                    .objects
                    .get(&namespace)
                    .is_some_and(|of| of.contains_key(&name))
                {
                    changes.push(Change::Deleted(old));
                }
            }
        }
        changes
    }

    fn put(&mut self, new: Arc<K>) -> Change<K> {
        self.seen = self.seen.max(resource_version(&*new));
        let (namespace, name) = key(&*new);
        let old = self
            .objects
            .entry(namespace)
            .or_default()
            .insert(name.clone(), new.clone());
        if let Some(old) = &old {
            self.unindex(old);
        }
        self.by_controller
            .entry(controller_key(&*new))
            .or_default()
            .insert(name, new.clone());
        match old {
            Some(old) => Change::Updated { old, new },
            None => Change::Added(new),
        }
    }

    fn remove(&mut self, object: &K) {
        let (namespace, name) = key(object);
        let Some(of) = self.objects.get_mut(&namespace) else {
            return;
        };
        let removed = of.remove(&name);
        if of.is_empty() {
            self.objects.remove(&namespace);
        }
        if let Some(removed) = removed {
            self.unindex(&removed);
        }
    }

    fn unindex(&mut self, object: &K) {
        let key = controller_key(object);
        if let Some(of) = self.by_controller.get_mut(&key) {
            of.remove(&object.name_any());
            if of.is_empty() {
                self.by_controller.remove(&key);
            }
        }
    }
}

/// The namespace and the uid of the object's controller, empty if it has no controller.
fn controller_key<K: Resource>(object: &K) -> (String, String) {
    let controller = controller_of(object.meta()).map(|owner| owner.uid.clone());
    (
        object.namespace().unwrap_or_default(),
        controller.unwrap_or_default(),
    )
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The version of `object`, 0 if that is not a number: API concepts let clients compare
/// resourceVersions of one resource as integers.
pub fn resource_version(object: &impl ResourceExt) -> u64 {
    object
        .resource_version()
        .and_then(|rv| rv.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::runtime::watcher::Event;

    use super::*;

    fn config_map(name: &str, rv: u64) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("default".to_owned());
        object.metadata.name = Some(name.to_owned());
        object.metadata.resource_version = Some(rv.to_string());
        Arc::new(object)
    }

    fn told(changes: &[Change<ConfigMap>]) -> Vec<String> {
        let told = |change: &Change<ConfigMap>| match change {
            Change::Added(new) => format!("+{}", new.name_any()),
            Change::Updated { old, new } => {
                format!(
                    "{}:{}->{}",
                    new.name_any(),
                    resource_version(&**old),
                    resource_version(&**new)
                )
            }
            Change::Deleted(old) => format!("-{}", old.name_any()),
        };
        changes.iter().map(told).collect()
    }

    #[test]
    fn a_second_list_reports_what_came_changed_and_went() {
        let informer = Informer::<ConfigMap>::new();
        let mut state = informer.state.lock();
        let mut changes = Vec::new();
        let events = [
            Event::Init,
            Event::InitApply(config_map("a", 1)),
            Event::InitApply(config_map("b", 2)),
            Event::InitDone,
            Event::Apply(config_map("a", 3)),
            Event::Init,
            Event::InitApply(config_map("a", 5)),
            Event::InitApply(config_map("c", 4)),
            Event::InitDone,
            Event::Delete(config_map("c", 6)),
        ];
        for event in events {
            changes.extend(state.take(event));
        }
        assert_eq!(
            told(&changes),
            ["+a", "+b", "a:1->3", "a:3->5", "+c", "-b", "-c"]
        );
        assert_eq!(state.seen, 6);
    }

    fn controlled(name: &str, rv: u64, uid: &str) -> Arc<ConfigMap> {
        let mut object = ConfigMap::clone(&config_map(name, rv));
        object.metadata.owner_references = Some(vec![OwnerReference {
            uid: uid.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        Arc::new(object)
    }

    #[test]
    fn what_an_owner_may_claim_follows_the_owner_references() {
        let informer = Informer::<ConfigMap>::new();
        let take = |event| drop(informer.state.lock().take(event));
        let claimable = |uid: &str| -> Vec<String> {
            let objects = informer.claimable("default", uid);
            objects.iter().map(|object| object.name_any()).collect()
        };
        take(Event::Init);
        take(Event::InitApply(controlled("c", 1, "one")));
        take(Event::InitApply(config_map("b", 2)));
        take(Event::InitApply(controlled("a", 3, "one")));
        take(Event::InitApply(controlled("d", 4, "two")));
        take(Event::InitDone);
        assert_eq!(claimable("one"), ["a", "b", "c"]);
        assert_eq!(claimable("two"), ["b", "d"]);
        take(Event::Apply(controlled("a", 5, "two")));
        take(Event::Apply(config_map("c", 6)));
        take(Event::Delete(config_map("b", 7)));
        assert_eq!(claimable("one"), ["c"]);
        assert_eq!(claimable("two"), ["a", "c", "d"]);
        take(Event::Init);
        take(Event::InitApply(controlled("d", 4, "two")));
        take(Event::InitDone);
        assert_eq!(claimable("one"), [""; 0]);
        assert_eq!(claimable("two"), ["d"]);
    }

    #[test]
    fn a_write_is_caught_up_by_its_event_or_by_a_later_list() {
        let informer = Informer::<ConfigMap>::new();
        let _ = informer.state.lock().take(Event::Init);
        let _ = informer.state.lock().take(Event::InitDone);
        let written = informer.written(7);
        assert_eq!(informer.caught_up(written), Err(0));
        let _ = informer.state.lock().take(Event::Apply(config_map("b", 8)));
        assert_eq!(informer.caught_up(written), Ok(()));

        let deleted_meanwhile = informer.written(9);
        assert_eq!(informer.caught_up(deleted_meanwhile), Err(8));
        let _ = informer.state.lock().take(Event::Init);
        assert_eq!(informer.caught_up(deleted_meanwhile), Err(8));
        let _ = informer.state.lock().take(Event::InitDone);
        assert_eq!(informer.caught_up(deleted_meanwhile), Ok(()));
    }
}

//! A store that is fed by a watch of its own and shared between the tasks of a controller.

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::watcher;
use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::decode_cache::Decoded;
use super::reflector;
use super::store::{Change, ObjectKey, Store, WrittenVersion};

/// How many turns of the runtime a write's own event is waited for.
const WAIT_TURNS_MAX: usize = 64;

/// The last version of every object that the watch delivered.
pub struct Informer<K> {
    store: Mutex<Store<K>>,
    synced: watch::Sender<bool>,
}

impl<K: Resource> Default for Informer<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Resource> Informer<K> {
    /// An informer that has not listed yet.
    pub fn new() -> Self {
        Self {
            store: Mutex::default(),
            synced: watch::Sender::new(false),
        }
    }

    /// The object of that namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.store.lock().get(&key).cloned()
    }

    /// The objects of `namespace`, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.store.lock().in_namespace(namespace).cloned().collect()
    }

    /// The objects of `namespace` that the owner `uid` controls, by name.
    pub fn controlled_by(&self, namespace: &str, uid: &str) -> Vec<Arc<K>> {
        let store = self.store.lock();
        store.controlled_by(namespace, uid).cloned().collect()
    }

    /// The number of objects of `namespace` that the owner `uid` controls.
    pub fn count_controlled_by(&self, namespace: &str, uid: &str) -> usize {
        self.store.lock().count_controlled_by(namespace, uid)
    }

    /// The objects of `namespace` without a controller or with the controller `uid`, by name; see
    /// [`Store::claimable`].
    pub fn claimable(&self, namespace: &str, uid: &str) -> Vec<Arc<K>> {
        let store = self.store.lock();
        store
            .claimable(namespace, uid)
            .into_iter()
            .cloned()
            .collect()
    }

    /// All objects, by namespace, then name.
    pub fn all(&self) -> Vec<Arc<K>> {
        let store = self.store.lock();
        store.iter().map(|(_, object)| object.clone()).collect()
    }

    /// Notes a write of this resource that brought it to version `rv`.
    pub fn wrote_at(&self, rv: u64) -> WrittenVersion {
        self.store.lock().wrote_at(rv)
    }

    /// Whether the store holds `written` or something newer; see [`Store::ensure_ready`].
    ///
    /// # Errors
    /// The high-water mark, if the store is stale.
    pub fn ensure_ready(&self, written: WrittenVersion) -> Result<(), u64> {
        self.store.lock().ensure_ready(written)
    }

    /// Lets the watch deliver `written`, if it is about to: where the server is near, an answer comes
    /// sooner than the event, which elsewhere comes while the answer is under way.
    pub async fn wait_for(&self, written: WrittenVersion) {
        for _ in 0..WAIT_TURNS_MAX {
            if self.ensure_ready(written).is_ok() {
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

    /// Watches `api` and calls the handler with each change after the store has taken it. Never
    /// returns.
    pub async fn run(&self, api: Api<Decoded<K>>, on_change: impl FnMut(Change<K>))
    where
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.run_with(api, watcher::Config::default(), on_change)
            .await;
    }

    /// Watches the objects that `config` selects; see [`Informer::run`].
    pub async fn run_with(
        &self,
        api: Api<Decoded<K>>,
        config: watcher::Config,
        mut on_change: impl FnMut(Change<K>),
    ) where
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut events = std::pin::pin!(reflector::events(api, config));
        while let Some(event) = events.next().await {
            // A failure is logged, and the watch begins again.
            let Ok(event) = event else { continue };
            let is_list = matches!(event, watcher::Event::InitDone);
            let changes = self.store.lock().apply(event);
            changes.into_iter().for_each(&mut on_change);
            if is_list {
                self.synced.send_replace(true);
            }
        }
    }
}

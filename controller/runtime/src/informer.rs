//! A store that is fed by a watch and shared between the tasks of a controller.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::{BoxFuture, join, join_all};
use futures::{FutureExt, StreamExt};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use kubeproof_machinery::meta::ResourceVersion;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::decode_cache::Decoded;
use super::reflector;
use super::store::{Change, ObjectKey, Store, WrittenVersion};

/// How many turns of the runtime a write's own event is waited for.
pub(crate) const WAIT_TURNS_MAX: usize = 64;

/// Is called with each change.
type Handler<'a, K> = Box<dyn FnMut(&Change<K>) + Send + 'a>;

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

    /// The number of objects of `namespace` that the owner `uid` controls and for which `is_counted` holds. It is called
    /// under the lock of the store, so it must not ask this informer.
    pub fn count_controlled_where(
        &self,
        namespace: &str,
        uid: &str,
        mut is_counted: impl FnMut(&K) -> bool,
    ) -> usize {
        let store = self.store.lock();
        let own = store.controlled_by(namespace, uid);
        own.filter(|object| is_counted(object)).count()
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
        self.store.lock().iter().cloned().collect()
    }

    /// Notes a write of this resource that brought it to version `rv`.
    pub fn wrote_at(&self, rv: ResourceVersion) -> WrittenVersion {
        self.store.lock().wrote_at(rv)
    }

    /// Whether the store holds `written` or something newer; see [`Store::ensure_ready`].
    ///
    /// # Errors
    /// The high-water mark, if the store is stale.
    pub fn ensure_ready(&self, written: WrittenVersion) -> Result<(), ResourceVersion> {
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

    /// Lets the watch deliver the deletion of an object, if it is about to; see [`Informer::wait_for`].
    pub async fn wait_for_deletion(&self, object: &K) {
        let key = ObjectKey::of(object);
        for _ in 0..WAIT_TURNS_MAX {
            let known = self.get(&key.namespace, &key.name);
            if known.is_none_or(|known| known.meta().uid != object.meta().uid) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits for the first list.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + use<K> {
        becomes_true(self.synced.subscribe())
    }

    /// Watches the objects of `api` that `config` selects, and calls the handler with each change
    /// after the store has taken it. Never returns.
    pub fn run<'a>(
        &'a self,
        api: Api<Decoded<K>>,
        config: watcher::Config,
        handler: impl FnMut(&Change<K>) + Send + 'a,
    ) -> impl Future<Output = ()> + Send
    where
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.run_boxed(api, config, Box::new(handler))
    }

    async fn run_boxed(
        &self,
        api: Api<Decoded<K>>,
        config: watcher::Config,
        mut handler: Handler<'_, K>,
    ) where
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut events = std::pin::pin!(reflector::shared_events(api, config));
        while let Some(event) = events.next().await {
            // A failure is logged, and the watch begins again.
            let Ok(event) = event else { continue };
            let is_list = matches!(event, watcher::Event::InitDone);
            let changes = self.store.lock().apply(event);
            changes.iter().for_each(&mut handler);
            if is_list {
                self.synced.send_replace(true);
            }
        }
    }
}

/// Waits until the value is true, or its sender is gone.
async fn becomes_true(mut value: watch::Receiver<bool>) {
    let _ = value.wait_for(|value| *value).await;
}

/// The informers of a controller, each with its event handler.
pub struct Informers<'a> {
    client: Client,
    watches: Vec<BoxFuture<'a, ()>>,
    synced: Vec<BoxFuture<'a, ()>>,
}

impl<'a> Informers<'a> {
    /// No informers yet; those of [`Informers::add`] will use `client`.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            watches: Vec::new(),
            synced: Vec::new(),
        }
    }

    /// Adds the informer of all objects of a kind.
    #[must_use]
    pub fn add<K>(
        self,
        informer: &'a Informer<K>,
        handler: impl FnMut(&Change<K>) + Send + 'a,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let api = Api::all(self.client.clone());
        self.add_with(informer, api, watcher::Config::default(), handler)
    }

    /// Adds the informer of the objects of `api` that `config` selects.
    #[must_use]
    pub fn add_with<K>(
        mut self,
        informer: &'a Informer<K>,
        api: Api<Decoded<K>>,
        config: watcher::Config,
        handler: impl FnMut(&Change<K>) + Send + 'a,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.watches
            .push(informer.run(api, config, handler).boxed());
        self.synced.push(informer.synced().boxed());
        self
    }

    /// Runs `task` next to the informers, without waiting for their lists.
    #[must_use]
    pub fn with(mut self, task: impl Future<Output = ()> + Send + 'a) -> Self {
        self.watches.push(task.boxed());
        self
    }

    /// Runs the informers until the future is dropped, and `work` when all are synced.
    pub fn run(
        self,
        work: impl Future<Output = ()> + Send + 'a,
    ) -> impl Future<Output = ()> + Send {
        self.run_boxed(work.boxed())
    }

    async fn run_boxed(self, work: BoxFuture<'a, ()>) {
        let work = async {
            for synced in self.synced {
                synced.await;
            }
            work.await;
        };
        join(join_all(self.watches), work).await;
    }
}

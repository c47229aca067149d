//! A namespace of a cluster that is there already, as its watches show it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::{Clock, EventType, JournalEntry};
use kubeproof_machinery::json::Value;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::pauses::Pauses;
use super::target::{OwnNodes, Target};
use crate::api::{Api, ApiError};
use crate::quiescence::{NotSettled, Quiescence};
use crate::recording::RESOURCES;
use crate::testbed::SETTLE_REAL_TIME_MAX;

/// Watches that have not caught up after this long are given up.
const LAG_MAX: Duration = Duration::from_secs(30);
const LAG_POLL: Duration = Duration::from_millis(100);

/// A cluster that cannot be used, or does not settle.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Discovery or a list fails.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The watches do not deliver the listed objects.
    #[error("the watches of the cluster lag behind its lists")]
    WatchesLag,
    /// Writes continue.
    #[error(transparent)]
    NotSettled(#[from] NotSettled),
}

/// The watches of one namespace and the objects that they have shown.
pub(super) struct RemoteCluster {
    api: Api,
    /// The cluster counts as settled after this long without a change, in addition to the pauses of the step.
    quiet: Duration,
    pauses: Pauses,
    /// The step that is taken; `None` before the first one.
    step: Mutex<Option<usize>>,
    client: kube::Client,
    nodes: Option<OwnNodes>,
    clock: Clock,
    /// With the name of each resource.
    watched: Vec<(kube::Api<DynamicObject>, String)>,
    seen: Arc<Seen>,
    watches: JoinSet<()>,
}

type Versions = BTreeMap<(String, String), Option<String>>;

struct Seen {
    entries: Mutex<Vec<JournalEntry>>,
    /// The versions of existing objects, by plural and name.
    present: Mutex<Versions>,
    latest: watch::Sender<u64>,
}

impl RemoteCluster {
    /// Watches a namespace of the cluster, with that cluster's own controllers. It counts as settled when nothing has
    /// changed for the time of `target`, added to the longest of the `pauses` in the step.
    ///
    /// # Errors
    /// [`RemoteError::Api`] when discovery fails.
    pub(super) async fn watch(
        target: &Target,
        namespace: &str,
        pauses: Pauses,
    ) -> Result<Self, RemoteError> {
        let client = target.client.clone();
        let api = Api::discover(client.clone()).await?.within(namespace);
        let clock = Clock::real();
        let seen = Arc::new(Seen {
            entries: Mutex::default(),
            present: Mutex::default(),
            latest: watch::Sender::new(0),
        });
        let mut watches = JoinSet::new();
        let mut watched = Vec::new();
        for (group, version, kind, plural) in RESOURCES {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
            let is_watched = watched
                .iter()
                .any(|(_, name)| *name == full_name(&resource));
            if is_watched || !api.serves(group, version, plural) {
                continue;
            }
            let objects = kube::Api::namespaced_with(client.clone(), namespace, &resource);
            watched.push((objects.clone(), full_name(&resource)));
            watches.spawn(follow(objects, resource, clock.clone(), Arc::clone(&seen)));
        }
        Ok(Self {
            api,
            quiet: target.quiet,
            pauses,
            step: Mutex::new(None),
            client,
            nodes: target.nodes.clone(),
            clock,
            watched,
            seen,
            watches,
        })
    }

    /// Notes that the step with this index begins.
    pub(super) fn begin_step(&self, index: usize) {
        *self.step.lock() = Some(index);
    }

    /// The API, for a scenario's steps.
    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// The simulated nodes of the run.
    pub(super) fn nodes(&self) -> Option<&OwnNodes> {
        self.nodes.as_ref()
    }

    pub(super) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Waits until nothing has changed for `quiet`, or for the time of this cluster if that is shorter. Returns the
    /// time of the last change.
    ///
    /// # Errors
    /// [`RemoteError::NotSettled`]
    pub(super) async fn settle(&self, quiet: Duration) -> Result<Timestamp, RemoteError> {
        let own = self.quiet + self.pauses.during(*self.step.lock());
        let quiet = quiet.min(own);
        let mut wait = Quiescence::begin(self.now(), quiet, SETTLE_REAL_TIME_MAX + 3 * own);
        while let Some(remaining) = wait.remaining(self.now()) {
            tokio::time::sleep(remaining).await;
            wait.see(&self.journal())?;
        }
        Ok(wait.last())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Watches of several resources deliver in no common order; versions give one.
    pub(super) fn journal(&self) -> Vec<JournalEntry> {
        let mut entries = self.seen.entries.lock().clone();
        entries.sort_by_key(|entry| entry.rv);
        entries
    }

    /// Waits until the watches have shown all that a list shows: they may lag the answers to requests.
    ///
    /// # Errors
    /// [`RemoteError::WatchesLag`] when they never do, and the errors of lists.
    pub(super) async fn caught_up(&self) -> Result<(), RemoteError> {
        let deadline = tokio::time::Instant::now() + LAG_MAX;
        loop {
            let mut listed = Versions::new();
            for (api, plural) in &self.watched {
                for object in api
                    .list(&ListParams::default())
                    .await
                    .map_err(ApiError::from)?
                {
                    let key = (plural.clone(), object.name_any());
                    listed.insert(key, object.metadata.resource_version);
                }
            }
            if *self.seen.present.lock() == listed {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                return Err(RemoteError::WatchesLag);
            }
            tokio::time::sleep(LAG_POLL).await;
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.seen.latest.subscribe()
    }

    pub(super) async fn end(mut self) {
        self.watches.shutdown().await;
    }
}

/// The name that distinguishes a resource from those of other groups.
fn full_name(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// Notes what happens to the objects of one resource.
async fn follow(
    api: kube::Api<DynamicObject>,
    resource: ApiResource,
    clock: Clock,
    seen: Arc<Seen>,
) {
    let gvr = GroupVersionResource {
        group: resource.group.clone(),
        version: resource.version.clone(),
        resource: resource.plural.clone(),
    };
    let mut known: BTreeMap<String, Arc<Value>> = BTreeMap::new();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let (mut object, is_gone) = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                (object, false)
            }
            Ok(watcher::Event::Delete(object)) => (object, true),
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => continue,
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        let version = object.metadata.resource_version.clone();
        let rv = version.as_deref().and_then(|version| version.parse().ok());
        // Items of a list come without their type.
        object.types = Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        let object = Arc::new(kubeproof_machinery::json::to_value(&object).unwrap_or_default());
        let previous = known.get(&name).cloned();
        if !is_gone && previous.as_deref() == Some(&*object) {
            continue;
        }
        let event = match (&previous, is_gone) {
            (_, true) => EventType::Deleted,
            (Some(_), false) => EventType::Modified,
            (None, false) => EventType::Added,
        };
        let key = (full_name(&resource), name.clone());
        if is_gone {
            known.remove(&name);
            seen.present.lock().remove(&key);
        } else {
            known.insert(name, Arc::clone(&object));
            seen.present.lock().insert(key, version);
        }
        let rv = rv.unwrap_or_default();
        seen.entries.lock().push(JournalEntry {
            rv,
            time: clock.now(),
            gvr: gvr.clone(),
            event,
            user_agent: "".into(),
            object: object.into(),
            previous: previous.map(Into::into),
        });
        seen.latest
            .send_modify(|latest| *latest = rv.get().max(*latest));
    }
}

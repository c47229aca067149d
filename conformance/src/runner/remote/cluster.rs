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
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api::Api;

/// A cluster that has not settled after this long is given up.
pub(super) const SETTLE_TIME_MAX: Duration = Duration::from_secs(300);

/// The resources of an outcome: group, version, kind and plural. Of several versions of a resource the first that is
/// served counts.
pub(crate) const WATCHED: &[(&str, &str, &str, &str)] = &[
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "ControllerRevision", "controllerrevisions"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Event", "events"),
    ("apps.kruise.io", "v1beta1", "StatefulSet", "statefulsets"),
    ("apps.kruise.io", "v1beta1", "CloneSet", "clonesets"),
    ("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets"),
];

/// Watches that have not caught up after this long are given up.
const LAG_MAX: Duration = Duration::from_secs(30);
const LAG_POLL: Duration = Duration::from_millis(100);

/// The watches of one namespace and the objects that they have shown.
pub(super) struct Remote {
    /// The cluster counts as settled after this long without a change.
    pub(super) quiet: Duration,
    pub(super) client: kube::Client,
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

impl Remote {
    pub(super) fn watch(client: kube::Client, namespace: &str, api: &Api, quiet: Duration) -> Self {
        let clock = Clock::real();
        let seen = Arc::new(Seen {
            entries: Mutex::default(),
            present: Mutex::default(),
            latest: watch::Sender::new(0),
        });
        let mut watches = JoinSet::new();
        let mut watched = Vec::new();
        for (group, version, kind, plural) in WATCHED {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
            let is_watched = watched.iter().any(|(_, name)| *name == told(&resource));
            if is_watched || !api.serves(group, version, plural) {
                continue;
            }
            let objects = kube::Api::namespaced_with(client.clone(), namespace, &resource);
            watched.push((objects.clone(), told(&resource)));
            watches.spawn(follow(objects, resource, clock.clone(), Arc::clone(&seen)));
        }
        Self {
            quiet,
            client,
            clock,
            watched,
            seen,
            watches,
        }
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

    /// Waits until the watches have shown all that a list shows: they may lag the answers to requests. False when
    /// they never do.
    pub(super) async fn caught_up(&self) -> Result<bool, kube::Error> {
        let deadline = tokio::time::Instant::now() + LAG_MAX;
        loop {
            let mut listed = Versions::new();
            for (api, plural) in &self.watched {
                for object in api.list(&ListParams::default()).await? {
                    let key = (plural.clone(), object.name_any());
                    listed.insert(key, object.metadata.resource_version);
                }
            }
            if *self.seen.present.lock() == listed {
                return Ok(true);
            }
            if tokio::time::Instant::now() > deadline {
                return Ok(false);
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
fn told(resource: &ApiResource) -> String {
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
        let object = Arc::new(serde_json::to_value(&object).unwrap_or_default());
        let previous = known.get(&name).cloned();
        if !is_gone && previous.as_deref() == Some(&*object) {
            continue;
        }
        let event = match (&previous, is_gone) {
            (_, true) => EventType::Deleted,
            (Some(_), false) => EventType::Modified,
            (None, false) => EventType::Added,
        };
        let key = (told(&resource), name.clone());
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
        seen.latest.send_modify(|latest| *latest = rv.max(*latest));
    }
}

//! A watched resource held in memory, as plain data without its watch.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, Stream, StreamExt, stream};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::shared::Shared;

/// The number of watch events that a controller applies before it acts.
const BATCH_EVENTS_MAX: usize = 1024;
/// The wait after the first failure; doubled by each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(800);
/// The longest wait of a controller before it begins a watch again that has failed.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Namespace (empty at cluster scope) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace; empty at cluster scope.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of `object`; missing parts are empty.
    pub fn of(object: &impl Resource) -> Self {
        Self {
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }
}

/// One object's step from `old` to `new`; never a step between two objects of one name.
#[derive(Debug)]
pub struct Change<K> {
    /// The key of the object.
    pub key: ObjectKey,
    /// The version before; `None` for a new object.
    pub old: Option<Arc<K>>,
    /// The version after; `None` for a deleted object.
    pub new: Option<Arc<K>>,
}

/// The objects that a watch has reported so far.
pub struct Mirror<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    incoming: Option<BTreeMap<ObjectKey, Arc<K>>>,
    synced: bool,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            incoming: None,
            synced: false,
        }
    }
}

impl<K: Resource> Mirror<K> {
    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// All objects, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.objects.iter()
    }

    /// Applies a watch event and returns the changes, in key order.
    pub fn handle(&mut self, event: Event<Arc<K>>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.incoming = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                if let Some(incoming) = &mut self.incoming {
                    incoming.insert(ObjectKey::of(&*object), object);
                }
                Vec::new()
            }
            Event::InitDone => {
                self.synced = true;
                let incoming = self.incoming.take().unwrap_or_default();
                let old = std::mem::replace(&mut self.objects, incoming);
                relisted(old, &self.objects)
            }
            Event::Apply(object) => {
                let key = ObjectKey::of(&*object);
                let old = self.objects.insert(key.clone(), Arc::clone(&object));
                split(key, old, Some(object))
            }
            Event::Delete(object) => {
                let key = ObjectKey::of(&*object);
                let old = self.objects.remove(&key);
                split(key, old, None)
            }
        }
    }
}

fn relisted<K: Resource>(
    mut old: BTreeMap<ObjectKey, Arc<K>>,
    new: &BTreeMap<ObjectKey, Arc<K>>,
) -> Vec<Change<K>> {
    let mut changes = Vec::new();
    for (key, object) in new {
        let before = old.remove(key);
        let same = before.as_ref().is_some_and(|before| {
            before.meta().resource_version == object.meta().resource_version
                && before.meta().uid == object.meta().uid
        });
        if !same {
            changes.extend(split(key.clone(), before, Some(Arc::clone(object))));
        }
    }
    for (key, object) in old {
        changes.extend(split(key, Some(object), None));
    }
    changes
}

/// A name that changed hands is a removal and an addition.
fn split<K: Resource>(key: ObjectKey, old: Option<Arc<K>>, new: Option<Arc<K>>) -> Vec<Change<K>> {
    match (old, new) {
        (None, None) => Vec::new(),
        (Some(old), Some(new)) if old.meta().uid != new.meta().uid => vec![
            Change {
                key: key.clone(),
                old: Some(old),
                new: None,
            },
            Change {
                key,
                old: None,
                new: Some(new),
            },
        ],
        (old, new) => vec![Change { key, old, new }],
    }
}

/// The wait before the try after `failures` failures in a row (at least one): doubling, and without
/// jitter, so that the same faults lead to the same requests.
pub fn retry_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

/// The events of the watch that `start` begins, which waits longer after each failure in a row.
///
/// kube's own backoff begins anew with each attempt to list: an attempt is an event of its own, and
/// a server that is away would be asked every 800 ms for as long as it is.
///
/// After the server was unreachable, another server may answer, whose resourceVersions start anew:
/// the watch then restarts with a list. (Upstream's informers continue from the version they know,
/// and receive nothing until the new server has reached it.)
pub fn patient<K, S>(
    start: impl Fn() -> S + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static
where
    K: Send + 'static,
    S: Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
{
    let begin = (start().boxed(), start, 0, false);
    stream::unfold(
        begin,
        |(mut events, start, mut failures, mut is_failed)| async move {
            if is_failed {
                tokio::time::sleep(retry_after(failures)).await;
            }
            let event = events.next().await?;
            is_failed = event.is_err();
            match &event {
                Err(error) => {
                    failures += 1;
                    if is_unreachable(error) {
                        events = start().boxed();
                    }
                }
                Ok(Event::Init) => {}
                Ok(_) => failures = 0,
            }
            Some((event, (events, start, failures, is_failed)))
        },
    )
}

/// Logs the failure of a watch that will be retried.
pub fn warn_of(resource: &str, error: &watcher::Error) {
    tracing::warn!(resource, error = told(error), "watch failed");
}

/// The status that the server returned, or else the error with its causes.
fn told(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => format!("{} {}", status.code, status.message),
        other => with_causes(other),
    }
}

/// An error and its causes, without those that its own message includes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        cause = next.source();
    }
    told
}

/// Whether nothing that speaks HTTP has answered.
fn is_unreachable(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchStartFailed(kube::Error::Service(_) | kube::Error::HyperError(_))
    )
}

/// Watches everything `api` reaches; failures are logged and retried.
pub fn watch<K>(api: Api<Shared<K>>) -> BoxStream<'static, Box<Event<Arc<K>>>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let path = api.resource_url().to_owned();
    patient(move || watcher(api.clone(), watcher::Config::default()))
        .filter_map(move |event| {
            let event = event.inspect_err(|error| warn_of(&path, error));
            std::future::ready(event.ok().map(|event| Box::new(Shared::unwrap(event))))
        })
        .boxed()
}

/// Waits for one update, then takes what else is there already.
///
/// Cancel safety: an update is taken only by the poll that returns it.
pub async fn next_batch<T>(updates: &mut SelectAll<BoxStream<'static, T>>) -> Vec<T> {
    let Some(first) = updates.next().await else {
        return std::future::pending().await;
    };
    let mut batch = vec![first];
    drain(updates, &mut batch);
    batch
}

/// Takes the pending items, without waiting.
pub fn drain<T>(updates: &mut SelectAll<BoxStream<'static, T>>, batch: &mut Vec<T>) {
    while batch.len() < BATCH_EVENTS_MAX {
        let Some(Some(update)) = updates.next().now_or_never() else {
            return;
        };
        batch.push(update);
    }
}

/// Whether `error` is the server's answer with HTTP status `code`.
pub fn answered(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// The uid, empty if it is absent.
pub fn uid(object: &impl Resource) -> String {
    object.uid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(name: &str, uid: &str, rv: &str) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.resource_version = Some(rv.to_owned());
        Arc::new(object)
    }

    fn uids(changes: &[Change<ConfigMap>]) -> Vec<(Option<String>, Option<String>)> {
        let uid = |object: &Option<Arc<ConfigMap>>| object.as_ref().and_then(|o| o.uid());
        changes
            .iter()
            .map(|change| (uid(&change.old), uid(&change.new)))
            .collect()
    }

    #[test]
    fn a_relist_reports_only_what_differs() {
        let mut mirror = Mirror::default();
        for event in [
            Event::Init,
            Event::InitApply(map("a", "1", "1")),
            Event::InitApply(map("b", "2", "2")),
            Event::InitApply(map("c", "3", "3")),
        ] {
            assert!(mirror.handle(event).is_empty());
        }
        assert!(!mirror.is_synced());
        assert_eq!(mirror.handle(Event::InitDone).len(), 3);
        assert!(mirror.is_synced());

        mirror.handle(Event::Init);
        mirror.handle(Event::InitApply(map("a", "1", "1")));
        mirror.handle(Event::InitApply(map("b", "9", "7")));
        let changes = mirror.handle(Event::InitDone);
        let some = |uid: &str| Some(uid.to_owned());
        assert_eq!(
            uids(&changes),
            [(some("2"), None), (None, some("9")), (some("3"), None),]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_longer_although_each_attempt_begins_with_an_event() {
        let attempt = || {
            let failed = watcher::Error::NoResourceVersion;
            [Ok(Event::<Arc<ConfigMap>>::Init), Err(failed)]
        };
        let events = move || stream::iter((0..4).flat_map(move |_| attempt()));
        let mut events = std::pin::pin!(patient(events).take(8));
        let (began, mut begun) = (tokio::time::Instant::now(), Vec::new());
        while let Some(event) = events.next().await {
            if event.is_ok() {
                begun.push(began.elapsed().as_millis());
            }
        }
        assert_eq!(begun, [0, 800, 2400, 5600]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_server_that_cannot_be_reached_the_watch_begins_with_a_list() {
        let lives = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let begun = Arc::clone(&lives);
        let events = move || {
            begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let refused = || kube::Error::Service("connection refused".into());
            let gone = || kube::core::Status::failure("gone", "Expired").with_code(410);
            stream::iter([
                Ok(Event::<Arc<ConfigMap>>::Init),
                Err(watcher::Error::WatchStartFailed(kube::Error::Api(
                    gone().boxed(),
                ))),
                Err(watcher::Error::InitialListFailed(refused())),
                Ok(Event::InitDone),
                Err(watcher::Error::WatchStartFailed(refused())),
                Ok(Event::Apply(map("unseen", "1", "1"))),
            ])
        };
        let seen: Vec<_> = patient(events).take(6).collect().await;
        let inits = seen.iter().filter(|event| matches!(event, Ok(Event::Init)));
        assert_eq!(inits.count(), 2);
        assert_eq!(lives.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    #[test]
    fn an_error_is_told_with_what_it_leaves_to_its_causes() {
        let refused = std::io::Error::other("connection refused");
        let service = kube::Error::Service(Box::new(kube::Error::ReadEvents(refused)));
        assert_eq!(
            told(&watcher::Error::WatchStartFailed(service)),
            "failed to start watching object: ServiceError: Error reading events stream: connection refused"
        );
        let refused = kube::core::Status::failure("no", "Forbidden").with_code(403);
        let refused = watcher::Error::InitialListFailed(kube::Error::Api(refused.boxed()));
        assert_eq!(told(&refused), "403 no");
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        let waits: Vec<_> = (1..8).map(|n| retry_after(n).as_millis()).collect();
        assert_eq!(waits, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000]);
    }
}

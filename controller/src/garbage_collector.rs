//! Deletes objects whose owners are gone, and carries out foreground and orphaning deletion.
//!
//! Every kind that discovery names is watched into a graph. A change of the graph names the
//! objects worth a look; each is then judged by a live read of itself and of its owners, because
//! watches of different kinds run at their own pace. One worker acts in the order of the uids.

mod action;
mod collector;
mod graph;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::discovery::{self, APIResource};
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::reflector::{self, Watches};
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::work_queue::RetryDelays;
use tokio::sync::oneshot;

use self::collector::{Collector, Outcome};
use self::graph::{Graph, GroupKind, Node, Task};
use self::objects::{Change, Objects};

/// A watch event of one kind.
type Update = (Arc<GroupKind>, Event<Arc<Metadata>>);

/// Only metadata matters here.
type Metadata = PartialObjectMeta<DynamicObject>;

/// The delay before unreadable group versions are read again.
const REDISCOVERY_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// After this long work begins although not all kinds are listed.
///
/// Source: `cmd/kube-controller-manager/app/core.go`, newGarbageCollectorController.
const INITIAL_SYNC_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// Why an owner is looked at again.
const NOT_OBSERVED: &str = "no watch has reported the owner";

struct Watched {
    version: String,
    objects: Objects,
    /// Dropped to end the watch.
    _stop: oneshot::Sender<()>,
}

struct GarbageCollector {
    collector: Collector,
    kinds: Vec<Arc<APIResource>>,
    watched: BTreeMap<GroupKind, Watched>,
    updates: Watches<Update>,
    graph: Graph,
    queue: BTreeSet<Task>,
    /// Failed tasks, and those about owners that are not observed: how often, and when the next try is due.
    failed: BTreeMap<Task, (u32, Timestamp)>,
    /// Tasks that can't be decided with the kinds there are.
    undecided: BTreeSet<Task>,
    kinds_outdated: bool,
    /// Work begins when all kinds are listed, or at this time. `None` when it has begun.
    begins_at: Option<Timestamp>,
    /// The time of the next discovery after group versions could not be read.
    rediscover_at: Option<Timestamp>,
}

/// Collects garbage for as long as it is polled.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component("generic-garbage-collector");
    let mut this = GarbageCollector {
        collector: Collector {
            recorder: Recorder::new(ctx.clone(), "garbage-collector-controller"),
            ctx: ctx.clone(),
        },
        kinds: Vec::new(),
        watched: BTreeMap::new(),
        updates: Watches::new(&ctx.client),
        graph: Graph::default(),
        queue: BTreeSet::new(),
        failed: BTreeMap::new(),
        undecided: BTreeSet::new(),
        kinds_outdated: true,
        begins_at: (ctx.now)().checked_add(INITIAL_SYNC_TIMEOUT).ok(),
        rediscover_at: None,
    };
    loop {
        if this.kinds_outdated {
            this.rediscover().await;
        }
        let retry = this.next_retry();
        tokio::select! {
            biased;
            batch = this.updates.next_batch() => this.take_in(batch),
            () = retry => this.requeue_due(),
        }
        this.work().await;
    }
}

impl GarbageCollector {
    fn now(&self) -> Timestamp {
        (self.collector.ctx.now)()
    }

    async fn rediscover(&mut self) {
        let mut failures = 0;
        let preferred = loop {
            match discovery::server_preferred_resources(&self.collector.ctx.client).await {
                Ok(preferred) => break preferred,
                Err(error) => {
                    tracing::warn!(%error, "kinds not discovered");
                    failures += 1;
                    tokio::time::sleep(retry_after(failures)).await;
                }
            }
        };
        self.rediscover_at = None;
        if let Some(error) = preferred.failure() {
            tracing::warn!(error, "some kinds not discovered");
            self.rediscover_at = self.now().checked_add(REDISCOVERY_INTERVAL).ok();
        }
        // Discovery of these versions failed: their known kinds are kept.
        let mut kinds = std::mem::take(&mut self.kinds);
        kinds.retain(|kind| preferred.failed.contains_key(&kind.group_version()));
        for kind in preferred.resources {
            kinds.retain(|kept| !kept.is(&kind.resource.group, &kind.resource.kind));
            if !kind.is_event() && kind.supports("list") && kind.supports("delete") {
                kinds.push(kind);
            }
        }
        self.kinds = kinds;
        self.kinds_outdated = false;
        let watchable = self.kinds.iter().filter(|kind| kind.supports("watch"));
        let named: BTreeMap<GroupKind, Arc<APIResource>> = watchable
            .map(|kind| (group_kind(kind), kind.clone()))
            .collect();
        let dropped = self.watched.keys().filter(|kind| !named.contains_key(kind));
        for kind in dropped.cloned().collect::<Vec<_>>() {
            self.unwatch(&kind);
        }
        for (name, kind) in named {
            let watched = self.watched.get(&name).map(|watched| &watched.version);
            if watched != Some(&kind.resource.version) {
                self.watch(name, &kind);
            }
        }
        self.queue.append(&mut self.undecided);
    }

    fn watch(&mut self, name: GroupKind, kind: &APIResource) {
        let client = self.collector.ctx.client.clone();
        let api: Api<Metadata> = Api::all_with(client, &kind.resource);
        let (stop, stopped) = oneshot::channel::<()>();
        let label = Arc::new(name.clone());
        let events = reflector::transient_events(api, watcher::Config::default());
        let events = events.filter_map(move |event| {
            let update = event.ok().map(|event| (Arc::clone(&label), event));
            std::future::ready(update)
        });
        self.updates.push(events.take_until(stopped));
        // In another version the same objects are listed.
        let before = self.watched.remove(&name);
        let watched = Watched {
            version: kind.resource.version.clone(),
            objects: before.map(|before| before.objects).unwrap_or_default(),
            _stop: stop,
        };
        self.watched.insert(name, watched);
    }

    /// The kind is gone, and its objects with it.
    fn unwatch(&mut self, kind: &GroupKind) {
        if let Some(watched) = self.watched.remove(kind) {
            for uid in watched.objects.uids() {
                self.queue.append(&mut self.graph.remove(uid));
            }
        }
    }

    fn take_in(&mut self, batch: Vec<Update>) {
        for (kind, event) in batch {
            // An event that was under way when its watch was ended.
            let Some(watched) = self.watched.get_mut(&kind) else {
                continue;
            };
            let changes = watched.objects.apply(event);
            // New kinds come with their definitions, or with servers of their own.
            let announces = matches!(
                kind.kind.as_str(),
                "CustomResourceDefinition" | "APIService"
            );
            self.kinds_outdated |= !changes.is_empty() && announces;
            for change in changes {
                let mut tasks = match change {
                    Change::Put { key, uid, object } => {
                        let node = Node::new(Arc::clone(&kind), key, &object.metadata);
                        self.graph.upsert(uid, node)
                    }
                    Change::Removed { uid } => self.graph.remove(&uid),
                };
                self.queue.append(&mut tasks);
            }
        }
    }

    /// Works through the queue, applying pending watch events between any two tasks.
    async fn work(&mut self) {
        if self.is_syncing() {
            return;
        }
        loop {
            let mut batch = Vec::new();
            self.updates.drain(&mut batch);
            self.take_in(batch);
            let Some(task) = self.queue.pop_first() else {
                return;
            };
            match self
                .collector
                .perform(&task, &self.graph, &self.kinds)
                .await
            {
                Ok(Outcome::Done(more)) => {
                    self.failed.remove(&task);
                    for task in more {
                        self.add(task);
                    }
                }
                Ok(Outcome::Undecided) => {
                    self.failed.remove(&task);
                    self.undecided.insert(task);
                }
                Ok(Outcome::Unobserved) => self.retry_later(task, &NOT_OBSERVED),
                Err(error) => self.retry_later(task, &error),
            }
        }
    }

    /// Adds a task that another one leads to. An owner has been looked at just now.
    fn add(&mut self, task: Task) {
        match task {
            Task::Observe(_) if self.failed.contains_key(&task) => {}
            Task::Observe(_) => self.retry_later(task, &NOT_OBSERVED),
            task => {
                self.queue.insert(task);
            }
        }
    }

    /// Whether work has not begun, because some kinds are not listed.
    fn is_syncing(&mut self) -> bool {
        let now = self.now();
        let is_complete = self
            .watched
            .values()
            .all(|watched| watched.objects.is_synced());
        self.begins_at = self.begins_at.filter(|at| now < *at && !is_complete);
        self.begins_at.is_some()
    }

    fn retry_later(&mut self, task: Task, why: &dyn Display) {
        tracing::debug!(?task, %why, "will be tried again");
        let before = self.failed.get(&task).map_or(0, |(failures, _)| *failures);
        let due = self.now().checked_add(RetryDelays::DEFAULT.after(before));
        let due = due.unwrap_or(Timestamp::MAX);
        self.failed.insert(task, (before.saturating_add(1), due));
    }

    fn next_retry(&self) -> impl Future<Output = ()> + use<> {
        let due = self.failed.values().map(|(_, due)| *due);
        let due = due.chain(self.rediscover_at).chain(self.begins_at).min();
        let due = due.filter(|due| *due < Timestamp::MAX);
        let wait =
            due.map(|due| Duration::try_from(due.duration_since(self.now())).unwrap_or_default());
        async move {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    fn requeue_due(&mut self) {
        let now = self.now();
        self.kinds_outdated |= self.rediscover_at.is_some_and(|due| due <= now);
        for (task, (_, due)) in &mut self.failed {
            if *due <= now {
                self.queue.insert(task.clone());
                // Already in the queue; a further failure resets the time.
                *due = Timestamp::MAX;
            }
        }
    }
}

fn group_kind(kind: &APIResource) -> GroupKind {
    GroupKind {
        group: kind.resource.group.clone(),
        kind: kind.resource.kind.clone(),
    }
}

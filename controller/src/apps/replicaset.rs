//! The ReplicaSet controller: maintains the desired number of pods, whichever they are.

mod apply;
mod ranking;
mod set;
mod status;
mod sync;

use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;
use kubeproof_runtime::consistency::ConsistencyStore;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::expectations::Expectations;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

use crate::workload::event_handlers;

pub(crate) use set::Set;

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "replicaset-controller";
/// The number of sets synced at once.
const WORKERS: usize = 5;

struct Controller<S> {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    sets: Informer<S>,
    pods: Informer<Pod>,
    expectations: Expectations,
    consistency: ConsistencyStore,
    /// How many changes so far may have made a sync urgent.
    urgent_changes: AtomicU64,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    run_for::<ReplicaSet>(ctx).await;
}

/// Runs the controller for another kind with a number of replicas.
pub(crate) async fn run_for<S: Set>(ctx: Context) {
    let ctx = ctx.for_component(S::CONTROLLER);
    let controller = Controller::<S> {
        recorder: Recorder::new(ctx.clone(), S::CONTROLLER),
        ctx,
        queue: WorkQueue::new(),
        sets: Informer::new(),
        pods: Informer::new(),
        expectations: Expectations::default(),
        consistency: ConsistencyStore::default(),
        urgent_changes: AtomicU64::new(0),
    };
    controller.run().await;
}

impl<S: Set> Controller<S> {
    async fn run(&self) {
        Informers::new(&self.ctx.client)
            .add(&self.sets, |change| self.set_changed(change))
            .add(&self.pods, |change| self.pod_changed(change))
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    fn set_changed(&self, change: &Change<S>) {
        let (set, is_other) = match change {
            Change::Added(set) => (set, false),
            Change::Updated { old, new } => (new, old.uid() != new.uid()),
            Change::Deleted { last: set, .. } => (set, true),
        };
        let key = ObjectKey::of(&**set);
        if is_other {
            self.expectations.forget(&key);
            self.consistency.forget(&key);
        }
        if may_be_urgent(change, |set| (set.uid(), set.replicas())) {
            self.urgent_changes.fetch_add(1, Ordering::Relaxed);
        }
        self.queue.add(key);
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        if may_be_urgent(change, pod::is_active) {
            self.urgent_changes.fetch_add(1, Ordering::Relaxed);
        }
        let pod = change.object();
        let namespace = pod.namespace().unwrap_or_default();
        let cached = self.sets.in_namespace(&namespace);
        if let Some(set) = event_handlers::owner(&pod.metadata, &cached) {
            let (key, uid) = (ObjectKey::of(&**set), pod.uid().unwrap_or_default());
            let is_gone = matches!(change, Change::Deleted { .. }) || pod::is_terminating(pod);
            if is_gone {
                self.expectations.deleted(&key, &uid);
            } else if matches!(change, Change::Added(_)) {
                self.expectations.created(&key);
            }
        }
        for request in event_handlers::requests_for_pod(change, &cached) {
            self.queue.add_after(request.key, request.after);
        }
    }
}

/// Whether an object came or went, or `part` of it changed: the number of pods that a set has or wants may be another.
fn may_be_urgent<K, P: PartialEq>(change: &Change<K>, part: impl Fn(&K) -> P) -> bool {
    match change {
        Change::Updated { old, new } => part(old) != part(new),
        Change::Added(_) | Change::Deleted { .. } => true,
    }
}

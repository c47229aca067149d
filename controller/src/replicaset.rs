//! The ReplicaSet controller: as many pods as a set asks for, whichever they are.

mod manage;
mod ranking;
mod status;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{Api, ResourceExt};

use crate::context::Context;
use crate::expectations::Expectations;
use crate::informer::{Change, Informer};
use crate::mirror::ObjectKey;
use crate::pod;
use crate::recorder::Recorder;
use crate::triggers::{self, Workload};
use crate::work_queue::WorkQueue;
use crate::worker;

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "replicaset-controller";
const API_VERSION: &str = "apps/v1";
/// How many sets are synced at once.
const WORKERS: usize = 5;

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    expectations: Expectations,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::new(),
        sets: Informer::new(),
        pods: Informer::new(),
        expectations: Expectations::default(),
    };
    join(controller.watch(), controller.work()).await;
}

impl Controller {
    async fn watch(&self) {
        let client = &self.ctx.client;
        let sets = self
            .sets
            .run(Api::all(client.clone()), |change| self.set_changed(&change));
        let pods = self
            .pods
            .run(Api::all(client.clone()), |change| self.pod_changed(&change));
        join(sets, pods).await;
    }

    async fn work(&self) {
        self.sets.synced().await;
        self.pods.synced().await;
        worker::run(self, &self.queue, WORKERS).await;
    }

    fn set_changed(&self, change: &Change<ReplicaSet>) {
        let (set, is_other) = match change {
            Change::Added(set) => (set, false),
            Change::Updated { old, new } => (new, old.uid() != new.uid()),
            Change::Deleted(set) => (set, true),
        };
        let key = ObjectKey::of(&**set);
        if is_other {
            self.expectations.forget(&key);
        }
        self.queue.add(key);
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let (Change::Added(pod) | Change::Updated { new: pod, .. } | Change::Deleted(pod)) = change;
        let namespace = pod.namespace().unwrap_or_default();
        let cached = self.sets.in_namespace(&namespace);
        if let Some(set) = triggers::owner(&pod.metadata, &cached) {
            let (key, uid) = (ObjectKey::of(&**set), pod.uid().unwrap_or_default());
            let is_gone = matches!(change, Change::Deleted(_)) || pod::is_terminating(pod);
            if is_gone {
                self.expectations.deleted(&key, &uid);
            } else if matches!(change, Change::Added(_)) {
                self.expectations.created(&key);
            }
        }
        for trigger in triggers::of_pod(change, &cached) {
            self.queue.add_after(trigger.key, trigger.after);
        }
    }
}

impl Workload for Arc<ReplicaSet> {
    const KIND: &'static str = "ReplicaSet";

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selector(&self) -> LabelSelector {
        let spec = self.spec.as_ref();
        spec.map(|spec| spec.selector.clone()).unwrap_or_default()
    }

    fn recheck_after(&self) -> Option<Duration> {
        let seconds = u64::try_from(min_ready_seconds(self)).ok()?;
        // One more, because conditions are dated in whole seconds.
        (seconds > 0).then(|| Duration::from_secs(seconds + 1))
    }
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

fn replicas(set: &ReplicaSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

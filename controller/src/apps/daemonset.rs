//! The DaemonSet controller: one pod on each node that suits.

mod history;
mod placement;
mod rollout;
mod status;
mod sync;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{Resource, ResourceExt};
use kubeproof_runtime::consistency::ConsistencyStore;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::expectations::Expectations;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod;
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;
use parking_lot::Mutex;

use crate::workload::event_handlers::{self, Workload};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "daemonset-controller";
const API_VERSION: &str = "apps/v1";
const KIND: &str = "DaemonSet";
/// The number of sets synced at once.
const WORKERS: usize = 2;

/// When a failed pod may be deleted again, and how long to wait after that.
#[derive(Clone, Copy, Debug)]
struct Backoff {
    until: Timestamp,
    delay: Duration,
}

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    sets: Informer<DaemonSet>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    revisions: Informer<ControllerRevision>,
    expectations: Expectations,
    consistency: ConsistencyStore,
    /// By the set's uid and the node's name.
    backoffs: Mutex<BTreeMap<(String, String), Backoff>>,
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
        nodes: Informer::new(),
        revisions: Informer::new(),
        expectations: Expectations::default(),
        consistency: ConsistencyStore::default(),
        backoffs: Mutex::default(),
    };
    controller.run().await;
}

impl Controller {
    async fn run(&self) {
        Informers::new(&self.ctx.client)
            .add(&self.sets, |change| self.queue.add(change.key()))
            .add(&self.pods, |change| self.pod_changed(change))
            .add(&self.nodes, |change| self.node_changed(change))
            .add(&self.revisions, |change| self.revision_changed(change))
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let pod = change.object();
        let cached = self.sets.in_namespace(&pod.namespace().unwrap_or_default());
        if let Some(set) = event_handlers::owner(&pod.metadata, &cached) {
            let (key, uid) = (ObjectKey::of(&**set), pod.uid().unwrap_or_default());
            if matches!(change, Change::Deleted { .. }) || pod::is_terminating(pod) {
                self.expectations.deleted(&key, &uid);
            } else if matches!(change, Change::Added(_)) {
                self.expectations.created(&key);
            }
        }
        for request in event_handlers::requests_for_pod(change, &cached) {
            self.queue.add_after(request.key, request.after);
        }
    }

    fn revision_changed(&self, change: &Change<ControllerRevision>) {
        let namespace = change.object().namespace().unwrap_or_default();
        let cached = self.sets.in_namespace(&namespace);
        for request in event_handlers::requests_for_owners(change, &cached) {
            self.queue.add_after(request.key, request.after);
        }
    }

    /// Enqueues all sets if the node's labels or spec changed; a changed status alone is ignored.
    fn node_changed(&self, change: &Change<Node>) {
        if let Change::Updated { old, new } = change
            && old.labels() == new.labels()
            && old.spec == new.spec
        {
            return;
        }
        for set in self.sets.all() {
            self.queue.add(ObjectKey::of(&*set));
        }
    }
}

impl Workload for Arc<DaemonSet> {
    const KIND: &'static str = KIND;

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

fn min_ready_seconds(set: &DaemonSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

/// The number of the template, with which older controllers labeled pods.
fn template_generation(meta: &impl Resource) -> Option<&str> {
    let annotations = meta.meta().annotations.as_ref()?;
    let generation = annotations.get("deprecated.daemonset.template.generation")?;
    generation.parse::<i64>().is_ok().then_some(generation)
}

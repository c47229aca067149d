//! The DaemonSet controller: one pod on each node that suits.

mod backoff;
mod history;
mod placement;
mod rollout;
mod status;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{Resource, ResourceExt};
use kubeproof_runtime::consistency::ConsistencyStore;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::expectations::Expectations;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

use self::backoff::Backoffs;
use crate::workload::event_handlers::{self, Workload};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "daemonset-controller";
const API_VERSION: &str = "apps/v1";
const KIND: &str = "DaemonSet";
/// The number of sets synced at once.
const WORKERS: usize = 2;

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
    backoffs: Backoffs,
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
        backoffs: Backoffs::default(),
    };
    controller.run().await;
}

impl Controller {
    async fn run(&self) {
        Informers::new(&self.ctx.client)
            .add(&self.sets, |change| self.set_changed(change))
            .add(&self.pods, |change| self.pod_changed(change))
            .add(&self.nodes, |change| self.node_changed(change))
            .add(&self.revisions, |change| self.revision_changed(change))
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    /// A set that is gone, or another of its name, leaves nothing to expect.
    fn set_changed(&self, change: &Change<DaemonSet>) {
        let gone = match change {
            Change::Added(_) => None,
            // Upstream takes the new set for the old one, so what was written for the old one is still waited for.
            // Source: `daemon_controller.go`, `updateDaemonset`.
            Change::Updated { old, new } => Some(new).filter(|new| old.uid() != new.uid()),
            Change::Deleted { last, .. } => Some(last),
        };
        let key = change.key();
        if let Some(gone) = gone {
            self.expectations.forget(&key);
            self.consistency
                .clear(&key, &gone.uid().unwrap_or_default());
        }
        self.queue.add(key);
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
        // A set knows of the revisions that it makes.
        if let Change::Added(revision) = change
            && controller_of(&revision.metadata).is_some()
            && revision.metadata.deletion_timestamp.is_none()
        {
            return;
        }
        let namespace = change.object().namespace().unwrap_or_default();
        let cached = self.sets.in_namespace(&namespace);
        for request in event_handlers::requests_for_owners(change, &cached) {
            self.queue.add_after(request.key, request.after);
        }
    }

    /// Enqueues the sets whose pods the change of a node concerns. Nodes that are gone concern none: their pods will be deleted.
    fn node_changed(&self, change: &Change<Node>) {
        let node = match change {
            Change::Deleted { .. } => return,
            Change::Updated { old, new } if fit_alike(old, new) => return,
            Change::Added(node) | Change::Updated { new: node, .. } => node,
        };
        for set in self.sets.all() {
            let namespace = set.namespace().unwrap_or_default();
            let pods = (self.pods).controlled_by(&namespace, &set.uid().unwrap_or_default());
            let is_there = |pod: &Arc<Pod>| placement::runs_on(pod, &node.name_any());
            if placement::is_concerned(&set, node, pods.iter().any(is_there)) {
                self.queue.add(ObjectKey::of(&*set));
            }
        }
    }
}

/// Whether nothing changed that decides which pods fit.
fn fit_alike(old: &Node, new: &Node) -> bool {
    let taints = |node: &Node| {
        let spec = node.spec.as_ref();
        spec.and_then(|spec| spec.taints.clone())
            .unwrap_or_default()
    };
    old.labels() == new.labels() && taints(old) == taints(new)
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

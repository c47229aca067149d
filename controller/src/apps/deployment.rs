//! The Deployment controller: rolls a template out through ReplicaSets, old ones giving way to new.

mod replica_sets;
mod revision;
mod rollout;
mod scale;
mod status;
mod sync;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::{controller_ref, reference_to};
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::int_or_percent::{Round, resolve};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

use crate::workload::event_handlers::{self, Workload};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "deployment-controller";
const API_VERSION: &str = "apps/v1";
const KIND: &str = "Deployment";
/// The number of deployments synced at once.
const WORKERS: usize = 5;

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::new(),
        deployments: Informer::new(),
        sets: Informer::new(),
        pods: Informer::new(),
    };
    controller.run().await;
}

impl Controller {
    async fn run(&self) {
        Informers::new(&self.ctx.client)
            .add(&self.deployments, |change| self.queue.add(change.key()))
            .add(&self.sets, |change| self.set_changed(change))
            .add(&self.pods, |change| self.pod_changed(change))
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    fn set_changed(&self, change: &Change<ReplicaSet>) {
        let set = change.object();
        let cached = self
            .deployments
            .in_namespace(&set.namespace().unwrap_or_default());
        for request in event_handlers::requests_for_owners(change, &cached) {
            self.queue.add_after(request.key, request.after);
        }
    }

    /// Whoever recreates waits for the last old pod to go.
    fn pod_changed(&self, change: &Change<Pod>) {
        let Change::Deleted { last: pod, .. } = change else {
            return;
        };
        let namespace = pod.namespace().unwrap_or_default();
        let sets = self.sets.in_namespace(&namespace);
        let deployments = self.deployments.in_namespace(&namespace);
        if let Some(set) = event_handlers::owner(&pod.metadata, &sets)
            && let Some(deployment) = event_handlers::owner(&set.metadata, &deployments)
            && !is_rolling(deployment)
        {
            self.queue.add(ObjectKey::of(&**deployment));
        }
    }
}

impl Workload for Arc<Deployment> {
    const KIND: &'static str = KIND;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selector(&self) -> LabelSelector {
        let spec = self.spec.as_ref();
        spec.map(|spec| spec.selector.clone()).unwrap_or_default()
    }
}

fn owner_ref(deployment: &Deployment) -> OwnerReference {
    controller_ref(API_VERSION, KIND, &deployment.metadata)
}

fn reference(deployment: &Deployment) -> ObjectReference {
    reference_to(API_VERSION, KIND, &deployment.metadata)
}

fn replicas(deployment: &Deployment) -> i32 {
    let spec = deployment.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

fn stored_status(deployment: &Deployment) -> DeploymentStatus {
    deployment.status.clone().unwrap_or_default()
}

fn is_paused(deployment: &Deployment) -> bool {
    let spec = deployment.spec.as_ref();
    spec.is_some_and(|spec| spec.paused == Some(true))
}

/// Strategy RollingUpdate, not Recreate.
fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.strategy.as_ref());
    strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some("Recreate"))
}

/// Seconds without progress after which a rollout is said to have failed, if ever.
fn progress_deadline(deployment: &Deployment) -> Option<i32> {
    let spec = deployment.spec.as_ref();
    spec.and_then(|spec| spec.progress_deadline_seconds)
        .filter(|seconds| *seconds != i32::MAX)
}

/// How far a rolling update may leave the number of replicas: upwards and downwards.
fn fenceposts(deployment: &Deployment) -> (i32, i32) {
    if !is_rolling(deployment) {
        return (0, 0);
    }
    let total = replicas(deployment);
    let strategy = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.strategy.as_ref());
    let block = strategy
        .and_then(|strategy| strategy.rolling_update.clone())
        .unwrap_or_default();
    let surge = block
        .max_surge
        .and_then(|surge| resolve(&surge, total, Round::Up));
    let unavailable = block
        .max_unavailable
        .and_then(|unavailable| resolve(&unavailable, total, Round::Down));
    match (surge.unwrap_or(0), unavailable.unwrap_or(0)) {
        // Percentages may come to nothing, but a rollout has to move.
        (0, 0) => (0, 1.min(total)),
        (surge, unavailable) => (surge, unavailable.min(total)),
    }
}

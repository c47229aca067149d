//! The Job controller: runs pods until the requested number has succeeded.
//!
//! A finalizer keeps each pod until it is counted in the job's status, so that none is missed and
//! none counted twice, whatever is deleted or interrupted.
//!
//! Source: pkg/controller/job of Kubernetes.

mod apply;
mod backoff;
mod condition;
mod failure_policy;
mod intervals;
mod orphans;
mod pods;
mod removal;
mod spec;
mod success_policy;
mod sync;
mod sync_context;
mod track;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::core::SelectorExt;
use kube::{Api, ResourceExt};
use kubeproof_runtime::consistency::ConsistencyStore;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::{controller_of, controller_ref, reference_to};
use kubeproof_runtime::expectations::Expectations;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey, resource_version};
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker;

use self::orphans::Orphans;
use crate::workload::event_handlers::{self, Workload};
use crate::workload::pod_control::PodControl;

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "job-controller";
const API_VERSION: &str = "batch/v1";
const KIND: &str = "Job";
/// The group resources that the controller writes.
const PODS: &str = "pods";
const JOBS: &str = "jobs.batch";
/// The number of jobs synced at once.
const WORKERS: usize = 5;
/// The period in which changes of pods are batched, so that one status update covers many of them.
const BATCH_PERIOD: Duration = Duration::from_secs(1);
/// The retry delays of a failed sync.
const RETRIES: RetryDelays = RetryDelays {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(60),
};

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    /// Pods whose finalizers are to be removed uncounted.
    orphans: WorkQueue<ObjectKey>,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    expectations: Expectations,
    consistency: ConsistencyStore,
    backoffs: backoff::Records,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::retrying(RETRIES),
        orphans: WorkQueue::retrying(RETRIES),
        jobs: Informer::new(),
        pods: Informer::new(),
        expectations: Expectations::default(),
        consistency: ConsistencyStore::default(),
        backoffs: backoff::Records::default(),
    };
    controller.run().await;
}

impl Controller {
    async fn run(&self) {
        let orphans = Orphans(self);
        let work = async {
            join(
                worker::run(self, &self.queue, WORKERS),
                worker::run(&orphans, &self.orphans, 1),
            )
            .await;
        };
        Informers::new(&self.ctx.client)
            .add(&self.jobs, |change| self.job_changed(change))
            .add(&self.pods, |change| self.pod_changed(change))
            .run(work)
            .await;
    }

    fn job_changed(&self, change: &Change<Job>) {
        match change {
            Change::Added(job) => self.queue.add(ObjectKey::of(&**job)),
            Change::Deleted { last: job, .. } => {
                let key = ObjectKey::of(&**job);
                self.consistency.clear(&key, &job.uid().unwrap_or_default());
                self.queue.add(key);
                self.release_pods(job);
            }
            Change::Updated { old, new } => self.job_updated(old, new),
        }
    }

    fn job_updated(&self, old: &Job, new: &Job) {
        let key = ObjectKey::of(new);
        let delay = match old.metadata.generation == new.metadata.generation {
            true => BATCH_PERIOD,
            false => Duration::ZERO,
        };
        self.queue.add_after(key, delay);
        if condition::is_finished(new) {
            // None should have its finalizer any more.
            self.release_pods(new);
        }
    }

    /// Enqueues the pods of a deleted or finished job, whose finalizers are to be removed
    /// uncounted.
    fn release_pods(&self, job: &Job) {
        let Ok(selector) = spec::selector(job) else {
            return;
        };
        let uid = job.uid().unwrap_or_default();
        for pod in self
            .pods
            .claimable(&job.namespace().unwrap_or_default(), &uid)
        {
            let is_owned = controller_of(&pod.metadata).is_some_and(|owner| owner.uid == uid);
            if is_owned && selector.matches(pod.labels()) && pods::is_tracked(&pod) {
                self.orphans.add(ObjectKey::of(&*pod));
            }
        }
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        match change {
            Change::Added(pod) | Change::Updated { new: pod, .. } if pod::is_terminating(pod) => {
                self.pod_leaving(pod);
            }
            Change::Deleted { last: pod, .. } => self.pod_leaving(pod),
            Change::Added(pod) => {
                if let Some(job) = self.owner(pod) {
                    self.expectations.created(&ObjectKey::of(&*job));
                }
                self.note_orphan(pod);
            }
            Change::Updated { new, .. } => self.note_orphan(new),
        }
        let is_leaving = match change {
            Change::Added(pod) | Change::Updated { new: pod, .. } => pod::is_terminating(pod),
            Change::Deleted { .. } => true,
        };
        if is_leaving {
            return;
        }
        let namespace = match change {
            Change::Added(pod)
            | Change::Updated { new: pod, .. }
            | Change::Deleted { last: pod, .. } => pod.namespace().unwrap_or_default(),
        };
        let jobs = self.jobs.in_namespace(&namespace);
        for request in event_handlers::requests_for_pod(change, &jobs) {
            self.queue.add_after(request.key, BATCH_PERIOD);
        }
    }

    /// The pod is on its way out, or gone.
    fn pod_leaving(&self, pod: &Pod) {
        let job = self.owner(pod).filter(|job| !condition::is_finished(job));
        let Some(job) = job else {
            // No sync will let it go.
            if pods::is_tracked(pod) {
                self.orphans.add(ObjectKey::of(pod));
            }
            return;
        };
        let key = ObjectKey::of(&*job);
        let uid = pod.uid().unwrap_or_default();
        self.expectations.deleted(&key, &uid);
        self.queue.add_after(key, BATCH_PERIOD);
    }

    fn note_orphan(&self, pod: &Pod) {
        if controller_of(&pod.metadata).is_none() && pods::is_tracked(pod) {
            self.orphans.add(ObjectKey::of(pod));
        }
    }

    /// The job that controls the pod.
    fn owner(&self, pod: &Pod) -> Option<Arc<Job>> {
        let jobs = self.jobs.in_namespace(&pod.namespace().unwrap_or_default());
        event_handlers::owner(&pod.metadata, &jobs).cloned()
    }

    /// Notes a write of the pod for the job that controls it.
    fn wrote_pod(&self, pod: &Pod) {
        if let Some(owner) = controller_of(&pod.metadata) {
            let key = ObjectKey {
                namespace: pod.namespace().unwrap_or_default(),
                name: owner.name.clone(),
            };
            let at = self.pods.wrote_at(resource_version(pod));
            self.consistency.wrote_at(&key, &owner.uid, PODS, at);
        }
    }

    /// Notes a write of the job's status.
    fn wrote_job(&self, job: &Job) {
        let at = self.jobs.wrote_at(resource_version(job));
        let uid = job.uid().unwrap_or_default();
        self.consistency
            .wrote_at(&ObjectKey::of(job), &uid, JOBS, at);
    }

    fn control(&self, job: &Job) -> PodControl<'_> {
        PodControl {
            api: self.pods_api(&job.namespace().unwrap_or_default()),
            recorder: &self.recorder,
            involved: reference(job),
        }
    }

    fn pods_api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.ctx.client.clone(), namespace)
    }

    fn api(&self, job: &Job) -> Api<Job> {
        let namespace = job.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }
}

impl Workload for Arc<Job> {
    const KIND: &'static str = KIND;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selector(&self) -> LabelSelector {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.selector.clone())
            .unwrap_or_default()
    }
}

fn owner_ref(job: &Job) -> OwnerReference {
    controller_ref(API_VERSION, KIND, &job.metadata)
}

fn reference(job: &Job) -> ObjectReference {
    reference_to(API_VERSION, KIND, &job.metadata)
}

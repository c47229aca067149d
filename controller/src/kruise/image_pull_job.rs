//! The ImagePullJob controller of OpenKruise: asks NodeImages for an image, some nodes at a time, and
//! counts how far they are.
//!
//! Upstream's times to live of tags in NodeImages have a random part, five minutes at most; these have
//! none. A node that is not asked yet comes after those whose names are smaller.
//!
//! Source: openkruise/kruise pkg/controller/imagepulljob and pkg/util/imagejob.

mod progress;
mod request;
mod secrets;
mod sync;

use futures::future::join;
use k8s_openapi::api::core::v1::Secret;
use kube::core::{ApiResource, DynamicObject, Selector, SelectorExt};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_node::familiar_name;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::named_expectations::{Expected, NamedExpectations};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::version_expectations::VersionExpectations;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

use crate::kruise::api::image_pull_job::{ImagePullJobSpec, ImagePullJobStatus};
use crate::kruise::api::node_image::{NodeImageSpec, NodeImageStatus};
use crate::kruise::definition::defined;
use crate::kruise::untyped;

/// The controller's name: its user agent.
pub const NAME: &str = "imagepulljob-controller";
/// The number of jobs synced at once.
const WORKERS: usize = 3;
/// The namespace with copies of secrets: those of others are not for the daemons of the nodes.
pub(crate) const DAEMON_NAMESPACE: &str = "kruise-daemon-config";

struct Controller {
    ctx: Context,
    queue: WorkQueue<ObjectKey>,
    resource: ApiResource,
    images_resource: ApiResource,
    jobs: Informer<DynamicObject>,
    images: Informer<DynamicObject>,
    pods: Informer<Pod>,
    secrets: Informer<Secret>,
    expectations: NamedExpectations,
    versions: VersionExpectations,
}

/// A job as it was read.
struct Job {
    object: DynamicObject,
    spec: ImagePullJobSpec,
    status: ImagePullJobStatus,
}

/// Runs the controller, once the kinds are defined, until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let (resource, images_resource) =
        join(defined(&ctx, "imagepulljobs"), defined(&ctx, "nodeimages")).await;
    let controller = Controller {
        ctx,
        queue: WorkQueue::new(),
        resource,
        images_resource,
        jobs: Informer::new(),
        images: Informer::new(),
        pods: Informer::new(),
        secrets: Informer::new(),
        expectations: NamedExpectations::default(),
        versions: VersionExpectations::default(),
    };
    controller.run().await;
}

impl Job {
    fn read(object: &DynamicObject) -> Result<Self, Error> {
        Ok(Self {
            object: object.clone(),
            spec: read_spec(object)?,
            status: untyped::read(object, "status")?,
        })
    }

    fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        let namespace = self.object.metadata.namespace.as_deref();
        namespace.unwrap_or_default()
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::of(&self.object)
    }

    fn is_terminating(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether the job is done, or given up.
    fn is_over(&self) -> bool {
        self.is_terminating() || self.status.completion_time.is_some()
    }
}

/// The default cannot be distinguished from a job without a spec, which no server admits.
fn read_spec(object: &DynamicObject) -> Result<ImagePullJobSpec, Error> {
    untyped::read(object, "spec")
}

impl Controller {
    async fn run(&self) {
        let client = &self.ctx.client;
        let jobs = Api::all_with(client.clone(), &self.resource);
        let images = Api::all_with(client.clone(), &self.images_resource);
        Informers::new(&self.ctx.client)
            .add_with(&self.jobs, jobs, watcher::Config::default(), |change| {
                self.queue.add(change.key());
            })
            .add_with(&self.images, images, watcher::Config::default(), |change| {
                self.image_changed(change);
            })
            .add(&self.pods, |change| self.pod_changed(change))
            .add(&self.secrets, |change| self.secret_changed(change))
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    fn active_jobs(&self) -> impl Iterator<Item = Job> {
        let jobs = self.jobs.all().into_iter();
        let jobs = jobs.filter_map(|object| Job::read(&object).ok());
        jobs.filter(|job| !job.is_over())
    }

    fn image_changed(&self, change: &Change<DynamicObject>) {
        let (old, new) = match change {
            Change::Added(image) => (None, image),
            Change::Updated { old, new } => (Some(old), new),
            Change::Deleted { last: image, .. } => {
                self.versions.forget(&**image);
                (None, image)
            }
        };
        let is_going = new.metadata.deletion_timestamp.is_some();
        for job in self.active_jobs() {
            let is_new = self.selects(&job, new);
            let Some(old) = old.filter(|_| !is_going) else {
                if is_new {
                    self.queue.add(job.key());
                }
                continue;
            };
            if is_new != self.selects(&job, old) || is_new && concerns(&job, old, new) {
                self.queue.add(job.key());
            }
        }
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let (old, new) = (change.replaced(), change.object());
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let node_name = node(new).filter(|name| !name.is_empty());
        if node_name.is_none() {
            return;
        }
        let old = old.filter(|_| !pod::is_terminating(new));
        if old.is_some_and(|old| node(old) == node_name && old.labels() == new.labels()) {
            return;
        }
        for job in self.active_jobs() {
            let is_near = job.namespace() == new.namespace().unwrap_or_default();
            let Some(selector) = job.spec.pod_selector.clone().filter(|_| is_near) else {
                continue;
            };
            let Ok(selector) = Selector::try_from(selector) else {
                continue;
            };
            let is_new = selector.matches(new.labels());
            let before = old.filter(|old| node(old) == node_name);
            let was = before.is_some_and(|old| selector.matches(old.labels()));
            if is_new != was {
                self.queue.add(job.key());
            }
        }
    }

    fn secret_changed(&self, change: &Change<Secret>) {
        let (old, new) = match change {
            Change::Added(secret) => (None, secret),
            Change::Updated { old, new } => (Some(old), new),
            Change::Deleted { .. } => return,
        };
        let (namespace, name) = (new.namespace().unwrap_or_default(), new.name_any());
        if namespace == DAEMON_NAMESPACE {
            for key in secrets::jobs(new) {
                self.expectations.observe(&key, Expected::Creation, &name);
            }
            return;
        }
        let is_same = old.is_some_and(|old| old.data == new.data);
        if is_same || new.metadata.deletion_timestamp.is_some() {
            return;
        }
        for job in self.active_jobs() {
            if job.namespace() == namespace && job.spec.pull_secrets.contains(&name) {
                self.queue.add(job.key());
            }
        }
    }

    /// Whether the job wants the image on the node of that NodeImage.
    fn selects(&self, job: &Job, image: &DynamicObject) -> bool {
        let node = image.name_any();
        if let Some(selector) = job.spec.pod_selector.clone() {
            let Ok(selector) = Selector::try_from(selector) else {
                return false;
            };
            let pods = self.pods.in_namespace(job.namespace());
            return pods.iter().any(|pod| {
                let spec = pod.spec.as_ref();
                spec.and_then(|spec| spec.node_name.as_ref()) == Some(&node)
                    && selector.matches(pod.labels())
            });
        }
        let Some(selector) = &job.spec.selector else {
            return true;
        };
        if let Some(names) = &selector.names {
            return names.contains(&node);
        }
        let labels = Selector::try_from(selector.labels.clone());
        labels.is_ok_and(|labels| labels.matches(image.labels()))
    }
}

/// Whether the change of a NodeImage is about what the job wants.
fn concerns(job: &Job, old: &DynamicObject, new: &DynamicObject) -> bool {
    let Ok((name, tag)) = familiar_name(&job.spec.image) else {
        return false;
    };
    let seen = |image: &DynamicObject| {
        let spec: NodeImageSpec = untyped::read(image, "spec").unwrap_or_default();
        let status: NodeImageStatus = untyped::read(image, "status").unwrap_or_default();
        let asked = spec.images.get(&name).cloned().unwrap_or_default();
        let mut tags = asked.tags.into_iter();
        let own = tags.find(|own| own.tag == tag);
        let reported = status.tag(&name, &tag).cloned();
        (own, asked.pull_secrets, asked.sandbox_config, reported)
    };
    seen(old) != seen(new)
}

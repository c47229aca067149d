//! The NodeImage controller of OpenKruise: maintains an object for each node with the images that
//! it is to have, without those that are no longer requested.
//!
//! Upstream looks again a random time later, up to two seconds; this one does without.
//!
//! Source: openkruise/kruise pkg/controller/nodeimage.

mod spec;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Secret};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::retry::{DEFAULT_BACKOFF, retry_on_conflict};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

use self::spec::{Job, tidy};
use self::status::{Pull, judge};
use crate::kruise::api::node_image::{NodeImageSpec, NodeImageStatus};
use crate::kruise::definition::defined;
use crate::kruise::{GROUP, untyped};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "nodeimage-controller";
/// The number of objects synced at once.
const WORKERS: usize = 3;
/// The time that a node has to be ready before its object is created.
const CREATION_DELAY: SignedDuration = SignedDuration::from_secs(30);
/// The shortest delay before an object is checked again.
const AGAIN_MIN: Duration = Duration::from_secs(3);
/// The label of objects that may be there without a node, for tests.
const FAKE_LABEL: &str = "apps.kruise.io/fake-nodeimage";
/// The label, with this value, of nodes that get no object.
const VIRTUAL: (&str, &str) = ("type", "virtual-kubelet");

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    resource: ApiResource,
    jobs_resource: ApiResource,
    nodes: Informer<Node>,
    images: Informer<DynamicObject>,
    jobs: Informer<DynamicObject>,
}

/// Runs the controller, once the kinds are defined, until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let (resource, jobs_resource) =
        join(defined(&ctx, "nodeimages"), defined(&ctx, "imagepulljobs")).await;
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::new(),
        resource,
        jobs_resource,
        nodes: Informer::new(),
        images: Informer::new(),
        jobs: Informer::new(),
    };
    controller.run().await;
}

impl Controller {
    async fn run(&self) {
        let client = &self.ctx.client;
        let images = Api::all_with(client.clone(), &self.resource);
        let jobs = Api::all_with(client.clone(), &self.jobs_resource);
        Informers::new(&self.ctx.client)
            .add_with(&self.images, images, watcher::Config::default(), |change| {
                self.queue.add(change.key());
            })
            .add(&self.nodes, |change| self.node_changed(change))
            .add_with(&self.jobs, jobs, watcher::Config::default(), |change| {
                self.job_changed(change);
            })
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    fn node_changed(&self, change: &Change<Node>) {
        let node = change.object();
        let (label, value) = VIRTUAL;
        if node.labels().get(label).map(String::as_str) == Some(value) {
            return;
        }
        let is_gone = matches!(change, Change::Deleted { .. }) || is_terminating(&node.metadata);
        let image = self.images.get("", &node.name_any());
        let is_due = match &image {
            Some(image) => is_gone || image.labels() != node.labels(),
            None => !is_gone && self.creation_delay(node).is_some(),
        };
        if is_due {
            self.queue.add(ObjectKey::of(&**node));
        }
    }

    /// Enqueues the nodes with requests of a deleted job.
    fn job_changed(&self, change: &Change<DynamicObject>) {
        let Change::Deleted { last: job, .. } = change else {
            return;
        };
        let uid = job.uid();
        for image in self.images.all() {
            let spec: NodeImageSpec = untyped::read(&image, "spec").unwrap_or_default();
            let mut tags = spec.images.values().flat_map(|image| &image.tags);
            let asks = |reference: &ObjectReference| reference.uid == uid;
            if tags.any(|tag| tag.owner_references.iter().any(asks)) {
                self.queue.add(ObjectKey::of(&*image));
            }
        }
    }

    /// The time until the node's object is created; None if the node is not ready.
    fn creation_delay(&self, node: &Node) -> Option<Duration> {
        let mut conditions = node.status.as_ref()?.conditions.iter().flatten();
        let ready = conditions.find(|one| one.type_ == "Ready" && one.status == "True")?;
        let since = ready.last_transition_time.as_ref().map(|time| time.0);
        let waited = since.map_or(CREATION_DELAY, |since| {
            (self.ctx.now)().duration_since(since)
        });
        Some(Duration::try_from(CREATION_DELAY - waited).unwrap_or(Duration::ZERO))
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::all_with(self.ctx.client.clone(), &self.resource)
    }

    async fn create(&self, node: &Node) -> Result<Option<Duration>, Error> {
        match self.creation_delay(node) {
            None => return Ok(None),
            Some(delay) if !delay.is_zero() => return Ok(Some(delay)),
            Some(_) => {}
        }
        let mut image = DynamicObject::new(&node.name_any(), &self.resource);
        image.data = serde_json::json!({ "spec": {} });
        self.api().create(&PostParams::default(), &image).await?;
        Ok(None)
    }

    /// Brings the object's labels and its spec up to date; says when to look again, or None when it
    /// has written something.
    async fn update_spec(
        &self,
        image: &DynamicObject,
        node: Option<&Node>,
    ) -> Result<Option<Vec<Duration>>, Error> {
        let mut image = image.clone();
        let mut delays = DEFAULT_BACKOFF.into_iter();
        loop {
            let spec: NodeImageSpec = untyped::read(&image, "spec")?;
            let status: NodeImageStatus = untyped::read(&image, "status")?;
            let missing = self.missing_secrets(&spec).await;
            let jobs = self.requesting_jobs(&spec).await?;
            let job = |namespace: &str, name: &str| {
                let known = jobs.get(&(namespace.to_owned(), name.to_owned()));
                known.map_or(Job::Gone, |uid| Job::Is(uid.clone()))
            };
            let tidied = tidy(&spec, &status, job, &missing, (self.ctx.now)());
            let labels = node.map(|node| node.metadata.labels.clone());
            let relabels = labels.filter(|labels| *labels != image.metadata.labels);
            if tidied.spec == spec && relabels.is_none() {
                return Ok(Some(tidied.waits));
            }
            let mut changed = untyped::with(&image, &self.resource, "spec", &tidied.spec);
            if let Some(labels) = relabels {
                changed.metadata.labels = labels;
            }
            let (api, name) = (self.api(), changed.name_any());
            match api.replace(&name, &PostParams::default(), &changed).await {
                Ok(_) => return Ok(None),
                Err(error) => retry_on_conflict(&mut delays, error.into()).await?,
            }
            image = api.get(&name).await?;
        }
    }

    /// Returns the uids of the existing jobs that request images, by namespace and name.
    ///
    /// Upstream, the ImagePullJob controller has the same cache of jobs, so it requests no image for a job that is not in
    /// it. Here it has its own, and may have seen a job earlier: the server decides whether a job is gone. Otherwise one
    /// controller removes what the other adds, until this cache has the job.
    async fn requesting_jobs(
        &self,
        spec: &NodeImageSpec,
    ) -> Result<BTreeMap<(String, String), String>, Error> {
        let tags = spec.images.values().flat_map(|image| &image.tags);
        let references = tags.flat_map(|tag| &tag.owner_references);
        let mut found = BTreeMap::new();
        for reference in references.filter(|reference| is_job(reference)) {
            let namespace = reference.namespace.clone().unwrap_or_default();
            let name = reference.name.clone().unwrap_or_default();
            let uid = match self.jobs.get(&namespace, &name) {
                Some(job) if job.uid() == reference.uid => job.uid(),
                _ => {
                    let (client, resource) = (self.ctx.client.clone(), &self.jobs_resource);
                    let api = Api::<DynamicObject>::namespaced_with(client, &namespace, resource);
                    api.get_opt(&name).await?.and_then(|job| job.uid())
                }
            };
            found.extend(uid.map(|uid| ((namespace, name), uid)));
        }
        Ok(found)
    }

    /// Returns the secrets of the images, except `batch` ones, that are gone, by namespace and
    /// name.
    async fn missing_secrets(&self, spec: &NodeImageSpec) -> Vec<(String, String)> {
        let mut missing = Vec::new();
        for reference in spec.images.values().flat_map(|image| &image.pull_secrets) {
            if reference.mode == spec::BATCH {
                continue;
            }
            let (namespace, name) = (&reference.namespace, &reference.name);
            let api: Api<Secret> = Api::namespaced(self.ctx.client.clone(), namespace);
            if let Ok(None) = api.get_metadata_opt(name).await {
                missing.push((namespace.clone(), name.clone()));
            }
        }
        missing
    }

    /// Gives up pulls that the node does not report; returns the delays until the next checks.
    async fn update_status(&self, image: &DynamicObject) -> Result<Vec<Duration>, Error> {
        let spec: NodeImageSpec = untyped::read(image, "spec")?;
        let known: NodeImageStatus = untyped::read(image, "status")?;
        let judged = judge(&spec, &known, (self.ctx.now)());
        for pull in &judged.failed {
            self.record_failed(image, &spec, pull).await;
        }
        if judged.status.image_statuses == known.image_statuses {
            return Ok(judged.waits);
        }
        let written = untyped::with(image, &self.resource, "status", &judged.status);
        let name = image.name_any();
        let params = PostParams::default();
        self.api().replace_status(&name, &params, &written).await?;
        Ok(judged.waits)
    }

    async fn record_failed(&self, image: &DynamicObject, spec: &NodeImageSpec, pull: &Pull) {
        let Pull { name, tag, message } = pull;
        let node = image.name_any();
        let message = format!("Failed to pull image {name}:{tag} on node {node} for {message}");
        let tags = spec.images.get(name).into_iter().flat_map(|own| &own.tags);
        let asked = tags.filter(|asked| asked.tag == *tag);
        let owners = asked.flat_map(|asked| asked.owner_references.clone());
        let ApiResource {
            api_version, kind, ..
        } = &self.resource;
        let own = reference_to(api_version, kind, &image.metadata);
        for reference in owners.chain([own]) {
            self.recorder
                .publish(&reference, EventType::Warning, "PullImageFailed", &message)
                .await;
        }
    }
}

fn is_terminating(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let node = self.nodes.get("", &key.name);
        let node = node.filter(|node| !is_terminating(&node.metadata));
        let image = self.images.get("", &key.name);
        let (node, image) = match (&node, image) {
            (None, None) => return Ok(None),
            (Some(node), None) => return self.create(node).await,
            (_, Some(image)) if is_terminating(&image.metadata) => return Ok(None),
            (None, Some(image)) if !image.labels().contains_key(FAKE_LABEL) => {
                self.api()
                    .delete(&key.name, &DeleteParams::default())
                    .await?;
                return Ok(None);
            }
            (node, Some(image)) => (node.as_deref(), image),
        };
        let Some(mut waits) = self.update_spec(&image, node).await? else {
            return Ok(None);
        };
        waits.extend(self.update_status(&image).await?);
        Ok(waits.into_iter().min().map(|wait| wait.max(AGAIN_MIN)))
    }
}

/// Whether the reference is to an ImagePullJob.
fn is_job(reference: &ObjectReference) -> bool {
    let version = reference.api_version.as_deref().unwrap_or_default();
    let group = version.split_once('/').map(|(group, _)| group);
    group == Some(GROUP) && reference.kind.as_deref() == Some("ImagePullJob")
}

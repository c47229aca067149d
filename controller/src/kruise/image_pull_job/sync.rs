//! Syncs one job: reads the nodes' status, requests pulls on further nodes, reports progress.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kube::api::{DeleteParams, PostParams};
use kube::core::{DynamicObject, Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_node::familiar_name;
use kubeproof_runtime::clock::go_seconds;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::retry::{DEFAULT_BACKOFF, retry_on_conflict};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::progress::{self, Node, Progress, Wanted};
use super::request;
use super::{Controller, Job};
use crate::kruise::api::image_pull_job::NEVER;
use crate::kruise::api::node_image::{NodeImageSpec, NodeImageStatus, ReferenceObject};
use crate::kruise::untyped;

/// The time after which an unobserved write is no longer awaited with a timer.
const EXPECTATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// The delay before a job is synced again whose nodes are older in the cache than last written.
const BEHIND_DELAY: Duration = Duration::from_secs(5);
/// The shortest delay before a job's deadline is checked again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
/// The finalizer that keeps a job until its secrets are released.
const FINALIZER: &str = "apps.kruise.io/deletion-protection";

/// The time until waiting is over, none when it is.
fn until_timeout(waited: SignedDuration) -> Option<Duration> {
    let left = Duration::try_from(EXPECTATION_TIMEOUT - waited).ok();
    left.filter(|left| !left.is_zero())
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(object) = self.jobs.get(&key.namespace, &key.name) else {
            self.expectations.forget(key);
            return Ok(None);
        };
        let now = (self.ctx.now)();
        if let Some(waited) = self.expectations.unsatisfied_for(key, now) {
            return Ok(until_timeout(waited));
        }
        if let Some(waited) = self.versions.behind_for(&*object, now) {
            return Ok(until_timeout(waited));
        }
        let mut job = Job::read(&object)?;
        if job.is_over() {
            self.finalize(&job).await?;
            return self.clean_up(&job).await;
        }
        self.protect(&mut job).await?;
        let images = self.images_for(&job)?;
        let objects = images.iter().map(AsRef::as_ref);
        if let Some(waited) = self.versions.first_behind(objects, now) {
            return Ok(until_timeout(waited).map(|_| BEHIND_DELAY));
        }
        let secrets = self.sync_secrets(&job).await?;
        self.advance(&job, &images, &secrets).await
    }
}

impl Controller {
    fn api(&self, job: &Job) -> Api<DynamicObject> {
        Api::namespaced_with(self.ctx.client.clone(), job.namespace(), &self.resource)
    }

    /// Adds the finalizer that keeps the job until its secrets are released.
    async fn protect(&self, job: &mut Job) -> Result<(), Error> {
        if job.object.finalizers().iter().any(|own| own == FINALIZER) {
            return Ok(());
        }
        let mut object = untyped::typed(&job.object, &self.resource);
        object.finalizers_mut().push(FINALIZER.to_owned());
        let params = PostParams::default();
        let name = object.name_any();
        job.object = self.api(job).replace(&name, &params, &object).await?;
        Ok(())
    }

    /// Lets go of the job's secrets, then of the job.
    async fn finalize(&self, job: &Job) -> Result<(), Error> {
        let mut object = untyped::typed(&job.object, &self.resource);
        let before = object.finalizers().len();
        object.finalizers_mut().retain(|own| own != FINALIZER);
        if object.finalizers().len() == before {
            return Ok(());
        }
        self.sync_secrets(job).await?;
        let params = PostParams::default();
        let name = object.name_any();
        self.api(job).replace(&name, &params, &object).await?;
        Ok(())
    }

    /// Deletes a job that has been over for its time.
    async fn clean_up(&self, job: &Job) -> Result<Option<Duration>, Error> {
        let ttl = job.spec.completion_policy.ttl_seconds_after_finished;
        let completed = job.status.completion_time;
        let Some((ttl, completed)) = ttl.zip(completed).filter(|_| !job.is_terminating()) else {
            return Ok(None);
        };
        let left = go_seconds(ttl.into()) - (self.ctx.now)().duration_since(completed);
        let left = Duration::try_from(left).ok().filter(|left| !left.is_zero());
        if left.is_none() {
            let name = job.object.name_any();
            let deleted = self.api(job).delete(&name, &DeleteParams::default()).await;
            deleted?;
        }
        Ok(left)
    }

    /// The NodeImages of the nodes that the job wants the image on, by name.
    fn images_for(&self, job: &Job) -> Result<Vec<Arc<DynamicObject>>, Error> {
        let malformed = |error: kube::core::ParseExpressionError| Error::Refused(error.to_string());
        if let Some(selector) = job.spec.pod_selector.clone() {
            let selector = Selector::try_from(selector).map_err(malformed)?;
            let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
            let pods = self.pods.in_namespace(job.namespace());
            let own = pods.iter().filter(|pod| selector.matches(pod.labels()));
            let own = own.filter(|pod| pod::is_active(pod));
            let names: BTreeSet<String> = own.filter_map(|pod| node(pod)).collect();
            let images = names.iter().filter_map(|name| self.images.get("", name));
            return Ok(images.collect());
        }
        if let Some(selector) = job.spec.selector.as_ref().filter(|one| one.names.is_none()) {
            // Read for its faults.
            Selector::try_from(selector.labels.clone()).map_err(malformed)?;
        }
        let mut images = self.images.all();
        images.retain(|image| self.selects(job, image));
        Ok(images)
    }

    async fn advance(
        &self,
        job: &Job,
        images: &[Arc<DynamicObject>],
        secrets: &[ReferenceObject],
    ) -> Result<Option<Duration>, Error> {
        let now = (self.ctx.now)();
        let named = familiar_name(&job.spec.image);
        let invalid = |error| Error::Refused(format!("invalid image {}: {error}", job.spec.image));
        let (image, tag) = named.map_err(invalid)?;
        let wanted = Wanted {
            uid: job.uid(),
            spec: &job.spec,
            image: &image,
            tag: &tag,
            secrets,
        };
        let nodes: Result<Vec<Node>, Error> = images.iter().map(|image| read_node(image)).collect();
        let Progress { status, not_asked } = progress::progress(wanted, &job.status, &nodes?, now);
        let free = request::parallelism(&job.spec).saturating_sub(status.active);
        let free = usize::try_from(free).unwrap_or(0);
        for name in not_asked.iter().take(free) {
            self.ask(job, wanted, name).await?;
        }
        if status != job.status {
            let object = untyped::with(&job.object, &self.resource, "status", &status);
            let (name, params) = (object.name_any(), PostParams::default());
            let api = self.api(job);
            let written = api.replace_status(&name, &params, &object).await?;
            self.versions.expect(&written);
            return Ok(None);
        }
        let policy = &job.spec.completion_policy;
        let deadline = policy.active_deadline_seconds;
        let deadline = deadline.filter(|_| policy.type_ != NEVER);
        Ok(deadline.zip(status.start_time).map(|(seconds, start)| {
            let left = go_seconds(seconds) - now.duration_since(start);
            Duration::try_from(left).unwrap_or(AGAIN_MIN).max(AGAIN_MIN)
        }))
    }

    /// Asks a node for the image; after a conflict, with its object as the server has it then.
    async fn ask(&self, job: &Job, wanted: Wanted<'_>, name: &str) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::all_with(self.ctx.client.clone(), &self.images_resource);
        let mut owner = reference_to(
            &self.resource.api_version,
            &self.resource.kind,
            &job.object.metadata,
        );
        owner.resource_version = None;
        let mut delays = DEFAULT_BACKOFF.into_iter();
        let mut object = match self.images.get("", name) {
            Some(cached) => (*cached).clone(),
            None => api.get(name).await?,
        };
        loop {
            let mut spec: NodeImageSpec = untyped::read(&object, "spec")?;
            let status: NodeImageStatus = untyped::read(&object, "status")?;
            let now = (self.ctx.now)();
            if !request::ask(&mut spec, &status, wanted, &owner, now) {
                return Ok(());
            }
            let changed = untyped::with(&object, &self.images_resource, "spec", &spec);
            match api.replace(name, &PostParams::default(), &changed).await {
                Ok(written) => {
                    if written.resource_version() != object.resource_version() {
                        self.versions.expect(&written);
                    }
                    return Ok(());
                }
                Err(error) => retry_on_conflict(&mut delays, error.into()).await?,
            }
            object = api.get(name).await?;
        }
    }
}

fn read_node(image: &DynamicObject) -> Result<Node, Error> {
    Ok(Node {
        name: image.name_any(),
        spec: untyped::read(image, "spec")?,
        status: untyped::read(image, "status")?,
    })
}

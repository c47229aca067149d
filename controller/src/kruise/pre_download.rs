//! Makes nodes pull the images of an update in place before it reaches their pods.
//!
//! Source: openkruise/kruise `cloneset_predownload_image.go`, `statefulset_predownload_image.go` and
//! pkg/util/imagejob/utilfunction.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ObjectReference, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, OwnerReference,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::pod::REVISION_LABEL;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::sync_error::Error;
use serde_json::json;

use super::Gates;
use super::api::image_pull_job::{CompletionPolicy, ImagePullJobSpec, PullPolicy, SandboxConfig};
use super::definition::defined;
use super::in_place::update_spec;
use crate::workload::history::{self, HASH_LABEL};
use crate::workload::revision_control::Chosen;

/// The label of revisions whose images are pulled ahead. The word is upstream's.
const CREATED_LABEL: &str = "apps.kruise.io/pre-predownload-created";
/// The label of revisions for which that is not worth it.
const IGNORED_LABEL: &str = "apps.kruise.io/image-predownload-ignored";
/// The images of workloads with this many replicas or fewer are not pulled ahead.
const REPLICAS_MIN: i32 = 3;
/// The default timeout of a pull, in seconds.
const TIMEOUT_SECONDS: i32 = 300;
/// The time to live of a finished job, in seconds.
const TTL_SECONDS: i32 = 600;

/// Pulls images ahead for the workloads of a controller.
pub(crate) struct PreDownload {
    ctx: Context,
    recorder: Recorder,
    jobs: Informer<DynamicObject>,
    /// Unset until jobs are defined.
    resource: OnceLock<ApiResource>,
}

/// A workload whose update is due.
pub(crate) struct Workload<'a> {
    /// The reference with which it controls its jobs.
    pub(crate) owner: OwnerReference,
    /// The reference to the workload for events.
    pub(crate) involved: ObjectReference,
    pub(crate) namespace: &'a str,
    pub(crate) selector: &'a LabelSelector,
    pub(crate) template: &'a PodTemplateSpec,
    pub(crate) update: Update,
    pub(crate) options: Options,
    pub(crate) grace_seconds: i32,
    pub(crate) gates: Gates,
    /// The update revision in its status, ...
    pub(crate) known_revision: Option<String>,
    /// ... and how many pods were ready at that.
    pub(crate) updated_ready: i32,
}

/// How the pods of a workload are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) replicas: i32,
    pub(crate) partition: i32,
    pub(crate) max_unavailable: i32,
    /// Whether the policy lets pods be updated in place.
    pub(crate) may_be_in_place: bool,
}

/// The user's options for pulling images ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The number or share of nodes that pull at once.
    pub(crate) parallelism: Option<IntOrString>,
    pub(crate) timeout_seconds: Option<i32>,
    /// The number of ready updated pods before other nodes pull.
    pub(crate) min_updated_ready: i32,
}

impl Workload<'_> {
    /// The number of ready pods at the revision, by the status.
    fn ready_at(&self, revision: &str) -> i32 {
        match self.known_revision.as_deref() == Some(revision) {
            true => self.updated_ready,
            false => 0,
        }
    }
}

impl Update {
    /// Whether pods have to wait for each other, so that there is time to pull images.
    fn is_worth_it(self) -> bool {
        let at_once = self.partition == 0 && self.max_unavailable >= self.replicas;
        self.may_be_in_place && self.replicas > REPLICAS_MIN && !at_once
    }
}

impl PreDownload {
    /// Returns None if the gates disable pulling ahead.
    pub(crate) fn new(ctx: &Context, recorder: &Recorder, gates: Gates) -> Option<Self> {
        gates.pre_download.then(|| Self {
            ctx: ctx.clone(),
            recorder: recorder.clone(),
            jobs: Informer::new(),
            resource: OnceLock::new(),
        })
    }

    /// Watches the jobs there are, once they are defined, until the future is dropped.
    pub(crate) async fn run(&self) {
        let resource = defined(&self.ctx, "imagepulljobs").await;
        let api = Api::all_with(self.ctx.client.clone(), &resource);
        let _ = self.resource.set(resource);
        self.jobs.run(api, watcher::Config::default(), |_| {}).await;
    }

    fn api(&self, namespace: &str) -> Option<Api<DynamicObject>> {
        let resource = self.resource.get()?;
        Some(Api::namespaced_with(
            self.ctx.client.clone(),
            namespace,
            resource,
        ))
    }

    /// Makes the nodes of pods at other revisions pull the images that an update brings, once for
    /// each revision; deletes the jobs when all pods are at one. Returns the update revision, if
    /// that was labeled. A failure does not stop the rest.
    pub(crate) async fn follow(
        &self,
        workload: &Workload<'_>,
        chosen: &Chosen,
    ) -> Option<ControllerRevision> {
        let name = chosen.update.name_any();
        let followed = if chosen.current.name_any() == name {
            self.end(workload).await.map(|()| None)
        } else if workload.ready_at(&name) >= workload.options.min_updated_ready {
            self.begin(workload, chosen).await
        } else {
            Ok(None)
        };
        followed.unwrap_or_else(|error| {
            tracing::warn!(revision = name, %error, "images not pulled ahead");
            None
        })
    }

    async fn begin(
        &self,
        workload: &Workload<'_>,
        chosen: &Chosen,
    ) -> Result<Option<ControllerRevision>, Error> {
        let (current, update) = (&chosen.current, &chosen.update);
        let labels = update.labels();
        if labels.contains_key(CREATED_LABEL) || labels.contains_key(IGNORED_LABEL) {
            return Ok(None);
        }
        let Some(jobs) = self.api(workload.namespace) else {
            return Ok(None);
        };
        let (grace, gates) = (workload.grace_seconds, workload.gates);
        let is_in_place = || update_spec(Some(current), update, grace, gates).is_some();
        if !workload.update.is_worth_it() || !is_in_place() {
            return self.label(workload, update, IGNORED_LABEL).await.map(Some);
        }
        for (container, image) in new_images(current, update) {
            let name = format!("{}-{container}", update.name_any());
            let job = self.job(workload, update, &name, &image);
            let (reason, message) = match jobs.create(&PostParams::default(), &job).await {
                Ok(_) => {
                    let message = format!("created ImagePullJob {name} for image: {image}");
                    ("CreatedImagePullJob", message)
                }
                Err(error) => {
                    let error = Error::from(error);
                    if error.is_already_exists() {
                        continue;
                    }
                    let message = format!("failed to create ImagePullJob {name}: {error}");
                    ("FailedCreateImagePullJob", message)
                }
            };
            self.recorder
                .publish(&workload.involved, EventType::Normal, reason, &message)
                .await;
        }
        self.label(workload, update, CREATED_LABEL).await.map(Some)
    }

    async fn end(&self, workload: &Workload<'_>) -> Result<(), Error> {
        let namespace = workload.namespace;
        let Some(api) = self.api(namespace) else {
            return Ok(());
        };
        for job in self.jobs.controlled_by(namespace, &workload.owner.uid) {
            api.delete(&job.name_any(), &DeleteParams::default())
                .await?;
        }
        Ok(())
    }

    fn job(
        &self,
        workload: &Workload<'_>,
        update: &ControllerRevision,
        name: &str,
        image: &str,
    ) -> DynamicObject {
        let template = workload.template.metadata.clone().unwrap_or_default();
        let mut labels = template.labels.unwrap_or_default();
        let hash = update.labels().get(HASH_LABEL).cloned().unwrap_or_default();
        labels.insert(HASH_LABEL.to_owned(), hash.clone());
        let spec = ImagePullJobSpec {
            image: image.to_owned(),
            pull_secrets: pull_secrets(workload.template),
            pod_selector: Some(others(workload.selector, &update.name_any(), hash)),
            parallelism: Some(
                workload
                    .options
                    .parallelism
                    .clone()
                    .unwrap_or(IntOrString::Int(1)),
            ),
            pull_policy: Some(PullPolicy {
                backoff_limit: Some(1),
                timeout_seconds: workload.options.timeout_seconds.or(Some(TIMEOUT_SECONDS)),
            }),
            completion_policy: CompletionPolicy {
                type_: "Always".to_owned(),
                ttl_seconds_after_finished: Some(TTL_SECONDS),
                active_deadline_seconds: None,
            },
            sandbox_config: Some(SandboxConfig {
                labels: labels.clone(),
                annotations: template.annotations.unwrap_or_default(),
            }),
            ..ImagePullJobSpec::default()
        };
        let resource = self.resource.get().expect("there is an API for jobs");
        let mut job = DynamicObject::new(name, resource);
        job.metadata.namespace = Some(workload.namespace.to_owned());
        job.metadata.labels = Some(labels);
        job.metadata.owner_references = Some(vec![workload.owner.clone()]);
        job.data = json!({ "spec": spec });
        job
    }

    async fn label(
        &self,
        workload: &Workload<'_>,
        revision: &ControllerRevision,
        label: &str,
    ) -> Result<ControllerRevision, Error> {
        let client = self.ctx.client.clone();
        let api: Api<ControllerRevision> = Api::namespaced(client, workload.namespace);
        let patch = Patch::Strategic(json!({ "metadata": { "labels": { label: "true" } } }));
        let name = revision.name_any();
        Ok(api.patch(&name, &PatchParams::default(), &patch).await?)
    }
}

/// The selector of the workload's pods that are not at the revision yet.
fn others(selector: &LabelSelector, revision: &str, hash: String) -> LabelSelector {
    let mut selector = selector.clone();
    let expressions = selector.match_expressions.get_or_insert_default();
    expressions.push(LabelSelectorRequirement {
        key: REVISION_LABEL.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![revision.to_owned(), hash]),
    });
    selector
}

fn pull_secrets(template: &PodTemplateSpec) -> Vec<String> {
    let secrets = template
        .spec
        .iter()
        .flat_map(|spec| &spec.image_pull_secrets);
    secrets
        .flatten()
        .map(|secret| secret.name.clone())
        .collect()
}

/// The images of `new` that containers do not have at `old`, by container.
fn new_images(old: &ControllerRevision, new: &ControllerRevision) -> BTreeMap<String, String> {
    let images = |revision: &ControllerRevision| -> BTreeMap<String, String> {
        let template = history::template_of(revision).unwrap_or_default();
        let containers = template["spec"]["containers"].as_array().cloned();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let containers = containers.unwrap_or_default();
        let pairs = containers
            .iter()
            .map(|one| (text(&one["name"]), text(&one["image"])));
        pairs.collect()
    };
    let (old, mut new) = (images(old), images(new));
    new.retain(|name, image| old.get(name) != Some(image));
    new
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn images_are_pulled_ahead_where_pods_wait_for_each_other() {
        let update = Update {
            replicas: 4,
            partition: 0,
            max_unavailable: 1,
            may_be_in_place: true,
        };
        assert!(update.is_worth_it());
        for (changed, is_worth_it) in [
            (
                Update {
                    replicas: 3,
                    ..update
                },
                false,
            ),
            (
                Update {
                    may_be_in_place: false,
                    ..update
                },
                false,
            ),
            (
                Update {
                    max_unavailable: 4,
                    ..update
                },
                false,
            ),
            (
                Update {
                    max_unavailable: 4,
                    partition: 1,
                    ..update
                },
                true,
            ),
            (
                Update {
                    max_unavailable: 3,
                    ..update
                },
                true,
            ),
        ] {
            assert_eq!(changed.is_worth_it(), is_worth_it, "{changed:?}");
        }
    }

    #[test]
    fn only_new_images_are_pulled() {
        let revision = |containers: serde_json::Value| -> ControllerRevision {
            let template = json!({"metadata": {}, "spec": {"containers": containers}});
            from_value(json!({"metadata": {"name": "s"}, "revision": 1,
                "data": history::legacy_template_data(&template)}))
            .unwrap()
        };
        let old = revision(json!([{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]));
        let new = revision(
            json!([{"name": "a", "image": "x:2"}, {"name": "b", "image": "y:1"}, {"name": "c", "image": "z:1"}]),
        );
        let pulled = |old, new| {
            let images = new_images(old, new);
            images
                .into_iter()
                .map(|(name, image)| format!("{name}={image}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(pulled(&old, &new), ["a=x:2", "c=z:1"]);
        assert!(pulled(&old, &old).is_empty());
    }
}

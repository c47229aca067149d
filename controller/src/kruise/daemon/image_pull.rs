//! Pulls the images that NodeImages ask for: in no time, as every machine has every image, but for those
//! that are missing or of registries that no machine finds. Those are tried again as upstream's daemon tries them.
//!
//! Pull secrets are not used: no registry here requires any.
//!
//! Source: openkruise/kruise pkg/daemon/imagepuller.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_node::{Containers, image_id, pull_error, reference_to};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;

use crate::kruise::api::node_image::{
    ImageStatus, ImageTagPullPolicy, ImageTagSpec, ImageTagStatus, NodeImageSpec, NodeImageStatus,
};
use crate::kruise::in_place::whole_second;
use crate::kruise::untyped;

const NAME: &str = "kruise-daemon-imagepuller";
const WORKERS: usize = 1;
/// Upstream's: a failed sync is tried again sooner than the manager gives a pull up.
const RETRIES: RetryDelays = RetryDelays {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(50),
};
/// The interval of checks of unfinished pulls.
const AGAIN: Duration = Duration::from_secs(3);
const BACKOFF_LIMIT: i32 = 3;
const BACKOFF_FIRST: SignedDuration = SignedDuration::from_secs(1);
const BACKOFF_LONGEST: SignedDuration = SignedDuration::from_secs(30);

struct Puller {
    ctx: Context,
    resource: ApiResource,
    recorder: Recorder,
    containers: Containers,
    images: Informer<DynamicObject>,
    queue: WorkQueue<ObjectKey>,
    /// The start of each running pull, by node.
    begun: Mutex<BTreeMap<String, BTreeMap<Pull, Timestamp>>>,
}

/// A pull: image, tag, and the version of the request.
type Pull = (String, String, i64);

/// Pulls for all nodes until the future is dropped.
pub(super) async fn run(ctx: Context, containers: Containers, resource: ApiResource) {
    let puller = Puller {
        recorder: Recorder::new(ctx.clone(), NAME),
        images: Informer::new(),
        queue: WorkQueue::retrying(RETRIES),
        begun: Mutex::default(),
        containers,
        resource,
        ctx,
    };
    let api = Api::all_with(puller.ctx.client.clone(), &puller.resource);
    let config = watcher::Config::default();
    let watch = puller
        .images
        .run(api, config, |change| puller.changed(change));
    join(watch, worker::run(&puller, &puller.queue, WORKERS)).await;
}

impl Puller {
    fn changed(&self, change: &Change<DynamicObject>) {
        let new = match change {
            Change::Added(new) => new,
            Change::Updated { old, new } if old.data["spec"] != new.data["spec"] => new,
            Change::Updated { .. } => return,
            Change::Deleted { last: gone, .. } => {
                self.begun.lock().remove(&gone.name_any());
                return;
            }
        };
        let is_own = self.containers.knows(&new.name_any());
        if is_own && new.metadata.deletion_timestamp.is_none() {
            self.queue.add(ObjectKey::of(&**new));
        }
    }

    /// The status of the pulls on `node`, as of now, and those that have ended since `known`.
    fn look(
        &self,
        node: &str,
        spec: &NodeImageSpec,
        known: &NodeImageStatus,
    ) -> (NodeImageStatus, Vec<(Pull, ImageTagStatus)>) {
        let now = whole_second((self.ctx.now)());
        let mut begun = self.begun.lock();
        let begun = begun.entry(node.to_owned()).or_default();
        let (mut status, mut ended, mut current) =
            (NodeImageStatus::default(), Vec::new(), Vec::new());
        for (image, asked) in &spec.images {
            status.desired += i32::try_from(asked.tags.len()).unwrap_or(i32::MAX);
            let of_image = known.image_statuses.get(image);
            let mut tags = Vec::new();
            for asked in &asked.tags {
                let is_same = |one: &&ImageTagStatus| {
                    one.tag == asked.tag
                        && one.version == asked.version
                        && one.completion_time.is_some()
                };
                let done = of_image.and_then(|one| one.tags.iter().find(is_same));
                let pull = (image.clone(), asked.tag.clone(), asked.version);
                let tag_status = match done {
                    Some(done) => done.clone(),
                    None => {
                        let start = begun.get(&pull).copied();
                        // A pull that has just begun is reported before it may be over.
                        let tag_status = match start {
                            Some(start) => course(image, asked, start, &self.containers).at(now),
                            None => pulling(asked, now),
                        };
                        begun.entry(pull.clone()).or_insert(now);
                        current.push(pull.clone());
                        if tag_status.completion_time.is_some() {
                            ended.push((pull, tag_status.clone()));
                        }
                        tag_status
                    }
                };
                match tag_status.phase.as_str() {
                    "Succeeded" => status.succeeded += 1,
                    "Failed" => status.failed += 1,
                    _ => status.pulling += 1,
                }
                tags.push(tag_status);
            }
            tags.sort_by(|a, b| a.tag.cmp(&b.tag));
            if !tags.is_empty() {
                status
                    .image_statuses
                    .insert(image.clone(), ImageStatus { tags });
            }
        }
        begun.retain(|pull, _| current.contains(pull));
        (status, ended)
    }

    async fn record_event(
        &self,
        object: &DynamicObject,
        spec: &NodeImageSpec,
        pull: &Pull,
        pulled: &ImageTagStatus,
    ) {
        let (image, tag, version) = pull;
        let recorder = self.recorder.at(object.name_any());
        let own = ObjectReference {
            api_version: Some(self.resource.api_version.clone()),
            kind: Some(self.resource.kind.clone()),
            name: Some(object.name_any()),
            uid: object.uid(),
            resource_version: object.resource_version(),
            ..ObjectReference::default()
        };
        if pulled.phase == "Succeeded" {
            // The word is upstream's.
            let message = format!("Image {image}:{tag}, ecalpsedTime 0s");
            recorder
                .publish(&own, EventType::Normal, "PullImageSucceed", &message)
                .await;
            return;
        }
        let message = format!("Image {image}:{tag} {}", pulled.message);
        let tags = spec.images.get(image).map(|image| &image.tags);
        let asked = tags.into_iter().flatten();
        let mut asked = asked.filter(|asked| asked.tag == *tag && asked.version == *version);
        let owners = asked.next().map(|asked| asked.owner_references.clone());
        for reference in owners.into_iter().flatten().chain([own]) {
            recorder
                .publish(&reference, EventType::Warning, "PullImageFailed", &message)
                .await;
        }
    }
}

impl Reconcile for Puller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(object) = self.images.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let spec: NodeImageSpec = untyped::read(&object, "spec")?;
        let known: NodeImageStatus = untyped::read(&object, "status")?;
        let (status, ended) = self.look(&key.name, &spec, &known);
        let pulls_on = status.pulling > 0;
        let is_reported = known == status && !object.data["status"].is_null();
        if !is_reported {
            let written = untyped::with(&object, &self.resource, "status", &status);
            let api: Api<DynamicObject> = Api::all_with(self.ctx.client.clone(), &self.resource);
            let params = PostParams::default();
            api.replace_status(&key.name, &params, &written).await?;
            for (pull, pulled) in &ended {
                self.record_event(&object, &spec, pull, pulled).await;
            }
        }
        Ok(pulls_on.then_some(AGAIN))
    }
}

fn pulling(asked: &ImageTagSpec, start: Timestamp) -> ImageTagStatus {
    ImageTagStatus {
        tag: asked.tag.clone(),
        phase: "Pulling".to_owned(),
        start_time: Some(start),
        version: asked.version,
        ..ImageTagStatus::default()
    }
}

/// How a pull goes.
struct Course {
    before: ImageTagStatus,
    end: Timestamp,
    after: ImageTagStatus,
}

impl Course {
    fn at(self, now: Timestamp) -> ImageTagStatus {
        match now >= self.end {
            true => self.after,
            false => self.before,
        }
    }
}

/// How the pull of a tag that begins at `start` goes.
fn course(image: &str, asked: &ImageTagSpec, start: Timestamp, nodes: &Containers) -> Course {
    let before = pulling(asked, start);
    let reference = reference_to(image, &asked.tag);
    let (end, outcome) = match pull_error(&reference, nodes.missing_images()) {
        None => (start, Ok(image_id(&reference, nodes.same_images()))),
        Some(error) => {
            let (end, message) = give_up(asked.pull_policy.as_ref(), start, error);
            (end, Err(message))
        }
    };
    let mut after = ImageTagStatus {
        completion_time: Some(end),
        ..before.clone()
    };
    match outcome {
        Ok(id) => {
            let digest = id.split_once('@').map_or(id.as_str(), |(_, digest)| digest);
            after.phase = "Succeeded".to_owned();
            after.progress = 100;
            after.image_id = format!("{image}@{digest}");
        }
        Err(message) => {
            after.phase = "Failed".to_owned();
            after.message = message;
        }
    }
    Course { before, end, after }
}

/// When a pull is given up that fails with `error` each time, and what is said of it.
fn give_up(
    policy: Option<&ImageTagPullPolicy>,
    start: Timestamp,
    error: String,
) -> (Timestamp, String) {
    let limit = policy.and_then(|policy| policy.backoff_limit);
    let limit = limit.filter(|limit| *limit >= 0).unwrap_or(BACKOFF_LIMIT);
    let deadline = policy.and_then(|policy| policy.active_deadline_seconds);
    let deadline = deadline.map(|seconds| start.saturating_add(SignedDuration::from_secs(seconds)));
    let deadline = deadline.and_then(Result::ok);
    let (mut now, mut wait) = (start, BACKOFF_FIRST);
    for _ in 0..=limit {
        if deadline.is_some_and(|deadline| now >= deadline) {
            let message = "pulling exceeds the activeDeadlineSeconds".to_owned();
            return (now, message);
        }
        let Ok(next) = now.saturating_add(wait) else {
            break;
        };
        (now, wait) = (next, (wait * 2).min(BACKOFF_LONGEST));
    }
    (now, error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubeproof_node::{MissingImages, SameImages};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + seconds).unwrap()
    }

    fn asked(limit: Option<i32>, deadline: Option<i64>) -> ImageTagSpec {
        ImageTagSpec {
            tag: "1".to_owned(),
            version: 7,
            pull_policy: Some(ImageTagPullPolicy {
                backoff_limit: limit,
                active_deadline_seconds: deadline,
                ..ImageTagPullPolicy::default()
            }),
            ..ImageTagSpec::default()
        }
    }

    fn nodes() -> Containers {
        let missing = MissingImages::try_new(vec!["web:404".to_owned()]).unwrap();
        Containers::of(1, SameImages::default(), missing, Arc::new(|| at(0)))
    }

    #[test]
    fn an_image_that_is_there_is_pulled_at_once() {
        let status = course("nginx", &asked(None, None), at(0), &nodes()).at(at(0));
        assert_eq!((status.phase.as_str(), status.progress), ("Succeeded", 100));
        assert_eq!((status.version, status.completion_time), (7, Some(at(0))));
        assert!(
            status.image_id.starts_with("nginx@sha256:"),
            "{}",
            status.image_id
        );
    }

    #[test]
    fn an_image_that_no_registry_has_is_not_found() {
        let asked = ImageTagSpec {
            tag: "404".to_owned(),
            ..asked(None, None)
        };
        let status = course("web", &asked, at(0), &nodes()).at(at(15));
        assert_eq!(status.phase, "Failed");
        assert!(status.message.ends_with("/web:404: not found"));
    }

    #[test]
    fn a_registry_that_does_not_answer_is_tried_again() {
        let image = "invalid.registry.k8s.io/a";
        for (limit, deadline, end, says) in [
            (None, None, 15, "no such host"),
            (Some(0), None, 1, "no such host"),
            (Some(-1), None, 15, "no such host"),
            (Some(6), None, 91, "no such host"),
            (
                None,
                Some(5),
                7,
                "pulling exceeds the activeDeadlineSeconds",
            ),
        ] {
            let asked = asked(limit, deadline);
            let before = course(image, &asked, at(0), &nodes()).at(at(end - 1));
            assert_eq!(before, pulling(&asked, at(0)), "{limit:?} {deadline:?}");
            let after = course(image, &asked, at(0), &nodes()).at(at(end));
            assert_eq!(after.phase, "Failed", "{limit:?} {deadline:?}");
            assert_eq!(after.completion_time, Some(at(end)));
            assert!(after.message.contains(says), "{}", after.message);
        }
    }
}

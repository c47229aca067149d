//! Restarts containers that a ContainerRecreateRequest names: stops them, one after the other, and
//! reports the phase of each in the request's status.
//!
//! The manager does the rest: it labels requests, marks pods as not ready, copies the statuses of
//! the pod's containers, and ends requests that take too long or are over.
//!
//! Source: openkruise/kruise pkg/daemon/containerrecreate.

mod states;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_node::Containers;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::version_expectations::VersionExpectations;
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::{Value, json};

use crate::kruise::in_place::whole_second;
use states::{Phase, Request, Seen, State, current};

const NAME: &str = "kruise-daemon-crr";
/// The number of pods synced at once: a worker waits for the container that it stops.
const WORKERS: usize = 32;
const RETRIES: RetryDelays = RetryDelays {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(50),
};
const NODE_LABEL: &str = "crr.apps.kruise.io/node-name";
const POD_UID_LABEL: &str = "crr.apps.kruise.io/pod-uid";
const ACTIVE: &str = "crr.apps.kruise.io/active=true";
/// The grace period if neither the request nor the pod sets one.
const GRACE: i64 = 30;
/// The delay of the check after the end of a grace period.
const BEHIND: SignedDuration = SignedDuration::from_millis(100);

struct Recreator {
    ctx: Context,
    resource: ApiResource,
    recorder: Recorder,
    containers: Containers,
    requests: Informer<DynamicObject>,
    /// The namespaces and names of pods.
    queue: WorkQueue<ObjectKey>,
    versions: VersionExpectations,
}

/// Serves the requests for pods of all nodes until the future is dropped.
pub(super) async fn run(ctx: Context, containers: Containers, resource: ApiResource) {
    let recreator = Recreator {
        recorder: Recorder::new(ctx.clone(), NAME),
        requests: Informer::new(),
        queue: WorkQueue::retrying(RETRIES),
        versions: VersionExpectations::default(),
        containers,
        resource,
        ctx,
    };
    let api = Api::all_with(recreator.ctx.client.clone(), &recreator.resource);
    let config = watcher::Config::default().labels(ACTIVE);
    let requests = &recreator.requests;
    let watch = requests.run(api, config, |change| recreator.changed(change));
    join(watch, worker::run(&recreator, &recreator.queue, WORKERS)).await;
}

impl Recreator {
    fn changed(&self, change: &Change<DynamicObject>) {
        match change {
            Change::Added(new) | Change::Updated { new, .. } => {
                if self.is_due(new) {
                    self.queue.add(pod_of(new));
                }
            }
            // Another may have waited for it.
            Change::Deleted { last: gone, .. } => {
                self.versions.forget(&**gone);
                self.queue.add(pod_of(gone));
            }
        }
    }

    fn is_due(&self, request: &DynamicObject) -> bool {
        let node = request.labels().get(NODE_LABEL);
        node.is_some_and(|node| self.containers.knows(node))
            && request.metadata.deletion_timestamp.is_none()
            && request.data["status"]["completionTime"].is_null()
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.ctx.client.clone(), namespace, &self.resource)
    }

    /// Returns the request to serve next for a pod, and sets the others to wait. None while the
    /// cache is behind.
    async fn pick(&self, pod: &ObjectKey) -> Result<Option<Arc<DynamicObject>>, Error> {
        let mut requests = self.requests.in_namespace(&pod.namespace);
        requests.retain(|request| pod_of(request) == *pod && self.is_due(request));
        requests.sort_by_key(|request| {
            let rank = match request.data["status"]["phase"].as_str() {
                Some("Completed") => 1,
                Some("Recreating") => 2,
                Some("Pending") => 3,
                _ => 4,
            };
            (rank, request.metadata.creation_timestamp.clone())
        });
        let mut picked = None;
        for request in requests {
            // The version that is waited for brings the pod here again.
            if self
                .versions
                .behind_for(&*request, (self.ctx.now)())
                .is_some()
            {
                break;
            }
            let has_phase = request.data["status"]["phase"].as_str();
            let has_phase = has_phase.is_some_and(|phase| !phase.is_empty());
            if picked.is_none() {
                picked = Some(request);
            } else if !has_phase {
                self.write(&request, json!({ "phase": "Pending" })).await?;
            }
        }
        Ok(picked)
    }

    /// Writes fields of the status.
    async fn write(&self, request: &DynamicObject, fields: Value) -> Result<(), Error> {
        let mut written = request.clone();
        let status = &mut written.data["status"];
        if !status.is_object() {
            *status = json!({});
        }
        for (field, value) in fields.as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        let api = self.api(&request.namespace().unwrap_or_default());
        let params = PostParams::default();
        let name = request.name_any();
        let written = api.replace_status(&name, &params, &written).await?;
        self.versions.expect(&written);
        Ok(())
    }

    async fn write_states(&self, request: &DynamicObject, states: &[State]) -> Result<(), Error> {
        let patch = json!({ "status": { "containerRecreateStates": states } });
        let api = self.api(&request.namespace().unwrap_or_default());
        let params = PatchParams::default();
        let name = request.name_any();
        let patch = Patch::Merge(patch);
        let written = api.patch_status(&name, &params, &patch).await?;
        self.versions.expect(&written);
        Ok(())
    }

    async fn complete(&self, request: &DynamicObject, message: &str) -> Result<(), Error> {
        let now = whole_second((self.ctx.now)());
        let mut status = json!({ "phase": "Completed", "completionTime": now });
        if !message.is_empty() {
            status["message"] = message.into();
        }
        self.write(request, status).await
    }

    /// Stops the next container and reports all of them; returns the delay until the next check.
    async fn manage(&self, object: &DynamicObject) -> Result<Option<Duration>, Error> {
        let request: Request = match from_value(&object.data["spec"]) {
            Ok(request) => request,
            Err(source) => {
                let what = format!("ContainerRecreateRequest {}", object.name_any());
                return Err(Error::Malformed { what, source });
            }
        };
        if let Some(fault) = request.fault() {
            let message = format!("failed to find runtime service: {fault}");
            self.complete(object, &message).await?;
            return Ok(None);
        }
        let uid = object.labels().get(POD_UID_LABEL).cloned();
        let uid = uid.unwrap_or_default();
        let seen = |name: &str| {
            let inside = self.containers.inside(&uid, name)?;
            Some(Seen {
                id: inside.id,
                restarts: inside.run.restarts,
                is_running: inside.is_running,
                began: inside.began,
            })
        };
        let reported = states::reported(object);
        let mut states = current(&request, object, &reported, seen, (self.ctx.now)());
        if states != reported {
            self.write_states(object, &states).await?;
            return Ok(None);
        }
        let mut ended = 0;
        for state in &mut states {
            match state.phase {
                Phase::Succeeded => ended += 1,
                Phase::Failed => {
                    ended += 1;
                    if !request.strategy.ignores_failures() {
                        self.complete(object, "").await?;
                        return Ok(None);
                    }
                }
                Phase::Recreating => {
                    state.is_killed = true;
                    if request.strategy.ordered_recreate {
                        break;
                    }
                }
                Phase::Pending => {
                    if !self.kill(object, &request, &uid, &state.name).await {
                        break;
                    }
                    state.is_killed = true;
                    state.phase = Phase::Recreating;
                    break;
                }
            }
        }
        if states != reported {
            self.write_states(object, &states).await?;
            return Ok(None);
        }
        if ended == states.len() {
            self.complete(object, "").await?;
            return Ok(None);
        }
        let seconds = u64::try_from(request.strategy.min_started_seconds).unwrap_or(0);
        Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
    }

    /// Stops a container, after its preStop hook, and waits until it has stopped; returns whether
    /// it exists.
    async fn kill(
        &self,
        object: &DynamicObject,
        request: &Request,
        uid: &str,
        container: &str,
    ) -> bool {
        let Some(inside) = self.containers.inside(uid, container) else {
            return false;
        };
        let involved = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: object.namespace(),
            name: Some(request.pod_name.clone()),
            uid: Some(uid.to_owned()),
            field_path: Some(format!("spec.containers{{{container}}}")),
            ..ObjectReference::default()
        };
        let message = format!(
            "Stopping container {container} by ContainerRecreateRequest {}",
            object.name_any()
        );
        let node = object.labels().get(NODE_LABEL).cloned();
        let recorder = self.recorder.at(node.unwrap_or_default());
        recorder
            .publish(&involved, EventType::Normal, "Killing", &message)
            .await;
        let grace = request.strategy.termination_grace_period_seconds;
        let grace = u64::try_from(grace.unwrap_or(GRACE)).unwrap_or(0);
        let run = inside.run;
        self.containers
            .stop(run.clone(), Some(Duration::from_secs(grace)));
        self.containers.ended(&run).await;
        true
    }
}

impl Reconcile for Recreator {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(object) = self.pick(key).await? else {
            return Ok(None);
        };
        if object.data["status"]["phase"] != "Recreating" {
            self.write(&object, json!({ "phase": "Recreating" }))
                .await?;
            return Ok(None);
        }
        let grace = &object.data["spec"]["strategy"]["unreadyGracePeriodSeconds"];
        if let Some(seconds) = grace.as_i64() {
            let since = match states::unready_since(&object) {
                None => return Ok(None),
                Some(Err(message)) => {
                    self.complete(&object, &message).await?;
                    return Ok(None);
                }
                Some(Ok(since)) => since,
            };
            if let Some(left) = left(since, seconds, (self.ctx.now)()) {
                return Ok(Some(left));
            }
        }
        self.manage(&object).await
    }
}

/// The rest of a grace period, and a little more.
fn left(since: Timestamp, seconds: i64, now: Timestamp) -> Option<Duration> {
    let end = since
        .saturating_add(SignedDuration::from_secs(seconds))
        .ok()?;
    let left = end.duration_since(now);
    let left = left.is_positive().then(|| left.saturating_add(BEHIND))?;
    Duration::try_from(left).ok()
}

fn pod_of(request: &DynamicObject) -> ObjectKey {
    ObjectKey {
        namespace: request.namespace().unwrap_or_default(),
        name: request.data["spec"]["podName"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    }
}

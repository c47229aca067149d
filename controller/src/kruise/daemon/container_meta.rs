//! Reports in an annotation with which variables the containers of a pod run, and restarts
//! containers whose variables an update has changed.
//!
//! Only pods with variables from their own metadata are annotated: no controller reads the
//! annotation of others. Upstream's daemon annotates every pod of OpenKruise's workloads, and pods
//! with sidecars of a SidecarSet.
//!
//! Source: openkruise/kruise pkg/daemon/containermeta.

use std::time::Duration;

use futures::future::join;
use k8s_openapi::api::core::v1::Container;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_node::{Containers, RunId};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::pod::{self, ContainerStatus, Pod};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::version_expectations::VersionExpectations;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::json;

use super::super::GROUP;
use super::super::container_hash::{self, metadata_variables};
use super::super::in_place::{
    Hashes, READY_CONDITION, RUNTIME_ANNOTATION, RuntimeContainer, RuntimeContainers,
};

const NAME: &str = "kruise-daemon-containermeta";
/// The annotation of pods into which a SidecarSet has put containers.
const SIDECAR_ANNOTATION: &str = "kruise.io/sidecarset-hash";
/// The number of pods synced, and of containers stopped, at once.
const WORKERS: usize = 5;
/// The delay in which changes of a pod are batched.
const DELAY: Duration = Duration::from_secs(1);
/// The delay before a container with outdated variables is stopped.
const STOP_DELAY: Duration = Duration::from_secs(3);

struct Daemon {
    ctx: Context,
    recorder: Recorder,
    containers: Containers,
    pods: Informer<Pod>,
    queue: WorkQueue<ObjectKey>,
    /// Runs that are to stop, with the pod of each.
    stops: WorkQueue<(RunId, ObjectKey)>,
    versions: VersionExpectations,
}

/// Looks after the pods of all nodes, as the component of `ctx`, until the future is dropped.
pub(crate) async fn run(ctx: Context, containers: Containers) {
    let daemon = Daemon {
        recorder: Recorder::new(ctx.clone(), NAME),
        pods: Informer::new(),
        queue: WorkQueue::new(),
        stops: WorkQueue::new(),
        versions: VersionExpectations::default(),
        containers,
        ctx,
    };
    let (api, config) = (
        Api::all(daemon.ctx.client.clone()),
        watcher::Config::default(),
    );
    let watch = daemon
        .pods
        .run(api, config, |change| daemon.pod_changed(change));
    let work = worker::run(&daemon, &daemon.queue, WORKERS);
    let stop = join(daemon.stop_containers(), daemon.stops.run_timers());
    join(watch, join(work, stop)).await;
}

impl Daemon {
    fn pod_changed(&self, change: &Change<Pod>) {
        let (old, new) = match change {
            // A pod that is older than the daemon is not annotated until it changes.
            Change::Added(pod) if annotation(pod).is_none() => return,
            Change::Added(pod) => (None, pod),
            Change::Updated { old, new } => (Some(old), new),
            Change::Deleted { last: pod, .. } => return self.versions.forget(&**pod),
        };
        let is_there = !pod::is_terminating(new) && statuses(new).next().is_some();
        if is_there && concerns(old.map(AsRef::as_ref), new) {
            self.queue.add_after(ObjectKey::of(&**new), DELAY);
        }
    }

    /// Returns the annotation's value for the pod; notes the containers that have to restart.
    fn look(&self, pod: &Pod, known: Option<&RuntimeContainers>) -> RuntimeContainers {
        let uid = pod.uid().unwrap_or_default();
        let is_updated = pod::condition(pod, READY_CONDITION)
            .is_some_and(|condition| condition.status == "False");
        let mut found = Vec::new();
        for status in statuses(pod) {
            let Some(spec) = container(pod, &status.name) else {
                continue;
            };
            let Some(inside) = self.containers.inside(&uid, &status.name) else {
                continue;
            };
            let mut known = known.iter().flat_map(|known| &known.containers);
            let known = known.find(|known| known.container_id == inside.id).cloned();
            let mut meta = known.unwrap_or_else(|| RuntimeContainer {
                name: status.name.clone(),
                container_id: inside.id.clone(),
                restart_count: inside.run.restarts,
                hashes: Hashes {
                    plain_hash: container_hash::plain(&Container {
                        name: status.name.clone(),
                        image: Some(inside.image.clone()),
                        ..Container::default()
                    })
                    .into(),
                    extracted_env_from_metadata_hash: 0,
                },
            });
            let hash = &mut meta.hashes.extracted_env_from_metadata_hash;
            if *hash == 0 && inside.is_running {
                *hash = container_hash::of_started_variables(spec, &inside.variables).into();
            }
            let wanted = u64::from(container_hash::of_metadata_variables(spec, pod));
            if is_updated && *hash > 0 && *hash != wanted {
                let stop = (inside.run, ObjectKey::of(pod));
                self.stops.add_after(stop, STOP_DELAY);
            }
            found.push(meta);
        }
        RuntimeContainers { containers: found }
    }

    async fn stop_containers(&self) {
        loop {
            let stop = self.stops.get().await;
            let (run, key) = &stop;
            let inside = self.containers.inside(&run.uid, &run.container);
            if let Some(inside) = inside.filter(|own| own.run == *run && own.is_running) {
                let pod = self.pods.get(&key.namespace, &key.name);
                if let Some(pod) = pod.filter(|pod| pod.uid().as_ref() == Some(&run.uid)) {
                    let mut involved = pod::reference(&pod);
                    involved.field_path = Some(format!("spec.containers{{{}}}", run.container));
                    let message = format!(
                        "Stopping containerID {} by container meta restarter",
                        inside.id
                    );
                    let recorder = self.recorder.at(pod::node(&pod).to_owned());
                    recorder
                        .publish(&involved, EventType::Normal, "Killing", &message)
                        .await;
                }
                self.containers.stop(run.clone(), None);
            }
            self.stops.done(&stop);
        }
    }
}

impl Reconcile for Daemon {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        if pod::is_terminating(&pod) || statuses(&pod).next().is_none() {
            return Ok(None);
        }
        // The version that is waited for brings the pod here again.
        if self.versions.behind_for(&*pod, (self.ctx.now)()).is_some() {
            return Ok(None);
        }
        let known = annotation(&pod).and_then(|text| serde_json::from_str(text).ok());
        let found = self.look(&pod, known.as_ref());
        if known.as_ref() == Some(&found) {
            return Ok(None);
        }
        let text = serde_json::to_string(&found).expect("what is found is JSON");
        let patch = json!({ "metadata": { "annotations": { RUNTIME_ANNOTATION: text } } });
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let params = PatchParams::default();
        let patched = api
            .patch_status(&key.name, &params, &Patch::Strategic(patch))
            .await;
        match patched.map_err(Error::from) {
            Ok(written) => self.versions.expect(&written),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}

/// The annotation with the metadata of the pod's containers.
fn annotation(pod: &Pod) -> Option<&str> {
    pod.annotations()
        .get(RUNTIME_ANNOTATION)
        .map(String::as_str)
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| &status.container_statuses);
    statuses.flatten()
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.find(|container| container.name == name)
}

/// Whether the pod may need a new annotation or a restart of a container.
fn concerns(old: Option<&Pod>, new: &Pod) -> bool {
    let owner = controller_of(&new.metadata);
    let group = owner.and_then(|owner| owner.api_version.split_once('/'));
    let is_own = group.is_some_and(|(group, _)| group == GROUP);
    if !is_own && !new.annotations().contains_key(SIDECAR_ANNOTATION) {
        return false;
    }
    let mut containers = new.spec.iter().flat_map(|spec| &spec.containers);
    if !containers.any(|container| metadata_variables(container).next().is_some()) {
        return false;
    }
    let known: Option<RuntimeContainers> =
        annotation(new).and_then(|text| serde_json::from_str(text).ok());
    let mut started = statuses(new).filter(|status| status.container_id.is_some());
    let count = statuses(new).count();
    started.any(|status| {
        let known = known.iter().filter(|known| known.containers.len() == count);
        let mut known = known.flat_map(|known| &known.containers);
        let known = known.find(|known| Some(&known.container_id) == status.container_id.as_ref());
        let (Some(known), Some(spec)) = (known, container(new, &status.name)) else {
            return true;
        };
        let wanted = container_hash::of_metadata_variables(spec, new);
        let was_wanted = old.and_then(|old| {
            let spec = container(old, &status.name)?;
            Some(container_hash::of_metadata_variables(spec, old))
        });
        u64::from(wanted) != known.hashes.extracted_env_from_metadata_hash
            || was_wanted.is_some_and(|before| before != wanted)
    })
}

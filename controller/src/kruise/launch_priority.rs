//! The launch priorities of a pod's containers: each starts once those of higher priority are ready.
//!
//! A container waits because its environment needs a key of the pod's ConfigMap that is not there yet. This controller
//! creates the ConfigMap and adds the keys, one priority after the other.
//!
//! Source: openkruise/kruise pkg/controller/containerlaunchpriority.

mod priority;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::{Pod, condition};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::json;

use priority::{barrier, config_map_name, key};

pub(in crate::kruise) use priority::of_containers;
pub use priority::{
    LAUNCH_ANNOTATION, ORDERED, PRIORITY_VARIABLE, PriorityError, barrier_variables,
};

/// The controller's name: its user agent.
pub const NAME: &str = "container-launch-priority-controller";
/// The number of pods synced at once.
const WORKERS: usize = 4;
/// The annotation of pods whose last containers may start.
const COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";

struct Controller {
    ctx: Context,
    queue: WorkQueue<ObjectKey>,
    pods: Informer<Pod>,
    config_maps: Informer<ConfigMap>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        queue: WorkQueue::new(),
        pods: Informer::new(),
        config_maps: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.pods, |change| controller.pod_changed(change))
        .add(&controller.config_maps, |_| {})
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Controller {
    fn pod_changed(&self, change: &Change<Pod>) {
        let pod = change.object();
        if !matches!(change, Change::Deleted { .. }) && self.is_due(pod) {
            self.queue.add(ObjectKey::of(&**pod));
        }
    }

    /// Whether containers of the pod are to wait, and the next ones cannot start yet.
    fn is_due(&self, pod: &Pod) -> bool {
        let is_completed = pod.annotations().get(COMPLETED);
        let are_ready = condition(pod, "ContainersReady");
        if is_completed.is_some_and(|value| value == "true")
            || are_ready.is_some_and(|condition| condition.status == "True")
        {
            return false;
        }
        let Some((_, highest)) = range(pod) else {
            return false;
        };
        let passed = self.config_map(pod);
        passed.is_none_or(|passed| !has(&passed, highest))
    }

    fn config_map(&self, pod: &Pod) -> Option<std::sync::Arc<ConfigMap>> {
        let namespace = pod.namespace().unwrap_or_default();
        let name = config_map_name(&pod.name_any());
        self.config_maps.get(&namespace, &name)
    }

    async fn create(&self, pod: &Pod) -> Result<(), Error> {
        let config_map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(config_map_name(&pod.name_any())),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    name: pod.name_any(),
                    uid: pod.uid().unwrap_or_default(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let created = self.config_maps_of(pod);
        let created = created.create(&PostParams::default(), &config_map).await;
        match created.map_err(Error::from) {
            Err(error) if !error.is_already_exists() => Err(error),
            _ => Ok(()),
        }
    }

    async fn let_pass(&self, pod: &Pod, barrier: i64) -> Result<(), Error> {
        let patch = Patch::Strategic(json!({ "data": { key(barrier): "true" } }));
        let name = config_map_name(&pod.name_any());
        let api = self.config_maps_of(pod);
        api.patch(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn complete(&self, pod: &Pod) -> Result<(), Error> {
        let patch = json!({ "metadata": { "annotations": { COMPLETED: "true" } } });
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let params = PatchParams::default();
        api.patch(&pod.name_any(), &params, &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    fn config_maps_of(&self, pod: &Pod) -> Api<ConfigMap> {
        let namespace = pod.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let Some(passed) = self.config_map(&pod) else {
            self.create(&pod).await?;
            // Upstream's `Requeue` has the delays of a failure, too.
            return Err(Error::Unseen(config_map_name(&pod.name_any())));
        };
        let Some((lowest, highest)) = range(&pod) else {
            self.complete(&pod).await?;
            return Ok(None);
        };
        let is_last = has(&passed, lowest);
        if !is_last && !has(&passed, highest) {
            self.let_pass(&pod, highest).await?;
        }
        if is_last || highest == lowest {
            self.complete(&pod).await?;
        }
        Ok(None)
    }
}

/// The lowest and the highest barrier of the containers that are not ready; `None` without any.
fn range(pod: &Pod) -> Option<(i64, i64)> {
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    let ready: Vec<&str> = statuses
        .filter(|status| status.ready)
        .map(|status| status.name.as_str())
        .collect();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let waiting = containers.filter(|one| !ready.contains(&one.name.as_str()));
    let barriers: Vec<i64> = waiting.filter_map(barrier).collect();
    Some((*barriers.iter().min()?, *barriers.iter().max()?))
}

/// Whether containers at `barrier` may start.
fn has(passed: &ConfigMap, barrier: i64) -> bool {
    let data = passed.data.as_ref();
    data.is_some_and(|data: &BTreeMap<String, String>| data.contains_key(&key(barrier)))
}

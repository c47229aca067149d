//! The endpoint slice controller: lists the addresses of a service's pods in slices.

mod desired;
mod reconcile;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

use self::reconcile::{Plan, reconcile};
use crate::core::services::{self, TriggerTimes};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "endpoint-slice-controller";

/// The label that names the controller of a slice, ...
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// ... and its value.
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The label that names the service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The number of services synced at once.
const WORKERS: usize = 5;

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    services: Informer<Service>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: Informer<EndpointSlice>,
    trigger_times: TriggerTimes,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::new(),
        services: Informer::new(),
        pods: Informer::new(),
        nodes: Informer::new(),
        slices: Informer::new(),
        trigger_times: TriggerTimes::default(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.services, |change| {
            controller.queue.add(change.key())
        })
        .add(&controller.pods, |change| {
            for service in services::concerned(change, &controller.services) {
                controller.queue.add(service);
            }
        })
        .add(&controller.slices, |change| {
            controller.take_in_slice(change.object())
        })
        .add(&controller.nodes, |_| {})
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Controller {
    /// Enqueues the service of a managed slice, so that changes by other writers are reverted.
    fn take_in_slice(&self, slice: &EndpointSlice) {
        let service = slice.labels().get(SERVICE_NAME);
        if let Some(service) = service.filter(|_| is_managed(slice)) {
            self.queue.add(ObjectKey {
                namespace: slice.namespace().unwrap_or_default(),
                name: service.clone(),
            });
        }
    }

    async fn apply(&self, namespace: &str, plan: Plan) -> Result<(), Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.ctx.client.clone(), namespace);
        let params = PostParams::default();
        for slice in &plan.create {
            if let Err(error) = api.create(&params, slice).await.map_err(Error::from) {
                // The service goes with its namespace.
                if error.is_namespace_terminating() {
                    return Ok(());
                }
                return Err(error);
            }
        }
        for slice in &plan.update {
            api.replace(&slice.name_any(), &params, slice).await?;
        }
        for name in &plan.delete {
            let deleted = api.delete(name, &DeleteParams::default()).await;
            match deleted.map_err(Error::from) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_managed(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(service) = self.services.get(&key.namespace, &key.name) else {
            // The garbage collector deletes its slices.
            self.trigger_times.forget(key);
            return Ok(None);
        };
        if services::selector(&service).is_none() {
            return Ok(None);
        }
        let mut existing = self.slices.in_namespace(&key.namespace);
        existing.retain(|slice| {
            is_managed(slice)
                && slice.labels().get(SERVICE_NAME) == Some(&key.name)
                && slice.metadata.deletion_timestamp.is_none()
        });
        let pods = services::pods_of(&service, &self.pods);
        let changed = self.trigger_times.next(&service, &pods);
        let desired = desired::of(&service, &pods, |node| self.nodes.get("", node));
        let plan = reconcile(&service, &existing, desired, changed);
        let result = self.apply(&key.namespace, plan).await;
        if let Err(error) = &result
            && !error.is_conflict()
        {
            let involved = reference_to("v1", "Service", &service.metadata);
            let (namespace, name) = (&key.namespace, &key.name);
            let message =
                format!("Error updating Endpoint Slices for Service {namespace}/{name}: {error}");
            let reason = "FailedToUpdateEndpointSlices";
            self.recorder
                .publish(&involved, EventType::Warning, reason, &message)
                .await;
        }
        result.map(|()| None)
    }
}

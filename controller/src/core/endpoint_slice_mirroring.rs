//! The endpoint slice mirroring controller: copies the Endpoints that users write for services
//! without a selector into slices.
//!
//! Source: `pkg/controller/endpointslicemirroring` of Kubernetes.

mod desired;
mod reconcile;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey, WrittenVersion, resource_version};
use kubeproof_runtime::sync_error::{Error, answered};
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;

use self::desired::Desired;
use self::reconcile::{Plan, reconcile};

/// The controller's name: its user agent.
pub const NAME: &str = "endpointslicemirroring-controller";
/// The source of its events.
const EVENT_SOURCE: &str = "endpoint-slice-mirroring-controller";
/// The label that names the controller of a slice, ...
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// ... and its value.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// The label that names the service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Endpoints with this label are not mirrored, ...
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// ... nor those that only serve as a lock.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// The number of Endpoints synced at once.
const WORKERS: usize = 5;
const DELAYS: RetryDelays = RetryDelays {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(100),
};

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    endpoints: Informer<Endpoints>,
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    /// The last slices written, by Endpoints.
    written: Mutex<BTreeMap<ObjectKey, WrittenVersion>>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), EVENT_SOURCE),
        ctx,
        queue: WorkQueue::retrying(DELAYS),
        endpoints: Informer::new(),
        services: Informer::new(),
        slices: Informer::new(),
        written: Mutex::default(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.endpoints, |change| {
            let is_concerned = is_mirrored(change.object())
                || change.replaced().is_some_and(|old| is_mirrored(old));
            if is_concerned {
                controller.queue.add(change.key());
            }
        })
        .add(&controller.services, |change| {
            let is_concerned = match change {
                Change::Added(one) | Change::Deleted { last: one, .. } => !has_selector(one),
                Change::Updated { old, new } => has_selector(old) != has_selector(new),
            };
            if is_concerned {
                controller.queue.add(change.key());
            }
        })
        .add(&controller.slices, |change| {
            controller.take_in_slice(change)
        })
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

fn is_mirrored(endpoints: &Endpoints) -> bool {
    let skips = endpoints.labels().get(SKIP_MIRROR).map(String::as_str) == Some("true");
    !skips && !endpoints.annotations().contains_key(LEADER)
}

fn has_selector(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.is_some_and(|spec| spec.selector.is_some())
}

fn is_managed(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
}

/// The Endpoints that a slice is of.
fn key_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let name = slice.labels().get(SERVICE_NAME)?;
    Some(ObjectKey {
        namespace: slice.namespace().unwrap_or_default(),
        name: name.clone(),
    })
}

impl Controller {
    /// Enqueues the Endpoints of a managed slice, before and after the change, so that changes by
    /// other writers are reverted.
    fn take_in_slice(&self, change: &Change<EndpointSlice>) {
        let both = match change {
            Change::Added(one) | Change::Deleted { last: one, .. } => [Some(one), None],
            Change::Updated { old, new } => [Some(new), Some(old)],
        };
        for slice in both.into_iter().flatten().filter(|slice| is_managed(slice)) {
            if let Some(key) = key_of(slice) {
                self.queue.add(key);
            }
        }
    }

    /// Reports addresses that are left out.
    async fn warn(&self, endpoints: &Endpoints, desired: &Desired) {
        let involved = reference_to("v1", "Endpoints", &endpoints.metadata);
        let mut warnings = Vec::new();
        if desired.invalid > 0 {
            let message = format!(
                "Skipped {} invalid IP addresses when mirroring to EndpointSlices",
                desired.invalid
            );
            warnings.push(("InvalidIPAddress", message));
        }
        if desired.skipped > desired.invalid {
            let message = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 {} addresses were skipped",
                desired::ENDPOINTS_MAX,
                desired.skipped
            );
            warnings.push(("TooManyAddressesToMirror", message));
        }
        for (reason, message) in warnings {
            self.recorder
                .publish(&involved, EventType::Warning, reason, &message)
                .await;
        }
    }

    async fn apply(&self, key: &ObjectKey, plan: Plan) -> Result<(), Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let params = PostParams::default();
        for slice in &plan.create {
            match api.create(&params, slice).await.map_err(Error::from) {
                // The Endpoints go with their namespace.
                Err(error) if error.is_namespace_terminating() => return Ok(()),
                created => self.note(key, &created?),
            }
        }
        for slice in &plan.update {
            let updated = api.replace(&slice.name_any(), &params, slice).await?;
            self.note(key, &updated);
        }
        for name in &plan.delete {
            match api.delete(name, &DeleteParams::default()).await {
                Err(error) if answered(&error, 404) => {}
                deleted => _ = deleted?,
            }
        }
        Ok(())
    }

    fn note(&self, key: &ObjectKey, slice: &EndpointSlice) {
        let written = self.slices.wrote_at(resource_version(slice));
        self.written.lock().insert(key.clone(), written);
    }

    /// Whether the cache has what was written last.
    fn is_current(&self, key: &ObjectKey) -> Result<(), Error> {
        let Some(written) = self.written.lock().get(key).copied() else {
            return Ok(());
        };
        self.slices
            .ensure_ready(written)
            .map_err(|read| Error::StaleCache {
                read,
                written: written.rv,
                resource: "endpointslices.discovery.k8s.io",
            })
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let existing: Vec<_> = self
            .slices
            .in_namespace(&key.namespace)
            .into_iter()
            .filter(|slice| is_managed(slice) && key_of(slice).as_ref() == Some(key))
            .collect();
        let endpoints = self.endpoints.get(&key.namespace, &key.name);
        let service = self.services.get(&key.namespace, &key.name);
        let has_service = service.is_some_and(|service| !has_selector(&service));
        let endpoints = endpoints.filter(|endpoints| has_service && is_mirrored(endpoints));
        let Some(endpoints) = endpoints else {
            self.written.lock().remove(key);
            let delete = existing.iter().map(|slice| slice.name_any()).collect();
            let plan = Plan {
                delete,
                ..Plan::default()
            };
            self.apply(key, plan).await?;
            return Ok(None);
        };
        self.is_current(key)?;
        let desired = Desired::of(&endpoints);
        self.warn(&endpoints, &desired).await;
        let plan = reconcile(&endpoints, &existing, desired);
        self.apply(key, plan).await?;
        Ok(None)
    }
}

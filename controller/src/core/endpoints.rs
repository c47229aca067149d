//! The endpoints controller: lists the addresses of a service's pods in one object.

mod subsets;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_machinery::meta::ResourceVersion;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey, resource_version};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;

use crate::core::services::{self, HEADLESS, TRIGGER_TIME, TriggerTimes};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "endpoint-controller";

/// The label that names the controller of the endpoints.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The annotation of Endpoints that list only some of their addresses.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The annotation of Endpoints for leader election, which belong to no service.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// The number of services synced at once.
const WORKERS: usize = 5;

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    services: Informer<Service>,
    pods: Informer<Pod>,
    endpoints: Informer<Endpoints>,
    trigger_times: TriggerTimes,
    /// The version that the last write of a service's Endpoints replaced.
    replaced: Mutex<BTreeMap<ObjectKey, ResourceVersion>>,
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
        endpoints: Informer::new(),
        trigger_times: TriggerTimes::default(),
        replaced: Mutex::default(),
    };
    let work = async {
        // Endpoints may remain of services that are gone.
        for one in controller.endpoints.all() {
            if !one.annotations().contains_key(LEADER) {
                controller.queue.add(ObjectKey::of(&*one));
            }
        }
        worker::run(&controller, &controller.queue, WORKERS).await;
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
        .add(&controller.endpoints, |change| {
            if matches!(change, Change::Deleted { .. }) {
                controller.queue.add(change.key());
            }
        })
        .run(work)
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let api: Api<Endpoints> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let Some(service) = self.services.get(&key.namespace, &key.name) else {
            self.trigger_times.forget(key);
            let deleted = api.delete(&key.name, &DeleteParams::default()).await;
            return match deleted.map_err(Error::from) {
                Err(error) if !error.is_not_found() => Err(error),
                _ => {
                    self.replaced.lock().remove(key);
                    Ok(None)
                }
            };
        };
        if services::selector(&service).is_none() {
            return Ok(None);
        }
        let pods = services::pods_of(&service, &self.pods);
        let changed = self.trigger_times.next(&service, &pods);
        let current = self.endpoints.get(&key.namespace, &key.name);
        if let Some(current) = &current {
            self.check_fresh(key, current)?;
        }
        let mut wanted = Endpoints {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                ..ObjectMeta::default()
            },
            subsets: None,
        };
        if let Some(current) = &current {
            wanted.metadata = current.metadata.clone();
        }
        let mut subsets = subsets::of(&service, &pods);
        let is_truncated = subsets::truncate(&mut subsets);
        wanted.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
        wanted.metadata.labels = Some(labels(&service));
        let is_same = current.as_ref().is_some_and(|current| {
            current.subsets == wanted.subsets
                && current.metadata.labels == wanted.metadata.labels
                && current.annotations().contains_key(OVER_CAPACITY) == is_truncated
        });
        if is_same {
            return Ok(None);
        }
        let annotations = wanted.metadata.annotations.get_or_insert_default();
        match changed {
            Some(time) => {
                annotations.insert(TRIGGER_TIME.to_owned(), services::in_rfc3339(time));
            }
            None => {
                annotations.remove(TRIGGER_TIME);
            }
        }
        match is_truncated {
            true => annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned()),
            false => annotations.remove(OVER_CAPACITY),
        };
        let params = PostParams::default();
        let written = match &current {
            None => api.create(&params, &wanted).await,
            Some(_) => api.replace(&key.name, &params, &wanted).await,
        };
        match written.map_err(Error::from) {
            Ok(written) => {
                let replaced = current.map(|current| resource_version(&*current));
                if let Some(version) = replaced.filter(|old| *old != resource_version(&written)) {
                    self.replaced.lock().insert(key.clone(), version);
                }
                Ok(None)
            }
            Err(error) if error.is_namespace_terminating() => Ok(None),
            Err(error) => {
                self.record_failure(&wanted, &error).await;
                Err(error)
            }
        }
    }
}

impl Controller {
    /// Fails if `current` is what the last write replaced: the cache lags, and a write would only be refused.
    ///
    /// Source: `endpoint/endpoints_tracker.go`, staleEndpointsTracker.
    fn check_fresh(&self, key: &ObjectKey, current: &Endpoints) -> Result<(), Error> {
        let read = resource_version(current);
        match self.replaced.lock().get(key) == Some(&read) {
            true => Err(Error::Processed {
                what: "endpoints",
                read,
                key: format!("{}/{}", key.namespace, key.name),
            }),
            false => Ok(()),
        }
    }

    async fn record_failure(&self, endpoints: &Endpoints, error: &Error) {
        let (namespace, name) = (
            endpoints.namespace().unwrap_or_default(),
            endpoints.name_any(),
        );
        let (reason, message) = match endpoints.metadata.resource_version {
            None => (
                "FailedToCreateEndpoint",
                format!("Failed to create endpoint for service {namespace}/{name}: {error}"),
            ),
            Some(_) => (
                "FailedToUpdateEndpoint",
                format!("Failed to update endpoint {namespace}/{name}: {error}"),
            ),
        };
        let involved = reference_to("v1", "Endpoints", &endpoints.metadata);
        self.recorder
            .publish(&involved, EventType::Warning, reason, &message)
            .await;
    }
}

/// The service's labels, and those that are the controller's own.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    if services::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels.insert(MANAGED_BY.to_owned(), NAME.to_owned());
    labels
}

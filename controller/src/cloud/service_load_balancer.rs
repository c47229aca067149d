//! The service controller: a service of type `LoadBalancer` gets an address, and keeps it until it is deleted or changes
//! its type.
//!
//! Source: `staging/src/k8s.io/cloud-provider/controllers/service/controller.go`.

mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{AddressPool, addresses};

/// The controller's name: its user agent and the source of its events.
const NAME: &str = "service-controller";
/// Keeps a service until its load balancer is gone.
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const RETRY_DELAYS: RetryDelays = RetryDelays {
    first: Duration::from_secs(5),
    longest: Duration::from_mins(5),
};

struct Controller {
    ctx: Context,
    recorder: Recorder,
    pool: AddressPool,
    /// Services. The key without a name is that of the nodes.
    queue: WorkQueue<ObjectKey>,
    services: Informer<Service>,
    nodes: Informer<Node>,
    balancers: Mutex<BTreeMap<ObjectKey, Balancer>>,
}

/// A load balancer of the cloud.
#[derive(Clone)]
struct Balancer {
    /// The service that it belongs to.
    service: ObjectReference,
    addresses: Vec<IpAddr>,
    /// The nodes that it sends traffic to, by name.
    nodes: Vec<String>,
}

/// Runs the controller until the future is dropped.
pub(super) async fn run(ctx: Context, pool: AddressPool) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        pool,
        queue: WorkQueue::retrying(RETRY_DELAYS),
        services: Informer::new(),
        nodes: Informer::new(),
        balancers: Mutex::default(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.services, |change| {
            controller.service_changed(change)
        })
        .add(&controller.nodes, |_| controller.queue.add(nodes_key()))
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

fn nodes_key() -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: String::new(),
    }
}

impl Controller {
    fn service_changed(&self, change: &Change<Service>) {
        let concerns = match change {
            Change::Added(service) => changes::wants_balancer(service) || needs_cleanup(service),
            Change::Updated { old, new } => changes::matter(old, new) || needs_cleanup(new),
            Change::Deleted { .. } => true,
        };
        if concerns {
            self.queue.add(change.key());
        }
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        if *key == nodes_key() {
            self.update_hosts().await;
            return Ok(None);
        }
        let service = self.services.get(&key.namespace, &key.name);
        let uid = service.as_ref().and_then(|service| service.uid());
        let of_another = |known: &Balancer| known.service.uid != uid;
        let known = self.balancers.lock().get(key).cloned();
        if let Some(known) = known.filter(of_another) {
            // The service was deleted although its finalizer had been taken away.
            self.delete(key, &known.service).await;
            self.event(
                &known.service,
                "DeletedLoadBalancer",
                "Deleted load balancer",
            )
            .await;
        }
        let Some(service) = service else {
            return Ok(None);
        };
        let involved = service.object_ref(&());
        if let Err(error) = self.sync(key, &service, &involved).await {
            let message = format!("Error syncing load balancer: {error}");
            let reason = "SyncLoadBalancerFailed";
            self.recorder
                .publish(&involved, EventType::Warning, reason, &message)
                .await;
            return Err(error);
        }
        Ok(None)
    }
}

impl Controller {
    async fn sync(
        &self,
        key: &ObjectKey,
        service: &Service,
        involved: &ObjectReference,
    ) -> Result<(), Error> {
        let addresses = if !changes::wants_balancer(service) || needs_cleanup(service) {
            let has_balancer = self.balancers.lock().contains_key(key);
            if has_balancer || !shown(service).is_empty() {
                self.delete(key, involved).await;
            }
            self.patch_finalizer(service, false)
                .await
                .map_err(|error| {
                    refused("failed to remove load balancer cleanup finalizer", &error)
                })?;
            self.event(involved, "DeletedLoadBalancer", "Deleted load balancer")
                .await;
            Vec::new()
        } else {
            self.event(involved, "EnsuringLoadBalancer", "Ensuring load balancer")
                .await;
            self.patch_finalizer(service, true).await.map_err(|error| {
                refused("failed to add load balancer cleanup finalizer", &error)
            })?;
            let addresses = self
                .ensure(key, service, involved)
                .await
                .map_err(|error| refused("failed to ensure load balancer", &error))?;
            self.event(involved, "EnsuredLoadBalancer", "Ensured load balancer")
                .await;
            addresses
        };
        match self.write_status(service, &addresses).await {
            Err(error) if !error.is_not_found() => {
                Err(refused("failed to update load balancer status", &error))
            }
            _ => Ok(()),
        }
    }

    /// Gives the service a load balancer, or its load balancer the present nodes; returns its addresses.
    async fn ensure(
        &self,
        key: &ObjectKey,
        service: &Service,
        involved: &ObjectReference,
    ) -> Result<Vec<IpAddr>, Error> {
        let nodes = self.hosts();
        if nodes.is_empty() {
            self.warn_without_nodes(involved).await;
        }
        let addresses = self.addresses(key, service)?;
        let balancer = Balancer {
            service: involved.clone(),
            addresses: addresses.clone(),
            nodes,
        };
        self.balancers.lock().insert(key.clone(), balancer);
        Ok(addresses)
    }

    /// The addresses of the service, one for each of its IP families: those that it has, or free ones.
    fn addresses(&self, key: &ObjectKey, service: &Service) -> Result<Vec<IpAddr>, Error> {
        let spec = service.spec.clone().unwrap_or_default();
        let (own, taken) = self.assigned(key);
        let requested = spec.load_balancer_ip.unwrap_or_default();
        let families = spec.ip_families.unwrap_or_default();
        let of_family = |family: &String| {
            let has_family = |address: &&IpAddr| address.is_ipv6() == (family == "IPv6");
            if let Ok(address) = requested.parse::<IpAddr>()
                && has_family(&&address)
            {
                return match self.pool.offers(address) && !taken.contains(&address) {
                    true => Ok(address),
                    false => Err(Error::Refused(format!(
                        "the address {address} is taken, or not in the pool {}",
                        self.pool
                    ))),
                };
            }
            let kept = own.iter().find(has_family).copied();
            kept.or_else(|| self.pool.free(family, &taken))
                .ok_or_else(|| {
                    Error::Refused(format!(
                        "the pool {} has no free {family} address",
                        self.pool
                    ))
                })
        };
        families.iter().map(of_family).collect()
    }

    /// The addresses that the service `key` has, and those that other services have. What a status shows counts, too: the
    /// cloud remembers what this program has forgotten.
    fn assigned(&self, key: &ObjectKey) -> (Vec<IpAddr>, BTreeSet<IpAddr>) {
        let balancers = self.balancers.lock();
        let mut own = Vec::new();
        let mut taken = BTreeSet::new();
        let services = self.services.all();
        let written = services.iter().map(|service| {
            let addresses = shown(service).into_iter();
            let addresses = addresses.filter(|address| self.pool.offers(*address));
            (ObjectKey::of(&**service), addresses.collect::<Vec<_>>())
        });
        let written = written.filter(|(of, _)| !balancers.contains_key(of));
        let known = balancers.iter();
        let known = known.map(|(of, balancer)| (of.clone(), balancer.addresses.clone()));
        for (of, addresses) in known.chain(written) {
            match of == *key {
                true => own.extend(addresses),
                false => taken.extend(addresses),
            }
        }
        (own, taken)
    }

    /// Deletes the load balancer of a service.
    async fn delete(&self, key: &ObjectKey, service: &ObjectReference) {
        self.event(service, "DeletingLoadBalancer", "Deleting load balancer")
            .await;
        self.balancers.lock().remove(key);
    }

    /// Tells every load balancer of nodes that have come and gone.
    async fn update_hosts(&self) {
        let hosts = self.hosts();
        let mut told = Vec::new();
        for balancer in self.balancers.lock().values_mut() {
            if balancer.nodes != hosts {
                balancer.nodes.clone_from(&hosts);
                told.push(balancer.service.clone());
            }
        }
        for service in told {
            match hosts.is_empty() {
                true => self.warn_without_nodes(&service).await,
                false => {
                    let message = "Updated load balancer with new hosts";
                    self.event(&service, "UpdatedLoadBalancer", message).await;
                }
            }
        }
    }

    /// The nodes that take traffic, by name.
    fn hosts(&self) -> Vec<String> {
        let nodes = self.nodes.all();
        let nodes = nodes.iter().filter(|node| changes::takes_traffic(node));
        nodes.map(|node| node.name_any()).collect()
    }

    async fn event(&self, service: &ObjectReference, reason: &str, message: &str) {
        self.recorder
            .publish(service, EventType::Normal, reason, message)
            .await;
    }

    async fn warn_without_nodes(&self, service: &ObjectReference) {
        let message = "There are no available nodes for LoadBalancer";
        self.recorder
            .publish(
                service,
                EventType::Warning,
                "UnAvailableLoadBalancer",
                message,
            )
            .await;
    }

    /// Adds the finalizer, or removes it.
    async fn patch_finalizer(&self, service: &Service, is_wanted: bool) -> Result<(), Error> {
        if has_finalizer(service) == is_wanted {
            return Ok(());
        }
        let list = match is_wanted {
            true => "finalizers",
            false => "$deleteFromPrimitiveList/finalizers",
        };
        self.patch(service, json!({ "metadata": { list: [FINALIZER] } }))
            .await
    }

    async fn write_status(&self, service: &Service, addresses: &[IpAddr]) -> Result<(), Error> {
        if shown(service) == addresses {
            return Ok(());
        }
        let ingress = addresses.iter().map(|address| json!({ "ip": address }));
        let ingress = Some(ingress.collect::<Vec<_>>()).filter(|ingress| !ingress.is_empty());
        let status = json!({ "loadBalancer": { "ingress": ingress } });
        self.patch(service, json!({ "status": status })).await
    }

    async fn patch(&self, service: &Service, patch: Value) -> Result<(), Error> {
        let namespace = service.namespace().unwrap_or_default();
        let api: Api<Service> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let (name, params) = (service.name_any(), PatchParams::default());
        api.patch_status(&name, &params, &Patch::Strategic(patch))
            .await?;
        Ok(())
    }
}

fn refused(what: &str, error: &Error) -> Error {
    Error::Refused(format!("{what}: {error}"))
}

/// The addresses in the status of the service.
fn shown(service: &Service) -> Vec<IpAddr> {
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    addresses(ingress.into_iter().flatten().map(|point| point.ip.as_ref()))
}

fn has_finalizer(service: &Service) -> bool {
    service.finalizers().iter().any(|one| one == FINALIZER)
}

/// Whether the service has a load balancer that has to go.
fn needs_cleanup(service: &Service) -> bool {
    let is_terminating = service.meta().deletion_timestamp.is_some();
    has_finalizer(service) && (is_terminating || !changes::has_type(service))
}

//! The ingress controller: every Ingress has the addresses at which the controller listens.
//!
//! It takes Ingresses of every class and Ingresses without a class. It routes no traffic.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::json;

use super::addresses;

/// The controller's name: its user agent.
const NAME: &str = "ingress-controller";

struct Controller {
    ctx: Context,
    addresses: Vec<IpAddr>,
    queue: WorkQueue<ObjectKey>,
    ingresses: Informer<Ingress>,
}

/// Shows `addresses` in the status of every Ingress, until the future is dropped.
pub(super) async fn run(ctx: Context, addresses: Vec<IpAddr>) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        addresses,
        queue: WorkQueue::new(),
        ingresses: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.ingresses, |change| {
            if !matches!(change, Change::Deleted { .. }) {
                controller.queue.add(change.key());
            }
        })
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(ingress) = self.ingresses.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let is_terminating = ingress.meta().deletion_timestamp.is_some();
        if is_terminating || shown(&ingress) == self.addresses {
            return Ok(None);
        }
        let api: Api<Ingress> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let addresses = self
            .addresses
            .iter()
            .map(|address| json!({ "ip": address }));
        let balancer = json!({ "ingress": addresses.collect::<Vec<_>>() });
        let patch = Patch::Merge(json!({ "status": { "loadBalancer": balancer } }));
        let params = PatchParams::default();
        match api.patch_status(&key.name, &params, &patch).await {
            Ok(_) => Ok(None),
            Err(error) => match Error::from(error) {
                error if error.is_not_found() => Ok(None),
                error => Err(error),
            },
        }
    }
}

/// The addresses in the status of the Ingress.
fn shown(ingress: &Ingress) -> Vec<IpAddr> {
    let status = ingress.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    addresses(ingress.into_iter().flatten().map(|point| point.ip.as_ref()))
}

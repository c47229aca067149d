//! A simulated cloud: load balancers for services of type `LoadBalancer`, and controllers of Ingresses and Gateways.
//!
//! Nothing listens at the addresses. Controllers, `helm install --wait` and `kubectl wait` see the statuses that a
//! cloud writes, and the finalizers and events that come with them.

mod address_pool;
mod gateway;
mod ingress;
mod service_load_balancer;

use std::net::IpAddr;

use futures::future::join3;
use kubeproof_runtime::context::Context;

pub use address_pool::{AddressPool, InvalidPool};
pub use gateway::CONTROLLER_NAME as GATEWAY_CONTROLLER;

/// The addresses of a cloud, and who gets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancers {
    /// The first address is that of Ingresses and Gateways; services of type `LoadBalancer` get the others.
    pub addresses: AddressPool,
    /// `spec.controllerName` of the GatewayClasses whose Gateways get an address.
    pub gateway_controller: String,
}

impl From<AddressPool> for LoadBalancers {
    /// Gateways are those of [`GATEWAY_CONTROLLER`].
    fn from(addresses: AddressPool) -> Self {
        Self {
            addresses,
            gateway_controller: GATEWAY_CONTROLLER.to_owned(),
        }
    }
}

/// Runs the cloud until the future is dropped.
pub(crate) async fn run(ctx: Context, balancers: LoadBalancers) {
    let pool = balancers.addresses;
    let ingress = ingress::run(ctx.clone(), pool.shared());
    let name = balancers.gateway_controller;
    let gateway = gateway::run(ctx.clone(), name, pool.shared());
    join3(service_load_balancer::run(ctx, pool), ingress, gateway).await;
}

/// The addresses among the `ip` fields of a load balancer's ingress points.
fn addresses<'a>(ips: impl Iterator<Item = Option<&'a String>>) -> Vec<IpAddr> {
    ips.flatten().filter_map(|ip| ip.parse().ok()).collect()
}

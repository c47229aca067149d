//! A simulated cloud: load balancers for services of type `LoadBalancer`, and an ingress controller.
//!
//! Nothing listens at the addresses. Controllers, `helm install --wait` and `kubectl wait` see the statuses that a
//! cloud writes, and the finalizers and events that come with them.

mod address_pool;
mod ingress;
mod service_load_balancer;

use std::net::IpAddr;

use futures::future::join;
use kubeproof_runtime::context::Context;

pub use address_pool::{AddressPool, InvalidPool};

/// Runs the cloud until the future is dropped. The ingress controller has the first address of `pool`; services get the
/// others.
pub(crate) async fn run(ctx: Context, pool: AddressPool) {
    let ingress = ingress::run(ctx.clone(), pool.for_ingresses());
    join(service_load_balancer::run(ctx, pool), ingress).await;
}

/// The addresses among the `ip` fields of a load balancer's ingress points.
fn addresses<'a>(ips: impl Iterator<Item = Option<&'a String>>) -> Vec<IpAddr> {
    ips.flatten().filter_map(|ip| ip.parse().ok()).collect()
}

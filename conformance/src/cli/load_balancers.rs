//! The flags of the simulated cloud.

use kubeproof_controller::{AddressPool, GATEWAY_CONTROLLER, LoadBalancers};

#[derive(clap::Args)]
pub(super) struct LoadBalancerArgs {
    /// Give services of type LoadBalancer, Ingresses and Gateways addresses of these networks, such as 192.0.2.0/24: one
    /// for each service, and one for all Ingresses and Gateways. Without this flag they stay pending.
    #[arg(long, value_name = "NETWORK,...")]
    load_balancers: Option<AddressPool>,
    /// The controllerName of the GatewayClasses whose Gateways get an address, once the Gateway API is defined.
    #[arg(long, value_name = "NAME", default_value = GATEWAY_CONTROLLER, requires = "load_balancers")]
    gateway_controller: String,
}

impl LoadBalancerArgs {
    pub(super) fn are_given(&self) -> bool {
        self.load_balancers.is_some()
    }

    pub(super) fn read(&self) -> Option<LoadBalancers> {
        self.load_balancers.clone().map(|addresses| LoadBalancers {
            addresses,
            gateway_controller: self.gateway_controller.clone(),
        })
    }
}

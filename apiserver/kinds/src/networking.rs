//! Ingresses, network policies, and addresses of services.

pub mod ingress;
pub mod ingress_class;
pub(crate) mod ip_address;
pub(crate) mod network_policy;
pub(crate) mod service_cidr;

use super::ApiGroup;

/// The strategies of `networking.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "networking.k8s.io",
    strategies: &[
        ("ingressclasses", &ingress_class::IngressClass),
        ("ingresses", &ingress::Ingress),
        ("ipaddresses", &ip_address::IpAddress),
        ("networkpolicies", &network_policy::NetworkPolicy),
        ("servicecidrs", &service_cidr::ServiceCidr),
    ],
};

//! Leases.

pub(crate) mod lease;

use super::ApiGroup;

/// The strategies of `coordination.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "coordination.k8s.io",
    strategies: &[("leases", &lease::Lease)],
};

//! EndpointSlices.

pub(crate) mod endpoint_slice;

use super::ApiGroup;

/// The strategies of `discovery.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "discovery.k8s.io",
    strategies: &[("endpointslices", &endpoint_slice::EndpointSlice)],
};

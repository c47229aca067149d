//! Dynamic allocation of devices.

pub(crate) mod device_class;
pub mod devices;
pub(crate) mod resource_claim;
pub(crate) mod resource_slice;

use super::ApiGroup;

/// The strategies of `resource.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "resource.k8s.io",
    strategies: &[
        ("deviceclasses", &device_class::DeviceClass),
        ("resourceclaims", &resource_claim::ResourceClaim),
        (
            "resourceclaimtemplates",
            &resource_claim::ResourceClaimTemplate,
        ),
        ("resourceslices", &resource_slice::ResourceSlice),
    ],
};

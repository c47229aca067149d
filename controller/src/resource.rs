//! The controller of the group `resource.k8s.io`.

pub mod resource_claim;

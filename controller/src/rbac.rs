//! The controller of the group `rbac.authorization.k8s.io`.

pub mod cluster_role_aggregation;

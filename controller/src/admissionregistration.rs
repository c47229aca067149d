//! The controller of the group `admissionregistration.k8s.io`.

pub mod policy_status;

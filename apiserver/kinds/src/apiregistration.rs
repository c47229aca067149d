//! APIServices.

pub mod api_service;

use super::ApiGroup;

/// The strategies of `apiregistration.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "apiregistration.k8s.io",
    strategies: &[("apiservices", &api_service::ApiService)],
};

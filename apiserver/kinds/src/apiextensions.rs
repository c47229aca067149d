//! CustomResourceDefinitions and the custom resources that they declare.

pub mod custom_resource;
pub mod custom_resource_definition;

use super::ApiGroup;

/// The strategies of `apiextensions.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "apiextensions.k8s.io",
    strategies: &[(
        "customresourcedefinitions",
        &custom_resource_definition::CustomResourceDefinition,
    )],
};

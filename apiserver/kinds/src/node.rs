//! RuntimeClasses.

pub mod runtime_class;

use super::ApiGroup;

/// The strategies of `node.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "node.k8s.io",
    strategies: &[("runtimeclasses", &runtime_class::RuntimeClass)],
};

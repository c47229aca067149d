//! PriorityClasses.

pub(crate) mod priority_class;

use super::ApiGroup;

/// The strategies of `scheduling.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "scheduling.k8s.io",
    strategies: &[("priorityclasses", &priority_class::PriorityClass)],
};

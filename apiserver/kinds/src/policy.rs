//! PodDisruptionBudgets.

pub mod eviction;
pub(crate) mod pod_disruption_budget;

use super::ApiGroup;

/// The strategies of `policy`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "policy",
    strategies: &[(
        "poddisruptionbudgets",
        &pod_disruption_budget::PodDisruptionBudget,
    )],
};

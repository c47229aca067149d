//! HorizontalPodAutoscalers.

pub(crate) mod horizontal_pod_autoscaler;
pub mod scale;

use super::ApiGroup;

/// The strategies of `autoscaling`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "autoscaling",
    strategies: &[(
        "horizontalpodautoscalers",
        &horizontal_pod_autoscaler::HorizontalPodAutoscaler,
    )],
};

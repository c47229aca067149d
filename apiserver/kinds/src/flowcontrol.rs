//! Priority and fairness of requests.

pub mod flow_schema;
pub(crate) mod priority_level_configuration;

use super::ApiGroup;

/// The strategies of `flowcontrol.apiserver.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "flowcontrol.apiserver.k8s.io",
    strategies: &[
        ("flowschemas", &flow_schema::FlowSchema),
        (
            "prioritylevelconfigurations",
            &priority_level_configuration::PriorityLevel,
        ),
    ],
};

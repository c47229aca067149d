//! Reviews of what a user may do.

use super::{ApiGroup, Virtual};

/// The strategies of `authorization.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "authorization.k8s.io",
    strategies: &[
        ("localsubjectaccessreviews", &Virtual),
        ("selfsubjectaccessreviews", &Virtual),
        ("selfsubjectrulesreviews", &Virtual),
        ("subjectaccessreviews", &Virtual),
    ],
};

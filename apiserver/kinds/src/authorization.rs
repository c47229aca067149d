//! Reviews of what a user may do.

use super::rest::{CreateRest, Review};
use super::{ApiGroup, Virtual};

/// The strategies of `authorization.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "authorization.k8s.io",
    strategies: &[
        (
            "localsubjectaccessreviews",
            &Virtual(CreateRest::Review(Review::LocalSubjectAccess)),
        ),
        (
            "selfsubjectaccessreviews",
            &Virtual(CreateRest::Review(Review::SelfSubjectAccess)),
        ),
        (
            "selfsubjectrulesreviews",
            &Virtual(CreateRest::Review(Review::SelfSubjectRules)),
        ),
        (
            "subjectaccessreviews",
            &Virtual(CreateRest::Review(Review::SubjectAccess)),
        ),
    ],
};

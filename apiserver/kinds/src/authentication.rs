//! Reviews of users and their tokens.

use super::rest::{CreateRest, Review};
use super::{ApiGroup, Virtual};

/// The strategies of `authentication.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "authentication.k8s.io",
    strategies: &[
        (
            "selfsubjectreviews",
            &Virtual(CreateRest::Review(Review::SelfSubject)),
        ),
        ("tokenreviews", &Virtual(CreateRest::Review(Review::Token))),
    ],
};

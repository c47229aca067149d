//! Reviews of users and their tokens.

use super::{ApiGroup, Virtual};

/// The strategies of `authentication.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "authentication.k8s.io",
    strategies: &[("selfsubjectreviews", &Virtual), ("tokenreviews", &Virtual)],
};

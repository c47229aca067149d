//! Roles and their bindings.

pub mod role;
pub(crate) mod role_binding;

use super::ApiGroup;

/// The strategies of `rbac.authorization.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "rbac.authorization.k8s.io",
    strategies: &[
        (
            "clusterrolebindings",
            &role_binding::RoleBinding { namespaced: false },
        ),
        ("clusterroles", &role::Role { namespaced: false }),
        (
            "rolebindings",
            &role_binding::RoleBinding { namespaced: true },
        ),
        ("roles", &role::Role { namespaced: true }),
    ],
};

//! Names that values of kube-apiserver's flags may have.

/// Modes of `--authorization-mode`.
pub(super) const AUTHORIZATION_MODES: &[&str] = &[
    "AlwaysAllow",
    "AlwaysDeny",
    "ABAC",
    "Webhook",
    "RBAC",
    "Node",
];

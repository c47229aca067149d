//! The labels and namespaces that the parts of a cluster have in common.

/// The label of a node's zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of a node's name.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The namespaces of generated pods, with their labels.
pub(super) const NAMESPACES: &[(&str, &str, &str)] = &[
    ("default", "team", "none"),
    ("team-a", "team", "a"),
    ("team-b", "team", "b"),
];
/// The values of the label `app` of generated pods.
pub(super) const APPS: &[&str] = &["web", "db", "cache"];

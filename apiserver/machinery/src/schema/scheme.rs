//! The kinds that upstream's scheme of Go types knows, served or not.

use super::builtin;
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::status::quoted;

/// Group, version and kinds that upstream can still read, though it serves none of them by default.
const OLD_KINDS: &[(&str, &str, &str)] = &[
    (
        "admissionregistration.k8s.io",
        "v1alpha1",
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io",
        "v1beta1",
        "ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    ),
    (
        "apiextensions.k8s.io",
        "v1beta1",
        "CustomResourceDefinition",
    ),
    ("apiregistration.k8s.io", "v1beta1", "APIService"),
    (
        "apps",
        "v1beta1",
        "Deployment DeploymentRollback Scale StatefulSet ControllerRevision",
    ),
    (
        "apps",
        "v1beta2",
        "Deployment Scale StatefulSet DaemonSet ReplicaSet ControllerRevision",
    ),
    ("authentication.k8s.io", "v1alpha1", "SelfSubjectReview"),
    (
        "authentication.k8s.io",
        "v1beta1",
        "SelfSubjectReview TokenReview",
    ),
    (
        "authorization.k8s.io",
        "v1beta1",
        "SelfSubjectRulesReview SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview",
    ),
    ("batch", "v1beta1", "CronJob"),
    (
        "certificates.k8s.io",
        "v1beta1",
        "CertificateSigningRequest",
    ),
    ("coordination.k8s.io", "v1beta1", "Lease"),
    ("discovery.k8s.io", "v1beta1", "EndpointSlice"),
    ("events.k8s.io", "v1beta1", "Event"),
    (
        "extensions",
        "v1beta1",
        "Deployment DeploymentRollback Scale DaemonSet Ingress ReplicaSet NetworkPolicy",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1beta1",
        "FlowSchema PriorityLevelConfiguration",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1beta2",
        "FlowSchema PriorityLevelConfiguration",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1beta3",
        "FlowSchema PriorityLevelConfiguration",
    ),
    (
        "networking.k8s.io",
        "v1beta1",
        "Ingress IngressClass IPAddress ServiceCIDR",
    ),
    ("node.k8s.io", "v1alpha1", "RuntimeClass"),
    ("node.k8s.io", "v1beta1", "RuntimeClass"),
    ("policy", "v1beta1", "PodDisruptionBudget Eviction"),
    (
        "rbac.authorization.k8s.io",
        "v1alpha1",
        "Role RoleBinding ClusterRole ClusterRoleBinding",
    ),
    (
        "rbac.authorization.k8s.io",
        "v1beta1",
        "Role RoleBinding ClusterRole ClusterRoleBinding",
    ),
    (
        "resource.k8s.io",
        "v1beta1",
        "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    ),
    (
        "resource.k8s.io",
        "v1beta2",
        "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    ),
    ("scheduling.k8s.io", "v1beta1", "PriorityClass"),
    (
        "storage.k8s.io",
        "v1alpha1",
        "VolumeAttachment CSIStorageCapacity VolumeAttributesClass",
    ),
    (
        "storage.k8s.io",
        "v1beta1",
        "StorageClass VolumeAttachment CSIDriver CSINode CSIStorageCapacity VolumeAttributesClass",
    ),
];

/// Whether upstream has a Go type for the kind, which may be a list of kinds or not served any more.
pub fn is_registered(group_version: &GroupVersion, kind: &str) -> bool {
    let is_builtin = |kind: &str| {
        builtin(&GroupVersionKind {
            group: group_version.group.clone(),
            version: group_version.version.clone(),
            kind: kind.to_owned(),
        })
        .is_some()
    };
    let is_list = kind.strip_suffix("List").is_some_and(|of| {
        let is_any = of.is_empty() && group_version.group.is_empty();
        is_any || is_builtin(of)
    });
    is_builtin(kind) || is_list || is_old(group_version, kind)
}

fn is_old(group_version: &GroupVersion, kind: &str) -> bool {
    let old = OLD_KINDS.iter().find(|(group, version, _)| {
        *group == group_version.group && *version == group_version.version
    });
    old.is_some_and(|(_, _, kinds)| kinds.split(' ').any(|known| known == kind))
}

/// Returns the error message for a kind that is not registered in this version.
pub fn not_registered(kind: &str, version: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        quoted(kind),
        quoted(version)
    )
}

/// The fault of a known kind where one of another kind was wanted.
pub fn unknown_conversion(
    group_version: &GroupVersion,
    kind: &str,
    wanted: &GroupVersionKind,
) -> String {
    format!(
        "converting ({}.{kind}) to ({}.{}): unknown conversion",
        group_version.version,
        package(&wanted.group),
        wanted.kind
    )
}

/// The Go package of a group's own types.
pub fn package(group: &str) -> &str {
    match group.split('.').next() {
        Some("") | None => "core",
        Some(first) => first,
    }
}

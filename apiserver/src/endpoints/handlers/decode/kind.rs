//! The kind and version that a document says it has, against those asked for.

use serde_json::Value;

use crate::meta::object::meta;
use crate::meta::{GroupKind, GroupVersion, GroupVersionKind};
use crate::schema;
use crate::status::{ApiError, FieldErrors, FieldPath};

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

/// What an object says it is.
pub(super) struct TypeMeta {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// Reads the type of a document.
///
/// # Errors
/// Go's text for why it has none.
pub(super) fn type_meta(value: &Value) -> Result<TypeMeta, String> {
    if !value.is_object() && !value.is_null() {
        return Err(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            type_of(value)
        ));
    }
    let text = |field: &str| match &value[field] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go struct field .{field} of type string",
            type_of(other)
        )),
    };
    Ok(TypeMeta {
        api_version: text("apiVersion")?,
        kind: text("kind")?,
    })
}

/// The name of a value's type in Go's decode errors.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether an object that says it is `found` may be handled as a `gvk`.
///
/// # Errors
/// `BadRequest`.
pub(super) fn check_kind(
    gvk: &GroupVersionKind,
    found: &TypeMeta,
    group_version: &GroupVersion,
) -> Result<(), ApiError> {
    if let Some(why) = unconvertible(gvk, found, group_version) {
        let kind = match found.kind.as_str() {
            "" => &gvk.kind,
            kind => kind,
        };
        let version = match found.api_version.as_str() {
            "" => &gvk.version,
            _ => &group_version.version,
        };
        return Err(ApiError::BadRequest(format!(
            "{kind} in version {version:?} cannot be handled as a {}: {why}",
            gvk.kind
        )));
    }
    if !found.api_version.is_empty() && *group_version != gvk.group_version() {
        return Err(foreign_version(gvk, found));
    }
    Ok(())
}

/// Whether an object that says it is `found` is a custom resource of this version. Unlike the types
/// of built-in kinds, what holds it takes any, so this is found out late, by validation.
///
/// # Errors
/// `Invalid`; upstream stumbles over an object without a version.
pub(super) fn check_custom(
    gvk: &GroupVersionKind,
    found: &TypeMeta,
    object: &Value,
) -> Result<(), ApiError> {
    if found.api_version.is_empty() {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(ApiError::Internal(why.to_owned()));
    }
    let mut errors = FieldErrors::new();
    for (field, own, wanted) in [
        ("kind", &found.kind, &gvk.kind),
        ("apiVersion", &found.api_version, &gvk.api_version()),
    ] {
        if own != wanted {
            let detail = format!("must be {wanted}");
            errors.invalid(&FieldPath::new(field), &own.as_str().into(), &detail);
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let group = GroupVersion::parse(&found.api_version).map(|own| own.group);
    Err(ApiError::Invalid {
        kind: GroupKind {
            group: group.unwrap_or_default(),
            kind: found.kind.clone(),
        },
        name: meta(object, "name").to_owned(),
        errors,
    })
}

/// The refusal of an object in another version than that of its request.
pub(super) fn foreign_version(gvk: &GroupVersionKind, found: &TypeMeta) -> ApiError {
    ApiError::BadRequest(format!(
        "the API version in the data ({}) does not match the expected API version ({})",
        found.api_version,
        gvk.api_version()
    ))
}

/// Why an object that says it is `found` does not become a `gvk`. Other versions of a kind do.
pub(super) fn unconvertible(
    gvk: &GroupVersionKind,
    found: &TypeMeta,
    group_version: &GroupVersion,
) -> Option<String> {
    let kind = match found.kind.as_str() {
        "" => &gvk.kind,
        kind => kind,
    };
    let same_version = found.api_version.is_empty() || *group_version == gvk.group_version();
    if kind == gvk.kind && same_version {
        return None;
    }
    let registered = schema::builtin(&GroupVersionKind {
        group: group_version.group.clone(),
        version: group_version.version.clone(),
        kind: kind.to_owned(),
    });
    let listed = kind.strip_suffix("List").is_some_and(|of| {
        let is_any = of.is_empty() && group_version.group.is_empty();
        let own = GroupVersionKind {
            group: group_version.group.clone(),
            version: group_version.version.clone(),
            kind: of.to_owned(),
        };
        is_any || schema::builtin(&own).is_some()
    });
    if registered.is_none() && !listed && !is_old(kind, group_version) {
        return Some(not_registered(kind, &found.api_version));
    }
    if kind == gvk.kind {
        return None;
    }
    let internal = if gvk.group.is_empty() {
        "core"
    } else {
        gvk.group.split('.').next().unwrap_or("")
    };
    Some(format!(
        "converting ({}.{kind}) to ({internal}.{}): unknown conversion",
        group_version.version, gvk.kind
    ))
}

/// Whether upstream knows the kind in a version that is not served any more.
fn is_old(kind: &str, group_version: &GroupVersion) -> bool {
    let old = OLD_KINDS.iter().find(|(group, version, _)| {
        *group == group_version.group && *version == group_version.version
    });
    old.is_some_and(|(_, _, kinds)| kinds.split(' ').any(|known| known == kind))
}

/// The fault of a kind that nobody knows in this version.
pub(super) fn not_registered(kind: &str, version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
}

//! Per-resource exceptions from the rules of the generic store.

use crate::meta::GroupResource;

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Whether a DELETE that removes at once answers with the object instead of a Status.
pub(crate) fn returns_deleted_object(resource: &GroupResource) -> bool {
    match resource.group.as_str() {
        "" => matches!(
            resource.resource.as_str(),
            "namespaces"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "pods"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ),
        "storage.k8s.io" => resource.resource != "csistoragecapacities",
        "resource.k8s.io" => true,
        _ => false,
    }
}

/// Whether upstream shows the responses of a resource or subresource as tables.
pub(crate) fn has_table(group: &str, resource: &str, subresource: &str) -> bool {
    !matches!(
        (group, resource, subresource),
        ("authentication.k8s.io" | "authorization.k8s.io", _, _)
            | ("", "bindings", _)
            | ("", "namespaces", "finalize")
            | (
                "",
                "pods",
                "binding" | "ephemeralcontainers" | "eviction" | "resize"
            )
            | ("", "serviceaccounts", "token")
            | (
                "certificates.k8s.io",
                "certificatesigningrequests",
                "approval"
            )
            | ("resource.k8s.io", "resourceclaims", "status")
    )
}

/// Whether an update may leave out `metadata.resourceVersion`.
pub(crate) fn allows_unconditional_update(resource: &GroupResource) -> bool {
    !matches!(
        (resource.group.as_str(), resource.resource.as_str()),
        (
            ADMISSION | "apiextensions.k8s.io" | "apiregistration.k8s.io" | "coordination.k8s.io",
            _
        ) | ("node.k8s.io", "runtimeclasses")
            | ("policy", "poddisruptionbudgets")
            | (
                "storage.k8s.io",
                "csidrivers" | "csinodes" | "csistoragecapacities" | "volumeattachments"
            )
    )
}

/// Whether a PUT of an absent object creates it.
pub(crate) fn allows_create_on_update(resource: &GroupResource) -> bool {
    matches!(
        (resource.group.as_str(), resource.resource.as_str()),
        ("", "endpoints" | "events" | "limitranges" | "services")
            | ("coordination.k8s.io", "leases")
            | ("events.k8s.io", "events")
            | ("node.k8s.io", "runtimeclasses")
            | (RBAC, _)
    )
}

/// Whether a write of `/status` keeps this field of the metadata.
pub(crate) fn keeps_on_status(resource: &GroupResource, field: &str) -> bool {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => field == "ownerReferences",
        ("apps", "deployments") => field == "labels",
        (ADMISSION | "flowcontrol.apiserver.k8s.io", _)
        | ("apiregistration.k8s.io", "apiservices")
        | ("networking.k8s.io", "servicecidrs")
        | ("storage.k8s.io", "volumeattachments") => field != "managedFields",
        _ => false,
    }
}

/// Whether a finalizer must be a standard one or have a domain, and not only be warned of.
pub(crate) fn checks_finalizers(resource: &GroupResource) -> bool {
    !matches!(
        resource.group.as_str(),
        ADMISSION
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "coordination.k8s.io"
            | "node.k8s.io"
    )
}

/// A check of the metadata among a kind's own checks of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MetadataCheck {
    /// As of a new object, the kind's rule of names included.
    Whole,
    /// Against the metadata that is to be replaced.
    Update,
}

/// Whether a kind checks the metadata of a new object before the rules of all kinds do.
pub(crate) fn checks_new_metadata(resource: &GroupResource) -> bool {
    !matches!(
        (resource.group.as_str(), resource.resource.as_str()),
        ("", "events") | ("policy", "poddisruptionbudgets")
    )
}

/// The looks that a kind takes at the metadata of an update, each after those common to all kinds.
pub(crate) fn metadata_checks(resource: &GroupResource) -> &'static [MetadataCheck] {
    use MetadataCheck::{Update, Whole};
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "events") | ("policy", "poddisruptionbudgets") => &[],
        ("", "limitranges")
        | (ADMISSION | "flowcontrol.apiserver.k8s.io", _)
        | ("discovery.k8s.io", "endpointslices")
        | ("storage.k8s.io", "csinodes" | "volumeattachments") => &[Whole],
        ("", "persistentvolumes") => &[Whole, Whole],
        ("", "namespaces" | "nodes")
        | ("apps", "statefulsets")
        | ("batch", "jobs")
        | (RBAC, _)
        | ("certificates.k8s.io", _)
        | ("networking.k8s.io", "ipaddresses")
        | ("node.k8s.io", "runtimeclasses")
        | ("resource.k8s.io", "deviceclasses" | "resourceclaims" | "resourceclaimtemplates")
        | ("storage.k8s.io", "csistoragecapacities" | "storageclasses")
        | ("storagemigration.k8s.io", _) => &[Whole, Update],
        (
            "",
            "configmaps"
            | "endpoints"
            | "persistentvolumeclaims"
            | "pods"
            | "secrets"
            | "serviceaccounts",
        )
        | ("apps", "controllerrevisions")
        | ("networking.k8s.io", "ingresses" | "ingressclasses")
        | ("storage.k8s.io", "volumeattributesclasses") => &[Update, Whole],
        _ => &[Update],
    }
}

/// As [`metadata_checks`], of a write of `/status`.
pub(crate) fn status_metadata_checks(resource: &GroupResource) -> &'static [MetadataCheck] {
    use MetadataCheck::{Update, Whole};
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("batch", "cronjobs")
        | ("policy", "poddisruptionbudgets")
        | (ADMISSION | "flowcontrol.apiserver.k8s.io", _) => &[],
        ("certificates.k8s.io", _) => &[Whole, Update],
        ("storage.k8s.io", "volumeattachments") => &[Whole],
        _ => &[Update],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_knows_its_kinds() {
        let of = |group: &str, resource: &str| GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        };
        assert!(returns_deleted_object(&of("storage.k8s.io", "csinodes")));
        assert!(!returns_deleted_object(&of("", "secrets")));
        assert!(!allows_unconditional_update(&of(
            ADMISSION,
            "validatingadmissionpolicies"
        )));
        assert!(allows_unconditional_update(&of(
            "scheduling.k8s.io",
            "priorityclasses"
        )));
        assert!(allows_create_on_update(&of(RBAC, "clusterrolebindings")));
        assert!(!allows_create_on_update(&of("", "secrets")));
        let volume_attachments = of("storage.k8s.io", "volumeattachments");
        assert!(keeps_on_status(&volume_attachments, "labels"));
        assert!(!keeps_on_status(&volume_attachments, "managedFields"));
        assert!(!checks_new_metadata(&of("policy", "poddisruptionbudgets")));
        assert!(checks_new_metadata(&of("", "pods")));
        let whole = MetadataCheck::Whole;
        assert_eq!(metadata_checks(&of("", "limitranges")), [whole]);
        let update = MetadataCheck::Update;
        assert_eq!(metadata_checks(&of("apps", "deployments")), [update]);
        assert_eq!(status_metadata_checks(&of("", "nodes")), [update]);
        assert_eq!(status_metadata_checks(&of("batch", "cronjobs")), []);
    }
}

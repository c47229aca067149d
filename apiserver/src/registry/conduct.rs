//! What the generic store does differently for some kinds, as data.

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

/// Whether a write of `/status` leaves this field of the metadata as it is.
pub(crate) fn keeps_on_status(resource: &GroupResource, field: &str) -> bool {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => field == "ownerReferences",
        ("apps", "deployments") => field == "labels",
        (ADMISSION | "flowcontrol.apiserver.k8s.io", _)
        | ("apiextensions.k8s.io", "customresourcedefinitions")
        | ("apiregistration.k8s.io", "apiservices")
        | ("networking.k8s.io", "servicecidrs")
        | ("storage.k8s.io", "volumeattachments") => field != "managedFields",
        _ => false,
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
    }
}

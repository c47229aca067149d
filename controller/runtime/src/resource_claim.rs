//! ResourceClaims and the pods that use them.
//!
//! Source: `k8s.io/dynamic-resource-allocation/resourceclaim`.

use k8s_openapi::api::core::v1::PodResourceClaim;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use kube::ResourceExt;

use crate::controller_ref::controller_of;
use crate::pod::Pod;

/// The finalizer of allocated claims.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The name of a claim that a pod uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedClaim<'p> {
    /// The ResourceClaim's name.
    pub name: &'p str,
    /// Whether the claim is made for the pod from a template, so that the pod has to own it.
    pub is_generated: bool,
}

/// The reason why the name of a pod's claim is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No claim has been made from the template yet. The text is the pod's namespace and name.
    #[error("pod {0:?}: ResourceClaim not created yet")]
    NotCreated(String),
    /// The pod names neither a claim nor a template.
    #[error("pod {pod:?}, spec.resourceClaim {claim:?}: none of the supported fields are set")]
    Unsupported {
        /// The pod's namespace and name.
        pod: String,
        /// The name of the claim in the pod.
        claim: String,
    },
}

/// Returns what the pod's spec says of claims.
#[must_use]
pub fn of_pod(pod: &Pod) -> &[PodResourceClaim] {
    let spec = pod.spec.as_ref();
    let claims = spec.and_then(|spec| spec.resource_claims.as_deref());
    claims.unwrap_or_default()
}

/// Returns the claim that `own`, of the pod's spec, stands for; None if the pod needs none.
///
/// # Errors
/// [`NameError`] if the name is not known.
pub fn used_claim<'p>(
    pod: &'p Pod,
    own: &'p PodResourceClaim,
) -> Result<Option<UsedClaim<'p>>, NameError> {
    if let Some(name) = &own.resource_claim_name {
        return Ok(Some(UsedClaim {
            name,
            is_generated: false,
        }));
    }
    if own.resource_claim_template_name.is_none() {
        return Err(NameError::Unsupported {
            pod: key_of(pod),
            claim: own.name.clone(),
        });
    }
    let statuses = pod.status.iter();
    let mut statuses = statuses.flat_map(|status| status.resource_claim_statuses.iter().flatten());
    let status = statuses.find(|status| status.name == own.name);
    let status = status.ok_or_else(|| NameError::NotCreated(key_of(pod)))?;
    let name = status.resource_claim_name.as_deref();
    Ok(name.map(|name| UsedClaim {
        name,
        is_generated: true,
    }))
}

/// Checks that the claim was made for the pod.
///
/// # Errors
/// Upstream's text if the pod does not own the claim.
pub fn check_owner(pod: &Pod, claim: &ResourceClaim) -> Result<(), String> {
    let owner = controller_of(&claim.metadata);
    if owner.is_some_and(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref()) {
        return Ok(());
    }
    Err(format!(
        "ResourceClaim {} was not created for Pod {} (Pod is not owner)",
        key_of(claim),
        key_of(pod)
    ))
}

/// Returns the users of the claim.
#[must_use]
pub fn reserved_for(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    let status = claim.status.as_ref();
    let users = status.and_then(|status| status.reserved_for.as_deref());
    users.unwrap_or_default()
}

/// Whether the pod may use the claim.
#[must_use]
pub fn is_reserved_for(claim: &ResourceClaim, pod: &Pod) -> bool {
    let mut users = reserved_for(claim).iter();
    users.any(|user| Some(&user.uid) == pod.metadata.uid.as_ref())
}

/// Whether devices are allocated to the claim.
#[must_use]
pub fn is_allocated(claim: &ResourceClaim) -> bool {
    let status = claim.status.as_ref();
    status.is_some_and(|status| status.allocation.is_some())
}

/// Returns the pod as a user of claims.
#[must_use]
pub fn user(pod: &Pod) -> ResourceClaimConsumerReference {
    ResourceClaimConsumerReference {
        api_group: None,
        resource: "pods".to_owned(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    }
}

/// Returns the namespace and the name of an object, as upstream's messages have them.
#[must_use]
pub fn key_of(object: &impl kube::Resource) -> String {
    let meta = object.meta();
    let [namespace, name] = [&meta.namespace, &meta.name].map(Option::as_deref);
    format!(
        "{}/{}",
        namespace.unwrap_or_default(),
        name.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::from_value;

    fn pod(claim: &Value, statuses: &Value) -> Pod {
        let pod = json!({"metadata": {"namespace": "default", "name": "web", "uid": "u"},
            "spec": {"containers": [], "resourceClaims": [claim]},
            "status": {"resourceClaimStatuses": statuses}});
        from_value(pod).unwrap()
    }

    #[test]
    fn the_name_of_a_generated_claim_is_in_the_status() {
        let name = |claim: &Value, statuses: &Value| {
            let pod = pod(claim, statuses);
            let used = used_claim(&pod, &of_pod(&pod)[0]);
            used.map(|used| used.map(|used| (used.name.to_owned(), used.is_generated)))
                .map_err(|error| error.to_string())
        };
        let named = json!({"name": "gpu", "resourceClaimName": "shared"});
        assert_eq!(
            name(&named, &json!([])),
            Ok(Some(("shared".to_owned(), false)))
        );
        let generated = json!({"name": "gpu", "resourceClaimTemplateName": "t"});
        let made = json!([{"name": "gpu", "resourceClaimName": "web-gpu-x"}]);
        assert_eq!(
            name(&generated, &made),
            Ok(Some(("web-gpu-x".to_owned(), true)))
        );
        assert_eq!(name(&generated, &json!([{"name": "gpu"}])), Ok(None));
        let error = "pod \"default/web\": ResourceClaim not created yet";
        assert_eq!(name(&generated, &json!([])), Err(error.to_owned()));
        let error = "pod \"default/web\", spec.resourceClaim \"gpu\": none of the supported \
                     fields are set";
        assert_eq!(
            name(&json!({"name": "gpu"}), &json!([])),
            Err(error.to_owned())
        );
    }

    #[test]
    fn a_generated_claim_is_owned_by_its_pod() {
        let pod = pod(&json!({"name": "gpu"}), &json!([]));
        let claim = |uid: &str| {
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid,
                "controller": true});
            let metadata = json!({"namespace": "default", "name": "c", "ownerReferences": [owner]});
            ResourceClaim {
                metadata: from_value(metadata).unwrap(),
                ..ResourceClaim::default()
            }
        };
        assert_eq!(check_owner(&pod, &claim("u")), Ok(()));
        let error =
            "ResourceClaim default/c was not created for Pod default/web (Pod is not owner)";
        assert_eq!(check_owner(&pod, &claim("other")), Err(error.to_owned()));
    }
}

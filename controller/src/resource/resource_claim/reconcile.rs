//! The decisions of the resourceclaim controller, which depend on nothing but objects.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodResourceClaim;
use k8s_openapi::api::resource::v1::{
    ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod, is_finished};
use kubeproof_runtime::resource_claim::{
    FINALIZER, NameError, check_owner, is_allocated, is_reserved_for, of_pod, reserved_for,
    used_claim,
};

/// The annotation of a generated claim: its name in the pod's spec.
pub(super) const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
/// The longest generated name without its random part.
const BASE_BYTES_MAX: usize = 57;

/// Returns whether the pod's containers do not run and never will (`isPodDone`).
pub(super) fn is_done(pod: &Pod) -> bool {
    let is_unscheduled = pod::node(pod).is_empty();
    is_finished(pod) || pod.metadata.deletion_timestamp.is_some() && is_unscheduled
}

/// Returns whether the pod's spec or its status has claims (`enqueuePod`).
pub(super) fn has_claims(pod: &Pod) -> bool {
    !of_pod(pod).is_empty() || extended_claim(pod).is_some()
}

/// Returns the known names of the pod's claims, also of the one that a scheduler has made for its extended resources.
pub(super) fn names_of_claims(pod: &Pod) -> Vec<&str> {
    let used = of_pod(pod).iter();
    let used = used.filter_map(|own| used_claim(pod, own).ok().flatten());
    used.map(|used| used.name)
        .chain(extended_claim(pod))
        .collect()
}

fn extended_claim(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let claim = status.extended_resource_claim_status.as_ref()?;
    Some(&claim.resource_claim_name)
}

/// Returns whether a claim of the pod has to be made or reserved (`podNeedsWork`). `claim` finds claims by name.
pub(super) fn needs_work(pod: &Pod, claim: impl Fn(&str) -> Option<Arc<ResourceClaim>>) -> bool {
    let mut claims = of_pod(pod).iter();
    pod.metadata.deletion_timestamp.is_none()
        && claims.any(|own| match used_claim(pod, own) {
            Err(_) => true,
            Ok(None) => false,
            Ok(Some(used)) => match claim(used.name) {
                None => used.is_generated,
                Some(claim) => {
                    let is_foreign = used.is_generated && check_owner(pod, &claim).is_err();
                    !is_foreign && needs_reservation(pod, &claim)
                }
            },
        })
}

/// Returns whether an allocated claim has to be reserved for the pod, which runs without the scheduler.
pub(super) fn needs_reservation(pod: &Pod, claim: &ResourceClaim) -> bool {
    let is_bound = !pod::node(pod).is_empty();
    is_bound && is_allocated(claim) && !is_reserved_for(claim, pod)
}

/// What has to be done about a claim in a pod's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing.
    Nothing,
    /// A claim from the template of this name.
    Generate(String),
}

/// Decides about a claim in the pod's spec (`handleClaim`). `claim` finds claims by name.
///
/// # Errors
/// Upstream's text if the claim has neither a name nor a template.
pub(super) fn need(
    pod: &Pod,
    own: &PodResourceClaim,
    claim: impl Fn(&str) -> Option<Arc<ResourceClaim>>,
) -> Result<Need, String> {
    match used_claim(pod, own) {
        Err(NameError::NotCreated(_)) => {}
        Err(error @ NameError::Unsupported { .. }) => {
            return Err(format!("checking for claim before creating it: {error}"));
        }
        Ok(None) => return Ok(Need::Nothing),
        Ok(Some(used)) => {
            let is_own =
                |claim: &ResourceClaim| !used.is_generated || check_owner(pod, claim).is_ok();
            if claim(used.name).is_some_and(|claim| is_own(&claim)) {
                return Ok(Need::Nothing);
            }
        }
    }
    Ok(match &own.resource_claim_template_name {
        Some(template) => Need::Generate(template.clone()),
        None => Need::Nothing,
    })
}

/// Returns whether the claim was made for this claim of a pod that controls it.
pub(super) fn is_for(claim: &ResourceClaim, own: &PodResourceClaim) -> bool {
    claim.annotations().get(POD_CLAIM_NAME) == Some(&own.name)
}

/// Returns the claim that is made from a template.
pub(super) fn generated(
    pod: &Pod,
    own: &PodResourceClaim,
    template: &ResourceClaimTemplate,
) -> ResourceClaim {
    let of_template = template.spec.metadata.clone().unwrap_or_default();
    let mut annotations = of_template.annotations.unwrap_or_default();
    annotations.insert(POD_CLAIM_NAME.to_owned(), own.name.clone());
    ResourceClaim {
        metadata: ObjectMeta {
            namespace: pod.namespace(),
            generate_name: Some(generate_name(&pod.name_any(), &own.name)),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: pod.name_any(),
                uid: pod.uid().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            annotations: Some(annotations),
            labels: of_template.labels,
            ..ObjectMeta::default()
        },
        spec: template.spec.spec.clone(),
        status: None,
    }
}

/// Returns the beginning of the name of a generated claim. Both names are shortened in proportion if it is too long.
fn generate_name(pod: &str, claim: &str) -> String {
    let whole = format!("{pod}-{claim}-");
    if whole.len() <= BASE_BYTES_MAX {
        return whole;
    }
    // As upstream: the pod's name is cut by the length of the whole, and the claim's, too.
    let cut = |name: &str| name[..name.len() * BASE_BYTES_MAX / whole.len()].to_owned();
    format!("{}-{}", cut(pod), cut(claim))
}

/// What has to be done about a claim after some of its users are gone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Release {
    /// The remaining users, if there are fewer.
    pub(super) users: Option<Vec<ResourceClaimConsumerReference>>,
    /// Whether the claim loses its devices.
    pub(super) deallocates: bool,
    /// Whether the claim loses the finalizer.
    pub(super) unprotects: bool,
    /// Whether the claim has no users left.
    pub(super) is_unused: bool,
}

/// Decides about a claim with these remaining users (`syncClaim`).
pub(super) fn release(
    claim: &ResourceClaim,
    remaining: Vec<ResourceClaimConsumerReference>,
) -> Release {
    let is_unused = remaining.is_empty();
    let loses_users = remaining.len() < reserved_for(claim).len();
    let is_protected = claim.finalizers().iter().any(|own| own == FINALIZER);
    let is_deleted = claim.metadata.deletion_timestamp.is_some();
    // A claim that was never reserved keeps its devices until it is deleted.
    let ends = is_protected && is_unused && (loses_users || is_deleted);
    let deallocates = ends && is_allocated(claim);
    let is_free = deallocates || !is_allocated(claim);
    Release {
        users: loses_users.then_some(remaining),
        deallocates,
        unprotects: is_protected && (ends || loses_users && is_free),
        is_unused,
    }
}

/// Returns the name and the uid of the pod that controls the claim.
pub(super) fn owning_pod(claim: &ResourceClaim) -> Option<(&str, &str)> {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| {
        owner.controller == Some(true) && owner.api_version == "v1" && owner.kind == "Pod"
    });
    let owner = owners.next()?;
    Some((&owner.name, &owner.uid))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn pod(more: &Value, status: &Value) -> Pod {
        let mut pod = json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "u"},
            "spec": {"containers": [], "resourceClaims":
                [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
            "status": status,
        });
        let spec = pod["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        from_value(pod).unwrap()
    }

    fn claim(more: &Value, status: &Value) -> ResourceClaim {
        let mut claim = json!({"metadata": {"namespace": "default", "name": "c"}, "spec": {},
            "status": status});
        let metadata = claim["metadata"].as_object_mut().unwrap();
        metadata.extend(more.as_object().unwrap().clone());
        from_value(claim).unwrap()
    }

    #[test]
    fn long_names_are_shortened_in_proportion() {
        assert_eq!(generate_name("web", "gpu"), "web-gpu-");
        let name = generate_name(&"p".repeat(90), &"c".repeat(10));
        // 102 bytes at first: 90 * 57 / 102 and 10 * 57 / 102 are left.
        assert_eq!(name, format!("{}-{}", "p".repeat(50), "c".repeat(5)));
    }

    #[test]
    fn a_claim_is_made_unless_the_pod_has_its_own() {
        let made = json!({"resourceClaimStatuses":
            [{"name": "gpu", "resourceClaimName": "c"}]});
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u",
            "controller": true});
        let own = Arc::new(claim(&json!({"ownerReferences": [owner]}), &json!({})));
        let foreign = Arc::new(claim(&json!({}), &json!({})));
        let generate = Need::Generate("one".to_owned());
        for (status, found, wanted) in [
            (json!({}), None, generate.clone()),
            (made.clone(), None, generate.clone()),
            (made.clone(), Some(foreign), generate),
            (made, Some(own), Need::Nothing),
            (
                json!({"resourceClaimStatuses": [{"name": "gpu"}]}),
                None,
                Need::Nothing,
            ),
        ] {
            let pod = pod(&json!({}), &status);
            let found = |_: &str| found.clone();
            assert_eq!(need(&pod, &of_pod(&pod)[0], found), Ok(wanted), "{status}");
        }
    }

    #[test]
    fn a_claim_for_extended_resources_is_in_the_status_only() {
        let status = json!({"extendedResourceClaimStatus":
            {"resourceClaimName": "extended", "requestMappings": []},
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]});
        let both = pod(&json!({}), &status);
        assert_eq!(names_of_claims(&both), ["made", "extended"]);
        let extended = pod(&json!({"resourceClaims": []}), &status);
        assert_eq!(names_of_claims(&extended), ["extended"]);
        assert!(has_claims(&extended));
        assert!(!has_claims(&pod(
            &json!({"resourceClaims": []}),
            &json!({})
        )));
    }

    #[test]
    fn only_bound_pods_are_reserved_for() {
        let allocated = claim(&json!({}), &json!({"allocation": {}}));
        let reserved = claim(
            &json!({}),
            &json!({"allocation": {},
                "reservedFor": [{"resource": "pods", "name": "web", "uid": "u"}]}),
        );
        let bound = pod(&json!({"nodeName": "node-1"}), &json!({}));
        assert!(needs_reservation(&bound, &allocated));
        assert!(!needs_reservation(&bound, &reserved));
        assert!(!needs_reservation(&bound, &claim(&json!({}), &json!({}))));
        assert!(!needs_reservation(&pod(&json!({}), &json!({})), &allocated));
    }

    #[test]
    fn the_last_user_takes_the_devices_with_it() {
        let user = |uid: &str| ResourceClaimConsumerReference {
            resource: "pods".to_owned(),
            name: uid.to_owned(),
            uid: uid.to_owned(),
            ..ResourceClaimConsumerReference::default()
        };
        let users = json!([{"resource": "pods", "name": "a", "uid": "a"},
            {"resource": "pods", "name": "b", "uid": "b"}]);
        let protected = json!({"finalizers": [FINALIZER]});
        let used = claim(&protected, &json!({"allocation": {}, "reservedFor": users}));
        let kept = Release {
            users: Some(vec![user("b")]),
            deallocates: false,
            unprotects: false,
            is_unused: false,
        };
        assert_eq!(release(&used, vec![user("b")]), kept);
        let freed = Release {
            users: Some(Vec::new()),
            deallocates: true,
            unprotects: true,
            is_unused: true,
        };
        assert_eq!(release(&used, Vec::new()), freed);
        let idle = claim(&protected, &json!({"allocation": {}}));
        let nothing = Release {
            users: None,
            deallocates: false,
            unprotects: false,
            is_unused: true,
        };
        assert_eq!(release(&idle, Vec::new()), nothing);
        let deleted = json!({"finalizers": [FINALIZER],
            "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let ended = Release {
            deallocates: true,
            unprotects: true,
            ..nothing
        };
        let deleted = claim(&deleted, &json!({"allocation": {}}));
        assert_eq!(release(&deleted, Vec::new()), ended);
    }
}

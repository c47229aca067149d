//! The claims of the pods of a set: the missing claims and the owners of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kubeproof_runtime::controller_ref::controller_ref;
use kubeproof_runtime::pod::Pod;

use crate::workload::claim::{self, Owners, RetentionPolicy};
use crate::workload::stateful_identity as identity;

/// A claim that a pod needs before it can be created.
#[derive(Debug, PartialEq)]
pub(crate) enum EnsureClaim {
    /// The claim is missing.
    Create(Box<PersistentVolumeClaim>),
    /// The claim exists but is terminating.
    BeingDeleted(String),
}

/// Owner references of one claim.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FixOwners {
    /// The claim that another controller owns.
    pub(crate) conflicting: Option<String>,
    /// The claim with corrected references.
    pub(crate) update: Option<Box<PersistentVolumeClaim>>,
}

/// How a pod differs from what it should be.
#[derive(Debug)]
pub(crate) struct Repair {
    /// The pod as it should be.
    pub(crate) pod: Pod,
    pub(crate) claims: Vec<EnsureClaim>,
    pub(crate) owners: Vec<FixOwners>,
}

/// The claims of a set's pods.
#[derive(Clone, Copy)]
pub(crate) struct StatefulClaims<'a> {
    pub(crate) set: &'a ObjectMeta,
    /// The reference with which the set owns a claim. When it makes the set the claim's controller,
    /// so does the pod's; otherwise who else controls the claim does not matter.
    pub(crate) set_ref: &'a OwnerReference,
    pub(crate) templates: &'a [PersistentVolumeClaim],
    pub(crate) match_labels: &'a BTreeMap<String, String>,
    pub(crate) policy: RetentionPolicy,
    /// The claims of the namespace, by name.
    pub(crate) cached: &'a BTreeMap<String, Arc<PersistentVolumeClaim>>,
}

/// A claim of a pod: what it is made from and what the cache holds of it.
struct PodClaim<'a> {
    template: &'a PersistentVolumeClaim,
    ordinal: i32,
    claim: Option<&'a PersistentVolumeClaim>,
}

impl<'a> StatefulClaims<'a> {
    /// For each claim template of a pod, in their order, the cached claim.
    fn of_pod(self, pod: &Pod) -> Vec<PodClaim<'a>> {
        let ordinal = identity::ordinal(pod).unwrap_or(0);
        let set = self.set.name.as_deref().unwrap_or_default();
        let claim_of = |template: &'a PersistentVolumeClaim| {
            let template_name = template.metadata.name.as_deref().unwrap_or_default();
            let name = claim::claim_name(template_name, set, ordinal);
            PodClaim {
                template,
                ordinal,
                claim: self.cached.get(&name).map(AsRef::as_ref),
            }
        };
        self.templates.iter().map(claim_of).collect()
    }

    /// Returns the claims to create for the pod, and its claims that are being deleted.
    pub(crate) fn ensure(self, pod: &Pod) -> Vec<EnsureClaim> {
        let ensure = |of: PodClaim<'_>| {
            let Some(claim) = of.claim else {
                let new = claim::new_claim(of.template, self.set, self.match_labels, of.ordinal);
                return Some(EnsureClaim::Create(Box::new(new)));
            };
            claim.metadata.deletion_timestamp.as_ref()?;
            Some(EnsureClaim::BeingDeleted(
                claim.metadata.name.clone().unwrap_or_default(),
            ))
        };
        self.of_pod(pod).into_iter().filter_map(ensure).collect()
    }

    /// Returns the claims whose owners differ from the policy for a pod that is `condemned` or not.
    pub(crate) fn fix_owners(self, pod: &Pod, condemned: bool) -> Vec<FixOwners> {
        let pod_ref = OwnerReference {
            controller: self.set_ref.controller,
            block_owner_deletion: self.set_ref.block_owner_deletion,
            ..controller_ref("v1", "Pod", &pod.metadata)
        };
        let owners = Owners {
            set: self.set_ref,
            pod: &pod_ref,
            condemned,
        };
        let fix = |claim: &PersistentVolumeClaim| {
            let meta = &claim.metadata;
            let conflicts = claim::has_conflicting_controller(meta, self.policy, owners);
            let corrected = claim::corrected_owners(meta, self.policy, owners);
            let update = corrected.map(|references| {
                let mut update = claim.clone();
                update.metadata.owner_references = Some(references);
                Box::new(update)
            });
            FixOwners {
                conflicting: meta.name.clone().filter(|_| conflicts),
                update,
            }
        };
        let fixes = self
            .of_pod(pod)
            .into_iter()
            .filter_map(|of| of.claim.map(fix));
        fixes.filter(|fix| *fix != FixOwners::default()).collect()
    }

    /// The claim still belongs to a pod of that name that is gone; the collector will take it.
    pub(crate) fn has_stale(self, pod: &Pod) -> bool {
        if !self.policy.delete_when_scaled {
            return false;
        }
        let pod_ref = controller_ref("v1", "Pod", &pod.metadata);
        self.of_pod(pod)
            .into_iter()
            .filter_map(|of| of.claim)
            .any(|claim| claim::has_stale_owner(&claim.metadata, &pod_ref))
    }
}

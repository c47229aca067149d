//! Persistent volume claims of a set's pods: names, contents, and the owner references that carry
//! out a retention policy.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kubeproof_runtime::controller_ref::controller_of;

/// Whether claims outlive the set, and pods that it scales away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetentionPolicy {
    /// `whenDeleted: Delete`.
    pub(crate) delete_when_deleted: bool,
    /// `whenScaled: Delete`.
    pub(crate) delete_when_scaled: bool,
}

/// The two objects that may own a claim, as references with which they would.
///
/// Where they would control it, they make way for another controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners<'a> {
    /// The set.
    pub(crate) set: &'a OwnerReference,
    /// The pod that uses the claim.
    pub(crate) pod: &'a OwnerReference,
    /// The pod is beyond the set's replicas.
    pub(crate) condemned: bool,
}

/// `<template>-<set>-<ordinal>`.
#[must_use]
pub(crate) fn claim_name(template: &str, set: &str, ordinal: i32) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// The claim made from `template` for one pod of `set`.
#[must_use]
pub(crate) fn new_claim(
    template: &PersistentVolumeClaim,
    set: &ObjectMeta,
    match_labels: &BTreeMap<String, String>,
    ordinal: i32,
) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    let template_name = template.metadata.name.as_deref().unwrap_or_default();
    let set_name = set.name.as_deref().unwrap_or_default();
    claim.metadata.name = Some(claim_name(template_name, set_name, ordinal));
    claim.metadata.namespace.clone_from(&set.namespace);
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.extend(match_labels.clone());
    claim.status = None;
    claim
}

/// Whether another controller owns the claim although the policy asks us to own it. For a StatefulSet, one that was the set or the pod
/// before counts, too.
///
/// Source: `stateful_set_utils.go`, `hasUnexpectedController`.
#[must_use]
pub(crate) fn has_conflicting_controller(
    claim: &ObjectMeta,
    policy: RetentionPolicy,
    owners: Owners<'_>,
) -> bool {
    let is_native = owners.set.controller == Some(true);
    let is_stale = has_stale_owner(claim, owners.set) || has_stale_owner(claim, owners.pod);
    policy != RetentionPolicy::default()
        && (is_controlled_by_another(claim, owners) || is_native && is_stale)
}

fn is_controlled_by_another(claim: &ObjectMeta, owners: Owners<'_>) -> bool {
    if owners.set.controller != Some(true) {
        return false;
    }
    controller_of(claim)
        .is_some_and(|controller| ![&owners.set.uid, &owners.pod.uid].contains(&&controller.uid))
}

/// Whether the claim refers to an object of that kind and name which was another one.
#[must_use]
pub(crate) fn has_stale_owner(claim: &ObjectMeta, owner: &OwnerReference) -> bool {
    let owners = claim.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|reference| {
        reference.kind == owner.kind && reference.name == owner.name && reference.uid != owner.uid
    })
}

/// The owner references that the policy wants, when they are not the claim's already.
#[must_use]
pub(crate) fn corrected_owners(
    claim: &ObjectMeta,
    policy: RetentionPolicy,
    owners: Owners<'_>,
) -> Option<Vec<OwnerReference>> {
    // An owner is gone and the garbage collector is about to delete the claim: nothing to repair.
    if has_stale_owner(claim, owners.set) || has_stale_owner(claim, owners.pod) {
        return None;
    }
    let present = claim.owner_references.as_deref().unwrap_or_default();
    let wanted = if is_controlled_by_another(claim, owners) {
        Vec::new()
    } else {
        wanted_owners(policy, owners)
    };
    let is_ours = |reference: &&OwnerReference| {
        reference.uid == owners.set.uid || reference.uid == owners.pod.uid
    };
    let ours: Vec<&OwnerReference> = present.iter().filter(is_ours).collect();
    let fits = ours.len() == wanted.len()
        && wanted.iter().all(|wanted| {
            ours.iter().any(|ours| {
                ours.uid == wanted.uid
                    && (wanted.controller != Some(true) || ours.controller == Some(true))
            })
        });
    if fits {
        return None;
    }
    let foreign = present.iter().filter(|reference| !is_ours(reference));
    Some(foreign.chain(wanted).cloned().collect())
}

fn wanted_owners(policy: RetentionPolicy, owners: Owners<'_>) -> Vec<&OwnerReference> {
    if policy.delete_when_scaled && owners.condemned {
        vec![owners.pod]
    } else if policy.delete_when_deleted {
        vec![owners.set]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn reference(kind: &str, name: &str, uid: &str, controller: Option<bool>) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            controller,
            block_owner_deletion: controller,
        }
    }

    /// The uids after correction, or None when nothing has to change.
    fn corrected(
        present: &[OwnerReference],
        (delete_when_deleted, delete_when_scaled): (bool, bool),
        condemned: bool,
    ) -> Option<String> {
        let set = reference("StatefulSet", "web", "set", Some(true));
        let pod = reference("Pod", "web-0", "pod", Some(true));
        let claim = ObjectMeta {
            owner_references: Some(present.to_vec()),
            ..ObjectMeta::default()
        };
        let policy = RetentionPolicy {
            delete_when_deleted,
            delete_when_scaled,
        };
        let owners = Owners {
            set: &set,
            pod: &pod,
            condemned,
        };
        let corrected = corrected_owners(&claim, policy, owners)?;
        Some(
            corrected
                .iter()
                .map(|owner| owner.uid.as_str())
                .collect::<Vec<_>>()
                .join("+"),
        )
    }

    #[test]
    fn the_retention_policy_decides_who_owns_a_claim() {
        let table = [
            // (whenDeleted: Delete, whenScaled: Delete), condemned, owner wanted
            ((false, false), false, ""),
            ((false, false), true, ""),
            ((true, false), false, "set"),
            ((true, false), true, "set"),
            ((false, true), false, ""),
            ((false, true), true, "pod"),
            ((true, true), false, "set"),
            ((true, true), true, "pod"),
        ];
        let set = reference("StatefulSet", "web", "set", Some(true));
        let pod = reference("Pod", "web-0", "pod", Some(true));
        for (policy, condemned, wanted) in table {
            for present in [vec![], vec![set.clone()], vec![pod.clone()]] {
                let before = present.first().map_or("", |owner| owner.uid.as_str());
                let expected = (before != wanted).then(|| wanted.to_owned());
                assert_eq!(
                    corrected(&present, policy, condemned),
                    expected,
                    "{policy:?} {before}"
                );
            }
        }
    }

    #[test]
    fn stale_foreign_and_weak_references_are_told_apart() {
        let stale = reference("StatefulSet", "web", "old", Some(true));
        assert_eq!(corrected(&[stale], (true, false), false), None);

        let weak = reference("StatefulSet", "web", "set", None);
        assert_eq!(
            corrected(&[weak], (true, false), false).as_deref(),
            Some("set")
        );

        let friend = reference("ConfigMap", "other", "friend", None);
        let kept = corrected(std::slice::from_ref(&friend), (true, false), false);
        assert_eq!(kept.as_deref(), Some("friend+set"));
        assert_eq!(corrected(&[friend], (false, false), false), None);
    }

    #[test]
    fn beside_another_controller_we_withdraw() {
        let other = reference("Other", "other", "other", Some(true));
        let ours = reference("StatefulSet", "web", "set", None);
        assert_eq!(
            corrected(std::slice::from_ref(&other), (true, false), false),
            None
        );
        let both = [other.clone(), ours];
        assert_eq!(
            corrected(&both, (true, false), false).as_deref(),
            Some("other")
        );
        assert_eq!(
            corrected(&both, (false, false), false).as_deref(),
            Some("other")
        );

        let claim = ObjectMeta {
            owner_references: Some(vec![other]),
            ..ObjectMeta::default()
        };
        let set = reference("StatefulSet", "web", "set", Some(true));
        let pod = reference("Pod", "web-0", "pod", Some(true));
        let owners = Owners {
            set: &set,
            pod: &pod,
            condemned: false,
        };
        let deletes = RetentionPolicy {
            delete_when_deleted: true,
            delete_when_scaled: false,
        };
        assert!(has_conflicting_controller(&claim, deletes, owners));
        assert!(!has_conflicting_controller(
            &claim,
            RetentionPolicy::default(),
            owners
        ));
    }

    #[test]
    fn a_claim_takes_template_labels_overlaid_with_match_labels() {
        let template: PersistentVolumeClaim = from_value(serde_json::json!({
            "metadata": {"name": "data", "labels": {"app": "x", "tier": "db"}},
            "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}
        }))
        .unwrap();
        let set = ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some("ns".to_owned()),
            ..ObjectMeta::default()
        };
        let labels = BTreeMap::from([("app".to_owned(), "nginx".to_owned())]);
        let claim = serde_json::to_value(new_claim(&template, &set, &labels, 2)).unwrap();
        assert_eq!(
            claim["metadata"],
            serde_json::json!({"name": "data-web-2", "namespace": "ns",
                "labels": {"app": "nginx", "tier": "db"}})
        );
        assert_eq!(claim.get("status"), None);
    }
}

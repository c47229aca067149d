//! The pods of a CloneSet and their claims: how they are called and made.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kubeproof_runtime::pod::Pod;

use super::set::Set;
use crate::kruise::in_place::READY_CONDITION;
use crate::kruise::lifecycle::{self, State, any_marks_not_ready};
use crate::kruise::{pod_readiness, revision};
use crate::workload::history::SAFE_ALPHABET;
use crate::workload::pod_control::pod_from_template;
use crate::workload::stateful_identity::{claim_volume, mount_claims};

/// The label with the id that a pod shares with its claims.
pub(crate) const INSTANCE_ID_LABEL: &str = "apps.kruise.io/cloneset-instance-id";
/// The length of an instance ID, in characters.
const ID_CHARS: usize = 5;

/// The instance ID of a pod or a claim, empty if it is not labeled.
#[must_use]
pub(crate) fn instance_id(meta: &ObjectMeta) -> &str {
    let labels = meta.labels.as_ref();
    let id = labels.and_then(|labels| labels.get(INSTANCE_ID_LABEL));
    id.map_or("", String::as_str)
}

/// The ids of `count` new pods of the set `uid`: first those of claims whose pods are gone, then new ones that look
/// random, and follow from the set, the time, the failures before, and what is taken.
#[must_use]
pub(crate) fn available_ids(
    count: usize,
    uid: &str,
    pods: &[&ObjectMeta],
    claims: &[&ObjectMeta],
    now: Timestamp,
    failures: u32,
) -> Vec<String> {
    let ids = |objects: &[&ObjectMeta]| -> BTreeSet<String> {
        let ids = objects.iter().map(|meta| instance_id(meta).to_owned());
        ids.filter(|id| !id.is_empty()).collect()
    };
    let (of_pods, of_claims) = (ids(pods), ids(claims));
    let free = of_claims.difference(&of_pods).cloned();
    let mut chosen: BTreeSet<String> = free.take(count).collect();
    // At the same instant, a sync after a failure draws other ids.
    let mut seed = seed_of(uid, now) ^ u64::from(failures);
    while chosen.len() < count {
        let id = drawn(&mut seed);
        if !of_pods.contains(&id) && !of_claims.contains(&id) {
            chosen.insert(id);
        }
    }
    chosen.into_iter().collect()
}

fn seed_of(uid: &str, now: Timestamp) -> u64 {
    let nanoseconds = now.as_nanosecond().to_le_bytes();
    let bytes = uid.bytes().chain(nanoseconds);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The next id of a sequence (splitmix64).
fn drawn(seed: &mut u64) -> String {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *seed;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let mut id = String::with_capacity(ID_CHARS);
    for _ in 0..ID_CHARS {
        let letters = u64::try_from(SAFE_ALPHABET.len()).expect("an alphabet is short");
        let index = usize::try_from(bits % letters).expect("an index into it is, too");
        id.push(char::from(SAFE_ALPHABET[index]));
        bits /= letters;
    }
    id
}

/// The pod `id` at a revision.
#[must_use]
pub(crate) fn new_pod(
    set: &Set,
    revision: &str,
    template: &PodTemplateSpec,
    id: &str,
    now: Timestamp,
) -> Pod {
    let mut pod = pod_from_template(template, set.owner_ref());
    pod.metadata.name = Some(format!("{}-{id}", set.name()));
    pod.metadata.namespace = set.meta().namespace.clone();
    let labels = pod.labels_mut();
    labels.extend(revision::labels(revision, set.gates));
    labels.insert(INSTANCE_ID_LABEL.to_owned(), id.to_owned());
    pod_readiness::inject_gate(&mut pod, READY_CONDITION);
    if any_marks_not_ready(set.lifecycle()) {
        pod_readiness::inject(&mut pod);
    }
    let volumes = set.claim_templates().iter().map(|template| {
        let name = template.name_any();
        let claim = claim_name(&name, set, id);
        claim_volume(&name, claim)
    });
    mount_claims(&mut pod, volumes.collect());
    lifecycle::set_state(&mut pod, State::PreparingNormal, now);
    pod
}

fn claim_name(template: &str, set: &Set, id: &str) -> String {
    format!("{template}-{}-{id}", set.name())
}

/// The claims of the pod `id`.
#[must_use]
pub(crate) fn new_claims(set: &Set, id: &str) -> Vec<PersistentVolumeClaim> {
    let claim = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        claim.metadata.name = Some(claim_name(&template.name_any(), set, id));
        claim.metadata.namespace = set.meta().namespace.clone();
        let labels: &mut BTreeMap<String, String> = claim.labels_mut();
        labels.extend(set.match_labels());
        labels.insert(INSTANCE_ID_LABEL.to_owned(), id.to_owned());
        claim.owner_references_mut().push(set.owner_ref());
        claim.status = None;
        claim
    };
    set.claim_templates().iter().map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_id(id: &str) -> ObjectMeta {
        let label = (INSTANCE_ID_LABEL.to_owned(), id.to_owned());
        ObjectMeta {
            labels: Some(BTreeMap::from([label])),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn ids_of_claims_are_used_again_and_others_differ_after_a_failure() {
        let (one, two) = (with_id("one"), with_id("two"));
        let now = Timestamp::UNIX_EPOCH;
        let ids = available_ids(2, "uid", &[&one], &[&one, &two], now, 0);
        assert_eq!(ids.len(), 2);
        assert!(ids.contains(&"two".to_owned()), "{ids:?}");
        assert!(!ids.contains(&"one".to_owned()), "{ids:?}");
        let drawn = |failures| -> BTreeSet<String> {
            let ids = available_ids(3, "uid", &[], &[], now, failures);
            ids.into_iter().collect()
        };
        assert_eq!(drawn(0), drawn(0));
        assert!(drawn(0).iter().all(|id| id.len() == ID_CHARS));
        assert!(drawn(0).is_disjoint(&drawn(1)));
        let taken: Vec<ObjectMeta> = drawn(0).iter().map(|id| with_id(id)).collect();
        let taken: Vec<&ObjectMeta> = taken.iter().collect();
        let others = available_ids(3, "uid", &taken, &[], now, 0);
        assert!(others.iter().all(|id| !drawn(0).contains(id)));
    }
}

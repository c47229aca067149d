//! The objects that a decision about a set is based on, and what follows from them for each pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};

use super::claim_size::{self, Fit};
use super::set::Set;
use crate::kruise::api::stateful_set::VolumeClaimStatus;
use crate::kruise::lifecycle::{self, State};
use crate::kruise::pod_readiness;
use crate::kruise::revision::counts_as_updated;
use crate::workload::claim::claim_name;
use crate::workload::revision_control::Revision;
use crate::workload::stateful_claims::{FixOwners, Repair, StatefulClaims};
use crate::workload::stateful_identity as identity;

/// Everything a decision is based on.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) set: &'a Set,
    pub(super) current: &'a Revision,
    pub(super) update: &'a Revision,
    /// The set's revisions as they were before this sync.
    pub(super) revisions: &'a [Arc<ControllerRevision>],
    pub(super) update_object: &'a ControllerRevision,
    pub(super) collision_count: i32,
    pub(super) label_selector: &'a str,
    /// The set's pods, by name.
    pub(super) pods: &'a [Arc<Pod>],
    /// The claims of the namespace, by name.
    pub(super) claims: &'a BTreeMap<String, Arc<PersistentVolumeClaim>>,
    /// Whether the cache lacks an update in place.
    pub(super) is_behind: bool,
    pub(super) now: Timestamp,
}

impl Observed<'_> {
    /// Splits the pods: one for each ordinal, newly built if missing; and the others, highest
    /// ordinal first.
    pub(super) fn split(&self) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
        let mut slots: BTreeMap<i32, Option<Arc<Pod>>> = self
            .set
            .ordinals()
            .iter()
            .map(|ordinal| (*ordinal, None))
            .collect();
        let mut condemned = Vec::new();
        for pod in self.pods {
            let Some(ordinal) = identity::ordinal(pod) else {
                continue;
            };
            match slots.get_mut(&ordinal) {
                Some(slot) => *slot = Some(Arc::clone(pod)),
                None => condemned.push((ordinal, Arc::clone(pod))),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| -i64::from(*ordinal));
        // Each new pod counts when the revision of the next one is decided.
        for (index, ordinal) in self.set.ordinals().iter().enumerate() {
            if slots[ordinal].is_none() {
                let pod = self.new_pod(*ordinal, index, &slots);
                slots.insert(*ordinal, Some(Arc::new(pod)));
            }
        }
        let replicas = slots.into_values().flatten().collect();
        (
            replicas,
            condemned.into_iter().map(|(_, pod)| pod).collect(),
        )
    }

    fn new_pod(&self, ordinal: i32, below: usize, slots: &BTreeMap<i32, Option<Arc<Pod>>>) -> Pod {
        let revision = match self.is_current_due(ordinal, below, slots) {
            true => self.current,
            false => self.update,
        };
        let (identity, owner) = (self.set.identity(), self.set.owner_ref());
        let mut pod = identity.new_pod(owner, &revision.name, &revision.template, ordinal);
        let hook = lifecycle::pre_normal(self.set.lifecycle());
        let is_normal = hook.is_none() || lifecycle::is_all_hooked(hook, &pod);
        let state = match is_normal {
            true => State::Normal,
            false => State::PreparingNormal,
        };
        if lifecycle::any_marks_not_ready(self.set.lifecycle()) {
            pod_readiness::inject(&mut pod);
        }
        lifecycle::set_state(&mut pod, state, self.now);
        pod
    }

    /// Whether the new pod of `ordinal`, with `below` pods below it, is created at the current
    /// revision. A partition counts pods, not ordinals.
    fn is_current_due(
        &self,
        ordinal: i32,
        below: usize,
        slots: &BTreeMap<i32, Option<Arc<Pod>>>,
    ) -> bool {
        if self.set.is_on_delete() {
            return false;
        }
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let Some(block) = self.set.rolling_update() else {
            return self.set.slot(ordinal) < self.set.status().current_replicas;
        };
        if block.unordered_update.is_none() {
            return count(below) < self.set.partition();
        }
        let others = slots.iter().filter(|(known, _)| **known != ordinal);
        let old = others
            .filter_map(|(_, pod)| pod.as_ref())
            .filter(|pod| !counts_as_updated(pod, &self.update.name, self.set.gates()));
        count(old.count()) < self.set.partition()
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        lifecycle::is_normal(pod)
            && pod::is_ready(pod)
            && pod::is_available(pod, self.set.min_ready_seconds(), self.now)
    }

    /// The time until a ready pod becomes available.
    pub(super) fn until_available(&self, pod: &Pod) -> Option<Duration> {
        if !lifecycle::is_normal(pod) || !pod::is_ready(pod) {
            return None;
        }
        let left = pod::until_available(pod, self.set.min_ready_seconds(), self.now);
        left.filter(|left| !left.is_zero())
    }

    pub(super) fn is_healthy(&self, pod: &Pod) -> bool {
        lifecycle::is_normal(pod) && pod::is_ready(pod) && !pod::is_terminating(pod)
    }

    pub(super) fn with_claims<T>(&self, work: impl FnOnce(StatefulClaims<'_>) -> T) -> T {
        work(StatefulClaims {
            set: self.set.meta(),
            set_ref: &self.set.plain_ref(),
            templates: self.set.claim_templates(),
            match_labels: &self.set.match_labels(),
            policy: self.set.retention_policy(),
            cached: self.claims,
        })
    }

    pub(super) fn fix_owners(&self, pod: &Pod) -> Vec<FixOwners> {
        let ordinal = identity::ordinal(pod);
        let condemned = ordinal.is_none_or(|ordinal| !self.set.has_ordinal(ordinal));
        self.with_claims(|claims| claims.fix_owners(pod, condemned))
    }

    /// Returns the repairs that a replica's pod needs, if any.
    pub(super) fn repair(&self, pod: &Pod) -> Option<Repair> {
        let owners = self.fix_owners(pod);
        let identity = self.set.identity();
        let (has_identity, has_storage) = (identity.matches(pod), identity.storage_matches(pod));
        if has_identity && has_storage && owners.is_empty() {
            return None;
        }
        let ordinal = identity::ordinal(pod)?;
        let mut fixed = pod.clone();
        let mut claims = Vec::new();
        if !has_identity {
            identity.give(&mut fixed, ordinal);
        }
        if !has_storage {
            identity.give_storage(&mut fixed, ordinal);
            claims = self.with_claims(|claims| claims.ensure(pod));
        }
        Some(Repair {
            pod: fixed,
            claims,
            owners,
        })
    }

    /// For each claim template, how many claims are as large as it says.
    pub(super) fn volume_claims(&self, replicas: &[Arc<Pod>]) -> Option<Vec<VolumeClaimStatus>> {
        let templates = self.set.claim_templates();
        let mut counted: Vec<VolumeClaimStatus> = templates
            .iter()
            .map(|template| VolumeClaimStatus {
                volume_claim_name: template.name_any(),
                ..VolumeClaimStatus::default()
            })
            .collect();
        for pod in replicas {
            for (claim, template, count) in self
                .claims_of(pod)
                .zip(&mut counted)
                .filter_map(|((claim, template), count)| Some((claim?, template, count)))
            {
                let is_enough = claim_size::fit(claim, template) == Fit::Enough;
                count.compatible_replicas += i32::from(is_enough);
                let is_ready = is_enough && claim_size::has_size(claim);
                count.compatible_ready_replicas += i32::from(is_ready);
            }
        }
        (!counted.is_empty()).then_some(counted)
    }

    /// The claims of a pod, as far as they are there to stay, each with its template.
    pub(super) fn claims_of(
        &self,
        pod: &Pod,
    ) -> impl Iterator<Item = (Option<&PersistentVolumeClaim>, &PersistentVolumeClaim)> {
        let ordinal = identity::ordinal(pod).unwrap_or(0);
        self.set.claim_templates().iter().map(move |template| {
            let name = claim_name(&template.name_any(), self.set.name(), ordinal);
            let claim = self.claims.get(&name).map(AsRef::as_ref);
            let stays =
                |claim: &&PersistentVolumeClaim| claim.metadata.deletion_timestamp.is_none();
            (claim.filter(stays), template)
        })
    }

    /// Whether `holds` for each claim of the pod that is there.
    pub(super) fn all_claims(
        &self,
        pod: &Pod,
        holds: impl Fn(&PersistentVolumeClaim, &PersistentVolumeClaim) -> bool,
    ) -> bool {
        let mut claims = self.claims_of(pod);
        claims.all(|(claim, template)| claim.is_none_or(|claim| holds(claim, template)))
    }
}

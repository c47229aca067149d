//! Plans the actions of a sync from the observed objects, without I/O.
//!
//! Source: openkruise/kruise pkg/controller/statefulset/stateful_set_control.go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kubeproof_runtime::pod;
use kubeproof_runtime::sync_error::Error;

use super::claim_size::{self, Fit};
use super::set::Set;
use super::status;
use crate::kruise::api::stateful_set::{StatefulSetStatus, VolumeClaimStatus};
use crate::kruise::in_place::UpdateSpec;
use crate::kruise::lifecycle::{self, State};
use crate::kruise::pod_readiness;
use crate::kruise::pod_writes::PodWrite;
use crate::kruise::refresh::{Rules, refresh};
use crate::kruise::revision::counts_as_updated;
use crate::workload::revision_control::Revision;
use crate::workload::stateful_claims::{EnsureClaim, FixOwners, Repair, StatefulClaims};
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

/// The steps of a sync, run in order up to the first error, and the status to write afterwards.
pub(super) struct Plan {
    pub(super) status: StatefulSetStatus,
    pub(super) steps: Vec<Step>,
    pub(super) requeue_after: Option<Duration>,
}

/// An action, and which counter of the status falls when it is done.
pub(super) struct Step {
    pub(super) action: Action,
    pub(super) falls: Option<Counter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Current,
    Updated,
}

pub(super) enum Action {
    Create {
        pod: Box<Pod>,
        claims: Vec<EnsureClaim>,
        owners: Vec<FixOwners>,
    },
    EnsureClaims {
        pod: String,
        claims: Vec<EnsureClaim>,
    },
    Repair(Box<Repair>),
    FixOwners(Vec<FixOwners>),
    Delete(Arc<Pod>),
    Write(Arc<Pod>, PodWrite),
    UpdateInPlace(Arc<Pod>, Box<UpdateSpec>),
    /// Enlarges these claims of the pod to their templates' sizes, one after another.
    Resize(Arc<Pod>, Vec<Resize>),
    /// Only changes the counter of the step.
    Count,
    /// Aborts the sync with this error.
    Fail(Error),
}

/// The change of a claim that differs from its template.
pub(super) enum Resize {
    /// Writes the claim with the new size.
    Update(Box<PersistentVolumeClaim>),
    /// Rejects the claim of this name, which differs in immutable fields.
    Refuse(String),
}

/// A decision in the making.
pub(super) struct Planner<'a> {
    pub(super) observed: Observed<'a>,
    pub(super) steps: Vec<Step>,
    pub(super) timers: Vec<Duration>,
    /// Pods whose refresh is planned.
    refreshed: BTreeSet<String>,
    pub(super) is_moving: bool,
}

/// The continuation of planning after a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Continue with the next pod.
    Continue,
    /// Skip the other pods, and continue with the phases that follow.
    Break,
    /// Stop, unless Parallel.
    Exit,
}

/// Decides what to do about a set.
pub(super) fn reconcile(observed: Observed<'_>) -> Plan {
    let set = observed.set;
    let (replicas, condemned) = observed.split();
    let all = replicas.iter().chain(&condemned).map(AsRef::as_ref);
    let mut status = status::count(&observed, all);
    status.volume_claims = observed.volume_claims(&replicas);
    let mut planner = Planner {
        observed,
        steps: Vec::new(),
        timers: Vec::new(),
        refreshed: BTreeSet::new(),
        is_moving: false,
    };
    if !set.is_deleting() {
        planner.run(&replicas, &condemned);
    }
    Plan {
        status,
        steps: planner.steps,
        requeue_after: planner
            .timers
            .into_iter()
            .filter(|one| !one.is_zero())
            .min(),
    }
}

impl Observed<'_> {
    /// Splits the pods: one for each ordinal, newly built if missing; and the others, highest
    /// ordinal first.
    fn split(&self) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
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

    fn with_claims<T>(&self, work: impl FnOnce(StatefulClaims<'_>) -> T) -> T {
        work(StatefulClaims {
            set: self.set.meta(),
            set_ref: &self.set.plain_ref(),
            templates: self.set.claim_templates(),
            match_labels: &self.set.match_labels(),
            policy: self.set.retention_policy(),
            cached: self.claims,
        })
    }

    fn fix_owners(&self, pod: &Pod) -> Vec<FixOwners> {
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
    fn volume_claims(&self, replicas: &[Arc<Pod>]) -> Option<Vec<VolumeClaimStatus>> {
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
            let name =
                crate::workload::claim::claim_name(&template.name_any(), self.set.name(), ordinal);
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

impl Planner<'_> {
    pub(super) fn push(&mut self, action: Action) {
        self.steps.push(Step {
            action,
            falls: None,
        });
    }

    fn run(&mut self, replicas: &[Arc<Pod>], condemned: &[Arc<Pod>]) {
        let set = self.observed.set;
        let mut budget = set.scale_max_unavailable();
        for pod in replicas {
            match self.process_replica(pod, &mut budget) {
                Next::Exit if !set.is_parallel() => return,
                Next::Break => break,
                Next::Exit | Next::Continue => {}
            }
        }
        for pod in condemned {
            let owners = self.observed.fix_owners(pod);
            if !owners.is_empty() {
                self.push(Action::FixOwners(owners));
            }
        }
        let first_unhealthy = self.first_unhealthy(replicas, condemned);
        for pod in condemned {
            let next = self.process_condemned(pod, first_unhealthy.as_deref());
            if next == Next::Exit && !set.is_parallel() {
                return;
            }
        }
        if !set.is_on_delete() {
            self.roll_out(replicas);
        }
    }

    /// The unhealthy pod with the lowest ordinal.
    fn first_unhealthy(&self, replicas: &[Arc<Pod>], condemned: &[Arc<Pod>]) -> Option<String> {
        let all = replicas.iter().chain(condemned);
        let unhealthy = all.filter(|pod| !self.observed.is_healthy(pod));
        let lowest = unhealthy.min_by_key(|pod| identity::ordinal(pod));
        lowest.map(|pod| pod.name_any())
    }

    fn process_replica(&mut self, pod: &Arc<Pod>, budget: &mut Option<usize>) -> Next {
        let observed = self.observed;
        let is_parallel = observed.set.is_parallel();
        if pod::is_finished(pod) {
            if is_used_up(budget) {
                return Next::Break;
            }
            if !pod::is_terminating(pod) {
                self.delete(pod);
            }
            return Next::Exit;
        }
        if !pod::is_created(pod) {
            if observed.with_claims(|claims| claims.has_stale(pod)) {
                return Next::Exit;
            }
            let (claims, owners) = (
                observed.with_claims(|claims| claims.ensure(pod)),
                observed.fix_owners(pod),
            );
            self.push(Action::Create {
                pod: Box::new(Pod::clone(pod)),
                claims,
                owners,
            });
            return match (is_parallel, is_parallel && is_used_up(budget)) {
                (false, _) => Next::Exit,
                (true, true) => Next::Break,
                (true, false) => Next::Continue,
            };
        }
        if pod::is_pending(pod) {
            let claims = observed.with_claims(|claims| claims.ensure(pod));
            if !claims.is_empty() {
                let pod = pod.name_any();
                self.push(Action::EnsureClaims { pod, claims });
            }
        }
        if pod::is_terminating(pod) {
            if !is_parallel {
                return Next::Exit;
            }
            if is_used_up(budget) {
                return Next::Break;
            }
        }
        self.refresh(pod);
        if (!is_parallel || budget.is_some()) && !observed.is_available(pod) {
            if !is_parallel {
                self.timers.extend(observed.until_available(pod));
                return Next::Exit;
            }
            if is_used_up(budget) {
                self.timers.extend(observed.until_available(pod));
                return Next::Break;
            }
        }
        if let Some(repair) = observed.repair(pod) {
            self.push(Action::Repair(Box::new(repair)));
        }
        Next::Continue
    }

    /// Plans what is due for the pod, once.
    pub(super) fn refresh(&mut self, pod: &Arc<Pod>) {
        if !self.refreshed.insert(pod.name_any()) {
            return;
        }
        let observed = self.observed;
        let rules = Rules {
            lifecycle: observed.set.lifecycle(),
            waits_for_node: false,
            update_revision: &observed.update.name,
            now: observed.now,
        };
        match refresh(pod, rules) {
            Ok(due) => {
                self.is_moving |= due.changes_state();
                self.timers.extend(due.after);
                for write in due.writes {
                    self.push(Action::Write(Arc::clone(pod), write));
                }
            }
            Err(error) => self.push(Action::Fail(error)),
        }
    }

    fn process_condemned(&mut self, pod: &Arc<Pod>, first_unhealthy: Option<&str>) -> Next {
        let observed = self.observed;
        if pod::is_terminating(pod) {
            return Next::Exit;
        }
        let is_first = first_unhealthy == pod.metadata.name.as_deref();
        let is_up = pod::is_ready(pod) && observed.is_available(pod);
        if !is_up && !is_first && !observed.set.is_parallel() {
            self.timers.extend(observed.until_available(pod));
            return Next::Exit;
        }
        match self.delete(pod) {
            true => Next::Exit,
            // It is held by a hook already; the next one may be, too.
            false => Next::Continue,
        }
    }

    /// Plans the deletion of the pod, or that it is held before; false when it is held already.
    pub(super) fn delete(&mut self, pod: &Arc<Pod>) -> bool {
        let hook = lifecycle::pre_delete(self.observed.set.lifecycle());
        if !lifecycle::is_hooked(hook, pod) {
            self.push(Action::Delete(Arc::clone(pod)));
            return true;
        }
        let write = PodWrite::State {
            state: State::PreparingDelete,
            restored: None,
            marks_not_ready: lifecycle::marks_not_ready(hook),
        };
        let is_new = !is_held(pod);
        self.push(Action::Write(Arc::clone(pod), write));
        is_new
    }

    /// Whether [`Self::delete`] would delete the pod and not hold it.
    pub(super) fn deletes_at_once(&self, pod: &Pod) -> bool {
        let hook = lifecycle::pre_delete(self.observed.set.lifecycle());
        !lifecycle::is_hooked(hook, pod)
    }
}

/// Whether the pod waits for its deletion.
fn is_held(pod: &Pod) -> bool {
    lifecycle::state(pod) == Some(State::PreparingDelete)
}

/// Decrements the budget; returns whether it is used up.
fn is_used_up(budget: &mut Option<usize>) -> bool {
    let Some(left) = budget else { return false };
    *left = left.saturating_sub(1);
    *left == 0
}

#[cfg(test)]
mod tests;

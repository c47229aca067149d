//! The part of a decision that brings pods to the update revision.
//!
//! Source: openkruise/kruise pkg/controller/statefulset/stateful_set_control.go
//! (`rollingUpdateStatefulsetPods`) and stateful_update_utils.go.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::sync_error::Error;

use super::claim_size::{Fit, fit, has_size, is_done, resized};
use super::observed::Observed;
use super::reconcile::{Action, Counter, Planner, Resize, Step};
use super::set::UpdatePolicy;
use crate::kruise::pod_writes::{UpdateStep, update_step};
use crate::kruise::revision::{counts_as_updated, is_at};
use crate::kruise::{in_place, lifecycle, update_sort};
use crate::workload::stateful_identity as identity;

impl Planner<'_> {
    /// Advances pods in transition, deletes pods marked for deletion, and updates others.
    pub(super) fn roll_out(&mut self, replicas: &[Arc<Pod>]) {
        let observed = self.observed;
        if observed.is_behind {
            return;
        }
        for pod in observed.pods {
            self.refresh(pod);
        }
        if self.is_moving || observed.set.is_paused() {
            return;
        }
        let mut down = self.unavailable(replicas);
        let deleted = self.delete_specified(replicas, &mut down);
        for pod in update_order(self, replicas) {
            let resizes = self.resizes(&pod);
            if pod::revision(&pod) == observed.update.name && resizes.is_empty() {
                continue;
            }
            let name = pod.name_any();
            if down.len() >= observed.set.max_unavailable() && !down.contains(&name) {
                return;
            }
            if !resizes.is_empty() {
                // The pod is updated once the cache shows that its claims have grown.
                self.push(Action::Resize(Arc::clone(&pod), resizes));
                down.insert(name);
                continue;
            }
            if observed.set.resizes_claims() && !observed.all_claims(&pod, |own, _| is_done(own)) {
                down.insert(name);
                continue;
            }
            if deleted.contains(&name) || pod::is_terminating(&pod) {
                continue;
            }
            if !self.update(&pod) {
                return;
            }
            down.insert(name);
        }
    }

    /// The replicas that can't be done without any other.
    fn unavailable(&mut self, replicas: &[Arc<Pod>]) -> BTreeSet<String> {
        let observed = self.observed;
        let mut down = BTreeSet::new();
        for pod in replicas {
            let is_up = observed.is_healthy(pod)
                && in_place::check_complete(pod).is_ok()
                && observed.is_available(pod)
                && (!observed.set.resizes_claims() || has_claims_ready(&observed, pod));
            if !is_up {
                self.timers.extend(observed.until_available(pod));
                down.insert(pod.name_any());
            }
        }
        down
    }

    /// Returns the claim writes that precede the pod's update.
    fn resizes(&self, pod: &Pod) -> Vec<Resize> {
        let observed = self.observed;
        if !observed.set.resizes_claims() {
            return Vec::new();
        }
        let differing = observed.claims_of(pod).filter_map(|(claim, template)| {
            let claim = claim?;
            match fit(claim, template) {
                Fit::Enough => None,
                Fit::Differs => Some(Resize::Refuse(claim.name_any())),
                Fit::TooSmall => {
                    let resized = resized(claim, template, observed.set.name());
                    Some(Resize::Update(Box::new(resized)))
                }
            }
        });
        differing.collect()
    }

    /// Deletes the pods whose deletion was asked for, as far as they may be missed; the partition
    /// does not matter.
    fn delete_specified(
        &mut self,
        replicas: &[Arc<Pod>],
        down: &mut BTreeSet<String>,
    ) -> BTreeSet<String> {
        let observed = self.observed;
        let mut deleted = BTreeSet::new();
        for pod in replicas.iter().rev() {
            let name = pod.name_any();
            let may_be_missed = down.len() < observed.set.max_unavailable() || down.contains(&name);
            if !lifecycle::is_specified_delete(pod) || !may_be_missed {
                continue;
            }
            let falls = self.deletes_at_once(pod).then(|| match pod::revision(pod) {
                revision if revision == observed.current.name => Some(Counter::Current),
                revision if revision == observed.update.name => Some(Counter::Updated),
                _ => None,
            });
            self.delete(pod);
            self.count(falls.flatten());
            deleted.insert(name.clone());
            down.insert(name);
        }
        deleted
    }

    /// The last action lowers a counter.
    fn count(&mut self, falls: Option<Counter>) {
        match self.steps.last_mut() {
            Some(step) => step.falls = falls,
            None => self.steps.push(Step {
                action: Action::Count,
                falls,
            }),
        }
    }

    /// Plans the update of one pod; false when it goes no further.
    fn update(&mut self, pod: &Arc<Pod>) -> bool {
        let observed = self.observed;
        let is_current = pod::revision(pod) == observed.current.name;
        let falls = is_current.then_some(Counter::Current);
        if observed.set.update_policy() != UpdatePolicy::ReCreate {
            let is_its = |known: &&Arc<ControllerRevision>| is_at(pod, &known.name_any());
            let old = observed.revisions.iter().find(is_its).map(Arc::as_ref);
            let grace = observed.set.grace_period_seconds();
            if let Some(spec) =
                in_place::update_spec(old, observed.update_object, grace, observed.set.gates())
            {
                let hook = lifecycle::in_place_update(observed.set.lifecycle());
                let action = match update_step(pod, hook) {
                    Ok(UpdateStep::Wait) => Action::Count,
                    Ok(UpdateStep::Write(write)) => Action::Write(Arc::clone(pod), write),
                    Ok(UpdateStep::Start) => Action::UpdateInPlace(Arc::clone(pod), Box::new(spec)),
                    Err(error) => {
                        self.push(Action::Fail(error));
                        return false;
                    }
                };
                self.steps.push(Step { action, falls });
                return true;
            }
            if observed.set.update_policy() == UpdatePolicy::InPlaceOnly {
                let name = pod.name_any();
                let message =
                    format!("find strategy is InPlaceOnly but Pod {name} can not update in-place");
                self.push(Action::Fail(Error::Refused(message)));
                return false;
            }
        }
        let is_deleted = self.deletes_at_once(pod);
        self.delete(pod);
        self.count(falls.filter(|_| is_deleted));
        true
    }
}

/// Whether the claims of a pod are as large as they are to be.
fn has_claims_ready(observed: &Observed<'_>, pod: &Pod) -> bool {
    observed.all_claims(pod, |claim, _| has_size(claim))
}

/// The pods to update, in their order, as many as the partition lets.
fn update_order(planner: &Planner<'_>, replicas: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let observed = planner.observed;
    let (set, partition) = (observed.set, observed.set.partition());
    let count = usize::try_from(set.replicas() - partition).unwrap_or(0);
    let from_the_top = replicas.iter().rev().cloned();
    let unordered = set
        .rolling_update()
        .and_then(|block| block.unordered_update.as_ref());
    let Some(unordered) = unordered else {
        let is_above = |pod: &Arc<Pod>| {
            let ordinal = identity::ordinal(pod);
            ordinal.is_some_and(|ordinal| set.slot(ordinal) >= partition)
        };
        return from_the_top.filter(is_above).take(count).collect();
    };
    // Updated and terminating pods count first.
    let is_updated = |pod: &Pod| counts_as_updated(pod, &observed.update.name, set.gates());
    let is_done = |pod: &Arc<Pod>| pod::is_terminating(pod) || is_updated(pod);
    let (mut order, waiting): (Vec<_>, Vec<_>) = from_the_top.partition(is_done);
    let mut indexes: Vec<usize> = (0..waiting.len()).collect();
    update_sort::by_priority(unordered.priority_strategy.as_ref(), &waiting, &mut indexes);
    order.extend(indexes.into_iter().map(|index| Arc::clone(&waiting[index])));
    order.truncate(count);
    order
}

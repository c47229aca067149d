//! Decides which pods a sync creates and deletes, from the observed objects, without I/O.
//!
//! Source: openkruise/kruise pkg/controller/cloneset/sync/cloneset_scale.go.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_runtime::pod::Pod;

use super::availability::is_available;
use super::numbers::{Counted, Numbers, Standing, calculate};
use super::set::Set;
use crate::kruise::lifecycle::{self, State};
use crate::kruise::revision::{counts_as_updated, is_at};
use crate::kruise::update_sort;
use crate::workload::pod_ranking::{self as ranking, Respects};

/// The observed state that decisions are based on.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) set: &'a Set,
    pub(crate) current_revision: &'a str,
    pub(crate) update_revision: &'a str,
    /// The set's active pods, by name.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The labels of the pods' nodes, if the set spreads its pods.
    pub(crate) nodes: &'a BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) now: Timestamp,
}

/// The change in the number of pods.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ScalePlan {
    /// Fewer pods are created than are missing.
    pub(crate) limit: Option<i32>,
    pub(crate) step: Option<ScaleStep>,
}

/// The one thing that a sync does.
#[derive(Debug, PartialEq)]
pub(crate) enum ScaleStep {
    /// Releases pods from their preparation for deletion.
    Keep(Vec<Arc<Pod>>),
    /// Creates this many pods at the current and at the update revision.
    Create { current: usize, update: usize },
    /// Deletes these pods, or prepares them if a hook holds them.
    Delete(Vec<Arc<Pod>>),
}

impl Observed<'_> {
    pub(crate) fn is_available(&self, pod: &Pod) -> bool {
        is_available(pod, self.set.min_ready_seconds(), self.now)
    }

    /// Ready and in no state between; how long it has been does not matter.
    fn is_ready(&self, pod: &Pod) -> bool {
        is_available(pod, 0, self.now)
    }

    /// The numbers, where `is_new` says which pods are updated.
    pub(crate) fn numbers(&self, is_new: impl Fn(&Pod) -> bool) -> Numbers {
        let settled = self.current_revision == self.update_revision;
        let standing = |pod: &Pod| {
            if lifecycle::state(pod) == Some(State::PreparingDelete) {
                Standing::PreparingDelete
            } else if self.set.is_to_delete(pod) {
                Standing::ToDelete
            } else if self.is_available(pod) {
                Standing::Available
            } else {
                Standing::Unavailable
            }
        };
        let counted = self.pods.iter().map(|pod| Counted {
            is_new: is_new(pod),
            standing: standing(pod),
        });
        calculate(&self.set.wanted(settled), counted)
    }

    /// Whether the pod counts as updated when pods are counted for their number.
    fn counts_as_new(&self, pod: &Pod) -> bool {
        counts_as_updated(pod, self.update_revision, self.set.gates)
    }

    /// Decides about the number of pods.
    pub(crate) fn reconcile_scale(&self) -> ScalePlan {
        let is_preparing = |pod: &Pod| lifecycle::state(pod) == Some(State::PreparingDelete);
        let preparing: Vec<&Arc<Pod>> = self.pods.iter().filter(|pod| is_preparing(pod)).collect();
        let planned = self
            .pods
            .iter()
            .filter(|pod| is_preparing(pod) || self.set.is_to_delete(pod))
            .count();
        let kept = self.kept(&preparing, planned);
        if !kept.is_empty() {
            return ScalePlan {
                step: Some(ScaleStep::Keep(kept)),
                ..ScalePlan::default()
            };
        }
        let numbers = self.numbers(|pod| self.counts_as_new(pod));
        let step = if numbers.up > 0 {
            let count = |number: i32| usize::try_from(number).unwrap_or(0);
            let current = numbers.up_old.min(numbers.up_limit);
            Some(ScaleStep::Create {
                current: count(current),
                update: count(numbers.up_limit - current),
            })
        } else {
            self.deletion(numbers, &preparing, planned)
        };
        ScalePlan {
            limit: (numbers.up > numbers.up_limit).then_some(numbers.up_limit),
            step,
        }
    }

    /// Pods that were to be deleted, and are wanted again.
    fn kept(&self, preparing: &[&Arc<Pod>], planned: usize) -> Vec<Arc<Pod>> {
        // A pod that was taken out of service for its deletion does not come back.
        if lifecycle::any_marks_not_ready(self.set.lifecycle()) {
            return Vec::new();
        }
        let replicas = usize::try_from(self.set.replicas()).unwrap_or(0);
        let missing = (replicas + planned).saturating_sub(self.pods.len());
        let undecided = preparing.iter().filter(|pod| !self.set.is_to_delete(pod));
        undecided.take(missing).map(|pod| Arc::clone(pod)).collect()
    }

    fn deletion(
        &self,
        numbers: Numbers,
        preparing: &[&Arc<Pod>],
        planned: usize,
    ) -> Option<ScaleStep> {
        let hook = lifecycle::pre_delete(self.set.lifecycle());
        let released = preparing
            .iter()
            .filter(|pod| !lifecycle::is_hooked(hook, pod));
        let released: Vec<Arc<Pod>> = released.map(|pod| Arc::clone(pod)).collect();
        if !released.is_empty() {
            return Some(ScaleStep::Delete(released));
        }
        let mut allowed = numbers.delete_ready_limit;
        let mut may_go = |pod: &Arc<Pod>| {
            if !self.is_ready(pod) {
                return true;
            }
            allowed -= 1;
            allowed >= 0
        };
        let is_asked_for = |pod: &&Arc<Pod>| {
            self.set.is_to_delete(pod) && lifecycle::state(pod) != Some(State::PreparingDelete)
        };
        let specified = self.pods.iter().filter(is_asked_for).cloned();
        let specified: Vec<Arc<Pod>> = specified.filter(&mut may_go).collect();
        if !specified.is_empty() {
            return Some(ScaleStep::Delete(specified));
        }
        if numbers.down == 0 || planned > 0 {
            return None;
        }
        let surplus = self.surplus(numbers).into_iter();
        let surplus: Vec<Arc<Pod>> = surplus.filter(&mut may_go).collect();
        (!surplus.is_empty()).then_some(ScaleStep::Delete(surplus))
    }

    /// The pods that are too many, first those not at the update revision.
    fn surplus(&self, numbers: Numbers) -> Vec<Arc<Pod>> {
        let (new, old): (Vec<_>, Vec<_>) = self
            .pods
            .iter()
            .cloned()
            .partition(|pod| self.counts_as_new(pod));
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let of_old = numbers.down_old.min(numbers.down);
        let mut surplus = self.worst(old, count(of_old));
        surplus.extend(self.worst(new, count(numbers.down - of_old)));
        surplus
    }

    fn worst(&self, mut pods: Vec<Arc<Pod>>, count: usize) -> Vec<Arc<Pod>> {
        if count >= pods.len() {
            return pods;
        }
        let template = self.set.spec().template.spec.as_ref();
        let constraints = template.and_then(|spec| spec.topology_spread_constraints.as_ref());
        let keys = constraints.into_iter().flatten();
        let keys: Vec<String> = keys
            .map(|constraint| constraint.topology_key.clone())
            .collect();
        let ranks = match keys.is_empty() {
            true => ranking::by_node(&pods),
            false => ranking::by_topology(&pods, &keys, self.nodes),
        };
        let respects = Respects {
            is_available: Some(&|pod| self.is_available(pod)),
            has_cost: true,
            ranks: Some(&ranks),
        };
        pods.sort_by(|a, b| ranking::compare(a, b, respects));
        pods.truncate(count);
        pods
    }

    /// The pods to update now, in their order, and whether that means back to the current revision.
    pub(crate) fn reconcile_update(&self) -> (Vec<Arc<Pod>>, bool) {
        let is_new = |pod: &Pod| is_at(pod, self.update_revision);
        let numbers = self.numbers(is_new);
        let goes_back = numbers.update < 0;
        if numbers.update == 0 {
            return (Vec::new(), false);
        }
        let waits = |pod: &Pod| {
            let may_be = match lifecycle::state(pod) {
                Some(State::PreparingDelete) => false,
                Some(State::Updated) => true,
                _ => !crate::kruise::in_place::is_in_grace(pod),
            };
            is_new(pod) == goes_back && may_be
        };
        let waiting = (0..self.pods.len()).filter(|index| waits(&self.pods[*index]));
        let mut sorted = self.in_update_order(waiting.collect());
        let count = usize::try_from(numbers.update.abs()).unwrap_or(0);
        sorted.truncate(count);
        let target = match goes_back {
            true => self.current_revision,
            false => self.update_revision,
        };
        let now = self.limited(sorted, numbers.update_max_unavailable, target);
        let pods = now.into_iter().map(|index| Arc::clone(&self.pods[index]));
        (pods.collect(), goes_back)
    }

    fn in_update_order(&self, mut indexes: Vec<usize>) -> Vec<usize> {
        let pods = self.pods;
        indexes.sort_by(|a, b| ranking::compare(&pods[*a], &pods[*b], Respects::default()));
        if let Some(block) = self.set.rolling_update() {
            update_sort::by_priority(block.priority_strategy.as_ref(), pods, &mut indexes);
            let terms = block.scatter_strategy.as_deref().unwrap_or_default();
            indexes = update_sort::scattered(terms, pods, indexes);
        }
        let is_other = |pod: &Pod| lifecycle::state(pod) != Some(State::PreparingUpdate);
        indexes.sort_by_key(|index| is_other(&pods[*index]));
        indexes
    }

    /// As many of `indexes` as may be unavailable, from the first one on.
    fn limited(&self, mut indexes: Vec<usize>, allowed: i32, target: &str) -> Vec<usize> {
        let is_down = |pod: &&Arc<Pod>| !self.is_available(pod);
        let at_target = |pod: &&Arc<Pod>| is_at(pod, target);
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let mut unavailable = count(self.pods.iter().filter(is_down).count());
        let new_and_down = self.pods.iter().filter(is_down).filter(at_target);
        let new_and_down = count(new_and_down.count());
        let mut taken = 0;
        for index in &indexes {
            if new_and_down + count(taken) >= allowed {
                break;
            }
            // A pod that is down already costs nothing more.
            if self.is_available(&self.pods[*index]) {
                if unavailable >= allowed {
                    break;
                }
                unavailable += 1;
            }
            taken += 1;
        }
        indexes.truncate(taken);
        indexes
    }
}

/// The names of nodes that the pods are on.
pub(crate) fn nodes_of(pods: &[Arc<Pod>]) -> std::collections::BTreeSet<String> {
    let nodes = pods
        .iter()
        .map(|pod| kubeproof_runtime::pod::node(pod).to_owned());
    nodes.filter(|node| !node.is_empty()).collect()
}

/// Whether a set of pods is spread over places.
pub(crate) fn spreads(set: &Set) -> bool {
    let template = set.spec().template.spec.as_ref();
    template.is_some_and(|spec| {
        let constraints = spec.topology_spread_constraints.as_deref();
        !constraints.unwrap_or_default().is_empty()
    })
}

#[cfg(test)]
mod tests;

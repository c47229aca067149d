//! Plans the actions of a sync from the observed objects, without I/O.
//!
//! Source: openkruise/kruise pkg/controller/statefulset/stateful_set_control.go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::sync_error::Error;

use super::observed::Observed;
use super::status;
use crate::kruise::api::stateful_set::StatefulSetStatus;
use crate::kruise::in_place::UpdateSpec;
use crate::kruise::lifecycle::{self, State};
use crate::kruise::pod_writes::PodWrite;
use crate::kruise::refresh::{Rules, refresh};
use crate::workload::stateful_claims::{EnsureClaim, FixOwners, Repair};
use crate::workload::stateful_identity as identity;

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
            // Upstream notes the time for a set of the pod's name, so that no sync comes of it.
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

//! Plans the actions of a sync from the observed objects, without I/O.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kubeproof_runtime::pod::{self, Pod};

use super::set::{Set, Strategy};
use super::status::{Computed, Counters};
use crate::workload::revision_control::Revision;
use crate::workload::stateful_claims::{EnsureClaim, FixOwners, Repair, StatefulClaims};
use crate::workload::stateful_identity as identity;

/// The most pods that the Parallel policy works on in one batch.
const BATCH_MAX: usize = 500;

/// Everything a decision is based on.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) set: &'a Set,
    pub(crate) current: &'a Revision,
    pub(crate) update: &'a Revision,
    pub(crate) collision_count: i32,
    /// The set's pods, by name.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The claims of the replicas and the pods, by name.
    pub(crate) claims: &'a BTreeMap<String, Arc<PersistentVolumeClaim>>,
    pub(crate) now: Timestamp,
}

/// The actions of a sync, and the status to write afterwards.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) status: Computed,
    /// Run in order; an error ends the run when its batch is through.
    pub(crate) batches: Vec<Batch>,
    /// Sync again then, because a ready pod becomes available.
    pub(crate) requeue_after: Option<Duration>,
}

/// Pods whose actions don't wait for each other.
pub(crate) type Batch = Vec<Vec<Action>>;

/// One step for one pod; an error skips the pod's further steps.
#[derive(Debug)]
pub(crate) enum Action {
    /// Create the claims, the pod, then fix owners of the claims.
    Create {
        pod: Box<Pod>,
        claims: Vec<EnsureClaim>,
        owners: Vec<FixOwners>,
    },
    /// Create what a Pending pod misses and fix owners of its claims.
    EnsureClaims {
        pod: String,
        claims: Vec<EnsureClaim>,
        owners: Vec<FixOwners>,
    },
    /// Put identity, storage and owners of claims right.
    Repair(Box<Repair>),
    /// Fix owners of a condemned pod's claims.
    FixOwners(Vec<FixOwners>),
    /// Delete the pod.
    Delete { pod: String },
    /// Delete the pod so that it comes back at the update revision.
    DeleteForUpdate { pod: String },
}

/// Whether OrderedReady continues with the next pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Exit,
}

/// Decides what to do about a set.
pub(crate) fn reconcile(observed: Observed<'_>) -> Plan {
    let set = observed.set;
    let partition = Partition::of(observed);
    let counters = Counters::count(
        partition.pods(),
        (&observed.current.name, &observed.update.name),
        set,
        observed.now,
    );
    let status = Computed {
        counters,
        observed_generation: set.meta().generation.unwrap_or(0),
        current_revision: observed.current.name.clone(),
        update_revision: observed.update.name.clone(),
        collision_count: observed.collision_count,
    };
    let batches = if set.is_deleting() {
        Vec::new()
    } else {
        observed.batches(&partition)
    };
    Plan {
        status,
        batches,
        requeue_after: observed.requeue_after(counters),
    }
}

/// The set's pods by their role in the plan.
struct Partition {
    /// One a slot; empty slots hold the pod to be created.
    replicas: Vec<Arc<Pod>>,
    /// Highest ordinal first.
    condemned: Vec<Arc<Pod>>,
    first_unavailable: Option<String>,
}

impl Partition {
    fn of(observed: Observed<'_>) -> Self {
        let set = observed.set;
        let mut slots: Vec<Option<Arc<Pod>>> =
            vec![None; usize::try_from(set.replicas()).unwrap_or(0)];
        let mut condemned = BTreeMap::new();
        for pod in observed.pods {
            let Some(ordinal) = identity::ordinal(pod) else {
                continue;
            };
            match set.slot(ordinal) {
                Some(slot) => slots[slot] = Some(pod.clone()),
                None => {
                    condemned.insert((ordinal, name(pod)), pod.clone());
                }
            }
        }
        let replicas: Vec<Arc<Pod>> = (0..)
            .zip(slots)
            .map(|(slot, pod)| {
                let ordinal = set.start().saturating_add(slot);
                pod.unwrap_or_else(|| Arc::new(observed.new_pod(ordinal)))
            })
            .collect();
        let ascending = replicas.iter().chain(condemned.values());
        let first_unavailable = ascending
            .clone()
            .find(|pod| observed.is_unavailable(pod))
            .map(|pod| name(pod));
        let condemned = condemned.into_values().rev().collect();
        Self {
            replicas,
            condemned,
            first_unavailable,
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.replicas
            .iter()
            .chain(&self.condemned)
            .map(AsRef::as_ref)
    }
}

impl Observed<'_> {
    fn batches(self, partition: &Partition) -> Vec<Batch> {
        let mut batches = Vec::new();
        let replicas = partition
            .replicas
            .iter()
            .map(|pod| self.process_replica(pod));
        if self.run_for_all(&mut batches, replicas) == Next::Exit {
            return batches;
        }
        let fixes = partition
            .condemned
            .iter()
            .map(|pod| (self.fix_condemned(pod), Next::Continue));
        if self.run_for_all(&mut batches, fixes) == Next::Exit {
            return batches;
        }
        let condemned = partition.condemned.iter();
        let deletions = condemned
            .map(|pod| self.process_condemned(pod, partition.first_unavailable.as_deref()));
        if self.run_for_all(&mut batches, deletions) == Next::Exit {
            return batches;
        }
        for pod in self.update_targets(&partition.replicas) {
            batches.push(vec![vec![Action::DeleteForUpdate { pod }]]);
        }
        batches
    }

    /// One pod after another up to an exit, or, when Parallel, in batches that double in size.
    fn run_for_all(
        self,
        batches: &mut Vec<Batch>,
        steps: impl Iterator<Item = (Vec<Action>, Next)>,
    ) -> Next {
        if !self.set.is_parallel() {
            for (actions, next) in steps {
                batches.push(vec![actions]);
                if next == Next::Exit {
                    return Next::Exit;
                }
            }
            return Next::Continue;
        }
        let mut steps = steps.map(|(actions, _)| actions).peekable();
        if self.set.profile().is_old() {
            // One after another, up to the first error.
            batches.extend(steps.map(|actions| vec![actions]));
            return Next::Continue;
        }
        let mut size = 1;
        while steps.peek().is_some() {
            batches.push(steps.by_ref().take(size).collect());
            size = (2 * size).min(BATCH_MAX);
        }
        Next::Continue
    }

    fn process_replica(self, pod: &Pod) -> (Vec<Action>, Next) {
        let is_old = self.set.profile().is_old();
        if is_old && pod::is_failed(pod) {
            return (self.replace(pod), Next::Exit);
        }
        if pod::is_finished(pod) && !is_old {
            // The replacement is made by a later sync, when the name is free.
            let delete = Action::Delete { pod: name(pod) };
            return (
                if pod::is_terminating(pod) {
                    vec![]
                } else {
                    vec![delete]
                },
                Next::Exit,
            );
        }
        if !pod::is_created(pod) {
            if self.with_claims(|claims| claims.has_stale(pod)) {
                return (vec![], Next::Exit);
            }
            let (claims, owners) = (self.ensure_claims(pod), self.fix_owners(pod));
            return (
                vec![Action::Create {
                    pod: Box::new(pod.clone()),
                    claims,
                    owners,
                }],
                Next::Exit,
            );
        }
        let mut actions = Vec::new();
        if pod::is_pending(pod) && !is_old {
            let (claims, owners) = (self.ensure_claims(pod), self.fix_owners(pod));
            actions.push(Action::EnsureClaims {
                pod: name(pod),
                claims,
                owners,
            });
        }
        let has_to_wait = pod::is_terminating(pod)
            || !pod::is_ready(pod)
            || !pod::is_available(pod, self.set.min_ready_seconds(), self.now);
        if has_to_wait && !self.set.is_parallel() {
            return (actions, Next::Exit);
        }
        if let Some(mut repair) = self.repair(pod) {
            if pod::is_pending(pod) {
                // The step before fixes them.
                repair.owners.clear();
            }
            actions.push(Action::Repair(Box::new(repair)));
        }
        (actions, Next::Continue)
    }

    /// The actions of old controllers for a Failed pod, in one sync.
    fn replace(self, pod: &Pod) -> Vec<Action> {
        let new = self.new_pod(identity::ordinal(pod).unwrap_or(0));
        let create = Action::Create {
            claims: self.ensure_claims(&new),
            owners: Vec::new(),
            pod: Box::new(new),
        };
        vec![Action::Delete { pod: name(pod) }, create]
    }

    /// Returns the repairs that a replica's pod needs, if any.
    pub(crate) fn repair(self, pod: &Pod) -> Option<Repair> {
        let owners = self.fix_owners(pod);
        let owners_match = owners.iter().all(|fix| fix.update.is_none());
        let identity_matches = self.set.identity().matches(pod);
        let storage_matches = self.set.identity().storage_matches(pod);
        if identity_matches && storage_matches && (owners_match || pod::is_pending(pod)) {
            return None;
        }
        let ordinal = identity::ordinal(pod)?;
        let mut fixed = pod.clone();
        let mut claims = Vec::new();
        if !identity_matches {
            self.set.identity().give(&mut fixed, ordinal);
        }
        if !storage_matches {
            self.set.identity().give_storage(&mut fixed, ordinal);
            claims = self.ensure_claims(pod);
        }
        let owners = if owners_match { Vec::new() } else { owners };
        Some(Repair {
            pod: fixed,
            claims,
            owners,
        })
    }

    fn fix_condemned(self, pod: &Pod) -> Vec<Action> {
        let owners = self.fix_owners(pod);
        if owners.iter().all(|fix| fix.update.is_none()) {
            return Vec::new();
        }
        vec![Action::FixOwners(owners)]
    }

    fn process_condemned(self, pod: &Pod, first_unavailable: Option<&str>) -> (Vec<Action>, Next) {
        if pod::is_terminating(pod) {
            return (vec![], Next::Exit);
        }
        let is_up =
            pod::is_ready(pod) && pod::is_available(pod, self.set.min_ready_seconds(), self.now);
        let is_first = first_unavailable == pod.metadata.name.as_deref();
        if !is_up && !is_first && !self.set.is_parallel() {
            return (vec![], Next::Exit);
        }
        (vec![Action::Delete { pod: name(pod) }], Next::Exit)
    }

    /// The pod that the rollout deletes now: the highest one at a wrong revision, unless a pod
    /// above it isn't back yet.
    fn update_target(self, replicas: &[Arc<Pod>]) -> Option<String> {
        let Strategy::RollingUpdate { partition } = self.set.strategy() else {
            return None;
        };
        let partition = usize::try_from(partition.unwrap_or(0)).unwrap_or(0);
        for pod in replicas.iter().skip(partition).rev() {
            if pod::revision(pod) != self.update.name && !pod::is_terminating(pod) {
                return Some(name(pod));
            }
            if self.is_unavailable(pod) {
                return None;
            }
        }
        None
    }

    /// The pods that the rollout deletes now.
    fn update_targets(self, replicas: &[Arc<Pod>]) -> Vec<String> {
        if !self.set.settings.max_unavailable {
            return self.update_target(replicas).into_iter().collect();
        }
        let Strategy::RollingUpdate { partition } = self.set.strategy() else {
            return Vec::new();
        };
        let partition = usize::try_from(partition.unwrap_or(0)).unwrap_or(0);
        let unavailable = replicas.iter().filter(|pod| self.is_unavailable(pod));
        let allowed = self
            .set
            .max_unavailable()
            .saturating_sub(unavailable.count());
        let outdated = replicas
            .iter()
            .skip(partition)
            .rev()
            .filter(|pod| pod::revision(pod) != self.update.name && !pod::is_terminating(pod));
        outdated.take(allowed).map(|pod| name(pod)).collect()
    }

    fn is_unavailable(self, pod: &Pod) -> bool {
        !pod::is_available(pod, self.set.min_ready_seconds(), self.now) || pod::is_terminating(pod)
    }

    fn new_pod(self, ordinal: i32) -> Pod {
        let at_current = match self.set.strategy() {
            Strategy::OnDelete => 0,
            Strategy::RollingUpdate {
                partition: Some(partition),
            } => partition,
            Strategy::RollingUpdate { partition: None } => {
                self.set.status().current_replicas.unwrap_or(0)
            }
        };
        let slot = i64::from(ordinal) - i64::from(self.set.start());
        let revision = if slot < i64::from(at_current) {
            self.current
        } else {
            self.update
        };
        let (identity, owner) = (self.set.identity(), self.set.owner_ref());
        identity.new_pod(owner, &revision.name, &revision.template, ordinal)
    }

    /// Works with the claims of the set's pods.
    fn with_claims<T>(self, work: impl FnOnce(StatefulClaims<'_>) -> T) -> T {
        work(StatefulClaims {
            set: self.set.meta(),
            set_ref: &self.set.owner_ref(),
            templates: self.set.claim_templates(),
            match_labels: &self.set.match_labels(),
            policy: self.set.retention_policy(),
            cached: self.claims,
        })
    }

    fn ensure_claims(self, pod: &Pod) -> Vec<EnsureClaim> {
        self.with_claims(|claims| claims.ensure(pod))
    }

    fn fix_owners(self, pod: &Pod) -> Vec<FixOwners> {
        let condemned =
            identity::ordinal(pod).is_none_or(|ordinal| self.set.slot(ordinal).is_none());
        self.with_claims(|claims| claims.fix_owners(pod, condemned))
    }

    fn requeue_after(self, counters: Counters) -> Option<Duration> {
        let min_ready_seconds = self.set.min_ready_seconds();
        if min_ready_seconds <= 0 || counters.ready == counters.available {
            return None;
        }
        let waits = self
            .pods
            .iter()
            .filter(|pod| pod::is_ready(pod))
            .filter_map(|pod| {
                pod::until_available(pod, min_ready_seconds, self.now)
                    .filter(|wait| !wait.is_zero())
            });
        let fallback = Duration::from_secs(min_ready_seconds.unsigned_abs().into());
        Some(waits.min().unwrap_or(fallback))
    }
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! Creates the pods that a job lacks and deletes those that it has too many.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;

use super::backoff;
use super::sync_context::SyncContext;
use super::{BATCH_PERIOD, Controller, owner_ref, pods, removal, spec};
use crate::workload::pod_control::{PodControl, slow_start};

/// The most pods that one sync creates or deletes.
const BURST: usize = 500;

/// The change in the number of pods.
#[derive(Debug)]
enum Change {
    Nothing,
    Delete(Vec<Arc<Pod>>),
    /// One pod for each item, with its completion index if the job is indexed.
    Create(Vec<Option<usize>>),
    /// Pods are missing, and failures were too recent to create them now.
    Wait(Duration),
}

/// Decides; deletions come before creations, which wait for the next sync then.
fn change(context: &SyncContext) -> Change {
    let active = context.active.len();
    if spec::is_suspended(&context.job) {
        return Change::Delete(removal::chosen(context, active));
    }
    let wanted = context.wanted();
    let mut surplus = removal::chosen(context, active.saturating_sub(wanted));
    surplus.truncate(BURST);
    if !surplus.is_empty() {
        return Change::Delete(surplus);
    }
    let leaving = match spec::replaces_only_failed(&context.job) {
        true => context.terminating,
        false => 0,
    };
    let missing = wanted.saturating_sub(leaving + active);
    if missing == 0 {
        return Change::Nothing;
    }
    let has_own_limits = spec::limit_per_index(&context.job).is_some();
    let wait = context.backoff.remaining(context.now);
    if !has_own_limits && !wait.is_zero() {
        return Change::Wait(wait);
    }
    if context.indexes.is_none() {
        return Change::Create(vec![None; missing.min(BURST)]);
    }
    let pending = context.pending_indexes(missing.min(BURST));
    let waits = pending
        .iter()
        .map(|index| (*index, wait_of(context, *index)));
    let due: Vec<Option<usize>> = waits
        .clone()
        .filter(|(_, wait)| wait.is_zero())
        .map(|(index, _)| Some(index))
        .collect();
    match waits.map(|(_, wait)| wait).min() {
        Some(wait) if due.is_empty() => Change::Wait(wait),
        _ => Change::Create(due),
    }
}

/// The time until the next pod of the index.
fn wait_of(context: &SyncContext, index: usize) -> Duration {
    let replaced = context
        .indexes
        .as_ref()
        .and_then(|indexes| indexes.replaced.get(&index));
    replaced.map_or(Duration::ZERO, |pod| {
        let failures = pods::failures_before(pod) + 1;
        backoff::remaining(failures, backoff::finished_at(pod), context.now)
    })
}

/// The number of active pods after a change, and its first error.
pub(super) struct Applied {
    pub(super) active: usize,
    pub(super) error: Option<Error>,
}

impl Controller {
    /// Creates or deletes pods to approach the desired number.
    pub(super) async fn apply_pods(&self, context: &mut SyncContext) -> Applied {
        let active = context.active.len();
        match change(context) {
            Change::Nothing => Applied {
                active,
                error: None,
            },
            Change::Wait(wait) => {
                let key = ObjectKey::of(&context.job);
                self.queue.add_after(key, wait.max(BATCH_PERIOD));
                // Upstream counts none then, also while others run. Source: `job_controller.go`, `manageJob`.
                Applied {
                    active: 0,
                    error: None,
                }
            }
            Change::Delete(surplus) => self.delete_surplus(context, &surplus).await,
            Change::Create(missing) => self.create(context, &missing).await,
        }
    }

    async fn create(&self, context: &SyncContext, missing: &[Option<usize>]) -> Applied {
        let key = ObjectKey::of(&context.job);
        let control = self.control(&context.job);
        self.expectations
            .expect(&key, missing.len(), BTreeSet::new(), (self.ctx.now)());
        let mut active = context.active.len() + missing.len();
        let mut error = None;
        let mut left = missing;
        for size in slow_start(missing.len()) {
            let (batch, rest) = left.split_at(size);
            left = rest;
            for index in batch {
                match control.create(&self.new_pod(context, *index)).await {
                    Ok(created) => self.wrote_pod(&created),
                    // The namespace is terminating: no retry can succeed.
                    Err(failure) if failure.is_namespace_terminating() => {}
                    Err(failure) => {
                        self.expectations.created(&key);
                        active -= 1;
                        error = error.or(Some(failure));
                    }
                }
            }
            if error.is_some() {
                break;
            }
        }
        active -= left.len();
        for _ in left {
            self.expectations.created(&key);
        }
        Applied { active, error }
    }

    fn new_pod(&self, context: &SyncContext, index: Option<usize>) -> Pod {
        let indexes = context.indexes.as_ref();
        let replaced = index.and_then(|index| indexes?.replaced.get(&index));
        let replaced = replaced.map(|pod| &**pod);
        pods::make(&context.job, owner_ref(&context.job), index, replaced)
    }

    /// Deletes pods that the job doesn't want, uncounted.
    async fn delete_surplus(&self, context: &mut SyncContext, surplus: &[Arc<Pod>]) -> Applied {
        let key = ObjectKey::of(&context.job);
        let control = self.control(&context.job);
        let uids = surplus.iter().filter_map(|pod| pod.uid()).collect();
        self.expectations.expect(&key, 0, uids, (self.ctx.now)());
        let mut applied = Applied {
            active: context.active.len(),
            error: None,
        };
        for pod in surplus {
            match self.release_and_delete(&control, pod).await {
                Err(failure) => {
                    self.expectations
                        .deleted(&key, &pod.uid().unwrap_or_default());
                    if failure.is_not_found() {
                        context.deleted(pod);
                        applied.active -= 1;
                    } else {
                        applied.error = applied.error.or(Some(failure));
                    }
                }
                Ok(()) => {
                    context.deleted(pod);
                    applied.active -= 1;
                }
            }
        }
        applied
    }

    async fn release_and_delete(&self, control: &PodControl<'_>, pod: &Pod) -> Result<(), Error> {
        if pods::is_tracked(pod) {
            self.release(&control.api, pod).await?;
        }
        control.delete(&pod.name_any()).await
    }

    /// Removes the finalizer of a pod that is counted or that no job counts.
    pub(super) async fn release(&self, api: &kube::Api<Pod>, pod: &Pod) -> Result<(), Error> {
        let patch = Patch::Strategic(pods::release_patch());
        let (name, params) = (pod.name_any(), PatchParams::default());
        let released = api.patch(&name, &params, &patch).await?;
        self.wrote_pod(&released);
        Ok(())
    }

    /// Deletes all active pods of a job that is to end; they keep their finalizers until they are
    /// counted. Returns how many are deleted.
    pub(super) async fn delete_active(&self, context: &mut SyncContext) -> (usize, Option<Error>) {
        let control = self.control(&context.job);
        let (mut deleted, mut error) = (0, None);
        for pod in context.active.clone() {
            match control.delete(&pod.name_any()).await {
                Err(failure) if !failure.is_not_found() => error = error.or(Some(failure)),
                Ok(()) | Err(_) => {
                    deleted += 1;
                    context.deleted(&pod);
                }
            }
        }
        (deleted, error)
    }
}

impl SyncContext {
    /// Counts an active pod as terminating.
    fn deleted(&mut self, pod: &Pod) {
        self.terminating += 1;
        self.ready -= usize::from(pod::has_ready_condition(pod));
    }
}

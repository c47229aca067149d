//! Counts the pods that have ended, once each, and lets them go.
//!
//! A pod's uid is noted in the status before its finalizer is removed, and counted when it is gone:
//! whatever is interrupted, the next sync can see how far it came.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobStatus, UncountedTerminatedPods};
use kube::ResourceExt;
use kube::api::PostParams;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;

use super::condition::{self, COMPLETE, FAILURE_TARGET, SUCCESS_CRITERIA_MET};
use super::failure_policy::failure_policy_action;
use super::sync_context::SyncContext;
use super::{Controller, pods, reference, spec};

/// The most pods whose uids a status holds, to keep it small.
const UNCOUNTED_MAX: usize = 500;

/// The result of counting finished pods.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The pods whose finalizers are to be removed.
    release: Vec<Arc<Pod>>,
    /// Uids of the pods that have their finalizer.
    held: BTreeSet<String>,
    /// Whether the status differs from the one that is stored.
    is_changed: bool,
    /// Whether there was no room for more.
    is_full: bool,
}

/// Notes in the status what has ended and is not counted yet.
pub(super) fn count(context: &mut SyncContext) -> Counted {
    let mut pods = context.pods.clone();
    if context.indexes.is_some() {
        // Stable: by index, then by name; pods without an index first.
        pods.sort_by_key(|pod| pods::index(pod));
    }
    let held = pods.iter().filter(|pod| pods::is_tracked(pod));
    let mut counted = Counted {
        held: held.filter_map(|pod| pod.uid()).collect(),
        ..Counted::default()
    };
    counted.is_changed = settle(spec::status(&mut context.job), &counted.held);
    let mut indexes = Vec::new();
    for pod in pods {
        if !pods::is_tracked(&pod) || !may_go(context, &pod) {
            continue;
        }
        counted.is_changed |= note(context, &pod, &mut indexes);
        counted.release.push(pod);
        let uncounted = uncounted(spec::status(&mut context.job));
        let noted = indexes.len()
            + uncounted.succeeded.iter().flatten().count()
            + uncounted.failed.iter().flatten().count();
        if noted >= UNCOUNTED_MAX {
            counted.is_full = true;
            break;
        }
    }
    counted.is_changed |= note_indexes(context, indexes);
    counted.is_changed |= announce(context);
    counted
}

/// Whether nothing about the pod is needed any more but its count.
fn may_go(context: &SyncContext, pod: &Pod) -> bool {
    let is_ending =
        context.job.metadata.deletion_timestamp.is_some() || context.finished_condition.is_some();
    if is_ending || pod::is_succeeded(pod) {
        return true;
    }
    // A failed pod waits for its replacement, which takes over the count of failures of the index.
    let replaced = context.indexes.as_ref().map(|indexes| &indexes.replaced);
    let waits = pods::index(pod).and_then(|index| replaced?.get(&index));
    pods::is_failed(pod, &context.job) && waits.is_none_or(|waiting| waiting.uid() != pod.uid())
}

/// Notes one pod; returns whether that changes the status.
fn note(context: &mut SyncContext, pod: &Pod, indexes: &mut Vec<usize>) -> bool {
    let uid = pod.uid().unwrap_or_default();
    let index = pods::index_in(pod, &context.job);
    let is_indexed = context.indexes.is_some();
    let is_failed = pods::is_failed(pod, &context.job);
    let has_failed = context
        .finished_condition
        .as_ref()
        .is_some_and(|finished_condition| finished_condition.type_ != SUCCESS_CRITERIA_MET);
    let is_counted = failure_policy_action(&context.job, pod).is_counted();
    let uncounted = uncounted(spec::status(&mut context.job));
    let failed = uncounted.failed.get_or_insert_default();
    let is_noted_as_failed = failed.contains(&uid);
    if pod::is_succeeded(pod) && !is_noted_as_failed {
        if is_indexed {
            let before = context
                .indexes
                .as_ref()
                .map(|indexes| &indexes.succeeded_before);
            let is_new = |index: &usize| before.is_some_and(|before| !before.contains(*index));
            let index = index.filter(is_new);
            indexes.extend(index);
            return index.is_some();
        }
        let succeeded = uncounted.succeeded.get_or_insert_default();
        let is_new = !succeeded.contains(&uid);
        if is_new {
            succeeded.push(uid);
        }
        return is_new;
    }
    // When a job has failed, its unfinished pods have failed with it.
    let counts = is_failed || has_failed;
    let is_valid = !is_indexed || index.is_some();
    if counts && is_valid && is_counted && !is_noted_as_failed {
        failed.push(uid);
        return true;
    }
    false
}

fn note_indexes(context: &mut SyncContext, new: Vec<usize>) -> bool {
    let Some(indexes) = &mut context.indexes else {
        return false;
    };
    indexes.succeeded = indexes.succeeded.with(new);
    let completed = indexes.succeeded.to_string();
    let failed = indexes.failed.as_ref().map(ToString::to_string);
    let total = i32::try_from(indexes.succeeded.total()).ok();
    let status = spec::status(&mut context.job);
    let is_changed = status.completed_indexes.as_deref().unwrap_or_default() != completed
        || status.failed_indexes != failed;
    status.succeeded = total;
    status.completed_indexes = Some(completed);
    status.failed_indexes = failed;
    is_changed
}

/// Announces the end of the job in a condition, before its pods' finalizers are removed; the
/// verdict becomes the final condition.
fn announce(context: &mut SyncContext) -> bool {
    let Some(finished_condition) = &context.finished_condition else {
        return false;
    };
    let is_announcement = matches!(
        finished_condition.type_.as_str(),
        FAILURE_TARGET | SUCCESS_CRITERIA_MET
    );
    if !is_announcement {
        return false;
    }
    let announced = finished_condition.clone();
    context.finished_condition = Some(condition::final_of(&announced, context.now));
    if condition::held(&context.job, &announced.type_).is_some() {
        return false;
    }
    let conditions = &mut spec::status(&mut context.job).conditions;
    conditions.get_or_insert_default().push(announced);
    true
}

/// Counts the pods noted in the status that have no finalizer any more; returns whether there are
/// any.
fn settle(status: &mut JobStatus, held: &BTreeSet<String>) -> bool {
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let settle = |noted: &mut Option<Vec<String>>, counter: &mut Option<i32>| {
        let noted = noted.get_or_insert_default();
        let before = noted.len();
        noted.retain(|uid| held.contains(uid));
        let settled = before - noted.len();
        let settled_now = i32::try_from(settled).unwrap_or(i32::MAX);
        *counter = Some(counter.unwrap_or(0).saturating_add(settled_now));
        settled > 0
    };
    let succeeded = settle(&mut uncounted.succeeded, &mut status.succeeded);
    let failed = settle(&mut uncounted.failed, &mut status.failed);
    status.uncounted_terminated_pods = Some(uncounted);
    succeeded || failed
}

fn uncounted(status: &mut JobStatus) -> &mut UncountedTerminatedPods {
    status.uncounted_terminated_pods.get_or_insert_default()
}

/// Ends the job if it is to end and nothing is left to wait for; returns whether it does.
fn conclude(context: &mut SyncContext) -> bool {
    let Some(finished_condition) = &context.finished_condition else {
        return false;
    };
    let status = context.job.status.get_or_insert_default();
    let noted = uncounted(status);
    let is_settled = noted
        .succeeded
        .iter()
        .flatten()
        .chain(noted.failed.iter().flatten())
        .next()
        .is_none();
    if !is_settled || context.terminating > 0 {
        return false;
    }
    let reason = finished_condition.reason.as_deref().unwrap_or_default();
    let message = finished_condition.message.as_deref().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    condition::ensure(
        conditions,
        &finished_condition.type_,
        true,
        (reason, message),
        context.now,
    );
    if finished_condition.type_ == COMPLETE {
        status.completion_time = finished_condition.last_transition_time.clone();
    }
    true
}

impl Controller {
    /// Writes the status, lets counted pods go, and ends the job when all is counted.
    pub(super) async fn track(
        &self,
        context: &mut SyncContext,
        is_changed: bool,
    ) -> Result<(), Error> {
        let key = ObjectKey::of(&context.job);
        let mut counted = count(context);
        counted.is_changed |= is_changed;
        if counted.is_changed {
            self.write_status(&mut context.job).await?;
            self.backoffs.store(&key, context.backoff);
        }
        let released = self.release_all(&key, &mut counted).await;
        let mut is_changed = settle(spec::status(&mut context.job), &counted.held);
        if let Err(error) = released {
            if is_changed {
                self.write_status(&mut context.job).await?;
            }
            return Err(error);
        }
        let is_finished = !counted.is_full && conclude(context);
        is_changed |= is_finished;
        if is_changed {
            self.write_status(&mut context.job).await?;
        }
        if is_finished {
            self.record_finished(context).await;
        }
        Ok(())
    }

    /// Removes the finalizers of the pods that are counted; those that have none any more are no
    /// longer `held`.
    async fn release_all(&self, key: &ObjectKey, counted: &mut Counted) -> Result<(), Error> {
        let api = self.pods_api(&key.namespace);
        let mut first_error = None;
        for pod in &counted.release {
            match self.release(&api, pod).await {
                Err(error) if !error.is_not_found() => {
                    first_error = first_error.or(Some(error));
                }
                Ok(()) | Err(_) => {
                    counted.held.remove(&pod.uid().unwrap_or_default());
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn write_status(&self, job: &mut Job) -> Result<(), Error> {
        let api: kube::Api<Job> = self.api(job);
        *job = api
            .replace_status(&job.name_any(), &PostParams::default(), job)
            .await?;
        self.wrote_job(job);
        Ok(())
    }

    async fn record_finished(&self, context: &SyncContext) {
        let Some(finished_condition) = &context.finished_condition else {
            return;
        };
        let involved = reference(&context.job);
        let record_event = |event_type, reason, message| {
            self.recorder
                .publish(&involved, event_type, reason, message)
        };
        if finished_condition.type_ != COMPLETE {
            let reason = finished_condition.reason.as_deref().unwrap_or_default();
            let message = finished_condition.message.as_deref().unwrap_or_default();
            return record_event(EventType::Warning, reason, message).await;
        }
        let status = context.job.status.as_ref();
        let succeeded = status.and_then(|status| status.succeeded).unwrap_or(0);
        let wanted = spec::completions(&context.job);
        if wanted.is_some_and(|wanted| usize::try_from(succeeded).is_ok_and(|done| done > wanted)) {
            let message = "Too many succeeded pods running after completion count reached";
            record_event(EventType::Warning, "TooManySucceededPods", message).await;
        }
        record_event(EventType::Normal, "Completed", "Job completed").await;
    }
}

#[cfg(test)]
mod tests;

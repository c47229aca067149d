//! The fields of a job's spec with their defaults.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use kube::core::Selector;
use kubeproof_runtime::clock::go_seconds;
use kubeproof_runtime::sync_error::Error;

/// The manager that stands for this controller.
const THIS_CONTROLLER: &str = "kubernetes.io/job-controller";

fn spec<T>(
    job: &Job,
    get: impl FnOnce(&k8s_openapi::api::batch::v1::JobSpec) -> Option<T>,
) -> Option<T> {
    job.spec.as_ref().and_then(get)
}

/// Whether each pod has an index of its own to complete.
pub(super) fn is_indexed(job: &Job) -> bool {
    let mode = job
        .spec
        .as_ref()
        .and_then(|spec| spec.completion_mode.as_deref());
    mode == Some("Indexed")
}

/// The number of pods that may run at once.
pub(super) fn parallelism(job: &Job) -> usize {
    count(spec(job, |spec| spec.parallelism).unwrap_or(1))
}

/// The number of pods that have to succeed; None if one is enough.
pub(super) fn completions(job: &Job) -> Option<usize> {
    spec(job, |spec| spec.completions).map(count)
}

/// The number of indexes; nothing has an index in a job without them.
pub(super) fn indexes(job: &Job) -> usize {
    completions(job).filter(|_| is_indexed(job)).unwrap_or(0)
}

/// The number of pods that may fail.
pub(super) fn backoff_limit(job: &Job) -> i32 {
    spec(job, |spec| spec.backoff_limit).unwrap_or(6)
}

/// The number of failures allowed per index, if the job limits failures by index.
pub(super) fn limit_per_index(job: &Job) -> Option<i32> {
    spec(job, |spec| spec.backoff_limit_per_index)
}

pub(super) fn max_failed_indexes(job: &Job) -> Option<usize> {
    spec(job, |spec| spec.max_failed_indexes).map(count)
}

pub(super) fn is_suspended(job: &Job) -> bool {
    spec(job, |spec| spec.suspend).unwrap_or(false)
}

/// Whether a pod is replaced only once it has failed, and not as soon as it is on its way out.
pub(super) fn replaces_only_failed(job: &Job) -> bool {
    let spec = job.spec.as_ref();
    spec.is_some_and(|spec| {
        spec.pod_replacement_policy.as_deref() == Some("Failed")
            || spec.pod_failure_policy.is_some()
    })
}

/// Whether another controller takes care of the job.
pub(super) fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job
        .spec
        .as_ref()
        .and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != THIS_CONTROLLER)
}

/// The active deadline, as a duration from the start of the job.
pub(super) fn deadline(job: &Job) -> Option<SignedDuration> {
    spec(job, |spec| spec.active_deadline_seconds).map(go_seconds)
}

/// How long the job may still be active; None without a deadline, before its start, and while it is
/// suspended.
pub(super) fn until_deadline(job: &Job, now: Timestamp) -> Option<SignedDuration> {
    let start = job.status.as_ref()?.start_time.as_ref()?.0;
    let deadline = deadline(job).filter(|_| !is_suspended(job))?;
    Some(deadline - now.duration_since(start))
}

/// The selector of the job's pods.
pub(super) fn selector(job: &Job) -> Result<Selector, Error> {
    let selector = spec(job, |spec| spec.selector.clone()).unwrap_or_default();
    Selector::try_from(selector)
        .map_err(|error| Error::Refused(format!("couldn't convert Job selector: {error}")))
}

/// The status, which a job that is synced always has.
pub(super) fn status(job: &mut Job) -> &mut JobStatus {
    job.status.get_or_insert_default()
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

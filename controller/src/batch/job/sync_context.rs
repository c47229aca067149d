//! The counts of a job's pods in a sync, and whether they finish the job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};

use super::backoff::{self, Record};
use super::condition::{self, FAILURE_TARGET, SUCCESS_CRITERIA_MET, holding};
use super::failure_policy::{FailurePolicyAction, failure_policy_action};
use super::intervals::Intervals;
use super::{pods, spec, success_policy};

/// The input of a sync.
pub(super) struct Known {
    pub(super) job: Job,
    /// All pods of the job, by name.
    pub(super) pods: Vec<Arc<Pod>>,
    /// The failures up to the last sync.
    pub(super) backoff: Record,
    pub(super) now: Timestamp,
}

/// A job and its pods, counted.
pub(super) struct SyncContext {
    /// The job; its status becomes what is to be written.
    pub(super) job: Job,
    pub(super) pods: Vec<Arc<Pod>>,
    /// The pods that are neither finished nor terminating.
    pub(super) active: Vec<Arc<Pod>>,
    pub(super) ready: usize,
    pub(super) terminating: usize,
    /// The number of succeeded pods, including those that have just finished.
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    pub(super) indexes: Option<Indexes>,
    pub(super) backoff: Record,
    /// The condition with which the job is to end.
    pub(super) finished_condition: Option<JobCondition>,
    /// When the job's time is over, if it isn't.
    pub(super) until_deadline: Option<SignedDuration>,
    pub(super) now: Timestamp,
}

/// The indexes of an Indexed job.
pub(super) struct Indexes {
    pub(super) succeeded_before: Intervals,
    pub(super) succeeded: Intervals,
    /// None if failures are counted for the whole job.
    pub(super) failed: Option<Intervals>,
    /// The failed pod that waits for its replacement, to hand the count of failures on.
    pub(super) replaced: BTreeMap<usize, Arc<Pod>>,
}

impl SyncContext {
    pub(super) fn of(known: Known) -> Self {
        let Known {
            mut job,
            pods,
            backoff,
            now,
        } = known;
        let status = spec::status(&mut job);
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        let uncounted_succeeded: BTreeSet<String> =
            uncounted.succeeded.iter().flatten().cloned().collect();
        let uncounted_failed: BTreeSet<String> =
            uncounted.failed.iter().flatten().cloned().collect();
        let (counted_succeeded, counted_failed) = (count(status.succeeded), count(status.failed));
        if !spec::is_suspended(&job) {
            spec::status(&mut job).start_time.get_or_insert(Time(now));
        }
        let active: Vec<Arc<Pod>> = pods
            .iter()
            .filter(|pod| pod::is_active(pod))
            .cloned()
            .collect();
        let is_leaving = |pod: &&Arc<Pod>| pod::is_terminating(pod) && !pod::is_finished(pod);
        let mut context = Self {
            ready: active
                .iter()
                .filter(|pod| pod::has_ready_condition(pod))
                .count(),
            terminating: pods.iter().filter(is_leaving).count(),
            job,
            pods,
            active,
            succeeded: 0,
            failed: 0,
            indexes: None,
            backoff,
            finished_condition: None,
            until_deadline: None,
            now,
        };
        let succeeded = context.valid(&uncounted_succeeded, pod::is_succeeded);
        let failed = context.valid(&uncounted_failed, |pod| pods::is_failed(pod, &context.job));
        let counts = |pod: &&Arc<Pod>| failure_policy_action(&context.job, pod).is_counted();
        let newly_failed = failed.iter().filter(counts).count();
        context.succeeded = counted_succeeded + succeeded.len() + uncounted_succeeded.len();
        context.failed = counted_failed + newly_failed + uncounted_failed.len();
        context.backoff = backoff.after(&succeeded, &failed);
        context.judge();
        context
    }

    /// The pods not counted yet that `is_chosen` chooses; of an Indexed job those of its indexes.
    fn valid(
        &self,
        uncounted: &BTreeSet<String>,
        is_chosen: impl Fn(&Pod) -> bool,
    ) -> Vec<Arc<Pod>> {
        let is_valid = |pod: &&Arc<Pod>| {
            let uid = pod.uid().unwrap_or_default();
            let has_index =
                !spec::is_indexed(&self.job) || pods::index_in(pod, &self.job).is_some();
            pods::is_tracked(pod) && !uncounted.contains(&uid) && has_index && is_chosen(pod)
        };
        self.pods.iter().filter(is_valid).cloned().collect()
    }

    /// Decides whether the job ends; an earlier decision stands.
    fn judge(&mut self) {
        self.finished_condition = condition::held(&self.job, SUCCESS_CRITERIA_MET)
            .cloned()
            .or_else(|| {
                let target = condition::held(&self.job, FAILURE_TARGET)?;
                Some(condition::final_of(target, self.now))
            })
            .or_else(|| self.failed_by_policy())
            .or_else(|| self.failed_by_limits());
        if !spec::is_indexed(&self.job) {
            return;
        }
        let indexes = self.count_indexes();
        self.succeeded = indexes.succeeded.total();
        if self.finished_condition.is_none() {
            self.finished_condition = self.failed_by_indexes(&indexes);
        }
        if self.finished_condition.is_none() {
            let message = success_policy::fulfilled(&self.job, &indexes.succeeded);
            self.finished_condition = message
                .map(|message| holding(SUCCESS_CRITERIA_MET, "SuccessPolicy", &message, self.now));
        }
        self.indexes = Some(indexes);
    }

    fn failed_by_policy(&self) -> Option<JobCondition> {
        let mut failed = self
            .pods
            .iter()
            .filter(|pod| pods::is_failed(pod, &self.job));
        let message = failed.find_map(|pod| match failure_policy_action(&self.job, pod) {
            FailurePolicyAction::FailJob(message) => Some(message),
            FailurePolicyAction::Count
            | FailurePolicyAction::Ignore
            | FailurePolicyAction::FailIndex => None,
        })?;
        Some(holding(
            FAILURE_TARGET,
            "PodFailurePolicy",
            &message,
            self.now,
        ))
    }

    fn failed_by_limits(&mut self) -> Option<JobCondition> {
        let limit = spec::backoff_limit(&self.job);
        let failures = i32::try_from(self.failed).unwrap_or(i32::MAX);
        let fails = |reason, message| Some(holding(FAILURE_TARGET, reason, message, self.now));
        if failures > limit || self.restarts_exceed(limit) {
            let message = "Job has reached the specified backoff limit";
            return fails("BackoffLimitExceeded", message);
        }
        match spec::until_deadline(&self.job, self.now) {
            Some(left) if !left.is_positive() => fails(
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            ),
            left => {
                self.until_deadline = left;
                None
            }
        }
    }

    /// Whether container restarts exceed `limit`, for jobs that restart containers in their pods.
    fn restarts_exceed(&self, limit: i32) -> bool {
        let spec = self
            .job
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref());
        if spec.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let running = self
            .pods
            .iter()
            .filter(|pod| pod::is_pending(pod) || pod::is_running(pod));
        let statuses = running
            .filter_map(|pod| pod.status.as_ref())
            .flat_map(|status| {
                let inits = status.init_container_statuses.iter().flatten();
                inits.chain(status.container_statuses.iter().flatten())
            });
        let restarts: i32 = statuses.map(|status| status.restart_count).sum();
        restarts >= limit.max(1)
    }

    fn failed_by_indexes(&self, indexes: &Indexes) -> Option<JobCondition> {
        let failed = indexes.failed.as_ref()?.total();
        let fails = |reason, message| Some(holding(FAILURE_TARGET, reason, message, self.now));
        if spec::max_failed_indexes(&self.job).is_some_and(|max| failed > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return fails("MaxFailedIndexesExceeded", message);
        }
        let done = failed + indexes.succeeded.total();
        if failed > 0 && done >= spec::indexes(&self.job) {
            return fails("FailedIndexes", "Job has failed indexes");
        }
        None
    }

    fn count_indexes(&self) -> Indexes {
        let (job, completions) = (&self.job, spec::indexes(&self.job));
        let status = job.status.clone().unwrap_or_default();
        let held_at = |is_chosen: &dyn Fn(&Pod) -> bool| -> BTreeSet<usize> {
            let held = self
                .pods
                .iter()
                .filter(|pod| pods::is_tracked(pod) && is_chosen(pod));
            held.filter_map(|pod| pods::index_in(pod, job)).collect()
        };
        let before = status.completed_indexes.unwrap_or_default();
        let before = Intervals::parse(&before, completions);
        let succeeded = before.with(held_at(&pod::is_succeeded));
        let failed = spec::limit_per_index(job).map(|_| {
            let before = status.failed_indexes.unwrap_or_default();
            let failed = held_at(&|pod| pods::fails_index(pod, job));
            Intervals::parse(&before, completions).with(failed)
        });
        let replaced = match &failed {
            Some(failed) => self.waiting(&succeeded.merged(failed)),
            None => BTreeMap::new(),
        };
        Indexes {
            succeeded_before: before,
            succeeded,
            failed,
            replaced,
        }
    }

    /// Returns the last failed pod of each index that is neither `done` nor has an active pod.
    fn waiting(&self, done: &Intervals) -> BTreeMap<usize, Arc<Pod>> {
        let busy: BTreeSet<usize> = self
            .active
            .iter()
            .filter_map(|pod| pods::index(pod))
            .collect();
        let mut waiting: BTreeMap<usize, Arc<Pod>> = BTreeMap::new();
        for pod in self.valid(&BTreeSet::new(), |pod| pods::is_failed(pod, &self.job)) {
            let Some(index) = pods::index(&pod) else {
                continue;
            };
            if done.contains(index) || busy.contains(&index) {
                continue;
            }
            let is_later = |than: &Arc<Pod>| {
                pods::failures_before(than) <= pods::failures_before(&pod)
                    && backoff::finished_at(than) <= backoff::finished_at(&pod)
            };
            if waiting.get(&index).is_none_or(is_later) {
                waiting.insert(index, pod);
            }
        }
        waiting
    }

    /// The number of pods that should run at once, as far as it is known now.
    pub(super) fn wanted(&self) -> usize {
        let parallelism = spec::parallelism(&self.job);
        match spec::completions(&self.job) {
            // The first success ends the job: those that run may end, and no others begin.
            None if self.succeeded > 0 => self.active.len(),
            None => parallelism,
            Some(completions) => completions.saturating_sub(self.succeeded).min(parallelism),
        }
    }

    /// Whether the requested number of pods has succeeded.
    pub(super) fn is_complete(&self) -> bool {
        self.succeeded >= spec::completions(&self.job).unwrap_or(1)
    }

    /// The first `count` indexes that no pod works at, or has worked at to its end.
    pub(super) fn pending_indexes(&self, count: usize) -> Vec<usize> {
        let Some(indexes) = &self.indexes else {
            return Vec::new();
        };
        let taken = self.active.iter().filter_map(|pod| pods::index(pod));
        let mut taken = indexes.succeeded.with(taken);
        if spec::replaces_only_failed(&self.job) {
            let leaving = self.pods.iter();
            let leaving = leaving.filter(|pod| pod::is_terminating(pod) && !pod::is_finished(pod));
            taken = taken.with(leaving.filter_map(|pod| pods::index(pod)));
        }
        if let Some(failed) = &indexes.failed {
            taken = taken.merged(failed);
        }
        taken.first_missing(count, spec::indexes(&self.job))
    }
}

fn count(number: Option<i32>) -> usize {
    number
        .and_then(|number| usize::try_from(number).ok())
        .unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests;

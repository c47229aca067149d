//! Syncs one job: claims pods, counts, acts, reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::core::SelectorExt;
use kubeproof_runtime::consistency::ReadVersion;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::condition::{self, SUCCESS_CRITERIA_MET, SUSPENDED, holding};
use super::sync_context::{Known, SyncContext};
use super::{Controller, JOBS, KIND, PODS, owner_ref, pods, reference, spec};
use crate::workload::adoption::{self, Claims};

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let caches: [(&'static str, &dyn ReadVersion); 2] =
            [(PODS, &self.pods), (JOBS, &self.jobs)];
        self.consistency.ready(key, &caches).await?;
        let Some(job) = self.jobs.get(&key.namespace, &key.name) else {
            self.expectations.forget(key);
            self.consistency.forget(key);
            self.backoffs.forget(key);
            return Ok(None);
        };
        if spec::is_managed_elsewhere(&job) {
            return Ok(None);
        }
        if condition::is_finished(&job) {
            self.backoffs.forget(key);
            self.consistency.forget(key);
            return Ok(None);
        }
        let now = (self.ctx.now)();
        // Before the pods are counted: one that comes in between would else be counted twice.
        let may_apply = self.expectations.satisfied(key, now);
        let mut context = SyncContext::of(Known {
            pods: self.claim_pods(&job).await?,
            job: (*job).clone(),
            backoff: self.backoffs.of(key),
            now,
        });
        if let Some(left) = context.until_deadline {
            let left = Duration::try_from(left).unwrap_or_default();
            self.queue.add_after(key.clone(), left);
        }
        let (active, is_changed, error) = match context.finished_condition {
            Some(_) => self.end(&mut context, may_apply).await,
            None => self.apply(&mut context, may_apply).await,
        };
        let is_changed = report(&mut context, active) || is_changed;
        self.track(&mut context, is_changed).await?;
        error.map_or(Ok(None), Err)
    }
}

/// Writes the counts into the status; returns whether that changes it.
fn report(context: &mut SyncContext, active: usize) -> bool {
    let number = |count: usize| i32::try_from(count).ok();
    let (active, ready, terminating) = (
        number(active),
        number(context.ready),
        number(context.terminating),
    );
    let status = spec::status(&mut context.job);
    let is_changed = status.active.unwrap_or(0) != active.unwrap_or(0)
        || status.ready != ready
        || status.terminating != terminating;
    status.active = active;
    status.ready = ready;
    status.terminating = terminating;
    is_changed
}

/// The number of active pods, whether the status changed, and what went wrong.
type Outcome = (usize, bool, Option<Error>);

impl Controller {
    /// Deletes the pods of a job that is to end.
    async fn end(&self, context: &mut SyncContext, may_apply: bool) -> Outcome {
        let active = context.active.len();
        let (deleted, error) = self.delete_active(context).await;
        if deleted != active || !may_apply {
            // There may be pods left that are not deleted, or that the cache doesn't show yet.
            context.finished_condition = None;
        }
        (active - deleted, false, error)
    }

    /// Starts and deletes pods, and finds out whether all is done.
    async fn apply(&self, context: &mut SyncContext, may_apply: bool) -> Outcome {
        let (mut active, mut error) = (context.active.len(), None);
        let applies = may_apply && context.job.metadata.deletion_timestamp.is_none();
        if applies {
            let applied = self.apply_pods(context).await;
            (active, error) = (applied.active, applied.error);
        }
        if context.is_complete() && active == 0 {
            let message = "Reached expected number of succeeded pods";
            let met = holding(
                SUCCESS_CRITERIA_MET,
                "CompletionsReached",
                message,
                context.now,
            );
            context.finished_condition = Some(met);
            return (active, false, error);
        }
        let is_changed = applies && self.note_suspension(context).await;
        (active, is_changed, error)
    }

    /// Reports in the status and in an event that the job is suspended or resumed.
    async fn note_suspension(&self, context: &mut SyncContext) -> bool {
        let is_suspended = spec::is_suspended(&context.job);
        let (reason, condition_reason, message) = match is_suspended {
            true => ("Suspended", "JobSuspended", "Job suspended"),
            false => ("Resumed", "JobResumed", "Job resumed"),
        };
        let status = spec::status(&mut context.job);
        let conditions = status.conditions.get_or_insert_default();
        let texts = (condition_reason, message);
        if !condition::ensure(conditions, SUSPENDED, is_suspended, texts, context.now) {
            return false;
        }
        if !is_suspended {
            // The active deadline counts from here.
            status.start_time = Some(Time(context.now));
        }
        self.record_event(&context.job, EventType::Normal, reason, message)
            .await;
        true
    }

    /// The job's pods, by name, after adopting orphans and releasing strangers.
    async fn claim_pods(&self, job: &Job) -> Result<Vec<Arc<Pod>>, Error> {
        let namespace = job.namespace().unwrap_or_default();
        let uid = job.uid().unwrap_or_default();
        let selector = spec::selector(job)?;
        let claims = Claims {
            api: self.pods_api(&namespace),
            owner: &job.metadata,
            reference: owner_ref(job),
            finalizer: Some(pods::FINALIZER),
        };
        let jobs = self.api(job);
        let claimed = claims
            .claim_all(
                self.pods.claimable(&namespace, &uid),
                |pod| selector.matches(pod.labels()),
                adoption::confirm(&jobs, &job.metadata, KIND, "Pods"),
                |pod| self.wrote_pod(pod),
            )
            .await?;
        Ok(claimed.into_iter().map(|pod| tracked(pod, &uid)).collect())
    }

    async fn record_event(&self, job: &Job, event_type: EventType, reason: &str, message: &str) {
        self.recorder
            .publish(&reference(job), event_type, reason, message)
            .await;
    }
}

/// A pod that was adopted just now has the finalizer, though the cache doesn't show it yet.
fn tracked(pod: Arc<Pod>, uid: &str) -> Arc<Pod> {
    let owners: BTreeSet<&str> = pod
        .owner_references()
        .iter()
        .map(|owner| &*owner.uid)
        .collect();
    if owners.contains(uid) || pods::is_tracked(&pod) {
        return pod;
    }
    let mut adopted = (*pod).clone();
    adopted.finalizers_mut().push(pods::FINALIZER.to_owned());
    Arc::new(adopted)
}

//! Syncs one cron job: tracks its jobs, and creates the next one when it is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use kubeproof_machinery::cron::Schedule;
use kubeproof_runtime::controller_ref::{controller_of, reference_to};
use kubeproof_runtime::metadata_response;
use kubeproof_runtime::recorder::EventType::{Normal, Warning};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::{Controller, active, history, job, missed, schedule, written_schedule};

/// A cron job as it becomes by a sync.
struct Pass {
    cron: CronJob,
    /// Whether its status is to be written.
    is_changed: bool,
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(cron) = self.cron_jobs.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let mut jobs = self.jobs.in_namespace(&key.namespace);
        jobs.retain(|job| controller_of(&job.metadata).is_some_and(|owner| owner.name == key.name));
        let mut pass = Pass {
            cron: (*cron).clone(),
            is_changed: false,
        };
        for job in history::surplus(&cron, &jobs) {
            self.delete(&mut pass, &job).await;
        }
        let outcome = self.apply(&mut pass, &jobs).await;
        if pass.is_changed {
            let api = self.api(&pass.cron);
            let rv = metadata_response::replace_status(&api, &key.name, &pass.cron).await?;
            // Changes of jobs trigger the next sync at once; with a stale cached status it could
            // repeat these actions.
            self.cron_jobs.wait_for(self.cron_jobs.wrote_at(rv)).await;
        }
        outcome
    }
}

impl Controller {
    async fn apply(&self, pass: &mut Pass, jobs: &[Arc<Job>]) -> Result<Option<Duration>, Error> {
        let now = (self.ctx.now)();
        for job in jobs {
            self.look_at(pass, job).await?;
        }
        self.strike_missing(pass, jobs).await?;
        if pass.cron.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let Some(schedule) = self.readable_schedule(&pass.cron).await else {
            return Ok(None);
        };
        let recent = match missed::recent(&pass.cron, now, &schedule, false) {
            Ok(recent) => recent,
            Err(fault) => {
                let text = written_schedule(&pass.cron).0;
                let message = format!("invalid schedule: {text} : {fault}");
                self.record_event(&pass.cron, Warning, "InvalidSchedule", &message)
                    .await;
                return Ok(None);
            }
        };
        if let Some(due) = recent.due {
            if recent.missed_many() {
                let message = "too many missed start times. Set or decrease \
                               .spec.startingDeadlineSeconds or check clock skew";
                self.record_event(&pass.cron, Warning, "TooManyMissedTimes", message)
                    .await;
            }
            if self.is_to_start(&pass.cron, due).await && !self.start(pass, due).await? {
                return Ok(None);
            }
        }
        Ok(Some(missed::until_next(&pass.cron, now, &schedule)))
    }

    /// Records in the status whether a job runs or has ended.
    async fn look_at(&self, pass: &mut Pass, job: &Job) -> Result<(), Error> {
        let uid = job.uid().unwrap_or_default();
        let name = job.name_any();
        let is_listed = active::contains(&pass.cron, &uid);
        let Some(end) = job::end(job) else {
            if is_listed {
                return Ok(());
            }
            // The cache may be behind what this controller wrote itself.
            let live = self.api(&pass.cron).get(&pass.cron.name_any()).await?;
            if active::contains(&live, &uid) {
                pass.cron = live;
                return Ok(());
            }
            let message = format!("Saw a job that the controller did not create or forgot: {name}");
            self.record_event(&pass.cron, Warning, "UnexpectedJob", &message)
                .await;
            return Ok(());
        };
        if is_listed {
            active::remove(&mut pass.cron, &uid);
            pass.is_changed = true;
            let message = format!("Saw completed job: {name}, condition: {end}");
            self.record_event(&pass.cron, Normal, "SawCompletedJob", &message)
                .await;
        }
        if end == "Complete" {
            let completed = job
                .status
                .as_ref()
                .and_then(|status| status.completion_time.clone());
            let last = &mut pass
                .cron
                .status
                .get_or_insert_default()
                .last_successful_time;
            if completed.as_ref().map(|time| time.0) > last.as_ref().map(|time| time.0) {
                *last = completed;
                pass.is_changed = true;
            }
        }
        Ok(())
    }

    /// Removes jobs that no longer exist from the list of active jobs.
    async fn strike_missing(&self, pass: &mut Pass, jobs: &[Arc<Job>]) -> Result<(), Error> {
        let known: BTreeSet<String> = jobs.iter().filter_map(|job| job.uid()).collect();
        let api = self.jobs_api(&pass.cron.namespace().unwrap_or_default());
        for listed in active::list(&mut pass.cron).clone() {
            let (name, uid) = (
                listed.name.unwrap_or_default(),
                listed.uid.unwrap_or_default(),
            );
            if known.contains(&uid) || api.get_opt(&name).await?.is_some() {
                continue;
            }
            let message = format!("Active job went missing: {name}");
            self.record_event(&pass.cron, Normal, "MissingJob", &message)
                .await;
            active::remove(&mut pass.cron, &uid);
            pass.is_changed = true;
        }
        Ok(())
    }

    /// The schedule of a cron job that is not suspended; an unreadable one is reported in an event.
    async fn readable_schedule(&self, cron: &CronJob) -> Option<Schedule> {
        let (text, zone) = written_schedule(cron);
        if let Some(zone) = zone
            && TimeZone::get(zone).is_err()
        {
            let message = format!("invalid timeZone: {zone:?}: unknown time zone {zone}");
            self.record_event(cron, Warning, "UnknownTimeZone", &message)
                .await;
            return None;
        }
        if cron.spec.suspend == Some(true) {
            return None;
        }
        if text.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            );
            self.record_event(cron, Warning, "UnsupportedSchedule", &message)
                .await;
        }
        match schedule(cron) {
            Ok(schedule) => Some(schedule),
            Err(fault) => {
                let message = format!("unparseable schedule: {text:?} : {fault}");
                self.record_event(cron, Warning, "UnparseableSchedule", &message)
                    .await;
                None
            }
        }
    }

    /// Whether the job for the time `due` is to be started now.
    async fn is_to_start(&self, cron: &CronJob, due: Timestamp) -> bool {
        let status = cron.status.as_ref();
        let last = status.and_then(|status| status.last_schedule_time.as_ref());
        let is_done = last.is_some_and(|last| last.0 == due);
        if is_done || active::contains_name(cron, &job::name_at(cron, due)) {
            return false;
        }
        if policy(cron) == "Forbid" && !active::is_empty(cron) {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.record_event(cron, Normal, "JobAlreadyActive", message)
                .await;
            return false;
        }
        true
    }

    /// Starts the job for the time `due`; returns whether the schedule goes on from here.
    async fn start(&self, pass: &mut Pass, due: Timestamp) -> Result<bool, Error> {
        let api = self.jobs_api(&pass.cron.namespace().unwrap_or_default());
        if policy(&pass.cron) == "Replace" {
            self.delete_active(pass).await?;
        }
        let job = job::make(&pass.cron, due);
        let created = match api
            .create(&PostParams::default(), &job)
            .await
            .map_err(Error::from)
        {
            Ok(created) => {
                let message = format!("Created job {}", created.name_any());
                self.record_event(&pass.cron, Normal, "SuccessfulCreate", &message)
                    .await;
                created
            }
            Err(error) if error.is_already_exists() => {
                // Ours if the status couldn't be written when it was created.
                let there = api.get(&job.name_any()).await?;
                let owner = controller_of(&there.metadata).map(|owner| &owner.uid);
                let is_ours = owner == pass.cron.metadata.uid.as_ref();
                if !is_ours || active::contains(&pass.cron, &there.uid().unwrap_or_default()) {
                    return Ok(false);
                }
                there
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating job: {error}");
                    self.record_event(&pass.cron, Warning, "FailedCreate", &message)
                        .await;
                }
                return Err(error);
            }
        };
        let reference = reference_to("batch/v1", "Job", &created.metadata);
        active::list(&mut pass.cron).push(reference);
        let status = pass.cron.status.get_or_insert_default();
        status.last_schedule_time = Some(Time(due));
        pass.is_changed = true;
        Ok(true)
    }

    /// Makes room for the next job.
    async fn delete_active(&self, pass: &mut Pass) -> Result<(), Error> {
        let namespace = pass.cron.namespace().unwrap_or_default();
        let api = self.jobs_api(&namespace);
        for listed in active::list(&mut pass.cron).clone() {
            let name = listed.name.unwrap_or_default();
            let job = match api.get(&name).await.map_err(Error::from) {
                Ok(job) => job,
                Err(error) => {
                    let message = format!("Get job: {error}");
                    self.record_event(&pass.cron, Warning, "FailedGet", &message)
                        .await;
                    return Err(error);
                }
            };
            if !self.delete(pass, &job).await {
                let message = format!("could not replace job {namespace}/{name}");
                return Err(Error::Refused(message));
            }
        }
        Ok(())
    }

    /// Deletes a job and strikes it off the list; returns whether it could.
    async fn delete(&self, pass: &mut Pass, job: &Job) -> bool {
        let api = self.jobs_api(&job.namespace().unwrap_or_default());
        let name = job.name_any();
        match api
            .delete(&name, &DeleteParams::background())
            .await
            .map_err(Error::from)
        {
            Ok(_) => {
                active::remove(&mut pass.cron, &job.uid().unwrap_or_default());
                pass.is_changed = true;
                let message = format!("Deleted job {name}");
                self.record_event(&pass.cron, Normal, "SuccessfulDelete", &message)
                    .await;
                true
            }
            Err(error) => {
                let message = format!("Deleted job: {error}");
                self.record_event(&pass.cron, Warning, "FailedDelete", &message)
                    .await;
                false
            }
        }
    }
}

fn policy(cron: &CronJob) -> &str {
    let policy = cron.spec.concurrency_policy.as_deref();
    policy.unwrap_or("Allow")
}

//! The CronJob controller: creates a job whenever a schedule says so.
//!
//! Source: pkg/controller/cronjob of Kubernetes.

mod active;
mod history;
mod job;
mod missed;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{Api, ResourceExt};
use kubeproof_machinery::cron::{ParseError, Schedule};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

use crate::workload::event_handlers::{self, Workload};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "cronjob-controller";
const API_VERSION: &str = "batch/v1";
const KIND: &str = "CronJob";
/// The number of cron jobs synced at once.
const WORKERS: usize = 5;
/// The delay after a scheduled time before the schedule is evaluated, since clocks differ.
const DELTA: Duration = Duration::from_millis(100);

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    cron_jobs: Informer<CronJob>,
    jobs: Informer<Job>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::new(),
        cron_jobs: Informer::new(),
        jobs: Informer::new(),
    };
    controller.run().await;
}

impl Controller {
    async fn run(&self) {
        Informers::new(&self.ctx.client)
            .add(&self.cron_jobs, |change| self.cron_job_changed(change))
            .add(&self.jobs, |change| self.job_changed(change))
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    /// Another schedule is waited for; whatever else changes is looked at at once.
    fn cron_job_changed(&self, change: &Change<CronJob>) {
        let cron = change.object();
        let mut delay = Duration::ZERO;
        if let Change::Updated { old, new } = change
            && written_schedule(old) != written_schedule(new)
        {
            // The sync reports schedules that can't be read.
            delay = schedule(new).map_or(Duration::ZERO, |schedule| {
                missed::until_next(new, (self.ctx.now)(), &schedule)
            });
        }
        self.queue.add_after(ObjectKey::of(&**cron), delay);
    }

    fn job_changed(&self, change: &Change<Job>) {
        let job = change.object();
        let cached = self
            .cron_jobs
            .in_namespace(&job.namespace().unwrap_or_default());
        for request in event_handlers::requests_for_owners(change, &cached) {
            self.queue.add(request.key);
        }
    }

    async fn record_event(
        &self,
        cron: &CronJob,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        self.recorder
            .publish(&reference(cron), event_type, reason, message)
            .await;
    }

    fn jobs_api(&self, namespace: &str) -> Api<Job> {
        Api::namespaced(self.ctx.client.clone(), namespace)
    }

    fn api(&self, cron: &CronJob) -> Api<CronJob> {
        let namespace = cron.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }
}

impl Workload for Arc<CronJob> {
    const KIND: &'static str = KIND;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    /// A CronJob owns the jobs that it creates and adopts none, so it selects none.
    fn selector(&self) -> LabelSelector {
        LabelSelector::default()
    }
}

fn reference(cron: &CronJob) -> ObjectReference {
    reference_to(API_VERSION, KIND, &cron.metadata)
}

/// The schedule and its zone, as the user wrote them.
fn written_schedule(cron: &CronJob) -> (&str, Option<&str>) {
    (&*cron.spec.schedule, cron.spec.time_zone.as_deref())
}

/// The schedule in its time zone; a zone within the schedule itself wins.
fn schedule(cron: &CronJob) -> Result<Schedule, ParseError> {
    let (text, zone) = written_schedule(cron);
    let schedule = Schedule::parse(text)?;
    let zone = zone.filter(|_| !text.contains("TZ"));
    Ok(match zone.and_then(|zone| TimeZone::get(zone).ok()) {
        Some(zone) => schedule.in_zone(zone),
        None => schedule,
    })
}

fn created(cron: &CronJob) -> Timestamp {
    let created = cron.metadata.creation_timestamp.as_ref();
    created.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

//! The TTL controller of finished jobs: deletes them when they have been over for long enough.
//!
//! Source: pkg/controller/ttlafterfinished of Kubernetes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::{Api, ResourceExt};
use kubeproof_runtime::clock::{go_seconds, later};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

/// The controller's name: its user agent.
pub const NAME: &str = "ttl-after-finished-controller";
/// The number of jobs synced at once.
const WORKERS: usize = 5;

struct Controller {
    ctx: Context,
    queue: WorkQueue<ObjectKey>,
    jobs: Informer<Job>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        queue: WorkQueue::new(),
        jobs: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.jobs, |change| {
            if let Change::Added(job) | Change::Updated { new: job, .. } = change
                && expires(job).is_some()
            {
                controller.queue.add(change.key());
            }
        })
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(cached) = self.jobs.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let left = |job: &Job| {
            let left = expires(job)?.duration_since((self.ctx.now)());
            Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
        };
        match left(&cached) {
            None => return Ok(None),
            Some(left) if !left.is_zero() => return Ok(Some(left)),
            Some(_) => {}
        }
        // The cache may be behind: the job may have been given more time, or be another one.
        let api: Api<Job> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let Some(job) = api.get_opt(&key.name).await? else {
            return Ok(None);
        };
        match left(&job) {
            None => Ok(None),
            Some(left) if !left.is_zero() => Ok(Some(left)),
            Some(_) => {
                let params = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Foreground),
                    preconditions: Some(Preconditions {
                        uid: job.uid(),
                        ..Preconditions::default()
                    }),
                    ..DeleteParams::default()
                };
                api.delete(&key.name, &params).await?;
                Ok(None)
            }
        }
    }
}

/// When the job is to go; None for one that runs, stays, or goes already.
fn expires(job: &Job) -> Option<Timestamp> {
    let ttl = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let mut conditions = job.status.as_ref()?.conditions.iter().flatten();
    let is_end = |kind: &str| matches!(kind, "Complete" | "Failed");
    let end = conditions.find(|one| is_end(&one.type_) && one.status == "True")?;
    let end = end.last_transition_time.as_ref()?.0;
    let is_going = job.metadata.deletion_timestamp.is_some();
    (!is_going).then(|| later(end, go_seconds(ttl.into())))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_job_expires_when_it_has_been_over_for_its_time() {
        let end = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let expires = |ttl: Value, conditions: Value, deletion: Value| {
            let job: Job = from_value(json!({
                "metadata": {"name": "j", "deletionTimestamp": deletion},
                "spec": {"template": {}, "ttlSecondsAfterFinished": ttl},
                "status": {"conditions": conditions},
            }))
            .unwrap();
            super::expires(&job).map(|time| time.to_string())
        };
        let complete = json!([end("Complete", "True")]);
        let minute = Some("2026-01-01T00:01:00Z".to_owned());
        assert_eq!(expires(json!(60), complete.clone(), Value::Null), minute);
        assert_eq!(
            expires(json!(60), json!([end("Failed", "True")]), Value::Null),
            minute
        );
        assert_eq!(
            expires(json!(60), json!([end("Failed", "False")]), Value::Null),
            None
        );
        assert_eq!(
            expires(
                json!(60),
                json!([end("FailureTarget", "True")]),
                Value::Null
            ),
            None
        );
        assert_eq!(expires(Value::Null, complete.clone(), Value::Null), None);
        assert_eq!(
            expires(json!(60), complete, json!("2026-01-01T00:00:30Z")),
            None
        );
    }
}

//! Deletes finished jobs beyond the history limits of a cron job.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt;

use super::job::end;

/// The jobs that are too many, the oldest of those that ended well first, then of those that didn't.
pub(super) fn surplus(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let limits = [
        ("Complete", cron.spec.successful_jobs_history_limit),
        ("Failed", cron.spec.failed_jobs_history_limit),
    ];
    let mut surplus = Vec::new();
    for (how, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            continue;
        };
        let ended = jobs.iter().filter(|job| end(job) == Some(how));
        let mut ended: Vec<Arc<Job>> = ended.cloned().collect();
        ended.sort_by_key(|job| (start(job).is_none(), start(job), job.name_any()));
        ended.truncate(ended.len().saturating_sub(limit));
        surplus.append(&mut ended);
    }
    surplus
}

fn start(job: &Job) -> Option<jiff::Timestamp> {
    Some(job.status.as_ref()?.start_time.as_ref()?.0)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn job(name: &str, end: &str, start: Value) -> Arc<Job> {
        let job = json!({
            "metadata": {"name": name},
            "status": {"startTime": start, "conditions": [{"type": end, "status": "True"}]},
        });
        Arc::new(from_value(job).unwrap())
    }

    #[test]
    fn the_oldest_are_too_many_of_each_kind_by_its_own_limit() {
        let at = |hour: u8| json!(format!("2026-01-01T0{hour}:00:00Z"));
        let jobs = [
            job("good-3", "Complete", at(3)),
            job("good-1", "Complete", at(1)),
            job("good-2b", "Complete", at(2)),
            job("good-2a", "Complete", at(2)),
            job("never-started", "Complete", Value::Null),
            job("bad-1", "Failed", at(1)),
            job("bad-2", "Failed", at(2)),
            job("running", "Suspended", at(1)),
        ];
        let surplus = |good: Value, bad: Value| -> Vec<String> {
            let cron = from_value(json!({"spec": {"schedule": "", "jobTemplate": {},
                "successfulJobsHistoryLimit": good, "failedJobsHistoryLimit": bad}}));
            let surplus = super::surplus(&cron.unwrap(), &jobs);
            surplus.iter().map(|job| job.name_any()).collect()
        };
        assert_eq!(
            surplus(json!(2), json!(1)),
            ["good-1", "good-2a", "good-2b", "bad-1"]
        );
        assert_eq!(surplus(json!(0), Value::Null).len(), 5);
        assert_eq!(surplus(Value::Null, json!(2)), [""; 0]);
    }
}

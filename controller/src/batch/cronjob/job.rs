//! The job for a time of a schedule, and what a cron job asks about its jobs.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kubeproof_runtime::controller_ref::controller_ref;

use super::{API_VERSION, KIND};

/// The annotation with the scheduled time of a job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// How a job ended: `Complete` or `Failed`; None while it hasn't.
pub(super) fn end(job: &Job) -> Option<&str> {
    let mut conditions = job.status.as_ref()?.conditions.iter().flatten();
    let is_end = |kind: &str| matches!(kind, "Complete" | "Failed");
    let end = conditions.find(|one| is_end(&one.type_) && one.status == "True")?;
    Some(&end.type_)
}

/// The name of the job for a time, by which it is created once.
pub(super) fn name_at(cron: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron.name_any(), time.as_second() / 60)
}

/// The job for a time.
pub(super) fn make(cron: &CronJob, time: Timestamp) -> Job {
    let template = cron.spec.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let zone = cron.spec.time_zone.as_deref();
    let zone = zone
        .and_then(|zone| TimeZone::get(zone).ok())
        .unwrap_or(TimeZone::UTC);
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), rfc_3339(time, zone));
    Job {
        metadata: ObjectMeta {
            name: Some(name_at(cron, time)),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_ref(API_VERSION, KIND, &cron.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec.unwrap_or_default()),
        status: None,
    }
}

/// As Go writes it: UTC is `Z`.
fn rfc_3339(time: Timestamp, zone: TimeZone) -> String {
    let local = time.to_zoned(zone);
    match local.offset().is_zero() {
        true => local.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        false => local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_named_after_its_time_and_made_from_the_template() {
        let cron: CronJob = from_value(json!({
            "metadata": {"name": "tick", "uid": "u"},
            "spec": {"schedule": "* * * * *", "timeZone": "Europe/Berlin", "jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"parallelism": 2, "template": {}},
            }},
        }))
        .unwrap();
        let job = make(&cron, "2026-07-01T10:05:00Z".parse().unwrap());
        assert_eq!(job.name_any(), "tick-29715005");
        assert_eq!(job.labels()["a"], "b");
        assert_eq!(job.annotations()["c"], "d");
        assert_eq!(job.annotations()[SCHEDULED], "2026-07-01T12:05:00+02:00");
        assert_eq!(job.owner_references()[0].kind, "CronJob");
        assert_eq!(job.spec.unwrap().parallelism, Some(2));
        let utc = rfc_3339("2026-07-01T10:05:00Z".parse().unwrap(), TimeZone::UTC);
        assert_eq!(utc, "2026-07-01T10:05:00Z");
    }
}

//! The conditions of a job.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) const COMPLETE: &str = "Complete";
pub(super) const FAILED: &str = "Failed";
/// The condition of a job that will fail once its pods are gone.
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
/// The condition of a job that will be complete once its pods are gone.
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) const SUSPENDED: &str = "Suspended";

/// A condition that holds since `now`.
pub(super) fn holding(kind: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    condition(kind, "True", reason, message, now)
}

fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> JobCondition {
    JobCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// The condition `kind` of the job, if it holds.
pub(super) fn held<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let mut conditions = conditions.iter().filter(|one| one.type_ == kind);
    conditions.next().filter(|one| one.status == "True")
}

/// Whether the job has completed or failed.
pub(super) fn is_finished(job: &Job) -> bool {
    held(job, COMPLETE).or_else(|| held(job, FAILED)).is_some()
}

/// The final condition that one for the time being announces, with its reason.
pub(super) fn final_of(announced: &JobCondition, now: Timestamp) -> JobCondition {
    let kind = match announced.type_.as_str() {
        SUCCESS_CRITERIA_MET => COMPLETE,
        _ => FAILED,
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    holding(
        kind,
        &text(&announced.reason),
        &text(&announced.message),
        now,
    )
}

/// Adds the condition to the list, or updates it; returns whether the list changed.
///
/// One that doesn't hold is not added: nothing said that it did.
pub(super) fn ensure(
    conditions: &mut Vec<JobCondition>,
    kind: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> bool {
    let status = if holds { "True" } else { "False" };
    let wanted = condition(kind, status, reason, message, now);
    match conditions.iter_mut().find(|one| one.type_ == kind) {
        Some(there) => {
            let differs = there.status != wanted.status
                || there.reason != wanted.reason
                || there.message != wanted.message;
            if differs {
                *there = wanted;
            }
            differs
        }
        None if holds => {
            conditions.push(wanted);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_added_when_it_holds_and_changed_when_it_differs() {
        let mut conditions = Vec::new();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut ensure = |holds, reason, second| {
            ensure(
                &mut conditions,
                SUSPENDED,
                holds,
                (reason, "text"),
                at(second),
            )
        };
        assert!(!ensure(false, "JobResumed", 1));
        assert!(ensure(true, "JobSuspended", 2));
        assert!(!ensure(true, "JobSuspended", 3));
        assert!(ensure(false, "JobResumed", 4));
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].status, "False");
        assert_eq!(conditions[0].last_transition_time, Some(Time(at(4))));
    }
}

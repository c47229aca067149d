//! Evaluates the success policy, by which a job completes before all of its indexes do.

use k8s_openapi::api::batch::v1::Job;

use super::intervals::Intervals;
use super::spec;

/// The message about the first rule of the job's success policy that `succeeded` fulfills.
pub(super) fn fulfilled(job: &Job, succeeded: &Intervals) -> Option<String> {
    let policy = job.spec.as_ref()?.success_policy.as_ref()?;
    let is_enough = |count: Option<i32>, found: usize| {
        count.is_some_and(|count| usize::try_from(count).is_ok_and(|count| found >= count))
    };
    let index = policy
        .rules
        .iter()
        .position(|rule| match &rule.succeeded_indexes {
            Some(indexes) => {
                let wanted = Intervals::parse(indexes, spec::indexes(job));
                let found = wanted.shared(succeeded);
                !wanted.is_empty()
                    && (found == wanted.total() || is_enough(rule.succeeded_count, found))
            }
            None => is_enough(rule.succeeded_count, succeeded.total()),
        })?;
    Some(format!("Matched rules at index {index}"))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_asks_for_indexes_for_a_number_or_for_a_number_of_indexes() {
        let job: Job = from_value(json!({"spec": {
            "template": {}, "completions": 10, "completionMode": "Indexed",
            "successPolicy": {"rules": [
                {"succeededIndexes": "0,2-3"},
                {"succeededIndexes": "4-8", "succeededCount": 2},
                {"succeededCount": 5},
                {"succeededIndexes": "x"},
            ]},
        }}))
        .unwrap();
        let rule = |succeeded: &str| fulfilled(&job, &Intervals::parse(succeeded, 10));
        let at = |index: usize| Some(format!("Matched rules at index {index}"));
        assert_eq!(rule(""), None);
        assert_eq!(rule("0,2"), None);
        assert_eq!(rule("0,2,3"), at(0));
        assert_eq!(rule("4"), None);
        assert_eq!(rule("4,8"), at(1));
        assert_eq!(rule("0-2,4,9"), at(2));
    }
}

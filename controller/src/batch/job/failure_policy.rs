//! The evaluation of a job's pod failure policy for a failed pod.

use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};
use kube::ResourceExt;
use kubeproof_runtime::pod::{ContainerStatus, Pod};

/// How a failure is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FailurePolicyAction {
    /// The failure counts towards the limit.
    Count,
    /// The failure does not count.
    Ignore,
    /// The failure counts, and the pod's index has failed.
    FailIndex,
    /// The job fails, with this message.
    FailJob(String),
}

impl FailurePolicyAction {
    pub(super) fn is_counted(&self) -> bool {
        *self != Self::Ignore
    }
}

/// The ruling of the first rule that the pod matches.
pub(super) fn failure_policy_action(job: &Job, pod: &Pod) -> FailurePolicyAction {
    let policy = job
        .spec
        .as_ref()
        .and_then(|spec| spec.pod_failure_policy.as_ref());
    let rules = policy.map_or(&[][..], |policy| &policy.rules);
    let mut rules = rules.iter().enumerate();
    rules
        .find_map(|(index, rule)| {
            let what = matched(rule, pod)?;
            match rule.action.as_str() {
                "Ignore" => Some(FailurePolicyAction::Ignore),
                "Count" => Some(FailurePolicyAction::Count),
                "FailIndex" => Some(FailurePolicyAction::FailIndex),
                "FailJob" => Some(FailurePolicyAction::FailJob(format!(
                    "{what} matching FailJob rule at index {index}"
                ))),
                _ => None,
            }
        })
        .unwrap_or(FailurePolicyAction::Count)
}

/// How the pod matches the rule, in words.
fn matched(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let status = pod.status.as_ref()?;
    if let Some(requirement) = &rule.on_exit_codes {
        let lists = [&status.container_statuses, &status.init_container_statuses];
        let mut statuses = lists.into_iter().flatten().flatten();
        return statuses.find_map(|status| {
            let code = exit_code(status, requirement)?;
            let container = &status.name;
            Some(format!(
                "Container {container} for pod {name} failed with exit code {code}"
            ))
        });
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| {
        patterns.iter().any(|pattern| {
            let status = pattern.status.as_deref().unwrap_or("True");
            pattern.type_ == condition.type_ && status == condition.status
        })
    })?;
    Some(format!("Pod {name} has condition {}", condition.type_))
}

/// The exit code of a container that ended as `requirement` says; success never matches.
fn exit_code(
    status: &ContainerStatus,
    requirement: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<i32> {
    let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_named = requirement.container_name.as_ref();
    let is_named = is_named.is_none_or(|name| *name == status.name);
    let is_listed = requirement.values.contains(&code);
    let matches = match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    (is_named && code != 0 && matches).then_some(code)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn job(rules: Value) -> Job {
        from_value(json!({
            "spec": {"template": {}, "podFailurePolicy": {"rules": rules}}
        }))
        .unwrap()
    }

    fn failed(status: Value) -> Pod {
        from_value(json!({"metadata": {"namespace": "ns", "name": "p"}, "status": status})).unwrap()
    }

    fn exited(container: &str, code: i32) -> Value {
        json!({"name": container, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
               "state": {"terminated": {"exitCode": code}}})
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
            {"action": "FailJob", "onExitCodes":
                {"containerName": "main", "operator": "NotIn", "values": [1, 2]}},
            {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "False"}]},
        ]);
        let fail = |text: &str| FailurePolicyAction::FailJob(text.to_owned());
        let table = [
            (json!({}), FailurePolicyAction::Count),
            (
                json!({"containerStatuses": [exited("main", 0)]}),
                FailurePolicyAction::Count,
            ),
            (
                json!({"containerStatuses": [exited("main", 1)]}),
                FailurePolicyAction::Count,
            ),
            (
                json!({"containerStatuses": [exited("side", 42)]}),
                FailurePolicyAction::Count,
            ),
            (
                json!({"initContainerStatuses": [exited("init", 3)]}),
                FailurePolicyAction::FailIndex,
            ),
            (
                json!({"containerStatuses": [exited("side", 1), exited("main", 42)]}),
                fail(
                    "Container main for pod ns/p failed with exit code 42 matching FailJob rule \
                      at index 2",
                ),
            ),
            (
                json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}],
                       "containerStatuses": [exited("main", 42)]}),
                FailurePolicyAction::Ignore,
            ),
            (
                json!({"conditions": [{"type": "DisruptionTarget", "status": "False"}]}),
                FailurePolicyAction::Count,
            ),
            (
                json!({"conditions": [{"type": "ConfigIssue", "status": "False"}]}),
                fail("Pod ns/p has condition ConfigIssue matching FailJob rule at index 3"),
            ),
        ];
        for (status, expected) in table {
            let ruled = failure_policy_action(&job(rules.clone()), &failed(status.clone()));
            assert_eq!(ruled, expected, "{status}");
        }
    }
}

//! The pods of a job: their names and labels, and the template from which they are created.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};
use serde_json::{Value, json};

use super::failure_policy::failure_policy_action;
use super::spec;
use crate::workload::pod_control::pod_from_template;

/// Keeps a pod until it is counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod, as an annotation and as a label.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with the number of earlier failures of the index that count.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the number of earlier failures of the index that do not count.
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The index, as containers see it.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The number of characters that the server keeps of a `generateName`.
const GENERATE_NAME_MAX: usize = 58;

/// Whether the pod is kept until it is counted.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers()
        .iter()
        .any(|finalizer| finalizer == FINALIZER)
}

/// Strategic merge patch that lets the pod go.
pub(super) fn release_patch() -> Value {
    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
}

/// Whether the pod counts as failed: as soon as it is on its way out, unless only what has really
/// failed is replaced.
pub(super) fn is_failed(pod: &Pod, job: &Job) -> bool {
    let is_leaving = pod::is_terminating(pod) && !pod::is_succeeded(pod);
    pod::is_failed(pod) || is_leaving && !spec::replaces_only_failed(job)
}

/// The completion index of the pod, if annotated.
pub(super) fn index(pod: &Pod) -> Option<usize> {
    pod.annotations().get(INDEX)?.parse().ok()
}

/// The completion index of the pod, if the job has that index.
pub(super) fn index_in(pod: &Pod, job: &Job) -> Option<usize> {
    index(pod).filter(|index| *index < spec::indexes(job))
}

/// Whether the failure of this pod is the end of its index.
pub(super) fn fails_index(pod: &Pod, job: &Job) -> bool {
    if !is_failed(pod, job) {
        return false;
    }
    let action = failure_policy_action(job, pod);
    let limit = spec::limit_per_index(job).unwrap_or(i32::MAX);
    action == super::failure_policy::FailurePolicyAction::FailIndex
        || action.is_counted() && number(pod, FAILURES) >= limit
}

/// The number of earlier failures of the index, counted or not.
pub(super) fn failures_before(pod: &Pod) -> usize {
    let all = number(pod, FAILURES).saturating_add(number(pod, IGNORED_FAILURES));
    usize::try_from(all).unwrap_or(0)
}

fn number(pod: &Pod, annotation: &str) -> i32 {
    let text = pod.annotations().get(annotation);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A pod for the job, for an index of it or for none; `replaced` is the one whose failure left the
/// index free.
pub(super) fn make(
    job: &Job,
    owner: OwnerReference,
    index: Option<usize>,
    replaced: Option<&Pod>,
) -> Pod {
    let template = job.spec.as_ref().map(|spec| spec.template.clone());
    let mut template: PodTemplateSpec = template.unwrap_or_default();
    let meta = template.metadata.get_or_insert_default();
    let finalizers = meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let mut pod = pod_from_template(&template, owner);
    let Some(index) = index else {
        return pod;
    };
    let name = job.name_any();
    pod.labels_mut().insert(INDEX.to_owned(), index.to_string());
    let annotations = pod.annotations_mut();
    annotations.insert(INDEX.to_owned(), index.to_string());
    if spec::limit_per_index(job).is_some() {
        note_failures(annotations, job, replaced);
    }
    pod.metadata.generate_name = Some(generate_name(&name, index));
    let spec = &mut **pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{name}-{index}"));
    let inits = spec.init_containers.iter_mut().flatten();
    inits
        .chain(&mut spec.containers)
        .for_each(add_index_variable);
    pod
}

fn note_failures(annotations: &mut BTreeMap<String, String>, job: &Job, replaced: Option<&Pod>) {
    let (mut counted, mut ignored) = (0, 0);
    if let Some(replaced) = replaced {
        counted = number(replaced, FAILURES);
        ignored = number(replaced, IGNORED_FAILURES);
        match failure_policy_action(job, replaced).is_counted() {
            true => counted += 1,
            false => ignored += 1,
        }
    }
    annotations.insert(FAILURES.to_owned(), counted.to_string());
    if ignored > 0 {
        annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
    }
}

fn add_index_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables
        .iter()
        .any(|variable| variable.name == INDEX_VARIABLE)
    {
        return;
    }
    variables.push(EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: format!("metadata.labels['{INDEX}']"),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    });
}

/// The index shall be in the name, however long the job's name is.
fn generate_name(job: &str, index: usize) -> String {
    let end = format!("-{index}-");
    let room = GENERATE_NAME_MAX - end.len();
    format!("{}{end}", job.get(..room).unwrap_or(job))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn job(spec: Value) -> Job {
        let mut job =
            json!({"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "spec": spec});
        job["spec"]["template"] = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [
                {"name": "c", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]},
                {"name": "d"},
            ], "initContainers": [{"name": "i"}]},
        });
        from_value(job).unwrap()
    }

    fn made(job: &Job, index: Option<usize>, replaced: Option<&Pod>) -> Value {
        serde_json::to_value(make(job, OwnerReference::default(), index, replaced)).unwrap()
    }

    #[test]
    fn every_pod_is_tracked_and_those_of_an_index_know_it() {
        let plain = made(&job(json!({})), None, None);
        assert_eq!(plain["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(plain["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(plain["spec"]["containers"][1].get("env"), None);

        let indexed = json!({"completionMode": "Indexed", "completions": 3});
        let pod = made(&job(indexed), Some(2), None);
        assert_eq!(pod["metadata"]["generateName"], "j-2-");
        assert_eq!(pod["metadata"]["annotations"], json!({INDEX: "2"}));
        assert_eq!(pod["metadata"]["labels"], json!({"a": "b", INDEX: "2"}));
        assert_eq!(pod["spec"]["hostname"], "j-2");
        let variable = json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
            {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]);
        assert_eq!(pod["spec"]["containers"][1]["env"], variable);
        assert_eq!(pod["spec"]["initContainers"][0]["env"], variable);
        assert_eq!(pod["spec"]["containers"][0]["env"][0]["value"], "own");
    }

    #[test]
    fn failures_of_an_index_are_handed_on() {
        let mut job = job(json!({"completionMode": "Indexed", "completions": 3,
            "backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}));
        let first = make(&job, OwnerReference::default(), Some(0), None);
        assert_eq!(first.annotations()[FAILURES], "0");
        assert_eq!(first.annotations().get(IGNORED_FAILURES), None);
        let failed = |mut pod: Pod, status: Value| {
            pod.status = Some(from_value(status).unwrap());
            pod
        };
        let disrupted = failed(
            first,
            json!({"phase": "Failed",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        );
        assert!(!fails_index(&disrupted, &job));
        let second = make(&job, OwnerReference::default(), Some(0), Some(&disrupted));
        assert_eq!(second.annotations()[FAILURES], "0");
        assert_eq!(second.annotations()[IGNORED_FAILURES], "1");
        let second = failed(second, json!({"phase": "Failed"}));
        assert!(!fails_index(&second, &job), "one failure is allowed");
        let third = make(&job, OwnerReference::default(), Some(0), Some(&second));
        assert_eq!(third.annotations()[FAILURES], "1");
        assert_eq!(failures_before(&third), 2);
        let third = failed(third, json!({"phase": "Failed"}));
        assert!(fails_index(&third, &job));
        job.spec.as_mut().unwrap().backoff_limit_per_index = Some(2);
        assert!(!fails_index(&third, &job));
    }

    #[test]
    fn the_index_stays_in_a_long_name() {
        assert_eq!(generate_name("job", 12), "job-12-");
        let long = generate_name(&"x".repeat(63), 12);
        assert_eq!(long, format!("{}-12-", "x".repeat(54)));
    }
}

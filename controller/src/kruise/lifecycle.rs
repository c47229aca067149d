//! The states of a pod, which a label records, and the hooks between them.
//!
//! Source: openkruise/kruise pkg/util/lifecycle.

use jiff::Timestamp;
use kube::ResourceExt;
use kubeproof_runtime::pod::Pod;
use serde_json::{Map, Value, json};

use super::api::strategy::{Lifecycle, LifecycleHook};

/// The label with the state.
pub(crate) const STATE_LABEL: &str = "lifecycle.apps.kruise.io/state";
/// The annotation that says since when the pod is in it.
const TIMESTAMP_ANNOTATION: &str = "lifecycle.apps.kruise.io/timestamp";
/// The label that marks a pod for deletion, whatever its value.
pub(crate) const SPECIFIED_DELETE_LABEL: &str = "apps.kruise.io/specified-delete";

/// The lifecycle state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    PreparingNormal,
    Normal,
    PreparingUpdate,
    Updating,
    Updated,
    PreparingDelete,
    /// A state that no workload sets.
    Unknown,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::PreparingNormal => "PreparingNormal",
            Self::Normal => "Normal",
            Self::PreparingUpdate => "PreparingUpdate",
            Self::Updating => "Updating",
            Self::Updated => "Updated",
            Self::PreparingDelete => "PreparingDelete",
            Self::Unknown => "Unknown",
        }
    }
}

/// The lifecycle state of a pod; None if it is not labeled.
#[must_use]
pub(crate) fn state(pod: &Pod) -> Option<State> {
    let label = pod.labels().get(STATE_LABEL)?;
    let known = [
        State::PreparingNormal,
        State::Normal,
        State::PreparingUpdate,
        State::Updating,
        State::Updated,
        State::PreparingDelete,
    ];
    if label.is_empty() {
        return None;
    }
    let found = known.into_iter().find(|state| state.as_str() == label);
    Some(found.unwrap_or(State::Unknown))
}

/// Whether the state lets the pod count as available: Normal, or none at all.
#[must_use]
pub(crate) fn is_normal(pod: &Pod) -> bool {
    matches!(state(pod), None | Some(State::Normal))
}

/// Whether this pod is marked for deletion by its label.
#[must_use]
pub(crate) fn is_specified_delete(pod: &Pod) -> bool {
    pod.labels().contains_key(SPECIFIED_DELETE_LABEL)
}

/// Sets the state of a pod that is to be written.
pub(crate) fn set_state(pod: &mut Pod, state: State, now: Timestamp) {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(STATE_LABEL.to_owned(), state.as_str().to_owned());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(TIMESTAMP_ANNOTATION.to_owned(), rfc3339(now));
}

/// Strategic merge patch that moves a pod on to `state`, and puts back what `restored` holds it by.
#[must_use]
pub(crate) fn state_patch(state: State, restored: Option<&LifecycleHook>, now: Timestamp) -> Value {
    let mut labels = Map::new();
    labels.insert(STATE_LABEL.to_owned(), json!(state.as_str()));
    let held_by = restored.and_then(|hook| hook.labels_handler.as_ref());
    for (key, value) in held_by.into_iter().flatten() {
        labels.insert(key.clone(), json!(value));
    }
    let mut patch = json!({ "metadata": {
        "labels": labels,
        "annotations": { TIMESTAMP_ANNOTATION: rfc3339(now) },
    }});
    if let Some(hook) = restored {
        let finalizers = hook.finalizers_handler.clone().unwrap_or_default();
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    patch
}

/// The time in the format of Go's `time.RFC3339`.
#[must_use]
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second());
    seconds
        .expect("a second of a valid timestamp is valid")
        .to_string()
}

/// Whether the hook holds the pod: by any of its finalizers or labels.
#[must_use]
pub(crate) fn is_hooked(hook: Option<&LifecycleHook>, pod: &Pod) -> bool {
    hook.is_some_and(|hook| holds(hook, pod).any(|held| held))
}

/// Whether each finalizer and label of the hook is there. Without a hook it is not.
#[must_use]
pub(crate) fn is_all_hooked(hook: Option<&LifecycleHook>, pod: &Pod) -> bool {
    hook.is_some_and(|hook| holds(hook, pod).all(|held| held))
}

/// For each finalizer and label of the hook, whether the pod has it.
fn holds<'a>(hook: &'a LifecycleHook, pod: &'a Pod) -> impl Iterator<Item = bool> + 'a {
    let finalizers = hook.finalizers_handler.iter().flatten();
    let labels = hook.labels_handler.iter().flatten();
    finalizers
        .map(|finalizer| pod.finalizers().contains(finalizer))
        .chain(labels.map(|(key, value)| pod.labels().get(key) == Some(value)))
}

/// Whether the hook takes the pod's readiness away while it holds the pod.
#[must_use]
pub(crate) fn marks_not_ready(hook: Option<&LifecycleHook>) -> bool {
    hook.and_then(|hook| hook.mark_pod_not_ready) == Some(true)
}

/// The hook before deletion.
#[must_use]
pub(crate) fn pre_delete(lifecycle: Option<&Lifecycle>) -> Option<&LifecycleHook> {
    lifecycle?.pre_delete.as_ref()
}

/// The hook around updates in place.
#[must_use]
pub(crate) fn in_place_update(lifecycle: Option<&Lifecycle>) -> Option<&LifecycleHook> {
    lifecycle?.in_place_update.as_ref()
}

/// The hook of new pods.
#[must_use]
pub(crate) fn pre_normal(lifecycle: Option<&Lifecycle>) -> Option<&LifecycleHook> {
    lifecycle?.pre_normal.as_ref()
}

/// Whether deletion or an update takes readiness away.
#[must_use]
pub(crate) fn any_marks_not_ready(lifecycle: Option<&Lifecycle>) -> bool {
    marks_not_ready(pre_delete(lifecycle)) || marks_not_ready(in_place_update(lifecycle))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn pod(metadata: Value) -> Pod {
        from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn hook(value: Value) -> LifecycleHook {
        from_value(value).unwrap()
    }

    #[test]
    fn one_mark_holds_a_pod_and_all_of_them_release_it() {
        let both =
            hook(json!({"labelsHandler": {"a": "1"}, "finalizersHandler": ["example.io/f"]}));
        let none = pod(json!({}));
        let one = pod(json!({"labels": {"a": "1"}}));
        let other = pod(json!({"labels": {"a": "2"}, "finalizers": ["example.io/f"]}));
        let all = pod(json!({"labels": {"a": "1"}, "finalizers": ["example.io/f"]}));
        let held = |pod| (is_hooked(Some(&both), pod), is_all_hooked(Some(&both), pod));
        assert_eq!(held(&none), (false, false));
        assert_eq!(held(&one), (true, false));
        assert_eq!(held(&other), (true, false));
        assert_eq!(held(&all), (true, true));
        assert!(!is_hooked(None, &all) && !is_all_hooked(None, &all));
    }

    #[test]
    fn only_normal_pods_and_those_without_a_state_count() {
        let labelled = |state: &str| pod(json!({"labels": {STATE_LABEL: state}}));
        assert!(is_normal(&pod(json!({}))) && is_normal(&labelled("Normal")));
        for state in [
            "PreparingNormal",
            "PreparingDelete",
            "Updating",
            "Updated",
            "Odd",
        ] {
            assert!(!is_normal(&labelled(state)), "{state}");
        }
    }

    #[test]
    fn a_patch_writes_state_time_and_what_it_restores() {
        let now = "2026-01-01T00:00:05.5Z".parse().unwrap();
        assert_eq!(
            state_patch(State::Normal, None, now),
            json!({"metadata": {"labels": {STATE_LABEL: "Normal"},
                "annotations": {TIMESTAMP_ANNOTATION: "2026-01-01T00:00:05Z"}}})
        );
        let hook = hook(json!({"labelsHandler": {"a": "1"}}));
        let patch = state_patch(State::PreparingUpdate, Some(&hook), now);
        assert_eq!(patch["metadata"]["labels"]["a"], "1");
        assert_eq!(patch["metadata"]["finalizers"], json!([]));
    }
}

//! PodNodeSelector: namespaces say on which nodes their pods run.

use std::collections::BTreeMap;

use crate::admission::State;
use crate::admission::forbidden;
use crate::json::{Map, Value};
use crate::meta::object::{child_mut, name, namespace};
use crate::meta::validation::{label_value, qualified_name};
use crate::status::{ApiError, FieldErrors, FieldPath};
use crate::storage::ObjectKey;

/// The annotation of a namespace with the selector of its pods.
const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The key of the configuration with the selector for namespaces without an annotation.
const CLUSTER: &str = "clusterDefaultNodeSelector";

type Labels = BTreeMap<String, String>;

/// Merges the selector of its namespace into that of a new pod.
pub(super) fn admit(state: &State, pod: &mut Value) -> Result<(), ApiError> {
    let own = agreeing(state, pod)?;
    if !own.is_empty() {
        let labels: Map = own
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect();
        let selector = child_mut(child_spec(pod), "nodeSelector");
        for (key, value) in labels {
            selector.entry(key).or_insert(value);
        }
    }
    check(state, pod)
}

fn child_spec(pod: &mut Value) -> &mut Value {
    &mut pod["spec"]
}

/// Checks that the pod selects no nodes but those of its namespace.
pub(super) fn check(state: &State, pod: &Value) -> Result<(), ApiError> {
    agreeing(state, pod)?;
    let allowed = &state.configuration.node_selectors;
    let allowed = allowed.get(namespace(pod)).map_or("", String::as_str);
    let allowed = labels(allowed)?;
    let is_allowed =
        selected(pod).all(|(key, value)| allowed.get(key).is_some_and(|own| own == value));
    match allowed.is_empty() || is_allowed {
        true => Ok(()),
        false => {
            let message = "pod node label selector labels conflict with its namespace whitelist";
            Err(forbidden("", "pods", name(pod), message.to_owned()))
        }
    }
}

fn selected(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let selector = pod["spec"]["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten();
    selector.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// The selector of the pod's namespace, if the pod's own does not contradict it.
fn agreeing(state: &State, pod: &Value) -> Result<Labels, ApiError> {
    let own = selector_of(state, namespace(pod))?;
    let contradicts = |(key, value): (&str, &str)| own.get(key).is_some_and(|own| own != value);
    match selected(pod).any(contradicts) {
        false => Ok(own),
        true => {
            let message =
                "pod node label selector conflicts with its namespace node label selector";
            Err(forbidden("", "pods", name(pod), message.to_owned()))
        }
    }
}

fn selector_of(state: &State, namespace: &str) -> Result<Labels, ApiError> {
    let namespaces = state.listers.namespaces(&state.storage);
    let Some(found) = namespaces.get(&ObjectKey::new(None, namespace)) else {
        let message = format!("namespace {namespace} does not exist");
        return Err(ApiError::Internal(message));
    };
    if let Some(selector) = found.value()["metadata"]["annotations"][ANNOTATION].as_str() {
        return labels(selector);
    }
    let selectors = &state.configuration.node_selectors;
    labels(selectors.get(CLUSTER).map_or("", String::as_str))
}

/// Reads `key=value,…`. Upstream answers errors without a reason.
fn labels(selector: &str) -> Result<Labels, ApiError> {
    let mut labels = Labels::new();
    for label in selector.split(',').filter(|_| !selector.is_empty()) {
        let parts: Vec<&str> = label.split('=').collect();
        let &[key, value] = parts.as_slice() else {
            let message = format!("invalid selector: [{}]", parts.join(" "));
            return Err(ApiError::Unknown(message));
        };
        let (key, value) = (key.trim(), value.trim());
        let mut errors = FieldErrors::new();
        let faults = qualified_name(key);
        if !faults.is_empty() {
            let path = FieldPath::new("<nil>");
            errors.invalid(&path, &key.into(), &faults.join("; "));
        }
        let faults = label_value(value);
        if errors.is_empty() && !faults.is_empty() {
            let path = FieldPath::new("<nil>").key(key);
            errors.invalid(&path, &value.into(), &faults.join("; "));
        }
        if let Some(cause) = errors.causes().first() {
            let message = format!("{}: {}", cause.field, cause.message);
            return Err(ApiError::Unknown(message));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

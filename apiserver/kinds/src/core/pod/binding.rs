//! The binding of a pod to its node.
//!
//! Source: `pkg/registry/core/pod/storage/storage.go`, `BindingREST`.

use crate::condition::set_condition;
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, is_terminating, name};
use crate::status::{ApiError, FieldErrors, FieldPath};

/// Returns the name of the node that a Binding names.
///
/// # Errors
/// `Unknown` for a target that is no node: upstream answers bare field errors, without a reason.
pub fn node_of(binding: &Value) -> Result<&str, ApiError> {
    let target = &binding["target"];
    let mut errors = FieldErrors::new();
    let kind = target["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        let path = FieldPath::new("target.kind");
        errors.not_supported(&path, &kind.into(), &["Node", "<empty>"]);
    }
    let node = target["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        errors.required(&FieldPath::new("target.name"), "");
    }
    match errors.is_empty() {
        true => Ok(node),
        false => Err(ApiError::Unknown(errors.to_string())),
    }
}

/// Returns `pod` bound to `node` at the time `now`, with the labels and annotations of `binding`.
///
/// # Errors
/// `Conflict` for a pod that is being deleted, that has a node, or that has scheduling gates.
pub fn bind(pod: &Value, node: &str, binding: &Value, now: &str) -> Result<Value, ApiError> {
    let pod_name = name(pod);
    let refuse = |message: String| ApiError::Conflict {
        resource: GroupResource {
            group: String::new(),
            resource: "pods/binding".to_owned(),
        },
        name: pod_name.to_owned(),
        message,
    };
    if is_terminating(pod) {
        return Err(refuse(format!(
            "pod {pod_name} is being deleted, cannot be assigned to a host"
        )));
    }
    let bound = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !bound.is_empty() {
        return Err(refuse(format!(
            "pod {pod_name} is already assigned to node {bound:?}"
        )));
    }
    let gates = pod["spec"]["schedulingGates"].as_array();
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Err(refuse(format!(
            "pod {pod_name} has non-empty .spec.schedulingGates"
        )));
    }
    let mut next = pod.clone();
    child_mut(&mut next, "spec").insert("nodeName", node.into());
    child_mut(&mut next, "status").remove("nominatedNodeName");
    set_scheduled(&mut next, now);
    for field in ["annotations", "labels"] {
        let brought = binding["metadata"][field].as_object();
        for (key, value) in brought.into_iter().flatten() {
            child_mut(&mut next["metadata"], field).insert(key.clone(), value.clone());
        }
    }
    Ok(next)
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now,
    });
    set_condition(pod, condition);
}

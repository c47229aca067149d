//! The defaults and checks of a pod by its runtime class.

use std::collections::BTreeSet;

use super::{all_of, forbidden, shown_name};
use crate::admission::State;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, name};
use crate::meta::order::Ordered;
use crate::meta::validation::path_segment_name;
use crate::status::{ApiError, quoted};

/// Gives a new pod the overhead and the placement of its runtime class.
///
/// # Errors
/// `Forbidden` if there is no such class, or the pod contradicts it.
pub(super) fn admit_pod(state: &State, pod: &mut Value) -> Result<(), ApiError> {
    let own = shown_name(pod).to_owned();
    let forbid = |why: String| Err(forbidden("", "pods", &own, why));
    let refuse = |why: String| forbid(format!("pod rejected: {why}"));
    let Some(asked) = pod["spec"]["runtimeClassName"].as_str() else {
        if !pod["spec"]["overhead"].is_null() {
            let why = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return refuse(why.to_owned());
        }
        return Ok(());
    };
    if asked.is_empty() {
        let why = "resource name may not be empty";
        return Err(ApiError::stated(500, "", why, None));
    }
    let faults = path_segment_name(asked);
    if !faults.is_empty() {
        let why = format!(
            "invalid resource name {}: [{}]",
            quoted(asked),
            faults.join(" ")
        );
        return Err(ApiError::stated(500, "", &why, None));
    }
    let classes = all_of(state, "node.k8s.io", "runtimeclasses");
    let Some(class) = classes.iter().find(|class| name(class) == asked) else {
        return refuse(format!("RuntimeClass {asked:?} not found"));
    };
    let fixed = &class["overhead"]["podFixed"];
    let spec = child_mut(pod, "spec");
    match (spec.get("overhead"), fixed.is_null()) {
        (Some(_), true) => {
            let why = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return refuse(why.to_owned());
        }
        (Some(own), false) if own != fixed => {
            let why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return refuse(why.to_owned());
        }
        (None, false) => {
            spec.insert("overhead", fixed.clone());
        }
        _ => {}
    }
    let scheduling = &class["scheduling"];
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        let before = &selector[key.as_str()];
        if !before.is_null() && before != value {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (class, pod) = (text(value), text(before));
            return forbid(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {class}; pod.spec.nodeSelector[{key}] = {pod}"
            ));
        }
        selector[key.as_str()] = value.clone();
    }
    let Some(tolerations) = scheduling["tolerations"].as_array() else {
        return Ok(());
    };
    let held = spec.get("tolerations").and_then(Value::as_array);
    let mut seen: BTreeSet<_> = held.into_iter().flatten().map(Ordered).collect();
    let added = tolerations.iter().filter(|own| seen.insert(Ordered(own)));
    let added: Vec<Value> = added.cloned().collect();
    let all =
        (!tolerations.is_empty()).then(|| spec.entry("tolerations").or_insert_with(|| json!([])));
    if let Some(all) = all.and_then(Value::as_array_mut) {
        all.extend(added);
    }
    Ok(())
}

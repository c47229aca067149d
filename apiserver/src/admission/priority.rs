//! The priority of pods, from their class.

use super::{all_of, forbidden, shown_name};
use crate::admission::State;
use crate::json::Value;
use crate::meta::object::{child_mut, name};
use crate::status::ApiError;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
const PREEMPTS: &str = "PreemptLowerPriority";

/// Gives a new pod the priority of its class, or of the class that is the default.
///
/// # Errors
/// `Forbidden` if there is no such class, or the pod says otherwise than its class.
pub(super) fn admit_pod(state: &State, pod: &mut Value) -> Result<(), ApiError> {
    let refuse = |pod: &Value, message: String| forbidden("", "pods", shown_name(pod), message);
    let asked = pod["spec"]["priorityClassName"]
        .as_str()
        .unwrap_or_default();
    let classes = all_of(state, GROUP, CLASSES);
    let class = if asked.is_empty() {
        let defaults = classes
            .iter()
            .filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64())
    } else {
        let class = classes.iter().find(|class| name(class) == asked);
        if class.is_none() {
            let message = format!("no PriorityClass with name {asked} was found");
            return Err(refuse(pod, message));
        }
        class
    };
    let value = class.and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class.and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or(PREEMPTS);
    let from = "priority admission controller computed";
    if let Some(own) = pod["spec"]["priority"].as_i64().filter(|own| *own != value) {
        let message = format!(
            "the integer value of priority ({own}) must not be provided in pod spec; {from} {value} from the given PriorityClass name"
        );
        return Err(refuse(pod, message));
    }
    if let Some(own) = pod["spec"]["preemptionPolicy"]
        .as_str()
        .filter(|own| *own != policy)
    {
        let message = format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; {from} {policy} from the given PriorityClass name"
        );
        return Err(refuse(pod, message));
    }
    let spec = child_mut(pod, "spec");
    spec.insert("priority", value.into());
    spec.insert("preemptionPolicy", policy.into());
    if let Some(class) = class {
        spec.insert("priorityClassName", name(class).into());
    }
    Ok(())
}

/// Only one class is the default.
///
/// # Errors
/// `Forbidden` for a second one.
pub(super) fn admit_class(state: &State, class: &Value) -> Result<(), ApiError> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let other = all_of(state, GROUP, CLASSES)
        .into_iter()
        .find(|other| other["globalDefault"] == true && name(other) != name(class));
    let Some(other) = other else {
        return Ok(());
    };
    let message = format!(
        "PriorityClass {} is already marked as default. Only one default can exist",
        name(&other)
    );
    Err(forbidden(GROUP, CLASSES, shown_name(class), message))
}

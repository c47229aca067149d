//! The parts of a pod that have subresources of their own: ephemeral containers, and the resources of
//! containers.

use super::validation::{validate_ephemeral_containers, validate_resize};
use crate::json::Value;
use crate::meta::object::{child_mut, copy_field};
use crate::rest::Part;
use crate::status::FieldErrors;

/// The subresource `ephemeralcontainers`.
#[derive(Debug)]
pub(super) struct EphemeralContainers;

/// The subresource `resize`.
#[derive(Debug)]
pub(super) struct Resize;

impl Part for EphemeralContainers {
    fn take(&self, wanted: &Value, current: &Value) -> Value {
        let mut next = with_sent_metadata(wanted, current);
        child_mut(&mut next, "spec");
        copy_field(&mut next["spec"], &wanted["spec"], "ephemeralContainers");
        without_null(next)
    }

    fn validate(&self, next: &Value, current: &Value) -> FieldErrors {
        validate_ephemeral_containers(next, current)
    }
}

impl Part for Resize {
    fn take(&self, wanted: &Value, current: &Value) -> Value {
        let mut next = with_sent_metadata(wanted, current);
        for list in ["containers", "initContainers"] {
            take_resources(&mut next["spec"][list], &wanted["spec"][list]);
        }
        copy_field(&mut next["spec"], &wanted["spec"], "resources");
        without_null(next)
    }

    fn validate(&self, next: &Value, current: &Value) -> FieldErrors {
        validate_resize(next, current)
    }
}

/// Returns `current` with the metadata that a write of a part can state.
fn with_sent_metadata(wanted: &Value, current: &Value) -> Value {
    let mut next = current.clone();
    for field in ["managedFields", "resourceVersion", "uid"] {
        copy_field(&mut next["metadata"], &wanted["metadata"], field);
    }
    next
}

/// Removes a null list of init containers.
fn without_null(mut next: Value) -> Value {
    if next["spec"]["initContainers"].is_null() {
        child_mut(&mut next, "spec").remove("initContainers");
    }
    next
}

fn take_resources(containers: &mut Value, wanted: &Value) {
    let names = |list: &Value| -> Vec<Value> {
        let list = list.as_array().into_iter().flatten();
        list.map(|container| container["name"].clone()).collect()
    };
    if names(containers) != names(wanted) {
        // Other containers, or in another order, are a fault.
        containers.clone_from(wanted);
        return;
    }
    let own = containers.as_array_mut().into_iter().flatten();
    for (container, wanted) in own.zip(wanted.as_array().into_iter().flatten()) {
        for field in ["resources", "resizePolicy"] {
            copy_field(container, wanted, field);
        }
    }
}

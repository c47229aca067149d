//! Faults of writes through `pods/ephemeralcontainers` and `pods/resize`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Surroundings, items, validate_container};
use crate::registry::go_struct;
use crate::registry::pod::qos_class;
use crate::status::{FieldErrors, FieldPath};

/// Fields of a container that an ephemeral one may not have.
const NOT_EPHEMERAL: [&str; 7] = [
    "ports",
    "resizePolicy",
    "restartPolicy",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Ephemeral containers may be added, never changed or removed.
pub(crate) fn validate_ephemeral_containers(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec.ephemeralContainers");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &new["spec"];
    let containers: BTreeSet<String> = items(&spec["containers"])
        .map(|container| text(&container["name"]))
        .collect();
    let mut names = containers.clone();
    names.extend(items(&spec["initContainers"]).map(|container| text(&container["name"])));
    // The volumes of a stored pod have no faults.
    let pod = Surroundings::of(spec, items(&spec["volumes"]).collect());
    for (index, container) in items(&spec["ephemeralContainers"]).enumerate() {
        let path = path.index(index);
        validate_container(container, &path, &pod, &mut errors);
        super::validate_image_space(container, &path, &mut errors);
        if !names.insert(text(&container["name"])) {
            errors.duplicate(&path.child("name"), &container["name"]);
        }
        for (index, mount) in items(&container["volumeMounts"]).enumerate() {
            let path = path.child("volumeMounts").index(index);
            for field in ["subPath", "subPathExpr"] {
                if !text(&mount[field]).is_empty() {
                    let detail = "cannot be set for an Ephemeral Container";
                    errors.forbidden(&path.child(field), detail);
                }
            }
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !containers.contains(&target) {
            errors.not_found(&path.child("targetContainerName"), &target.into());
        }
        for field in NOT_EPHEMERAL {
            if !container[field].is_null() {
                let detail = "cannot be set for an Ephemeral Container";
                errors.forbidden(&path.child(field), detail);
            }
        }
        let resources = container["resources"].as_object();
        if resources.is_some_and(|resources| !resources.is_empty()) {
            let detail = "cannot be set for an Ephemeral Container";
            errors.forbidden(&path.child("resources"), detail);
        }
    }
    for had in items(&old["spec"]["ephemeralContainers"]) {
        let mut now = items(&spec["ephemeralContainers"]);
        let (fate, diff) = match now.find(|container| container["name"] == had["name"]) {
            None => ("removed", String::new()),
            Some(now) if now != had => {
                let diff = go_struct::diff("EphemeralContainer", had, now);
                ("changed", diff)
            }
            Some(_) => continue,
        };
        let name = text(&had["name"]);
        let detail = format!("existing ephemeral containers {name:?} may not be {fate}\n{diff}");
        errors.forbidden(&path, &detail);
    }
    errors
}

/// CPU and memory of containers may change as long as the pod's class of service stays.
pub(crate) fn validate_resize(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = super::validate_pod(new);
    let path = FieldPath::new("spec");
    if qos_class(new) != qos_class(old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, &new["status"]["qosClass"], detail);
    }
    for list in ["containers", "initContainers"] {
        let pairs = items(&new["spec"][list]).zip(items(&old["spec"][list]));
        for (index, (new, old)) in pairs.enumerate() {
            let path = path.child(list).index(index).child("resources");
            validate_resources(&new["resources"], &old["resources"], &path, &mut errors);
        }
    }
    errors
}

fn validate_resources(new: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (half, name) in [
        ("requests", "resource requests"),
        ("limits", "resource limits"),
    ] {
        let entries = |resources: &Value| resources[half].as_object().cloned().unwrap_or_default();
        let (new, old) = (entries(new), entries(old));
        if old.keys().any(|resource| !new.contains_key(resource)) {
            errors.forbidden(&path.child(half), &format!("{name} cannot be removed"));
        }
        let fixed = |resource: &str| !matches!(resource, "cpu" | "memory");
        let differs = |resource: &String| fixed(resource) && new.get(resource) != old.get(resource);
        if new.keys().chain(old.keys()).any(differs) {
            let detail = "only cpu and memory resources are mutable\n";
            errors.forbidden(&FieldPath::new("spec"), detail);
        }
    }
}

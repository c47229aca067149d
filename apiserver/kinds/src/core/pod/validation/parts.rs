//! Faults of ephemeral containers, and of writes through `pods/ephemeralcontainers`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Surroundings, is_empty, items, validate_container};
use crate::go_struct;
use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};

const MIRROR: &str = "kubernetes.io/config.mirror";
const NOT_SET: &str = "cannot be set for an Ephemeral Container";

/// Fields of a container that an ephemeral one may not have.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Faults of the ephemeral containers themselves.
pub(super) fn validate_each(
    spec: &Value,
    pod: &Surroundings<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lists = ["containers", "initContainers"];
    let others: BTreeSet<String> = lists
        .iter()
        .flat_map(|list| items(&spec[*list]))
        .map(|container| text(&container["name"]))
        .collect();
    let mut names = others.clone();
    for (index, container) in items(&spec["ephemeralContainers"]).enumerate() {
        let path = path.index(index);
        validate_container(container, &path, pod, errors);
        super::validate_image_space(container, &path, errors);
        if !names.insert(text(&container["name"])) {
            errors.duplicate(&path.child("name"), &container["name"]);
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(&target) {
            errors.not_found(&path.child("targetContainerName"), &target.into());
        }
        for field in NOT_EPHEMERAL {
            let own = &container[field];
            let is_set = match field {
                "resources" => !is_empty(own),
                _ => !own.is_null(),
            };
            if is_set {
                errors.forbidden(&path.child(field), NOT_SET);
            }
        }
        for (index, mount) in items(&container["volumeMounts"]).enumerate() {
            let path = path.child("volumeMounts").index(index);
            for field in ["subPath", "subPathExpr"] {
                if !text(&mount[field]).is_empty() {
                    errors.forbidden(&path.child(field), NOT_SET);
                }
            }
        }
    }
}

/// Ephemeral containers may be added, never changed or removed.
pub fn validate_ephemeral_containers(new: &Value, old: &Value) -> FieldErrors {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if !old["metadata"]["annotations"][MIRROR].is_null() {
        let mut errors = FieldErrors::new();
        let detail = "static pods do not support ephemeral containers";
        errors.forbidden(&FieldPath::new("[]"), detail);
        return errors;
    }
    let mut errors = super::validate_pod(new);
    let path = FieldPath::new("spec.ephemeralContainers");
    let spec = &new["spec"];
    // Of containers with equal names, the first counts.
    let mut named = BTreeMap::new();
    for container in items(&spec["ephemeralContainers"]) {
        named.entry(text(&container["name"])).or_insert(container);
    }
    for had in items(&old["spec"]["ephemeralContainers"]) {
        let (fate, diff) = match named.get(&text(&had["name"])).copied() {
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

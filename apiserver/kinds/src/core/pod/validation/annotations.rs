//! Faults of the annotations that mean something to pods.

use std::collections::BTreeSet;

use super::{entries, items};
use crate::core::pod::seccomp;
use crate::core::pod::volumes::validate_descending;
use crate::json::Value;
use crate::status::{FieldErrors, FieldPath, quoted};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const MIRROR: &str = "kubernetes.io/config.mirror";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Faults of the annotations of a pod or template, whose spec is `spec`.
pub(super) fn validate(
    annotations: &Value,
    spec: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mirror = &annotations[MIRROR];
    if !mirror.is_null() && spec["nodeName"].as_str().is_none_or(str::is_empty) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path.key(MIRROR), mirror, detail);
    }
    let cost = &annotations[DELETION_COST];
    if cost.as_str().is_some_and(|cost| !is_cost(cost)) {
        errors.invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    validate_seccomp(annotations, path, errors);
    let profiles = entries(annotations)
        .filter_map(|(name, profile)| Some((name, name.strip_prefix(APP_ARMOR)?, profile)));
    let mut profiles = profiles.peekable();
    if profiles.peek().is_some() {
        let lists = ["containers", "initContainers", "ephemeralContainers"];
        let containers = lists.iter().flat_map(|list| items(&spec[*list]));
        let names: BTreeSet<&str> = containers.filter_map(|own| own["name"].as_str()).collect();
        for (name, container, profile) in profiles {
            validate_profile(container, profile, &names, &path.key(name), errors);
        }
    }
}

/// Faults of a change of a pod's annotations; faults of the new annotations are reported again.
pub(super) fn validate_change(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let [now, had] = [new, old].map(|pod| &pod["metadata"]["annotations"]);
    let path = FieldPath::new("metadata.annotations");
    let fixed = |name: &str| match name {
        MIRROR => Some("mirror pod annotation"),
        name if name.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for (name, value) in entries(had) {
        if let Some(what) = fixed(name).filter(|_| now.get(name) != Some(value)) {
            errors.forbidden(&path.key(name), &format!("may not remove or update {what}"));
        }
    }
    for (name, _) in entries(now) {
        if let Some(what) = fixed(name).filter(|_| had.get(name).is_none()) {
            errors.forbidden(&path.key(name), &format!("may not add {what}"));
        }
    }
    validate(now, &new["spec"], &path, errors);
}

/// Profiles that annotations name; upstream's paths treat their names as those of fields.
fn validate_seccomp(annotations: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (name, profile) in entries(annotations) {
        if name != seccomp::OF_POD && !name.starts_with(seccomp::OF_CONTAINER) {
            continue;
        }
        let path = path.child(name);
        match profile.as_str().unwrap_or_default() {
            "runtime/default" | "docker/default" | "unconfined" => {}
            own => match own.strip_prefix("localhost/") {
                Some(file) => validate_descending(&file.into(), &path, errors),
                None => errors.invalid(&path, profile, "must be a valid seccomp profile"),
            },
        }
    }
}

/// An integer in its shortest form.
fn is_cost(cost: &str) -> bool {
    let first_is_ok = cost == "0" || !cost.trim_start_matches('-').starts_with('0');
    first_is_ok && !cost.starts_with('+') && (cost.is_empty() || cost.parse::<i32>().is_ok())
}

fn validate_profile(
    container: &str,
    profile: &Value,
    containers: &BTreeSet<&str>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if !containers.contains(container) {
        errors.invalid(path, &container.into(), "container not found");
    }
    let own = profile.as_str().unwrap_or_default();
    let known = matches!(own, "" | "runtime/default" | "unconfined");
    if !known && !own.starts_with("localhost/") {
        let detail = format!("invalid AppArmor profile name: {}", quoted(own));
        errors.invalid(path, profile, &detail);
    }
}

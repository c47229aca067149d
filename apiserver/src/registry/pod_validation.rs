//! Faults of pods and pod templates.

mod parts;

use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{entries, items, text};
use super::container_validation::{
    validate_env, validate_env_from, validate_probes, validate_resources,
};
use super::pod_placement::validate_placement;
use super::volume_validation::{validate_mounts, validate_source};
use crate::meta::validation::{dns1123_label, qualified_name, validate_labels};
use crate::status::{FieldErrors, FieldPath};

pub(crate) use parts::{validate_ephemeral_containers, validate_resize};

const IMMUTABLE_SPEC: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate_pod(pod: &Value) -> FieldErrors {
    validate_pod_spec(&pod["spec"], &FieldPath::new("spec"))
}

/// Faults of the pod template at `path`.
pub(super) fn validate_pod_template(template: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    // Upstream's paths leave out `metadata`.
    for (field, check) in [
        ("labels", validate_labels as fn(_, &_, &mut _)),
        ("annotations", validate_annotations),
    ] {
        let value = template["metadata"].get(field);
        check(value, &path.child(field), errors);
    }
    let path = path.child("spec");
    let spec = &template["spec"];
    errors.extend(validate_pod_spec(spec, &path));
    if items(&spec["ephemeralContainers"]).next().is_some() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&path.child("ephemeralContainers"), detail);
    }
}

fn validate_annotations(annotations: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    for (key, _) in annotations.into_iter().flat_map(entries) {
        for fault in qualified_name(&key.to_lowercase()) {
            errors.invalid(path, &key.as_str().into(), &fault);
        }
    }
}

/// Faults of a pod's spec at `path`.
pub(super) fn validate_pod_spec(spec: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let volumes = &spec["volumes"];
    validate_volumes(volumes, &path.child("volumes"), &mut errors);
    let mut names = BTreeSet::new();
    let containers = path.child("containers");
    if items(&spec["containers"]).next().is_none() {
        errors.required(&containers, "");
    }
    for (index, container) in items(&spec["containers"]).enumerate() {
        let path = containers.index(index);
        validate_container(container, &path, &mut names, volumes, &mut errors);
    }
    let containers = path.child("initContainers");
    for (index, container) in items(&spec["initContainers"]).enumerate() {
        let path = containers.index(index);
        validate_container(container, &path, &mut names, volumes, &mut errors);
    }
    supported(
        &spec["restartPolicy"],
        &path.child("restartPolicy"),
        &["Always", "OnFailure", "Never"],
        &mut errors,
    );
    supported(
        &spec["dnsPolicy"],
        &path.child("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &mut errors,
    );
    validate_placement(spec, path, &mut errors);
    errors
}

fn supported(value: &Value, path: &FieldPath, supported: &[&str], errors: &mut FieldErrors) {
    match value.as_str() {
        None | Some("") => errors.required(path, ""),
        Some(text) if supported.contains(&text) => {}
        Some(_) => errors.not_supported(path, value, supported),
    }
}

/// A name that must be a DNS label and unlike the others.
fn validate_name(
    item: &Value,
    path: &FieldPath,
    names: &mut BTreeSet<String>,
    errors: &mut FieldErrors,
) {
    let path = path.child("name");
    let name = item["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        errors.required(&path, "");
        return;
    }
    for fault in dns1123_label(name) {
        errors.invalid(&path, &name.into(), &fault);
    }
    if !names.insert(name.to_owned()) {
        errors.duplicate(&path, &name.into());
    }
}

fn validate_volumes(volumes: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, volume) in items(volumes).enumerate() {
        validate_source(volume, &path.index(index), errors);
        validate_name(volume, &path.index(index), &mut names, errors);
    }
}

fn validate_container(
    container: &Value,
    path: &FieldPath,
    names: &mut BTreeSet<String>,
    volumes: &Value,
    errors: &mut FieldErrors,
) {
    validate_name(container, path, names, errors);
    let image = container["image"].as_str().unwrap_or_default();
    if image.is_empty() {
        errors.required(&path.child("image"), "");
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.invalid(&path.child("image"), &image.into(), detail);
    }
    let ports = path.child("ports");
    for (index, port) in items(&container["ports"]).enumerate() {
        validate_port(port, &ports.index(index), errors);
    }
    validate_env(&container["env"], &path.child("env"), errors);
    validate_env_from(&container["envFrom"], &path.child("envFrom"), errors);
    validate_mounts(container, volumes, path, errors);
    supported(
        &container["terminationMessagePolicy"],
        &path.child("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        errors,
    );
    supported(
        &container["imagePullPolicy"],
        &path.child("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
    let resources = path.child("resources");
    validate_resources(&container["resources"], &resources, errors);
    validate_probes(container, path, errors);
}

fn validate_port(port: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let number = port["containerPort"].as_i64().unwrap_or(0);
    if number == 0 {
        errors.required(&path.child("containerPort"), "");
    } else if !(1..=65535).contains(&number) {
        let detail = "must be between 1 and 65535, inclusive";
        errors.invalid(&path.child("containerPort"), &number.into(), detail);
    }
    supported(
        &port["protocol"],
        &path.child("protocol"),
        &["SCTP", "TCP", "UDP"],
        errors,
    );
}

/// Faults of an update: only images, deadlines, added tolerations and lifted gates may change.
pub(super) fn validate_pod_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_pod(new);
    let path = FieldPath::new("spec");
    let count = |pod: &Value, list: &str| items(&pod["spec"][list]).count();
    let lists = ["containers", "initContainers"];
    for list in lists {
        if count(new, list) != count(old, list) {
            let detail = "pod updates may not add or remove containers";
            errors.forbidden(&path.child(list), detail);
            return errors;
        }
    }
    // Upstream asks for the images of an update once more.
    for list in lists {
        for (index, container) in items(&new["spec"][list]).enumerate() {
            if text(&container["image"]).is_empty() {
                errors.required(&path.child(list).index(index).child("image"), "");
            }
        }
    }
    validate_deadline_update(new, old, &path, &mut errors);
    if !keeps_tolerations(new, old) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&path.child("tolerations"), detail);
    }
    let mut comparable = new["spec"].clone();
    let before = &old["spec"];
    for list in ["containers", "initContainers"] {
        if let Some(containers) = comparable.get_mut(list).and_then(Value::as_array_mut) {
            for (container, own) in containers.iter_mut().zip(items(&before[list])) {
                container["image"] = own["image"].clone();
            }
        }
    }
    let restore = |comparable: &mut Value, field: &str| {
        if let Some(fields) = comparable.as_object_mut() {
            match before.get(field) {
                Some(value) => fields.insert(field.to_owned(), value.clone()),
                None => fields.remove(field),
            };
        }
    };
    restore(&mut comparable, "activeDeadlineSeconds");
    restore(&mut comparable, "tolerations");
    let gates_lifted = items(&new["spec"]["schedulingGates"])
        .all(|gate| items(&before["schedulingGates"]).any(|own| own == gate));
    if gates_lifted {
        restore(&mut comparable, "schedulingGates");
    }
    if before["terminationGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|grace| grace < 0)
        && new["spec"]["terminationGracePeriodSeconds"] == 1
    {
        restore(&mut comparable, "terminationGracePeriodSeconds");
    }
    if comparable != *before {
        errors.forbidden(&FieldPath::new("spec"), IMMUTABLE_SPEC);
    }
    errors
}

/// A deadline may come and shrink, but neither grow nor go.
fn validate_deadline_update(new: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("activeDeadlineSeconds");
    let deadline = &new["spec"]["activeDeadlineSeconds"];
    let Some(before) = old["spec"]["activeDeadlineSeconds"].as_i64() else {
        return;
    };
    match deadline.as_i64() {
        None => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(&path, deadline, detail);
        }
        Some(now) if now > before => {
            let detail = "must be less than or equal to previous value";
            errors.invalid(&path, deadline, detail);
        }
        Some(_) => {}
    }
}

/// Whether each toleration is still there, for however long.
fn keeps_tolerations(new: &Value, old: &Value) -> bool {
    let same = |own: &Value, other: &Value| {
        ["key", "operator", "value", "effect"]
            .iter()
            .all(|field| text(&own[*field]) == text(&other[*field]))
    };
    items(&old["spec"]["tolerations"])
        .all(|kept| items(&new["spec"]["tolerations"]).any(|own| same(own, kept)))
}

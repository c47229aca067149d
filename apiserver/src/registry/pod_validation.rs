//! Faults of pods and pod templates.

mod parts;
mod update;

use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{entries, is_empty, items, text};
use super::container_validation::{
    validate_env, validate_env_from, validate_probes, validate_resources,
};
use super::net::{PORT_RANGE, port_name_faults};
use super::pod_placement::validate_placement;
use super::security_context::{validate_container_security, validate_os};
use super::volume_sources::validate_source;
use super::volume_validation::validate_mounts;
use crate::meta::validation::{dns1123_label, qualified_name, validate_labels};
use crate::status::{FieldErrors, FieldPath};

pub(crate) use parts::{validate_ephemeral_containers, validate_resize};
pub(super) use update::validate_pod_update;

/// Faults of a pod, new or not.
pub(super) fn validate_pod(pod: &Value) -> FieldErrors {
    let path = FieldPath::new("spec");
    let spec = &pod["spec"];
    let mut errors = validate_pod_spec(spec, &path);
    if text(&spec["serviceAccountName"]).is_empty() {
        let detail = "must not be specified when serviceAccountName is not set";
        for (index, volume) in items(&spec["volumes"]).enumerate() {
            let path = path.child("volumes").index(index).child("projected");
            for (index, source) in items(&volume["projected"]["sources"]).enumerate() {
                if !source["serviceAccountToken"].is_null() {
                    let path = path.child("sources").index(index);
                    errors.forbidden(&path.child("serviceAccountToken"), detail);
                }
            }
        }
    }
    errors
}

/// Faults of a new pod.
pub(super) fn validate_new_pod(pod: &Value) -> FieldErrors {
    let mut errors = validate_pod(pod);
    let spec = &pod["spec"];
    let path = FieldPath::new("spec");
    if !is_empty(&spec["ephemeralContainers"]) {
        errors.forbidden(
            &path.child("ephemeralContainers"),
            "cannot be set on create",
        );
    }
    if !is_empty(&spec["schedulingGates"]) && !text(&spec["nodeName"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&path.child("nodeName"), detail);
    }
    errors
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
    let pod = Surroundings::of(spec);
    validate_volumes(pod.volumes, &path.child("volumes"), &mut errors);
    let mut names = BTreeSet::new();
    let containers = path.child("containers");
    if items(&spec["containers"]).next().is_none() {
        errors.required(&containers, "");
    }
    for (index, container) in items(&spec["containers"]).enumerate() {
        let path = containers.index(index);
        validate_container(container, &path, &mut names, pod, &mut errors);
        validate_probes(container, pod.grace, &path, &mut errors);
    }
    validate_host_ports(&spec["containers"], &containers, &mut errors);
    let containers = path.child("initContainers");
    for (index, container) in items(&spec["initContainers"]).enumerate() {
        let path = containers.index(index);
        validate_container(container, &path, &mut names, pod, &mut errors);
        validate_init_container(container, pod, &path, &mut errors);
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
    validate_os(spec, path, &mut errors);
    errors
}

/// What a container's faults depend on of its pod.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    volumes: &'a Value,
    grace: Option<i64>,
    host_users: bool,
    never_restarts: bool,
}

impl<'a> Surroundings<'a> {
    fn of(spec: &'a Value) -> Self {
        Self {
            volumes: &spec["volumes"],
            grace: spec["terminationGracePeriodSeconds"].as_i64(),
            host_users: spec["hostUsers"] != false,
            never_restarts: spec["restartPolicy"] == "Never",
        }
    }
}

/// No two containers take the same port of the host.
fn validate_host_ports(containers: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for (index, container) in items(containers).enumerate() {
        let path = path.index(index).child("ports");
        for (index, port) in items(&container["ports"]).enumerate() {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            let own = format!(
                "{}/{}/{number}",
                text(&port["protocol"]),
                text(&port["hostIP"])
            );
            if number != 0 && !taken.insert(own.clone()) {
                errors.duplicate(&path.index(index).child("hostPort"), &own.into());
            }
        }
    }
}

/// Only an init container that always restarts is probed and has hooks.
fn validate_init_container(
    container: &Value,
    pod: Surroundings<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let policy = &container["restartPolicy"];
    if policy == "Always" {
        validate_probes(container, pod.grace, path, errors);
        return;
    }
    if !policy.is_null() && !["OnFailure", "Never"].contains(&text(policy)) {
        let known = ["Always", "Never", "OnFailure"];
        errors.not_supported(&path.child("restartPolicy"), policy, &known);
    }
    let detail = "may not be set for init containers without restartPolicy=Always";
    for field in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        if !container[field].is_null() {
            errors.forbidden(&path.child(field), detail);
        }
    }
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
    pod: Surroundings<'_>,
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
    let mut port_names = BTreeSet::new();
    for (index, port) in items(&container["ports"]).enumerate() {
        validate_port(port, &mut port_names, &ports.index(index), errors);
    }
    validate_env(&container["env"], &path.child("env"), errors);
    validate_env_from(&container["envFrom"], &path.child("envFrom"), errors);
    validate_mounts(container, pod.volumes, path, errors);
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
    validate_resize_policies(container, pod, &path.child("resizePolicy"), errors);
    let security = path.child("securityContext");
    validate_container_security(
        &container["securityContext"],
        &security,
        pod.host_users,
        errors,
    );
}

fn validate_resize_policies(
    container: &Value,
    pod: Surroundings<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, own) in items(&container["resizePolicy"]).enumerate() {
        let resource = &own["resourceName"];
        if !seen.insert(text(resource)) {
            errors.duplicate(&path.index(index), resource);
        }
        supported(resource, path, &["cpu", "memory"], errors);
        let policy = &own["restartPolicy"];
        supported(policy, path, &["NotRequired", "RestartContainer"], errors);
        if pod.never_restarts && policy != "NotRequired" {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.invalid(path, policy, detail);
        }
    }
}

fn validate_port(
    port: &Value,
    names: &mut BTreeSet<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let name = text(&port["name"]);
    if !name.is_empty() {
        let path = path.child("name");
        let faults = port_name_faults(name);
        for fault in &faults {
            errors.invalid(&path, &name.into(), fault);
        }
        if faults.is_empty() && !names.insert(name.to_owned()) {
            errors.duplicate(&path, &name.into());
        }
    }
    let number = port["containerPort"].as_i64().unwrap_or(0);
    if number == 0 {
        errors.required(&path.child("containerPort"), "");
    } else if !(1..=65535).contains(&number) {
        let detail = "must be between 1 and 65535, inclusive";
        errors.invalid(&path.child("containerPort"), &number.into(), detail);
    }
    let host = port["hostPort"].as_i64().unwrap_or(0);
    if host != 0 && !(1..=65535).contains(&host) {
        errors.invalid(&path.child("hostPort"), &host.into(), PORT_RANGE);
    }
    supported(
        &port["protocol"],
        &path.child("protocol"),
        &["SCTP", "TCP", "UDP"],
        errors,
    );
}

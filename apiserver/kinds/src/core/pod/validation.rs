//! Faults of pods and pod templates.

mod annotations;
mod container_policies;
mod parts;
mod resize;
mod update;

use std::collections::BTreeSet;

use super::container::{validate_env, validate_env_from, validate_probes, validate_resources};
use super::placement::validate_placement;
use super::resources::{validate_files_of_variables, validate_pod_resources};
use super::security_context::{validate_container_security, validate_os};
use super::volume_sources::validate_source;
use super::volumes::{Volumes, validate_mounts};
use super::{app_armor, seccomp};
use crate::go_struct::shown;
use crate::json::Value;
use crate::meta::validation::{dns1123_label, dns1123_subdomain, qualified_name, validate_labels};
use crate::net::{PORT_RANGE, port_name_faults};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, text};
use crate::validation::{invalid_as, invalid_each, required_one_of};
use container_policies::{
    validate_resize_policies, validate_resource_claims, validate_restart_policy,
};

pub use parts::validate_ephemeral_containers;
pub use resize::validate_resize;
pub use update::validate_pod_update;

/// Faults of a pod, new or not.
pub(crate) fn validate_pod(pod: &Value) -> FieldErrors {
    let path = FieldPath::new("spec");
    let spec = &pod["spec"];
    let mut errors = FieldErrors::new();
    let at = FieldPath::new("metadata.annotations");
    annotations::validate(&pod["metadata"]["annotations"], spec, &at, &mut errors);
    let name = text(&pod["metadata"]["name"]);
    errors.extend(validate_spec(spec, Some(name), &path));
    validate_own_claims(pod, &path.child("volumes"), &mut errors);
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
    for list in ["containers", "initContainers"] {
        for (index, container) in items(&spec[list]).enumerate() {
            validate_image_space(container, &path.child(list).index(index), &mut errors);
        }
    }
    errors
}

/// A volume is not of a claim that the pod itself brings into being.
fn validate_own_claims(pod: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let volumes = &pod["spec"]["volumes"];
    let name = text(&pod["metadata"]["name"]);
    let made = |own: &&Value| !own["ephemeral"].is_null();
    let made: BTreeSet<String> = items(volumes)
        .filter(made)
        .map(|own| format!("{name}-{}", text(&own["name"])))
        .collect();
    for (index, volume) in items(volumes).enumerate() {
        let claim = &volume["persistentVolumeClaim"]["claimName"];
        if !name.is_empty() && made.contains(text(claim)) {
            let path = path.index(index).child("persistentVolumeClaim");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&path.child("claimName"), claim, detail);
        }
    }
}

/// Templates may have such images, pods may not.
fn validate_image_space(container: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let image = &container["image"];
    if text(image).trim() != text(image) {
        let detail = "must not have leading or trailing whitespace";
        errors.invalid(&path.child("image"), image, detail);
    }
}

/// Faults of a new pod.
pub(crate) fn validate_new_pod(pod: &Value) -> FieldErrors {
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
    seccomp::validate_agreement(pod, &path, &mut errors);
    app_armor::validate_agreement(pod, &path, &mut errors);
    errors
}

/// Labels and annotations of a template of pods.
pub(crate) fn validate_template_metadata(
    template: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    // Upstream's paths leave out `metadata`.
    for (field, check) in [
        ("labels", validate_labels as fn(_, &_, &mut _)),
        ("annotations", validate_annotations),
    ] {
        let value = template["metadata"].get(field);
        check(value, &path.child(field), errors);
    }
    let spec = &template["spec"];
    let at = path.child("annotations");
    annotations::validate(&template["metadata"]["annotations"], spec, &at, errors);
}

/// Faults of the pod template at `path`.
pub(crate) fn validate_pod_template(template: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_template_metadata(template, path, errors);
    let spec = &template["spec"];
    let path = path.child("spec");
    errors.extend(validate_pod_spec(spec, &path));
    seccomp::validate_agreement(template, &path, errors);
    app_armor::validate_agreement(template, &path, errors);
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

/// Faults of the spec of a template at `path`.
pub(crate) fn validate_pod_spec(spec: &Value, path: &FieldPath) -> FieldErrors {
    validate_spec(spec, None, path)
}

/// `pod` is the name of the pod; a template has none.
fn validate_spec(spec: &Value, pod: Option<&str>, path: &FieldPath) -> FieldErrors {
    let is_pod = pod.is_some();
    let mut errors = FieldErrors::new();
    let volumes = validate_volumes(&spec["volumes"], pod, &path.child("volumes"), &mut errors);
    let claims = path.child("resourceClaims");
    validate_claims(&spec["resourceClaims"], &claims, &mut errors);
    let pod = Surroundings::of(spec, volumes);
    let mut names = BTreeSet::new();
    let containers = path.child("containers");
    if items(&spec["containers"]).next().is_none() {
        errors.required(&containers, "");
    }
    for (index, container) in items(&spec["containers"]).enumerate() {
        let path = containers.index(index);
        validate_container(container, &path, &pod, &mut errors);
        let name = &container["name"];
        if !names.insert(text(name)) {
            errors.duplicate(&path.child("name"), name);
        }
        validate_probes(container, pod.grace, &path, &mut errors);
        validate_restart_policy(container, &path, &mut errors);
    }
    validate_host_ports(items(&spec["containers"]), &containers, &mut errors);
    let containers = path.child("initContainers");
    for (index, container) in items(&spec["initContainers"]).enumerate() {
        let path = containers.index(index);
        validate_container(container, &path, &pod, &mut errors);
        validate_restart_policy(container, &path, &mut errors);
        let name = &container["name"];
        if names.contains(text(name)) {
            errors.duplicate(&path.child("name"), name);
        } else if !text(name).is_empty() {
            names.insert(text(name));
        }
        // Init containers run one at a time, so upstream validates the host ports of each
        // separately.
        validate_host_ports([container].into_iter(), &containers, &mut errors);
        validate_init_container(container, &pod, &path, &mut errors);
    }
    let ephemeral = path.child("ephemeralContainers");
    parts::validate_each(spec, &pod, &ephemeral, &mut errors);
    validate_pod_resources(spec, path, &mut errors);
    if spec["os"]["name"] != "windows" {
        let claims = path.child("resources").child("claims");
        validate_resource_claims(
            spec,
            &Surroundings::of(spec, Volumes::new()),
            &claims,
            &mut errors,
        );
    }
    validate_host_network(spec, is_pod, &path.child("containers"), &mut errors);
    required_one_of(
        &spec["restartPolicy"],
        &path.child("restartPolicy"),
        &["Always", "OnFailure", "Never"],
        &mut errors,
    );
    required_one_of(
        &spec["dnsPolicy"],
        &path.child("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &mut errors,
    );
    validate_placement(spec, path, &mut errors);
    validate_os(spec, path, &mut errors);
    validate_files_of_variables(spec, path, &mut errors);
    errors
}

/// The facts about a pod that the validation of its containers needs.
struct Surroundings<'a> {
    /// The volumes without faults.
    volumes: Volumes<'a>,
    /// The names of the pod's resource claims.
    claims: BTreeSet<&'a str>,
    grace: Option<i64>,
    host_users: bool,
    never_restarts: bool,
}

impl<'a> Surroundings<'a> {
    fn of(spec: &'a Value, volumes: Volumes<'a>) -> Self {
        let claims = items(&spec["resourceClaims"]).map(|claim| text(&claim["name"]));
        Self {
            volumes,
            claims: claims.filter(|name| !name.is_empty()).collect(),
            grace: spec["terminationGracePeriodSeconds"].as_i64(),
            host_users: spec["hostUsers"] != false,
            never_restarts: spec["restartPolicy"] == "Never",
        }
    }
}

fn validate_claims(claims: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, claim) in items(claims).enumerate() {
        let path = path.index(index);
        validate_name(claim, &path, &mut names, errors);
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match fields.map(|field| claim[field].is_null()) {
            [false, false] => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            [true, true] => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !detail.is_empty() {
            invalid_as(&path, &shown("PodResourceClaim", claim), detail, errors);
        }
        for field in fields {
            if let Some(name) = claim[field].as_str() {
                let path = path.child(field);
                invalid_each(dns1123_subdomain(name), &name.into(), &path, errors);
            }
        }
    }
}

/// In the network of the host a port is the same inside and outside; a template may leave the
/// latter to be filled in.
fn validate_host_network(spec: &Value, is_pod: bool, path: &FieldPath, errors: &mut FieldErrors) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (index, container) in items(&spec["containers"]).enumerate() {
        let path = path.index(index).child("ports");
        for (index, port) in items(&container["ports"]).enumerate() {
            let [host, own] = ["hostPort", "containerPort"].map(|field| {
                let number = &port[field];
                number.as_i64().unwrap_or(0)
            });
            if (is_pod || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.index(index).child("hostPort"), &host.into(), detail);
            }
        }
    }
}

/// No two containers take the same port of the host.
fn validate_host_ports<'a>(
    containers: impl Iterator<Item = &'a Value>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.enumerate() {
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
    pod: &Surroundings<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if container["restartPolicy"] == "Always" {
        return validate_probes(container, pod.grace, path, errors);
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
    for (index, policy) in items(&container["resizePolicy"]).enumerate() {
        let own = &policy["restartPolicy"];
        if own == "RestartContainer" {
            let path = path
                .child("resizePolicy")
                .index(index)
                .child("restartPolicy");
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(&path, own, detail);
        }
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
    let name = text(&item["name"]);
    if name.is_empty() {
        errors.required(&path, "");
    } else if names.contains(name) {
        errors.duplicate(&path, &name.into());
    } else {
        invalid_each(dns1123_label(name), &name.into(), &path, errors);
        names.insert(name.to_owned());
    }
}

fn validate_label(item: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let name = &item["name"];
    let path = path.child("name");
    match text(name) {
        "" => errors.required(&path, ""),
        label => invalid_each(dns1123_label(label), name, &path, errors),
    }
}

/// Reports the faults of volumes, and returns the volumes without faults, which are the only ones
/// that mounts may use.
fn validate_volumes<'a>(
    volumes: &'a Value,
    pod: Option<&str>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Volumes<'a> {
    let mut valid = Volumes::new();
    for (index, volume) in items(volumes).enumerate() {
        let path = path.index(index);
        let mut own = FieldErrors::new();
        validate_source(volume, pod, &path, &mut own);
        validate_label(volume, &path, &mut own);
        if valid.contains_key(text(&volume["name"])) {
            own.duplicate(&path.child("name"), &volume["name"]);
        }
        match own.is_empty() {
            true => {
                valid.insert(text(&volume["name"]), volume);
            }
            false => errors.extend(own),
        }
    }
    valid
}

fn validate_container(
    container: &Value,
    path: &FieldPath,
    pod: &Surroundings<'_>,
    errors: &mut FieldErrors,
) {
    validate_label(container, path, errors);
    if text(&container["image"]).is_empty() {
        errors.required(&path.child("image"), "");
    }
    required_one_of(
        &container["terminationMessagePolicy"],
        &path.child("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        errors,
    );
    let ports = path.child("ports");
    let mut port_names = BTreeSet::new();
    for (index, port) in items(&container["ports"]).enumerate() {
        validate_port(port, &mut port_names, &ports.index(index), errors);
    }
    validate_env(&container["env"], &path.child("env"), errors);
    validate_env_from(&container["envFrom"], &path.child("envFrom"), errors);
    validate_mounts(container, &pod.volumes, path, errors);
    required_one_of(
        &container["imagePullPolicy"],
        &path.child("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
    let resources = path.child("resources");
    validate_resources(&container["resources"], &resources, errors);
    validate_resource_claims(container, pod, &resources.child("claims"), errors);
    validate_resize_policies(container, pod, &path.child("resizePolicy"), errors);
    let security = path.child("securityContext");
    validate_container_security(
        &container["securityContext"],
        &security,
        pod.host_users,
        errors,
    );
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
    required_one_of(
        &port["protocol"],
        &path.child("protocol"),
        &["SCTP", "TCP", "UDP"],
        errors,
    );
}

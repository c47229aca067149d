//! Warnings about valid pods and pod templates.

mod ports;
mod volumes;

use std::collections::BTreeSet;

use super::{app_armor, seccomp};
use crate::core::node::deprecated_labels;
use crate::core::resource_list::warn_of_amounts;
use crate::json::Value;
use crate::meta::object;
use crate::meta::validation::dns1123_label;
use crate::net::warn_of_ip;
use crate::status::{FieldPath, quoted};
use crate::unstructured::{entries, items, text};

pub use volumes::GONE_SOURCES;

/// Annotations without effect, and the warning about each.
const GONE_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const NO_MATCH: &str = "a null labelSelector results in matching no pod";
/// Resources counted in bytes, which have no fractions.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Warns of a name that is not a DNS label; `used_in` says which hostnames are made from it.
pub(crate) fn warn_of_name(own: &Value, used_in: &str, warnings: &mut Vec<String>) {
    let faults = dns1123_label(object::name(own));
    if !faults.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

/// The hostnames that a workload's warning refers to, for [`warn_of_name`].
pub(crate) const POD_NAMES: &str = "Pod names and hostnames";

/// The warnings of a workload's template: at each creation, and when the spec changes.
pub(crate) fn of_template(new: &Value, old: Option<&Value>, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let generation = |own: &Value| own["metadata"]["generation"].clone();
    if old.is_none_or(|old| generation(old) != generation(new)) {
        let pointer = format!("/{}", path.replace('.', "/"));
        let template = new.pointer(&pointer).unwrap_or(&Value::Null);
        warn_of_template(template, &FieldPath::new(path), &mut warnings);
    }
    warnings
}

/// Returns warnings like [`of_template`], for a workload whose name is part of its pods' names.
pub(crate) fn of_named_template(new: &Value, old: Option<&Value>, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warn_of_name(new, POD_NAMES, &mut warnings);
    }
    warnings.extend(of_template(new, old, path));
    warnings
}

/// The warnings of a new pod.
pub(crate) fn warn_of_pod(pod: &Value, warnings: &mut Vec<String>) {
    warn(pod, &FieldPath::default(), false, warnings);
}

/// The warnings of a template at `path`.
pub(crate) fn warn_of_template(template: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    warn(template, path, true, warnings);
}

fn warn(own: &Value, path: &FieldPath, is_template: bool, warnings: &mut Vec<String>) {
    let (spec, annotations) = (&own["spec"], &own["metadata"]["annotations"]);
    let at = path.child("spec");
    let path_of_annotations = path.child("metadata").child("annotations");
    warn_of_nodes(spec, &at, warnings);
    for (key, why) in GONE_ANNOTATIONS {
        if !annotations[key].is_null() {
            warnings.push(format!("{}: {why}", path_of_annotations.key(key)));
        }
    }
    volumes::warn_of_volumes(&spec["volumes"], &at.child("volumes"), warnings);
    warn_of_duplicates(spec, &at, warnings);
    warn_of_amounts(&spec["overhead"], &at.child("overhead"), &BYTES, warnings);
    let has_seccomp = |own: &Value| !own["securityContext"]["seccompProfile"].is_null();
    if !annotations[seccomp::OF_POD].is_null() && !has_seccomp(spec) {
        let path = path_of_annotations.key(seccomp::OF_POD);
        warnings.push(format!("{path}: {SECCOMP}"));
    }
    for (container, path) in containers(spec, &at) {
        if annotations.is_object() {
            let key = format!("{}{}", seccomp::OF_CONTAINER, text(&container["name"]));
            if !annotations[&key].is_null() && !has_seccomp(container) {
                let path = path_of_annotations.key(&key);
                warnings.push(format!("{path}: {SECCOMP}"));
            }
        }
        if is_template {
            warn_of_profile(container, spec, annotations, &path_of_annotations, warnings);
        }
        let halves = ["limits", "requests"].map(|half| {
            let path = path.child("resources").child(half);
            (&container["resources"][half], path)
        });
        for resource in BYTES {
            for (amounts, path) in &halves {
                warn_of_amounts(amounts, path, &[resource], warnings);
            }
        }
        warn_of_env(&container["env"], &path.child("env"), warnings);
    }
    ports::warn_of_ports(spec, &at, warnings);
    let grace = &spec["terminationGracePeriodSeconds"];
    if grace.as_i64().is_some_and(|own| own < 0) {
        let path = at.child("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{path}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    warn_of_affinity(&spec["affinity"], &at.child("affinity"), warnings);
    let servers = at.child("dnsConfig").child("nameservers");
    for (index, server) in items(&spec["dnsConfig"]["nameservers"]).enumerate() {
        warn_of_ip(server, &servers.index(index), warnings);
    }
    for (index, alias) in items(&spec["hostAliases"]).enumerate() {
        let path = at.child("hostAliases").index(index).child("ip");
        warn_of_ip(&alias["ip"], &path, warnings);
    }
}

/// The containers of all sorts with their paths, in upstream's order.
fn containers<'s>(
    spec: &'s Value,
    path: &FieldPath,
) -> impl Iterator<Item = (&'s Value, FieldPath)> {
    let path = path.clone();
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(move |list| {
        let path = path.child(list);
        let all = items(&spec[list]).enumerate();
        all.map(move |(index, own)| (own, path.index(index)))
    })
}

/// Labels of nodes that are called otherwise by now, and constraints without a selector.
fn warn_of_nodes(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (key, _) in entries(&spec["nodeSelector"]) {
        if let Some(why) = deprecated_labels::deprecation(key) {
            let path = path.child("nodeSelector").key(key);
            warnings.push(format!("{path}: {why}"));
        }
    }
    let affinity = &spec["affinity"]["nodeAffinity"];
    let at = path.child("affinity").child("nodeAffinity");
    let terms = at.child(REQUIRED).child("nodeSelectorTerms");
    for (index, term) in items(&affinity[REQUIRED]["nodeSelectorTerms"]).enumerate() {
        deprecated_labels::warn_of_term(term, &terms.index(index), warnings);
    }
    for (index, term) in items(&affinity[PREFERRED]).enumerate() {
        let path = at.child(PREFERRED).index(index).child("preference");
        deprecated_labels::warn_of_preference(&term["preference"], &path, warnings);
    }
    let constraints = path.child("topologySpreadConstraints");
    for (index, own) in items(&spec["topologySpreadConstraints"]).enumerate() {
        let path = constraints.index(index);
        let key = text(&own["topologyKey"]);
        deprecated_labels::warn_of_key(key, &path.child("topologyKey"), warnings);
        if own["labelSelector"].is_null() {
            warnings.push(format!("{}: {NO_MATCH}", path.child("labelSelector")));
        }
    }
}

/// Warns of duplicate host aliases and image pull secrets, and of secrets without a name.
fn warn_of_duplicates(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for (index, own) in items(&spec[list]).enumerate() {
            let own = text(&own[field]);
            if !seen.insert(own) {
                let path = path.child(list).index(index).child(field);
                warnings.push(format!("{path}: duplicate {field} {own:?}"));
            }
        }
    }
    for (index, secret) in items(&spec["imagePullSecrets"]).enumerate() {
        if text(&secret["name"]).is_empty() {
            let path = path.child("imagePullSecrets").index(index).child("name");
            warnings.push(format!("{path}: invalid empty name \"\""));
        }
    }
}

/// A profile that only an annotation names, and that is not the pod's.
fn warn_of_profile(
    container: &Value,
    spec: &Value,
    annotations: &Value,
    path: &FieldPath,
    warnings: &mut Vec<String>,
) {
    let key = app_armor::annotation(container);
    let own = &container["securityContext"]["appArmorProfile"];
    let Some(annotated) = annotations[&key].as_str().filter(|_| own.is_null()) else {
        return;
    };
    let of_pod = &spec["securityContext"]["appArmorProfile"];
    if of_pod.is_null() || app_armor::of_annotation(annotated).as_ref() != Some(of_pod) {
        warnings.push(app_armor::deprecation(&path.key(&key)));
    }
}

/// Warns of a variable that is set again without reference to its former value.
fn warn_of_env(env: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    for (index, variable) in items(env).enumerate() {
        let (name, value) = (text(&variable["name"]), text(&variable["value"]));
        if names.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let extends = value.contains(&reference) && value != reference;
        if !extends || !variable["valueFrom"].is_null() {
            let path = path.index(index);
            let name = quoted(name);
            warnings.push(format!(
                "{path}: hides previous definition of {name}, which may be dropped when using apply"
            ));
        }
    }
}

/// Terms that match no pod.
fn warn_of_affinity(affinity: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(kind);
        for (index, term) in items(&affinity[kind][REQUIRED]).enumerate() {
            if term["labelSelector"].is_null() {
                let path = path.child(REQUIRED).index(index).child("labelSelector");
                warnings.push(format!("{path}: {NO_MATCH}"));
            }
        }
        for (index, term) in items(&affinity[kind][PREFERRED]).enumerate() {
            if term["podAffinityTerm"]["labelSelector"].is_null() {
                let path = path.child(PREFERRED).index(index);
                let path = path.child("podAffinityTerm").child("labelSelector");
                warnings.push(format!("{path}: {NO_MATCH}"));
            }
        }
    }
}

#[cfg(test)]
mod tests;

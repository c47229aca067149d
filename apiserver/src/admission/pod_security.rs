//! Pod security: the standards that a namespace's labels set for its pods.

mod checks;
mod configuration;
mod policy;

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::Attributes;
use crate::json::Value;
use crate::meta::object::{name, namespace};
use crate::status::{ApiError, FieldErrors};
use crate::storage::ObjectKey;
pub(crate) use configuration::PodSecurityConfiguration;
use policy::{Level, Policy, Standard};

/// Subresources of pods that do not change the privileges of containers.
const IGNORED: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// The number of pods that are checked when a namespace gets stricter.
const PODS_MAX: usize = 3000;

/// Refuses pods that their namespace does not allow, and warns of others; `None` for other kinds.
///
/// The refusal is `Forbidden` for pods, `Invalid` for labels of namespaces.
pub(super) fn check(attributes: Attributes<'_>) -> Option<Result<(), ApiError>> {
    let gvr = attributes.resource.gvr();
    let checked = match (gvr.group.as_str(), gvr.resource.as_str()) {
        ("", "pods") => check_pod(attributes),
        ("", "namespaces") if attributes.subresource.is_empty() => check_namespace(attributes),
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => check_template(attributes, "/spec/template"),
        ("batch", "cronjobs") => check_template(attributes, "/spec/jobTemplate/spec/template"),
        ("", "podtemplates") => check_template(attributes, "/template"),
        _ => return None,
    };
    Some(checked)
}

/// The prefix of the annotations of audit events.
const ANNOTATIONS: &str = "pod-security.kubernetes.io/";

fn annotate(attributes: Attributes<'_>, key: &str, value: impl FnOnce() -> String) {
    if let Some(record) = attributes.audit {
        record.annotate(&format!("{ANNOTATIONS}{key}"), value());
    }
}

/// The policy that the labels of the object's namespace state; `None` if it permits everything, or
/// the namespace or user is exempt.
fn policy_of(attributes: Attributes<'_>) -> Option<Policy> {
    let configuration = configuration(attributes);
    if let Some(reason) = configuration.exempts(attributes) {
        annotate(attributes, "exempt", || reason.to_owned());
        return None;
    }
    let table = attributes
        .state
        .listers
        .namespaces(&attributes.state.storage);
    let key = ObjectKey::new(None, namespace(attributes.object));
    let own = table.get(&key)?;
    let labels = &own.value()["metadata"]["labels"];
    let (policy, faults) = Policy::of(labels, &configuration.defaults);
    if !faults.is_empty() {
        annotate(attributes, "error", || {
            format!("Failed to parse policy: {faults}")
        });
    }
    (!policy.is_privileged()).then_some(policy)
}

fn configuration<'a>(attributes: Attributes<'a>) -> &'a PodSecurityConfiguration {
    &attributes.state.configuration.pod_security
}

fn check_pod(attributes: Attributes<'_>) -> Result<(), ApiError> {
    let is_significant = attributes
        .old
        .is_none_or(|old| is_significant(attributes.object, old));
    if IGNORED.contains(&attributes.subresource) || !is_significant {
        return Ok(());
    }
    let Some(policy) = policy_of(attributes) else {
        if configuration(attributes).exempts(attributes).is_none() {
            let standard = Standard::default();
            annotate(attributes, "enforce-policy", || standard.to_string());
        }
        return Ok(());
    };
    let pod = attributes.object;
    if configuration(attributes).exempts_class(&pod["spec"]) {
        annotate(attributes, "exempt", || "runtimeClass".to_owned());
        return Ok(());
    }
    annotate(attributes, "enforce-policy", || policy.enforce.to_string());
    audit(attributes, &policy.audit, pod);
    if let Some(violations) = policy.enforce.violations(&pod["metadata"], &pod["spec"]) {
        let standard = &policy.enforce;
        let message = format!(
            "violates PodSecurity \"{standard}\": {}",
            violations.details()
        );
        return Err(attributes.forbidden(message));
    }
    warn(attributes, &policy.warn, pod);
    Ok(())
}

/// Notes in the audit event what a standard would refuse.
fn audit(attributes: Attributes<'_>, standard: &Standard, pod: &Value) {
    if attributes.audit.is_some()
        && let Some(violations) = standard.violations(&pod["metadata"], &pod["spec"])
    {
        annotate(attributes, "audit-violations", || {
            let details = violations.details();
            format!("would violate PodSecurity \"{standard}\": {details}")
        });
    }
}

fn warn(attributes: Attributes<'_>, standard: &Standard, pod: &Value) {
    if let Some(violations) = standard.violations(&pod["metadata"], &pod["spec"]) {
        let details = violations.details();
        attributes.warn(format!(
            "would violate PodSecurity \"{standard}\": {details}"
        ));
    }
}

fn check_template(attributes: Attributes<'_>, pointer: &str) -> Result<(), ApiError> {
    if attributes.subresource.is_empty()
        && (attributes.warnings.is_some() || attributes.audit.is_some())
        && let Some(template) = attributes
            .object
            .pointer(pointer)
            .filter(|own| own.is_object())
        && let Some(policy) = policy_of(attributes)
        && !configuration(attributes).exempts_class(&template["spec"])
    {
        audit(attributes, &policy.audit, template);
        warn(attributes, &policy.warn, template);
    }
    Ok(())
}

/// Whether an update changes the images of containers.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<Value> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.map(|own| own["image"].clone()).collect()
    };
    let changed = |list: &str| images(pod, list) != images(old, list);
    changed("containers") || changed("initContainers") || changed("ephemeralContainers")
}

fn check_namespace(attributes: Attributes<'_>) -> Result<(), ApiError> {
    let labels = &attributes.object["metadata"]["labels"];
    let configuration = configuration(attributes);
    let defaults = &configuration.defaults;
    if labels.is_null() && defaults.is_privileged() {
        return Ok(());
    }
    let exemption = || configuration.exemption(name(attributes.object), labels);
    let (policy, faults) = Policy::of(labels, defaults);
    let invalid = |faults: FieldErrors| ApiError::Invalid {
        kind: attributes.resource.gvk().group_kind(),
        name: name(attributes.object).to_owned(),
        errors: faults,
    };
    let Some(old) = attributes.old else {
        if !faults.is_empty() {
            return Err(invalid(faults));
        }
        if let Some(Some(warning)) = exemption() {
            attributes.warn(warning);
        }
        return Ok(());
    };
    let (before, old_faults) = Policy::of(&old["metadata"]["labels"], defaults);
    if !faults.is_empty() && faults != old_faults {
        return Err(invalid(faults));
    }
    let (new, before) = (&policy.enforce, &before.enforce);
    let is_relaxed = new.level <= before.level && new.minor == before.minor;
    if new != before && new.level != Level::Privileged && !is_relaxed {
        match exemption() {
            None => warn_of_pods(attributes, new),
            Some(warning) => warning.into_iter().for_each(|own| attributes.warn(own)),
        }
    }
    Ok(())
}

/// Warns of the pods that a namespace would no longer allow.
fn warn_of_pods(attributes: Attributes<'_>, standard: &Standard) {
    let own = name(attributes.object);
    let pods = attributes
        .state
        .listers
        .pods(&attributes.state.storage)
        .snapshot();
    let mut owners = BTreeSet::new();
    // Pods of one controller are much alike, so one of each comes first.
    let (mut first, mut further) = (Vec::new(), Vec::new());
    for pod in pods.range(Some(own), None) {
        let value = pod.value();
        if configuration(attributes).exempts_class(&value["spec"]) {
            continue;
        }
        let references = value["metadata"]["ownerReferences"].as_array();
        let mut references = references.into_iter().flatten();
        let owner = references.find(|own| own["controller"] == true);
        match owner.is_some_and(|own| !owners.insert(own["uid"].to_string())) {
            true => further.push(pod),
            false => first.push(pod),
        }
    }
    let total = first.len() + further.len();
    let mut violating: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in first.into_iter().chain(further).take(PODS_MAX) {
        let found = standard.violations(&pod.value()["metadata"], &pod.value()["spec"]);
        if let Some(violations) = found {
            let names = violating.entry(violations.reasons()).or_default();
            names.push(name(&pod.value()).to_owned());
        }
    }
    if total > PODS_MAX {
        attributes.warn(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {total} existing pods"
        ));
    }
    if !violating.is_empty() {
        attributes.warn(format!(
            "existing pods in namespace {own:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut warnings: Vec<String> = violating
        .into_iter()
        .map(|(reasons, names)| {
            let first = names.iter().min().cloned().unwrap_or_default();
            match names.len() {
                1 => format!("{first}: {reasons}"),
                2 => format!("{first} (and 1 other pod): {reasons}"),
                count => format!("{first} (and {} other pods): {reasons}", count - 1),
            }
        })
        .collect();
    // Upstream sorts them by what is wrong, but after it has put the names before that.
    warnings.sort();
    warnings
        .into_iter()
        .for_each(|warning| attributes.warn(warning));
}

//! The final state of an object, a line for each fact.

use kubeproof_machinery::json::Value;

/// Annotations that steer the simulation, or come with the volume and not with the controller.
const HIDDEN_ANNOTATIONS: &[&str] = &[
    "kubeproof.dev/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "lifecycle.apps.kruise.io/timestamp",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
];
/// Fields of a status that depend on the node or the volume.
const HIDDEN_FIELDS: &[&str] = &[
    "accessModes",
    "capacity",
    "containerID",
    "hostIP",
    "hostIPs",
    "image",
    "imageID",
    "podIP",
    "podIPs",
    "resources",
    "allocatedResources",
    "started",
    "user",
    "volumeMounts",
    "qosClass",
];
/// Fields that hold a time without saying so in their name.
const TIMES: &[&str] = &["startedAt", "finishedAt", "disruptedPods"];

/// Returns the facts about `object`.
pub(super) fn of(object: &Value) -> Vec<String> {
    let metadata = &object["metadata"];
    let mut facts = Vec::new();
    flatten("generation", &metadata["generation"], &mut facts);
    flatten("labels", &metadata["labels"], &mut facts);
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        if !HIDDEN_ANNOTATIONS
            .iter()
            .any(|prefix| key.starts_with(prefix))
        {
            flatten(&format!("annotations.{key}"), value, &mut facts);
        }
    }
    flatten("finalizers", &metadata["finalizers"], &mut facts);
    if !metadata["deletionTimestamp"].is_null() {
        facts.push("terminating".to_owned());
    }
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        facts.push(format!(
            "owner {} {} controller {} blockOwnerDeletion {}",
            owner["kind"].as_str().unwrap_or_default(),
            owner["name"].as_str().unwrap_or_default(),
            owner["controller"],
            owner["blockOwnerDeletion"],
        ));
    }
    for field in [
        "replicas",
        "parallelism",
        "completions",
        "suspend",
        "unschedulable",
    ] {
        flatten(&format!("spec.{field}"), &object["spec"][field], &mut facts);
    }
    for container in object["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let name = container["name"].as_str().unwrap_or_default();
        flatten(&format!("image[{name}]"), &container["image"], &mut facts);
    }
    flatten("revision", &object["revision"], &mut facts);
    flatten("data", &object["data"], &mut facts);
    flatten("status", &object["status"], &mut facts);
    facts
}

fn flatten(path: &str, value: &Value, facts: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if fields.is_empty() => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_status = path.starts_with("status");
                if is_status && HIDDEN_FIELDS.contains(&key.as_str()) {
                    continue;
                }
                let is_time = is_status && (key.ends_with("Time") || TIMES.contains(&key.as_str()));
                // Conditions of pods are written by nodes; a set's own times are worth their presence.
                match is_time {
                    true if path.contains('[') || value.is_null() => {}
                    true => facts.push(format!("{path}.{key} <time>")),
                    false => flatten(&format!("{path}.{key}"), value, facts),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let named = item["type"].as_str().or_else(|| item["name"].as_str());
                match named {
                    Some(name) => flatten(&format!("{path}[{name}]"), item, facts),
                    None if item.is_object() => flatten(&format!("{path}[{index}]"), item, facts),
                    None => flatten(path, item, facts),
                }
            }
        }
        Value::String(text) => facts.push(format!("{path} {text}")),
        Value::Bool(_) | Value::Number(_) => facts.push(format!("{path} {value}")),
    }
}

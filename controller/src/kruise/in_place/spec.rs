//! Whether one revision becomes another without new pods.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt;
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::json_diff::{Operation, Verb, diff};
use serde_json::{Map, Value, json};

use super::UpdateSpec;
use crate::kruise::Gates;
use crate::kruise::container_hash::{MetadataField, metadata_variables};
use crate::workload::history;

/// The annotation of revisions with the hash of the claim templates.
pub(crate) const CLAIM_HASH_ANNOTATION: &str = "kruise.io/cloneset-volumeclaimtemplate-hash";

/// Returns the update in place of a pod from `old` to `new`; None when it requires a new pod.
///
/// Images of containers may be replaced and metadata may change; with the gate
/// `RecreatePodWhenChangeVCTInCloneSetGate` claim templates may not. The old revision may be gone, and
/// then nothing is known.
#[must_use]
pub(crate) fn update_spec(
    old: Option<&ControllerRevision>,
    new: &ControllerRevision,
    grace_seconds: i32,
    gates: Gates,
) -> Option<UpdateSpec> {
    if gates.recreate_for_claims && have_other_claims(old?, new) {
        return None;
    }
    let (old, new_name) = (history::template_of(old?)?, new.name_any());
    let new = history::template_of(new)?;
    let mut spec = UpdateSpec {
        revision: new_name,
        grace_seconds,
        ..UpdateSpec::default()
    };
    let mut metadata = Vec::new();
    for operation in diff(&old, &new) {
        if operation.path.starts_with("/metadata/") {
            metadata.push(operation);
            continue;
        }
        if operation.verb != Verb::Replace {
            return None;
        }
        let index = image_index(&operation.path)?;
        let name = old.pointer(&format!("/spec/containers/{index}/name"))?;
        let images = &mut spec.container_images;
        images.insert(
            name.as_str()?.to_owned(),
            operation.value.as_str()?.to_owned(),
        );
    }
    if !metadata.is_empty() {
        let template: PodTemplateSpec = from_value(&new).ok()?;
        let read = match gates.env_from_metadata {
            true => referenced(&template, &metadata, &mut spec),
            false => BTreeSet::new(),
        };
        spec.metadata_patch = Some(metadata_patch(&old, &new, &read));
    }
    Some(spec)
}

/// Whether both revisions say what claim templates they have, and not the same.
fn have_other_claims(old: &ControllerRevision, new: &ControllerRevision) -> bool {
    let hash = |revision: &ControllerRevision| {
        let annotations = revision.annotations();
        annotations.get(CLAIM_HASH_ANNOTATION).cloned()
    };
    hash(old)
        .zip(hash(new))
        .is_some_and(|(before, after)| before != after)
}

/// The index of the container whose image is at `path`.
fn image_index(path: &str) -> Option<usize> {
    let index = path.strip_prefix("/spec/containers/")?;
    index.strip_suffix("/image")?.parse().ok()
}

/// Notes for each container the changed keys that its variables are read from; returns these keys.
fn referenced(
    template: &PodTemplateSpec,
    changes: &[Operation<'_>],
    spec: &mut UpdateSpec,
) -> BTreeSet<(&'static str, String)> {
    let mut read = BTreeSet::new();
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    for container in containers {
        for (_, field, key) in metadata_variables(container) {
            let map = match field {
                MetadataField::Labels => "labels",
                MetadataField::Annotations => "annotations",
            };
            let escaped = key.replace('~', "~0").replace('/', "~1");
            let path = format!("/metadata/{map}/{escaped}");
            let change = changes
                .iter()
                .find(|change| change.path == path && change.verb != Verb::Remove);
            let Some(value) = change.and_then(|change| change.value.as_str()) else {
                continue;
            };
            let metadata = spec
                .container_ref_metadata
                .entry(container.name.clone())
                .or_default();
            let of_field = match field {
                MetadataField::Labels => &mut metadata.labels,
                MetadataField::Annotations => &mut metadata.annotations,
            };
            of_field.insert(key.to_owned(), value.to_owned());
            spec.update_env_from_metadata = true;
            read.insert((map, key.to_owned()));
        }
    }
    read
}

/// Merge patch from the metadata of `old` to that of `new`, without the keys that are `read`.
fn metadata_patch(old: &Value, new: &Value, read: &BTreeSet<(&'static str, String)>) -> Value {
    let mut patch = Map::new();
    for field in ["labels", "annotations"] {
        let map = |template: &Value| {
            let map = template["metadata"][field].as_object().cloned();
            let mut map = map.unwrap_or_default();
            map.retain(|key, _| !read.contains(&(field, key.clone())));
            map
        };
        let (before, after) = (map(old), map(new));
        let mut changes = Map::new();
        for (key, value) in &after {
            if before.get(key) != Some(value) {
                changes.insert(key.clone(), value.clone());
            }
        }
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            changes.insert(key.clone(), Value::Null);
        }
        if !changes.is_empty() {
            patch.insert(field.to_owned(), changes.into());
        }
    }
    let finalizers = |template: &Value| {
        let list = template["metadata"]["finalizers"].as_array().cloned();
        list.unwrap_or_default()
    };
    let (before, after) = (finalizers(old), finalizers(new));
    let missing = |list: &[Value], from: &[Value]| -> Vec<Value> {
        let missing = list.iter().filter(|one| !from.contains(one));
        missing.cloned().collect()
    };
    let (added, removed) = (missing(&after, &before), missing(&before, &after));
    if !added.is_empty() {
        patch.insert("finalizers".to_owned(), added.into());
    }
    if !removed.is_empty() {
        let directive = "$deleteFromPrimitiveList/finalizers";
        patch.insert(directive.to_owned(), removed.into());
    }
    match patch.is_empty() {
        true => json!({}),
        false => json!({ "metadata": patch }),
    }
}

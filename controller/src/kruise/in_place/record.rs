//! The annotations that record an update, in the JSON that Go writes.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::ResourceExt;
use kubeproof_runtime::pod::Pod;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A change that needs no new pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UpdateSpec {
    /// The revision that the pod is then at.
    pub(crate) revision: String,
    /// New images, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) container_images: BTreeMap<String, String>,
    /// New metadata that variables are read from, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) container_ref_metadata: BTreeMap<String, RefMetadata>,
    /// Merge patch of the pod's other metadata.
    #[serde(
        rename = "metaDataPatch",
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_bytes",
        deserialize_with = "from_bytes"
    )]
    pub(crate) metadata_patch: Option<Value>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) update_env_from_metadata: bool,
    pub(crate) grace_seconds: i32,
}

/// Labels and annotations, as an object's metadata.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RefMetadata {
    /// Null, which Go does not leave out.
    creation_timestamp: Value,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// How far an update is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UpdateState {
    pub(crate) revision: String,
    /// When it began.
    pub(crate) update_timestamp: String,
    /// The states of containers before the update; null while none has changed.
    pub(crate) last_container_statuses: Option<BTreeMap<String, ContainerStatus>>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) update_env_from_metadata: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) update_resources: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) update_images: bool,
    /// Images of containers of lower priority.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) next_container_images: BTreeMap<String, String>,
    /// The metadata for containers of lower priority.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) next_container_ref_metadata: BTreeMap<String, RefMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pre_check_before_next: Option<PreCheck>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) container_batches_record: Vec<Batch>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(default)]
pub(crate) struct ContainerStatus {
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub(crate) image_id: String,
}

/// The condition that has to hold before the next batch.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PreCheck {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) containers_required_ready: Vec<String>,
}

/// Containers that were updated together.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(default)]
pub(crate) struct Batch {
    pub(crate) timestamp: String,
    pub(crate) containers: Vec<String>,
}

impl UpdateState {
    /// The state of an update that begins.
    pub(super) fn started(spec: &UpdateSpec, now: Timestamp) -> Self {
        Self {
            revision: spec.revision.clone(),
            update_timestamp: rfc3339(now),
            update_env_from_metadata: spec.update_env_from_metadata,
            update_images: !spec.container_images.is_empty(),
            ..Self::default()
        }
    }

    /// Whether containers wait for their turn.
    #[must_use]
    pub(crate) fn has_next_batch(&self) -> bool {
        !self.next_container_images.is_empty() || !self.next_container_ref_metadata.is_empty()
    }
}

impl UpdateSpec {
    /// Merges the change of metadata into the pod.
    pub(super) fn merge_metadata(&self, pod: &mut Pod) {
        let Some(patch) = &self.metadata_patch else {
            return;
        };
        let entries = |field: &str| {
            let map = patch["metadata"][field].as_object().cloned();
            map.unwrap_or_default()
        };
        let merge = |map: &mut BTreeMap<String, String>, field: &str| {
            for (key, value) in entries(field) {
                match value.as_str() {
                    Some(text) => {
                        map.insert(key, text.to_owned());
                    }
                    None => {
                        map.remove(&key);
                    }
                }
            }
        };
        merge(pod.labels_mut(), "labels");
        merge(pod.annotations_mut(), "annotations");
        let words = |field: &str| -> Vec<String> {
            let list = patch["metadata"][field].as_array().into_iter().flatten();
            list.filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect()
        };
        let removed = words("$deleteFromPrimitiveList/finalizers");
        let finalizers = pod.finalizers_mut();
        finalizers.retain(|one| !removed.contains(one));
        for added in words("finalizers") {
            if !finalizers.contains(&added) {
                finalizers.push(added);
            }
        }
    }
}

/// As Go writes a `metav1.Time`.
pub(super) fn rfc3339(now: Timestamp) -> String {
    super::whole_second(now).to_string()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

/// Go writes bytes in base64.
fn as_bytes<S: Serializer>(patch: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = patch.as_ref().map(ToString::to_string).unwrap_or_default();
    STANDARD.encode(text).serialize(serializer)
}

fn from_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    use serde::de::Error;

    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
    serde_json::from_slice(&bytes).map_err(D::Error::custom)
}

//! The NodeImage, `apps.kruise.io/v1beta1`: which images a node is to have, and which it has.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::image_pull_job::SandboxConfig;
use super::schema;

/// The images of one node; the object has the node's name.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "NodeImage",
    plural = "nodeimages",
    singular = "nodeimage",
    status = "NodeImageStatus",
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".status.desired"}"#,
    printcolumn = r#"{"name": "PULLING", "type": "integer", "jsonPath": ".status.pulling"}"#,
    printcolumn = r#"{"name": "SUCCEED", "type": "integer", "jsonPath": ".status.succeeded"}"#,
    printcolumn = r#"{"name": "FAILED", "type": "integer", "jsonPath": ".status.failed"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    derive = "PartialEq"
)]
pub struct NodeImageSpec {
    /// Images by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, ImageSpec>,
}

/// The tags of an image that are to be pulled.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// Secrets for the registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<ReferenceObject>,
    /// The tags.
    pub tags: Vec<ImageTagSpec>,
    /// Metadata for the runtime's pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
}

/// A namespaced object by its name.
#[derive(
    Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord,
)]
pub struct ReferenceObject {
    /// The namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `batch` for a secret that is removed with the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
}

/// A tag to pull.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagSpec {
    /// The tag, or a digest.
    pub tag: String,
    /// The time of the request for the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub created_at: Option<Timestamp>,
    /// Limits of the pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<ImageTagPullPolicy>,
    /// The jobs that request the tag.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::object_references")]
    pub owner_references: Vec<ObjectReference>,
    /// Grows with each request for another pull.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// `Always` or `IfNotPresent`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_pull_policy: String,
}

/// Limits of a pull.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagPullPolicy {
    /// The timeout of one attempt, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// The number of attempts after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// The seconds that the tag is listed after the pull has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The seconds that all attempts together may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
}

/// The states of the pulls.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageStatus {
    /// The number of requested pulls.
    pub desired: i32,
    /// The number of succeeded pulls.
    #[serde(default)]
    pub succeeded: i32,
    /// The number of failed pulls.
    #[serde(default)]
    pub failed: i32,
    /// The number of running pulls.
    #[serde(default)]
    pub pulling: i32,
    /// The number of pulls that have not begun.
    #[serde(default)]
    pub waiting: i32,
    /// The pulls by image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_statuses: BTreeMap<String, ImageStatus>,
    /// The result of the first pulls on a new node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sync_status: Option<SyncStatus>,
}

/// The states of the pulls of an image.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
pub struct ImageStatus {
    /// The states by tag.
    pub tags: Vec<ImageTagStatus>,
}

/// The state of a pull.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagStatus {
    /// The tag.
    pub tag: String,
    /// `Waiting`, `Pulling`, `Succeeded` or `Failed`.
    pub phase: String,
    /// The progress in percent.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub progress: i32,
    /// The start of the pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Timestamp>,
    /// The end of the pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub completion_time: Option<Timestamp>,
    /// The version of the request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// The runtime's ID of the image.
    #[serde(rename = "imageID", default, skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The result of the first pulls on a new node.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// The time when the first pulls finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub sync_at: Option<Timestamp>,
    /// `Succeeded` or `Failed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl NodeImageStatus {
    /// The status of a tag of an image.
    pub(crate) fn tag(&self, image: &str, tag: &str) -> Option<&ImageTagStatus> {
        let status = self.image_statuses.get(image)?;
        status.tags.iter().find(|own| own.tag == tag)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_nothing(number: &i32) -> bool {
    *number == 0
}

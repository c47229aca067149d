//! The ImagePullJob, `apps.kruise.io/v1beta1`: pulls an image on many nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// `completionPolicy.type` of a job that never ends.
pub(crate) const NEVER: &str = "Never";

/// An image and the nodes that pull it.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "ImagePullJob",
    plural = "imagepulljobs",
    singular = "imagepulljob",
    namespaced,
    status = "ImagePullJobStatus",
    printcolumn = r#"{"name": "TOTAL", "type": "integer", "jsonPath": ".status.desired"}"#,
    printcolumn = r#"{"name": "ACTIVE", "type": "integer", "jsonPath": ".status.active"}"#,
    printcolumn = r#"{"name": "SUCCEED", "type": "integer", "jsonPath": ".status.succeeded"}"#,
    printcolumn = r#"{"name": "FAILED", "type": "integer", "jsonPath": ".status.failed"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobSpec {
    /// The image.
    pub image: String,
    /// The names of secrets for the registry, in the job's namespace; immutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<String>,
    /// The nodes; all of them when neither this nor the other selector is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::node_selector")]
    pub selector: Option<NodeSelector>,
    /// The nodes of these pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub pod_selector: Option<LabelSelector>,
    /// The number or share of nodes that pull at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub parallelism: Option<IntOrString>,
    /// Limits of each pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
    /// The completion policy of the job.
    pub completion_policy: CompletionPolicy,
    /// Metadata for the runtime's pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
    /// `Always` or `IfNotPresent`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_pull_policy: String,
}

/// Nodes by name or by label.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub struct NodeSelector {
    /// The names of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// The labels of the nodes.
    #[serde(flatten)]
    pub labels: LabelSelector,
}

/// Limits of a pull.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PullPolicy {
    /// The timeout of one attempt, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// The number of attempts after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// The completion policy of a job.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPolicy {
    /// `Always` or `Never`.
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// The deadline of the job in seconds. Not with `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// The seconds until a finished job is deleted. Not with `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Metadata for the runtime's pull request.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Labels of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The observed state of a job.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobStatus {
    /// The time when the controller first saw the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Timestamp>,
    /// The time when the job finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub completion_time: Option<Timestamp>,
    /// The number of selected nodes.
    pub desired: i32,
    /// The number of nodes that are pulling.
    #[serde(default)]
    pub active: i32,
    /// The number of nodes that have pulled the image.
    #[serde(default)]
    pub succeeded: i32,
    /// The number of nodes that have failed to pull.
    #[serde(default)]
    pub failed: i32,
    /// The progress as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The nodes that have failed to pull.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<String>,
}

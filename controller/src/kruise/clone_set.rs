//! The CloneSet, `apps.kruise.io/v1beta1`.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use super::strategy::{
    InPlaceUpdateStrategy, Lifecycle, UpdatePriorityStrategy, UpdateScatterTerm,
};

/// Pods without identity.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "CloneSet",
    plural = "clonesets",
    singular = "cloneset",
    namespaced,
    status = "CloneSetStatus",
    shortname = "clone",
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "UPDATED", "type": "integer", "jsonPath": ".status.updatedReplicas"}"#,
    printcolumn = r#"{"name": "UPDATED_READY", "type": "integer", "jsonPath": ".status.updatedReadyReplicas"}"#,
    printcolumn = r#"{"name": "UPDATED_AVAILABLE", "type": "integer", "jsonPath": ".status.updatedAvailableReplicas"}"#,
    printcolumn = r#"{"name": "READY", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "TOTAL", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "CONTAINERS", "type": "string", "jsonPath": ".spec.template.spec.containers[*].name", "priority": 1}"#,
    printcolumn = r#"{"name": "IMAGES", "type": "string", "jsonPath": ".spec.template.spec.containers[*].image", "priority": 1}"#,
    printcolumn = r#"{"name": "SELECTOR", "type": "string", "jsonPath": ".status.labelSelector", "priority": 1}"#,
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetSpec {
    /// How many pods there are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods are its own; may not change.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// What pods are made from.
    #[schemars(schema_with = "schema::anything")]
    pub template: PodTemplateSpec,
    /// Claims that each pod gets of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub volume_claim_templates: Option<Vec<PersistentVolumeClaim>>,
    /// How pods are created and deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<CloneSetScaleStrategy>,
    /// How pods are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<CloneSetUpdateStrategy>,
    /// How many revisions are kept that nothing is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// How long a pod has to be ready before it is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// Hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// How long nothing may happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
}

/// How pods are created and deleted.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetScaleStrategy {
    /// Pods to delete first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_to_delete: Option<Vec<String>>,
    /// How many pods may be unavailable while more are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// Whether new pods take over claims whose pods are gone.
    #[serde(rename = "enablePVCReuse")]
    #[serde(default)]
    pub enable_pvc_reuse: bool,
    /// Whether pods that are about to be deleted are no longer counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_preparing_delete: Option<bool>,
}

/// When and how pods are updated.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetUpdateStrategy {
    /// `RollingUpdate` or `OnDelete`.
    #[serde(rename = "type")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Only with `RollingUpdate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateCloneSetStrategy>,
}

/// How pods are updated.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateCloneSetStrategy {
    /// How many pods stay at other revisions, or which share of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub partition: Option<IntOrString>,
    /// How many pods may be unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods there may be above the replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_surge: Option<IntOrString>,
    /// `ReCreate`, `InPlaceIfPossible` or `InPlaceOnly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_update_policy: Option<String>,
    /// Nothing is updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Which pods are updated first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Which pods are updated apart from each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scatter_strategy: Option<Vec<UpdateScatterTerm>>,
    /// How pods are updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
}

/// What there is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetStatus {
    /// The generation that the rest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of active pods.
    pub replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of available pods.
    pub available_replicas: i32,
    /// The number of pods at the update revision.
    pub updated_replicas: i32,
    /// The number of ready pods at the update revision.
    pub updated_ready_replicas: i32,
    /// The number of available pods at the update revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_available_replicas: Option<i32>,
    /// How many are to be updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_updated_replicas: Option<i32>,
    /// The revision that all pods are to be at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// The revision that all pods were at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// How often names of revisions have collided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// How it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<CloneSetCondition>>,
    /// The selector as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
}

/// How it goes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetCondition {
    /// `Progressing`, `FailedScale` or `FailedUpdate`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True` or `False`.
    pub status: String,
    /// When it was last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_update_time: Option<Time>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Time>,
    /// In a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

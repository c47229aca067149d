//! The Advanced StatefulSet, `apps.kruise.io/v1alpha1` of kind `StatefulSet`.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kruise::api::schema;
use crate::kruise::api::stateful_set::{StatefulSetCondition, StatefulSetUpdateStrategy};

/// A set of pods with ordinals.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "StatefulSet",
    plural = "statefulsets",
    singular = "statefulset",
    namespaced,
    status = "StatefulSetStatus",
    shortname = "sts",
    shortname = "asts",
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "CURRENT", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "UPDATED", "type": "integer", "jsonPath": ".status.updatedReplicas"}"#,
    printcolumn = r#"{"name": "READY", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "CONTAINERS", "type": "string", "jsonPath": ".spec.template.spec.containers[*].name", "priority": 1}"#,
    printcolumn = r#"{"name": "IMAGES", "type": "string", "jsonPath": ".spec.template.spec.containers[*].image", "priority": 1}"#,
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// The desired number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The selector of the set's pods; immutable.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// The pod template.
    #[schemars(schema_with = "schema::anything")]
    pub template: PodTemplateSpec,
    /// The templates of the claims of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub volume_claim_templates: Option<Vec<PersistentVolumeClaim>>,
    /// The name of the service that governs the pods' DNS names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// `OrderedReady` or `Parallel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_management_policy: Option<String>,
    /// The strategy for updating pods at an old revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<StatefulSetUpdateStrategy>,
    /// The number of unused revisions to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
}

/// The observed state of the set.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetStatus {
    /// The generation of the spec that the status reflects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of pods.
    pub replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of available pods.
    pub available_replicas: i32,
    /// The number of pods at the current revision.
    pub current_replicas: i32,
    /// The number of pods at the update revision.
    pub updated_replicas: i32,
    /// The revision before the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// The revision of the current template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// The number of hash collisions of revision names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The conditions of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<StatefulSetCondition>>,
    /// The label selector as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
}

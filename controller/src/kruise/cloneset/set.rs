//! A CloneSet as the controller reads it: typed, with defaults, and its template's raw JSON.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::core::DynamicObject;
use kubeproof_runtime::controller_ref::{controller_ref, reference_to};
use kubeproof_runtime::int_or_percent::{Round, resolve};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::sync_error::Error;
use serde_json::Value;

use super::numbers::{self, Wanted};
use crate::kruise::api::clone_set::{
    CloneSet, CloneSetSpec, CloneSetStatus, RollingUpdateCloneSetStrategy,
};
use crate::kruise::api::strategy::{InPlaceUpdateStrategy, Lifecycle};
use crate::kruise::lifecycle::is_specified_delete;
use crate::kruise::pre_download;
use crate::kruise::{API_VERSION, Gates};
use crate::workload::history;

pub(crate) const KIND: &str = "CloneSet";
/// The default of `maxUnavailable`.
const MAX_UNAVAILABLE: &str = "20%";

#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) object: CloneSet,
    pub(crate) gates: Gates,
    /// The data of a revision of the set, built from the bytes of `spec.template` as the server
    /// returned it.
    pub(crate) revision_data: Value,
    /// The names in `podsToDelete`, as a set for fast lookup.
    doomed: BTreeSet<String>,
}

fn pods_to_delete(spec: &CloneSetSpec) -> &[String] {
    let strategy = spec.scale_strategy.as_ref();
    let names = strategy.and_then(|strategy| strategy.pods_to_delete.as_deref());
    names.unwrap_or_default()
}

/// The policy by which a pod changes its revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdatePolicy {
    ReCreate,
    InPlaceIfPossible,
    InPlaceOnly,
}

impl Set {
    pub(crate) fn parse(object: &DynamicObject, gates: Gates) -> Result<Self, Error> {
        let template = object.data.pointer("/spec/template");
        let revision_data = history::legacy_template_data(template.unwrap_or(&Value::Null));
        let name = object.name_any();
        let malformed = |source| Error::Malformed {
            what: format!("CloneSet {name}"),
            source,
        };
        let text = serde_json::to_string(object).map_err(malformed)?;
        let object: CloneSet = serde_json::from_str(&text).map_err(malformed)?;
        let names = pods_to_delete(&object.spec).iter().cloned().collect();
        Ok(Self {
            object,
            gates,
            revision_data,
            doomed: names,
        })
    }

    pub(crate) fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    pub(crate) fn spec(&self) -> &CloneSetSpec {
        &self.object.spec
    }

    pub(crate) fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn status(&self) -> CloneSetStatus {
        self.object.status.clone().unwrap_or_default()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    pub(crate) fn replicas(&self) -> i32 {
        self.spec().replicas.unwrap_or(1)
    }

    pub(crate) fn min_ready_seconds(&self) -> i32 {
        self.spec().min_ready_seconds.unwrap_or(0)
    }

    pub(crate) fn lifecycle(&self) -> Option<&Lifecycle> {
        self.spec().lifecycle.as_ref()
    }

    pub(crate) fn rolling_update(&self) -> Option<&RollingUpdateCloneSetStrategy> {
        let strategy = self.spec().update_strategy.as_ref()?;
        strategy.rolling_update.as_ref()
    }

    /// Whether pods are updated only when a user deletes them.
    pub(crate) fn is_on_delete(&self) -> bool {
        let strategy = self.spec().update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.rolling_update().and_then(|block| block.paused) == Some(true)
    }

    pub(crate) fn update_policy(&self) -> UpdatePolicy {
        let policy = self.rolling_update();
        match policy.and_then(|block| block.pod_update_policy.as_deref()) {
            Some("InPlaceIfPossible") => UpdatePolicy::InPlaceIfPossible,
            Some("InPlaceOnly") => UpdatePolicy::InPlaceOnly,
            _ => UpdatePolicy::ReCreate,
        }
    }

    pub(crate) fn grace_period_seconds(&self) -> i32 {
        let strategy = self.in_place_strategy();
        strategy
            .and_then(|strategy| strategy.grace_period_seconds)
            .unwrap_or(0)
    }

    fn in_place_strategy(&self) -> Option<&InPlaceUpdateStrategy> {
        let block = self.rolling_update()?;
        block.in_place_update_strategy.as_ref()
    }

    /// The user's options for pulling images before an update.
    pub(crate) fn pre_download(&self) -> pre_download::Options {
        let strategy = self.in_place_strategy().cloned().unwrap_or_default();
        pre_download::Options {
            parallelism: strategy.image_pre_download_parallelism,
            timeout_seconds: strategy.image_pre_download_timeout_seconds,
            min_updated_ready: strategy
                .image_pre_download_min_updated_ready_pods
                .unwrap_or(0),
        }
    }

    /// The parameters of the set's update, for pulling images ahead.
    pub(crate) fn update(&self) -> pre_download::Update {
        let default = IntOrString::String(MAX_UNAVAILABLE.to_owned());
        let block = self.rolling_update();
        let allowed = block.and_then(|block| block.max_unavailable.as_ref());
        let allowed = allowed.unwrap_or(&default);
        let max_unavailable = resolve(allowed, self.replicas(), Round::Down).unwrap_or(0);
        pre_download::Update {
            replicas: self.replicas(),
            partition: self.partition(),
            max_unavailable,
            may_be_in_place: self.update_policy() != UpdatePolicy::ReCreate,
        }
    }

    pub(crate) fn claim_templates(&self) -> &[PersistentVolumeClaim] {
        let templates = &self.spec().volume_claim_templates;
        templates.as_deref().unwrap_or_default()
    }

    pub(crate) fn match_labels(&self) -> BTreeMap<String, String> {
        self.spec()
            .selector
            .match_labels
            .clone()
            .unwrap_or_default()
    }

    /// Whether new pods take over claims whose pods are gone.
    pub(crate) fn reuses_claims(&self) -> bool {
        let strategy = self.spec().scale_strategy.as_ref();
        strategy.is_some_and(|strategy| strategy.enable_pvc_reuse)
    }

    pub(crate) fn pods_to_delete(&self) -> &[String] {
        pods_to_delete(self.spec())
    }

    /// Whether the pod is marked for deletion: by a label, or in the set's spec.
    pub(crate) fn is_to_delete(&self, pod: &Pod) -> bool {
        let name = pod.metadata.name.as_ref();
        is_specified_delete(pod) || name.is_some_and(|name| self.doomed.contains(name))
    }

    /// The number of pods that stay at other revisions than the update one.
    pub(crate) fn partition(&self) -> i32 {
        let block = self.rolling_update();
        let partition = block.and_then(|block| block.partition.as_ref());
        numbers::partition(partition, self.replicas())
    }

    /// The numbers that the spec asks for; `settled` says that the current revision is the update
    /// one.
    pub(crate) fn wanted(&self, settled: bool) -> Wanted {
        let replicas = self.replicas();
        let block = self.rolling_update();
        let share = |value: &IntOrString, round| resolve(value, replicas, round).unwrap_or(0);
        let surge = block.and_then(|block| block.max_surge.as_ref());
        let surge = surge.filter(|_| !self.is_paused());
        let max_surge = surge.map_or(0, |surge| share(surge, Round::Up));
        let round = match block.is_some() && max_surge == 0 {
            true => Round::Up,
            false => Round::Down,
        };
        let default = IntOrString::String(MAX_UNAVAILABLE.to_owned());
        let allowed = block.and_then(|block| block.max_unavailable.as_ref());
        let scale = self.spec().scale_strategy.as_ref();
        let scale_limit = scale.and_then(|scale| scale.max_unavailable.as_ref());
        Wanted {
            replicas,
            partition: self.partition(),
            max_surge,
            max_unavailable: share(allowed.unwrap_or(&default), round),
            scale_max_unavailable: scale_limit.map_or(i32::MAX, |limit| share(limit, Round::Up)),
            excludes_preparing_delete: scale
                .is_some_and(|scale| scale.exclude_preparing_delete == Some(true)),
            may_roll_back: !settled && self.gates.partition_rollback,
        }
    }

    /// The reference with which the set controls its objects.
    pub(crate) fn owner_ref(&self) -> OwnerReference {
        controller_ref(API_VERSION, KIND, self.meta())
    }

    /// Returns the reference to the set for events.
    pub(crate) fn reference(&self) -> ObjectReference {
        reference_to(API_VERSION, KIND, self.meta())
    }
}

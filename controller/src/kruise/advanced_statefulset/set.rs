//! An Advanced StatefulSet as the controller reads it: typed, with defaults, and its template's raw
//! JSON.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::core::DynamicObject;
use kubeproof_runtime::controller_ref::{controller_ref, reference_to};
use kubeproof_runtime::int_or_percent::{Round, resolve};
use kubeproof_runtime::sync_error::Error;
use serde_json::Value;

use crate::kruise::api::stateful_set::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use crate::kruise::api::strategy::Lifecycle;
use crate::kruise::pre_download;
use crate::kruise::{API_VERSION, Gates};
use crate::workload::claim::RetentionPolicy;
use crate::workload::history;
use crate::workload::stateful_identity::Identity;

pub(super) const KIND: &str = "StatefulSet";
/// The annotation with the number of nodes that pull the image of an update at once.
const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
/// The annotation with the timeout of such a pull, in seconds.
const TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";
/// The annotation with the number of ready updated pods before images are pulled.
const MIN_UPDATED_READY: &str = "apps.kruise.io/image-predownload-min-updated-ready-pods";

#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: StatefulSet,
    /// The data of a revision of the set, built from the bytes of `spec.template` as the server
    /// returned it.
    pub(super) revision_data: Value,
    /// The ordinals of the desired pods, ascending.
    ordinals: Vec<i32>,
    start: i32,
    gates: Gates,
}

/// The policy by which a pod changes its revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdatePolicy {
    ReCreate,
    InPlaceIfPossible,
    InPlaceOnly,
}

impl Set {
    pub(super) fn parse(object: &DynamicObject, gates: Gates) -> Result<Self, Error> {
        let template = object.data.pointer("/spec/template");
        let revision_data = history::legacy_template_data(template.unwrap_or(&Value::Null));
        let name = object.name_any();
        let malformed = |source| Error::Malformed {
            what: format!("StatefulSet {name}"),
            source,
        };
        let text = serde_json::to_string(object).map_err(malformed)?;
        let object: StatefulSet = serde_json::from_str(&text).map_err(malformed)?;
        let spec = &object.spec;
        let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
        let start = start.filter(|_| gates.start_ordinal).unwrap_or(0);
        let reserved = reserved(spec.reserve_ordinals.as_deref().unwrap_or_default());
        let replicas = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        let free = (start..).filter(|ordinal| !reserved.contains(&i64::from(*ordinal)));
        Ok(Self {
            ordinals: free.take(replicas).collect(),
            start,
            gates,
            object,
            revision_data,
        })
    }

    pub(super) fn gates(&self) -> Gates {
        self.gates
    }

    pub(super) fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    pub(super) fn spec(&self) -> &StatefulSetSpec {
        &self.object.spec
    }

    pub(super) fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn status(&self) -> StatefulSetStatus {
        self.object.status.clone().unwrap_or_default()
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    pub(super) fn replicas(&self) -> i32 {
        self.spec().replicas.unwrap_or(1)
    }

    /// The ordinals of the desired pods, ascending.
    pub(super) fn ordinals(&self) -> &[i32] {
        &self.ordinals
    }

    /// How far from the first ordinal that a pod may have this one is; reserved ones count.
    pub(super) fn slot(&self, ordinal: i32) -> i32 {
        ordinal - self.start
    }

    pub(super) fn has_ordinal(&self, ordinal: i32) -> bool {
        self.ordinals.binary_search(&ordinal).is_ok()
    }

    pub(super) fn is_parallel(&self) -> bool {
        self.spec().pod_management_policy.as_deref() == Some("Parallel")
    }

    pub(super) fn lifecycle(&self) -> Option<&Lifecycle> {
        self.spec().lifecycle.as_ref()
    }

    pub(super) fn is_on_delete(&self) -> bool {
        let strategy = self.spec().update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
    }

    pub(super) fn rolling_update(&self) -> Option<&RollingUpdateStatefulSetStrategy> {
        let strategy = self.spec().update_strategy.as_ref()?;
        strategy.rolling_update.as_ref()
    }

    pub(super) fn partition(&self) -> i32 {
        let block = self.rolling_update();
        block.and_then(|block| block.partition).unwrap_or(0)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.rolling_update().and_then(|block| block.paused) == Some(true)
    }

    pub(super) fn min_ready_seconds(&self) -> i32 {
        let block = self.rolling_update();
        block.and_then(|block| block.min_ready_seconds).unwrap_or(0)
    }

    pub(super) fn update_policy(&self) -> UpdatePolicy {
        let policy = self.rolling_update();
        match policy.and_then(|block| block.pod_update_policy.as_deref()) {
            Some("InPlaceIfPossible") => UpdatePolicy::InPlaceIfPossible,
            Some("InPlaceOnly") => UpdatePolicy::InPlaceOnly,
            _ => UpdatePolicy::ReCreate,
        }
    }

    pub(super) fn grace_period_seconds(&self) -> i32 {
        let block = self.rolling_update();
        let strategy = block.and_then(|block| block.in_place_update_strategy.as_ref());
        strategy
            .and_then(|strategy| strategy.grace_period_seconds)
            .unwrap_or(0)
    }

    /// The options for pulling images before an update, which the user sets by annotations.
    pub(super) fn pre_download(&self) -> pre_download::Options {
        let annotations = self.object.annotations();
        let number = |key: &str| annotations.get(key).and_then(|text| text.parse().ok());
        let ready = annotations.get(MIN_UPDATED_READY).map(|text| {
            let number = text.parse().map(IntOrString::Int);
            number.unwrap_or_else(|_| IntOrString::String(text.clone()))
        });
        let ready = ready.and_then(|ready| resolve(&ready, self.replicas(), Round::Up));
        pre_download::Options {
            parallelism: number(PARALLELISM).map(IntOrString::Int),
            timeout_seconds: number(TIMEOUT_SECONDS),
            min_updated_ready: ready.unwrap_or(0),
        }
    }

    /// The parameters of the set's update, for pulling images ahead.
    pub(super) fn update(&self) -> pre_download::Update {
        let block = self.rolling_update();
        let allowed = block.and_then(|block| block.max_unavailable.as_ref());
        let allowed = allowed.unwrap_or(&IntOrString::Int(1));
        let max_unavailable = resolve(allowed, self.replicas(), Round::Down).unwrap_or(0);
        pre_download::Update {
            replicas: self.replicas(),
            partition: self.partition(),
            max_unavailable,
            may_be_in_place: !self.is_on_delete() && self.update_policy() != UpdatePolicy::ReCreate,
        }
    }

    /// The most pods that an update may make unavailable; at least one.
    pub(super) fn max_unavailable(&self) -> usize {
        let block = self.rolling_update();
        let allowed = block.and_then(|block| block.max_unavailable.as_ref());
        self.at_least_one(allowed.unwrap_or(&IntOrString::Int(1)))
    }

    /// The most pods that may be unavailable during creation; None without a limit.
    pub(super) fn scale_max_unavailable(&self) -> Option<usize> {
        let strategy = self.spec().scale_strategy.as_ref()?;
        let allowed = strategy.max_unavailable.as_ref()?;
        Some(self.at_least_one(allowed))
    }

    fn at_least_one(&self, value: &IntOrString) -> usize {
        let number = resolve(value, self.replicas(), Round::Down).unwrap_or(1);
        usize::try_from(number).unwrap_or(0).max(1)
    }

    pub(super) fn claim_templates(&self) -> &[PersistentVolumeClaim] {
        let templates = &self.spec().volume_claim_templates;
        templates.as_deref().unwrap_or_default()
    }

    /// Whether the claims of a pod are made as large as their templates say before it is updated.
    pub(super) fn resizes_claims(&self) -> bool {
        let strategy = self.spec().volume_claim_update_strategy.as_ref();
        let type_ = strategy.and_then(|strategy| strategy.type_.as_deref());
        self.gates.auto_resize_claims && type_ == Some("OnPodRollingUpdate")
    }

    pub(super) fn match_labels(&self) -> BTreeMap<String, String> {
        self.spec()
            .selector
            .match_labels
            .clone()
            .unwrap_or_default()
    }

    pub(super) fn retention_policy(&self) -> RetentionPolicy {
        let policy = self
            .spec()
            .persistent_volume_claim_retention_policy
            .as_ref();
        let deletes = |field: Option<&String>| field.is_some_and(|value| value == "Delete");
        RetentionPolicy {
            delete_when_deleted: deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
            delete_when_scaled: deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }

    /// The identity that the set gives to its pods.
    pub(super) fn identity(&self) -> Identity<'_> {
        Identity {
            name: self.name(),
            namespace: self.namespace(),
            service_name: self.spec().service_name.as_deref(),
            claim_templates: self.claim_templates(),
            has_index_label: true,
        }
    }

    /// The reference with which the set controls its pods and revisions.
    pub(super) fn owner_ref(&self) -> OwnerReference {
        controller_ref(API_VERSION, KIND, self.meta())
    }

    /// The reference with which it owns claims, without controlling them.
    pub(super) fn plain_ref(&self) -> OwnerReference {
        OwnerReference {
            controller: None,
            block_owner_deletion: None,
            ..self.owner_ref()
        }
    }

    /// Returns the reference to the set for events.
    pub(super) fn reference(&self) -> ObjectReference {
        reference_to(API_VERSION, KIND, self.meta())
    }
}

/// Reserved ordinals; none at all when a range can't be read.
fn reserved(stated: &[IntOrString]) -> BTreeSet<i64> {
    let mut reserved = BTreeSet::new();
    for one in stated {
        match one {
            IntOrString::Int(ordinal) => {
                reserved.insert(i64::from(*ordinal));
            }
            IntOrString::String(range) => {
                let Some((first, last)) = range_of(range) else {
                    tracing::warn!(range, "not a range of ordinals");
                    return BTreeSet::new();
                };
                reserved.extend(first..=last);
            }
        }
    }
    reserved
}

/// The ends of `a-b`, where a is not above b.
pub(crate) fn range_of(text: &str) -> Option<(i64, i64)> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?);
    (0 <= first && first <= last).then(|| (first.into(), last.into()))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    fn set(spec: Value, gates: Gates) -> Set {
        let mut spec = spec;
        spec["selector"] = json!({});
        spec["template"] = json!({});
        let object = from_value(json!({"metadata": {"name": "web"}, "spec": spec}));
        Set::parse(&object.unwrap(), gates).unwrap()
    }

    #[test]
    fn reserved_ordinals_are_skipped() {
        let on = Gates {
            start_ordinal: true,
            ..Gates::default()
        };
        let table = [
            (
                json!({"replicas": 4, "reserveOrdinals": [1]}),
                vec![0, 2, 3, 4],
            ),
            (
                json!({"replicas": 4, "reserveOrdinals": [1, 3]}),
                vec![0, 2, 4, 5],
            ),
            (
                json!({"replicas": 3, "reserveOrdinals": [1, 3]}),
                vec![0, 2, 4],
            ),
            (
                json!({"replicas": 3, "reserveOrdinals": [0, "2-5"]}),
                vec![1, 6, 7],
            ),
            (
                json!({"replicas": 2, "reserveOrdinals": [0, "5-2"]}),
                vec![0, 1],
            ),
            (json!({"replicas": 2, "reserveOrdinals": [9]}), vec![0, 1]),
        ];
        for (spec, expected) in table {
            assert_eq!(
                set(spec.clone(), Gates::default()).ordinals(),
                expected,
                "{spec}"
            );
        }
        let spec = json!({"replicas": 4, "ordinals": {"start": 2}, "reserveOrdinals": [1, 3]});
        assert_eq!(set(spec.clone(), on).ordinals(), [2, 4, 5, 6]);
        assert_eq!(set(spec, Gates::default()).ordinals(), [0, 2, 4, 5]);
    }

    #[test]
    fn limits_are_rounded_down_to_one_at_least() {
        let of = |value: Value| {
            let spec = json!({"replicas": 5,
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": value}}});
            set(spec, Gates::default()).max_unavailable()
        };
        assert_eq!(of(json!("20%")), 1);
        assert_eq!(of(json!("50%")), 2);
        assert_eq!(of(json!("10%")), 1);
        assert_eq!(of(json!(3)), 3);
        assert_eq!(of(Value::Null), 1);
    }
}

//! A StatefulSet as the controller reads it: typed, with defaults, and its template's raw JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::core::DynamicObject;
use kubeproof_runtime::controller_ref::{controller_ref, reference_to};
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::int_or_percent::{Round, resolve};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::typed_cache::Previous;
use serde_json::Value;

use super::{Profile, Settings};
use crate::workload::claim::RetentionPolicy;
use crate::workload::event_handlers::Workload;
use crate::workload::history;
use crate::workload::stateful_identity::Identity;

pub(crate) const API_VERSION: &str = "apps/v1";
pub(crate) const KIND: &str = "StatefulSet";

/// The strategy for updating pods at an old revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    OnDelete,
    /// The partition is None when the `rollingUpdate` block is absent.
    RollingUpdate {
        partition: Option<i32>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Set {
    metadata: ObjectMeta,
    /// Shared by versions with the same.
    spec: Arc<Spec>,
    status: Option<StatefulSetStatus>,
    /// How the controller is set up that reads it.
    pub(crate) settings: Settings,
}

#[derive(Debug)]
struct Spec {
    typed: StatefulSetSpec,
    /// The data of a revision of the set, built from the bytes of `spec.template` as the server
    /// returned it.
    revision_data: Value,
}

impl Spec {
    fn parse(data: &Value, settings: Settings) -> Result<Self, serde_json::Error> {
        let template = data.pointer("/spec/template");
        let template = template.unwrap_or(&Value::Null);
        let revision_data = match settings.profile.is_old() {
            true => history::legacy_template_data(template),
            false => history::template_data(template),
        };
        let typed: Option<StatefulSetSpec> = from_value(&data["spec"])?;
        Ok(Self {
            typed: typed.unwrap_or_default(),
            revision_data,
        })
    }
}

impl Set {
    /// Reads a set; with the spec of the version `before`, if that is the same.
    ///
    /// # Errors
    /// `Malformed` for an object that is not a StatefulSet.
    pub(crate) fn parse(
        object: &DynamicObject,
        before: Option<Previous<'_, Self>>,
        settings: Settings,
    ) -> Result<Self, Error> {
        let metadata = &object.metadata;
        let malformed = |source| Error::Malformed {
            what: format!("StatefulSet {}", object.name_any()),
            source,
        };
        let before = before.filter(|before| before.of.data["spec"] == object.data["spec"]);
        let spec = match before {
            Some(before) => Arc::clone(&before.made.spec),
            None => Arc::new(Spec::parse(&object.data, settings).map_err(malformed)?),
        };
        Ok(Self {
            metadata: metadata.clone(),
            spec,
            status: from_value(&object.data["status"]).map_err(malformed)?,
            settings,
        })
    }

    /// The set as it is sent back to the server.
    pub(crate) fn object(&self) -> StatefulSet {
        StatefulSet {
            metadata: self.metadata.clone(),
            spec: Some(self.spec().clone()),
            status: self.status.clone(),
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    pub(crate) fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    pub(crate) fn spec(&self) -> &StatefulSetSpec {
        &self.spec.typed
    }

    /// The data of a revision of the set, built from its pod template.
    pub(crate) fn revision_data(&self) -> &Value {
        &self.spec.revision_data
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

    pub(crate) fn status(&self) -> StatefulSetStatus {
        self.status.clone().unwrap_or_default()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    pub(crate) fn replicas(&self) -> i32 {
        self.spec().replicas.unwrap_or(1)
    }

    /// The ordinal of the first replica.
    pub(crate) fn start(&self) -> i32 {
        self.spec()
            .ordinals
            .as_ref()
            .and_then(|ordinals| ordinals.start)
            .unwrap_or(0)
    }

    /// The slot of `ordinal` among the replicas, if it is one of them.
    pub(crate) fn slot(&self, ordinal: i32) -> Option<usize> {
        let slot = i64::from(ordinal) - i64::from(self.start());
        if slot >= i64::from(self.replicas()) {
            return None;
        }
        usize::try_from(slot).ok()
    }

    pub(crate) fn profile(&self) -> Profile {
        self.settings.profile
    }

    /// The most replicas that a rollout may make unavailable at a time.
    pub(crate) fn max_unavailable(&self) -> usize {
        let strategy = self.spec().update_strategy.as_ref();
        let block = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let allowed = block.and_then(|block| block.max_unavailable.as_ref());
        let allowed = allowed.filter(|_| self.settings.max_unavailable);
        let total = self.replicas();
        let allowed = allowed.and_then(|allowed| resolve(allowed, total, Round::Down));
        usize::try_from(allowed.unwrap_or(1)).unwrap_or(0).max(1)
    }

    pub(crate) fn min_ready_seconds(&self) -> i32 {
        if self.profile().is_old() {
            return 0;
        }
        self.spec().min_ready_seconds.unwrap_or(0)
    }

    pub(crate) fn revision_history_limit(&self) -> i32 {
        self.spec().revision_history_limit.unwrap_or(10)
    }

    /// `podManagementPolicy: Parallel`.
    pub(crate) fn is_parallel(&self) -> bool {
        self.spec().pod_management_policy.as_deref() == Some("Parallel")
    }

    pub(crate) fn strategy(&self) -> Strategy {
        let Some(strategy) = &self.spec().update_strategy else {
            return Strategy::RollingUpdate { partition: None };
        };
        if strategy.type_.as_deref() == Some("OnDelete") {
            return Strategy::OnDelete;
        }
        let partition = |block: &RollingUpdateStatefulSetStrategy| block.partition.unwrap_or(0);
        Strategy::RollingUpdate {
            partition: strategy.rolling_update.as_ref().map(partition),
        }
    }

    pub(crate) fn claim_templates(&self) -> &[PersistentVolumeClaim] {
        self.spec()
            .volume_claim_templates
            .as_deref()
            .unwrap_or_default()
    }

    pub(crate) fn match_labels(&self) -> BTreeMap<String, String> {
        self.spec()
            .selector
            .match_labels
            .clone()
            .unwrap_or_default()
    }

    pub(crate) fn retention_policy(&self) -> RetentionPolicy {
        let policy = self
            .spec()
            .persistent_volume_claim_retention_policy
            .as_ref()
            .filter(|_| !self.profile().is_old());
        let deletes = |field: Option<&String>| field.is_some_and(|value| value == "Delete");
        RetentionPolicy {
            delete_when_deleted: deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
            delete_when_scaled: deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }

    /// The identity that the set gives to its pods.
    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity {
            name: self.name(),
            namespace: self.namespace(),
            service_name: self.spec().service_name.as_deref(),
            claim_templates: self.claim_templates(),
            has_index_label: !self.profile().is_old(),
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

/// A cached set. The parts that matter to pod events are read without parsing all of it.
pub(crate) struct Cached(pub(crate) Arc<DynamicObject>);

impl Workload for Cached {
    const KIND: &'static str = KIND;

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn selector(&self) -> LabelSelector {
        let selector = self.0.data.pointer("/spec/selector");
        let selector = selector.and_then(|own| from_value(own).ok());
        selector.unwrap_or_default()
    }

    fn recheck_after(&self) -> Option<Duration> {
        let seconds = self.0.data.pointer("/spec/minReadySeconds")?.as_u64()?;
        Some(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(image: &str, replicas: i32) -> DynamicObject {
        let containers = json!([{ "name": "c", "image": image }]);
        from_value(json!({
            "metadata": { "name": "web", "namespace": "ns", "uid": "u", "generation": 1 },
            "spec": { "selector": {}, "template": { "spec": { "containers": containers } } },
            "status": { "replicas": replicas },
        }))
        .unwrap()
    }

    #[test]
    fn versions_share_a_spec_that_is_the_same_and_no_other() {
        let settings = Settings::default();
        let first = object("a", 0);
        let read = Set::parse(&first, None, settings).unwrap();
        let after = |next: &DynamicObject| {
            let before = Previous {
                of: &first,
                made: &read,
            };
            Set::parse(next, Some(before), settings).unwrap()
        };
        let same = after(&object("a", 3));
        assert!(Arc::ptr_eq(&same.spec, &read.spec));
        assert_eq!(same.status().replicas, 3);
        // A generation may stay although the template is written in another way.
        let other = after(&object("b", 0));
        assert_ne!(other.revision_data(), read.revision_data());
        assert_ne!(other.spec(), read.spec());
    }
}

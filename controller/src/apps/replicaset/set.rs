//! The kinds whose pods the controller counts: the ReplicaSet, and the ReplicationController that
//! came before it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::workload::event_handlers::Workload;

/// A kind with a number of replicas.
pub(crate) trait Set:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// The controller's name: its user agent and the source of its events.
    const CONTROLLER: &'static str;
    /// As owner references spell it.
    const API_VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The group resource, if syncs wait until the caches have what the controller wrote.
    const CONSISTENT: Option<&'static str>;

    /// The selector of the set's pods.
    fn selector(&self) -> LabelSelector;

    /// The desired number of pods.
    fn replicas(&self) -> i32;

    /// The seconds that a pod has to be ready before it is available.
    fn min_ready_seconds(&self) -> i32;

    /// The template of the set's pods.
    fn template(&self) -> Option<&PodTemplateSpec>;

    /// The status, in the form of a ReplicaSet's.
    fn status(&self) -> ReplicaSetStatus;

    /// Sets the status, as far as the kind has its fields.
    fn set_status(&mut self, status: ReplicaSetStatus);
}

impl Set for ReplicaSet {
    const CONTROLLER: &'static str = super::NAME;
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "ReplicaSet";
    const CONSISTENT: Option<&'static str> = Some("replicasets.apps");

    fn selector(&self) -> LabelSelector {
        let spec = self.spec.as_ref();
        spec.map(|spec| spec.selector.clone()).unwrap_or_default()
    }

    fn replicas(&self) -> i32 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn status(&self) -> ReplicaSetStatus {
        self.status.clone().unwrap_or_default()
    }

    fn set_status(&mut self, status: ReplicaSetStatus) {
        self.status = Some(status);
    }
}

impl<S: Set> Workload for Arc<S> {
    const KIND: &'static str = S::KIND;

    fn meta(&self) -> &ObjectMeta {
        Resource::meta(&**self)
    }

    fn selector(&self) -> LabelSelector {
        Set::selector(&**self)
    }

    fn recheck_after(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.min_ready_seconds()).ok()?;
        // One more, because conditions are dated in whole seconds.
        (seconds > 0).then(|| Duration::from_secs(seconds + 1))
    }
}

//! Queries over the ReplicaSets of a deployment.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt;

/// The label that keeps the pods of a deployment's ReplicaSets apart.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// A deployment's ReplicaSets.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicaSets {
    /// The one with the deployment's template.
    pub(super) new: Option<ReplicaSet>,
    /// All others, oldest first.
    pub(super) old: Vec<ReplicaSet>,
}

impl ReplicaSets {
    /// Separates the new set from the old ones. Of several with one template, the oldest is the new one.
    pub(super) fn of(deployment: &Deployment, mut sets: Vec<ReplicaSet>) -> Self {
        sets.sort_by_key(age);
        let template = deployment.spec.as_ref().map(|spec| &spec.template);
        let is_new = |set: &ReplicaSet| {
            let of_set = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            matches!((of_set, template), (Some(a), Some(b)) if equal_but_hash(a, b))
        };
        let new = sets.iter().position(is_new).map(|index| sets.remove(index));
        Self { new, old: sets }
    }

    /// Old ones first, then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    /// Puts a set's new version in its place.
    pub(super) fn put(&mut self, set: ReplicaSet) {
        let uid = set.uid();
        let place = self.old.iter_mut().chain(&mut self.new);
        if let Some(place) = place.into_iter().find(|one| one.uid() == uid) {
            *place = set;
        }
    }
}

/// Sorts by age, oldest first.
pub(super) fn age(set: &ReplicaSet) -> (Option<Timestamp>, String) {
    (set.creation_timestamp().map(|time| time.0), set.name_any())
}

fn equal_but_hash(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let stripped = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        if let Some(labels) = template
            .metadata
            .as_mut()
            .and_then(|meta| meta.labels.as_mut())
        {
            labels.remove(HASH_LABEL);
        }
        template
    };
    stripped(a) == stripped(b)
}

/// The replicas in the spec of a set.
pub(super) fn wanted(set: &ReplicaSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Whether the spec of a set has any replicas.
pub(super) fn is_active(set: &ReplicaSet) -> bool {
    wanted(set) > 0
}

/// The sum of the replicas in the specs of sets.
pub(super) fn sum_wanted<'a>(sets: impl Iterator<Item = &'a ReplicaSet>) -> i32 {
    sets.map(wanted).sum()
}

/// A counter of the status.
pub(super) fn count(set: &ReplicaSet, counter: impl Fn(&ReplicaSetStatus) -> Option<i32>) -> i32 {
    set.status.as_ref().and_then(counter).unwrap_or(0)
}

/// The available replicas of a set.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    count(set, |status| status.available_replicas)
}

/// The replicas that a set has.
pub(super) fn actual(set: &ReplicaSet) -> i32 {
    count(set, |status| Some(status.replicas))
}

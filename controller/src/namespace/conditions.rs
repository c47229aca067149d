//! The conditions of a namespace that is being deleted: what is left in it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;

use crate::inventory::Kind;

const CONTENT: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// Type, reason and message of each condition as long as all is well, in upstream's order.
///
/// Source: `pkg/controller/namespace/deletion/status_condition_utils.go`.
const WELL: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        CONTENT,
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        FINALIZERS,
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// What is left in a namespace.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// By resource and group.
    objects: BTreeMap<String, usize>,
    /// How many objects each finalizer keeps.
    finalizers: BTreeMap<String, usize>,
}

impl Remains {
    pub(super) fn add(&mut self, kind: &Kind, metadata: &ObjectMeta) {
        let resource = format!("{}.{}", kind.resource.plural, kind.resource.group);
        self.count(resource, metadata);
    }

    fn count(&mut self, resource: String, metadata: &ObjectMeta) {
        *self.objects.entry(resource).or_default() += 1;
        for finalizer in metadata.finalizers.iter().flatten() {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }

    /// The conditions that `namespace` should have, if it has others.
    pub(super) fn conditions(
        &self,
        namespace: &Namespace,
        now: Timestamp,
    ) -> Option<Vec<NamespaceCondition>> {
        let status = namespace.status.as_ref();
        let before = status.and_then(|status| status.conditions.as_deref());
        let before = before.unwrap_or_default();
        let mut is_changed = false;
        let conditions = WELL.iter().map(|(type_, reason, message)| {
            let own = self.failure(type_);
            let (status, reason, message) = match own {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", *reason, (*message).to_owned()),
            };
            let old = before.iter().find(|condition| condition.type_ == *type_);
            let kept = old.filter(|old| old.status == status);
            let since = kept.and_then(|old| old.last_transition_time.clone());
            let new = NamespaceCondition {
                type_: (*type_).to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: Some(since.unwrap_or(Time(now))),
            };
            is_changed |= old != Some(&new);
            new
        });
        let conditions = conditions.collect();
        is_changed.then_some(conditions)
    }

    /// Why a condition is True, if it is.
    fn failure(&self, type_: &str) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, word: &str| {
            let counts = counts.iter();
            let counts =
                counts.map(|(name, count)| format!("{name} {word} {count} resource instances"));
            counts.collect::<Vec<_>>().join(", ")
        };
        match type_ {
            CONTENT if !self.objects.is_empty() => {
                let listed = listed(&self.objects, "has");
                let message = format!("Some resources are remaining: {listed}");
                Some(("SomeResourcesRemain", message))
            }
            FINALIZERS if !self.finalizers.is_empty() => {
                let listed = listed(&self.finalizers, "in");
                let message =
                    format!("Some content in the namespace has finalizers remaining: {listed}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn conditions_tell_what_is_left_and_keep_their_times() {
        let mut remains = Remains::default();
        let held = ObjectMeta {
            finalizers: Some(vec!["example.com/hold".to_owned()]),
            ..ObjectMeta::default()
        };
        remains.count("configmaps.".to_owned(), &held);
        remains.count("deployments.apps".to_owned(), &ObjectMeta::default());
        remains.count("deployments.apps".to_owned(), &held);
        let mut namespace = Namespace::default();
        let told = remains.conditions(&namespace, at(5)).unwrap();
        let said = told.iter().map(|condition| {
            let message = condition.message.as_deref().unwrap_or_default();
            format!("{}={} {message}", condition.type_, condition.status)
        });
        assert_eq!(
            said.collect::<Vec<_>>()[3..],
            [
                "NamespaceContentRemaining=True Some resources are remaining: \
                 configmaps. has 1 resource instances, deployments.apps has 2 resource instances",
                "NamespaceFinalizersRemaining=True Some content in the namespace has finalizers \
                 remaining: example.com/hold in 2 resource instances",
            ]
        );
        namespace.status.get_or_insert_default().conditions = Some(told);
        assert_eq!(remains.conditions(&namespace, at(9)), None);
        let well = Remains::default().conditions(&namespace, at(9)).unwrap();
        let times = well
            .iter()
            .map(|condition| condition.last_transition_time.clone().unwrap().0);
        assert_eq!(times.collect::<Vec<_>>(), [5, 5, 5, 9, 9].map(at));
    }
}

//! The conditions of a namespace that is being deleted: what is left in it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kubeproof_runtime::discovery::APIResource;

const DISCOVERY: &str = "NamespaceDeletionDiscoveryFailure";
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
const CONTENT: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// Type, reason and message of each condition as long as all is well, in upstream's order.
///
/// Source: `pkg/controller/namespace/deletion/status_condition_utils.go`.
const WELL: [(&str, &str, &str); 5] = [
    (
        DISCOVERY,
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        CONTENT_FAILURE,
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

/// The findings of a pass over a namespace.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The error because of which not all kinds are known.
    pub(super) discovery: Option<String>,
    /// The errors of failed deletions.
    pub(super) content_errors: Vec<String>,
    /// Whether the pass visited all kinds, so that remaining content is reported.
    pub(super) is_complete: bool,
    /// The number of objects by resource and group.
    objects: BTreeMap<String, usize>,
    /// The number of objects that each finalizer keeps.
    finalizers: BTreeMap<String, usize>,
}

impl Findings {
    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Notes that `count` objects of `kind` are left, kept by `finalizers`.
    pub(super) fn add(
        &mut self,
        kind: &APIResource,
        count: usize,
        finalizers: BTreeMap<String, usize>,
    ) {
        let resource = format!("{}.{}", kind.resource.plural, kind.resource.group);
        self.count(resource, count, finalizers);
    }

    fn count(&mut self, resource: String, count: usize, finalizers: BTreeMap<String, usize>) {
        self.objects.insert(resource, count);
        for (finalizer, count) in finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
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

    /// The reason and message of a condition if it is True.
    fn failure(&self, type_: &str) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, word: &str| {
            let counts = counts.iter();
            let counts =
                counts.map(|(name, count)| format!("{name} {word} {count} resource instances"));
            counts.collect::<Vec<_>>().join(", ")
        };
        match type_ {
            DISCOVERY => {
                let error = self.discovery.clone()?;
                Some(("DiscoveryFailed", error))
            }
            CONTENT_FAILURE if !self.content_errors.is_empty() => {
                let mut errors = self.content_errors.clone();
                errors.sort();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    errors.len(),
                    errors.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            CONTENT if self.is_complete && !self.objects.is_empty() => {
                let listed = listed(&self.objects, "has");
                let message = format!("Some resources are remaining: {listed}");
                Some(("SomeResourcesRemain", message))
            }
            FINALIZERS if self.is_complete && !self.finalizers.is_empty() => {
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
    fn conditions_list_what_is_left_and_keep_their_times() {
        let mut findings = Findings {
            is_complete: true,
            ..Findings::default()
        };
        let held = BTreeMap::from([("example.com/hold".to_owned(), 1)]);
        findings.count("configmaps.".to_owned(), 1, held.clone());
        findings.count("deployments.apps".to_owned(), 2, held);
        let mut namespace = Namespace::default();
        let conditions = findings.conditions(&namespace, at(5)).unwrap();
        let said = conditions.iter().map(|condition| {
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
        namespace.status.get_or_insert_default().conditions = Some(conditions);
        assert_eq!(findings.conditions(&namespace, at(9)), None);
        let well = Findings::default().conditions(&namespace, at(9)).unwrap();
        let times = well
            .iter()
            .map(|condition| condition.last_transition_time.clone().unwrap().0);
        assert_eq!(times.collect::<Vec<_>>(), [5, 5, 5, 9, 9].map(at));
    }

    #[test]
    fn failures_are_reported_and_what_is_left_of_pods_is_not() {
        let mut findings = Findings {
            discovery: Some("no list".to_owned()),
            content_errors: vec!["b".to_owned(), "a".to_owned()],
            ..Findings::default()
        };
        findings.count("pods.".to_owned(), 1, BTreeMap::new());
        let conditions = findings.conditions(&Namespace::default(), at(5)).unwrap();
        let failing = conditions
            .iter()
            .filter(|condition| condition.status == "True");
        let failing = failing.map(|condition| {
            let reason = condition.reason.as_deref().unwrap_or_default();
            let message = condition.message.as_deref().unwrap_or_default();
            format!("{} {reason}: {message}", condition.type_)
        });
        assert_eq!(
            failing.collect::<Vec<_>>(),
            [
                "NamespaceDeletionDiscoveryFailure DiscoveryFailed: no list",
                "NamespaceDeletionContentFailure ContentDeletionFailed: Failed to delete all \
                 resource types, 2 remaining: a, b",
            ]
        );
    }
}

//! Affinity and anti-affinity between pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Affinity, Node, Pod, PodAffinityTerm};
use kube::core::{Selector, SelectorExt};

use super::{Cluster, Misfit, NamespaceLabels, Reason};

/// A topology domain: a label of nodes with one of its values.
type Domain = (String, String);

/// The inter-pod affinity of one pod, precomputed for the whole cluster.
pub(super) struct InterPodAffinity {
    /// The topology key of each required term, and the values where it is met.
    wanted: Vec<(String, BTreeSet<String>)>,
    /// Whether only the pod itself meets its required terms, so that it may be the first.
    may_be_first: bool,
    /// The domains that the pod's own anti-affinity excludes.
    avoided: BTreeSet<Domain>,
    /// The domains that the anti-affinity of other pods excludes.
    forbidden: BTreeSet<Domain>,
    /// The weights of preferred domains.
    liked: BTreeMap<Domain, i64>,
}

/// The pods and namespaces that a term selects.
struct Scope<'a> {
    term: &'a PodAffinityTerm,
    namespace: &'a str,
    labels: &'a NamespaceLabels<'a>,
}

impl Scope<'_> {
    fn includes(&self, pod: &Pod) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let listed = self.term.namespaces.as_deref().unwrap_or_default();
        let selected = self.term.namespace_selector.clone();
        let in_scope = match (&selected, listed) {
            (None, []) => namespace == self.namespace,
            (None, listed) => listed.iter().any(|own| own == namespace),
            (Some(selector), listed) => {
                listed.iter().any(|own| own == namespace)
                    || Selector::try_from(selector.clone())
                        .is_ok_and(|selector| selector.matches(&(self.labels)(namespace)))
            }
        };
        let Some(selector) = self.term.label_selector.clone() else {
            return false;
        };
        in_scope
            && Selector::try_from(selector).is_ok_and(|selector| selector.matches(&pod_labels(pod)))
    }
}

pub(super) fn pod_labels(pod: &Pod) -> BTreeMap<String, String> {
    pod.metadata.labels.clone().unwrap_or_default()
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    node.metadata.labels.as_ref()?.get(key)
}

fn affinity(pod: &Pod) -> Option<&Affinity> {
    pod.spec.as_ref()?.affinity.as_ref()
}

fn required(pod: &Pod) -> &[PodAffinityTerm] {
    let own = affinity(pod).and_then(|affinity| affinity.pod_affinity.as_ref());
    let terms = own.and_then(|own| {
        own.required_during_scheduling_ignored_during_execution
            .as_deref()
    });
    terms.unwrap_or_default()
}

fn refused(pod: &Pod) -> &[PodAffinityTerm] {
    let own = affinity(pod).and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms = own.and_then(|own| {
        own.required_during_scheduling_ignored_during_execution
            .as_deref()
    });
    terms.unwrap_or_default()
}

/// Whether required anti-affinity of the pod keeps others away.
pub(super) fn repels(pod: &Pod) -> bool {
    !refused(pod).is_empty()
}

/// Returns the preferred terms with their weights, negative for anti-affinity.
fn preferred(pod: &Pod) -> Vec<(i64, &PodAffinityTerm)> {
    let affinity = affinity(pod);
    let toward = affinity.and_then(|own| own.pod_affinity.as_ref());
    let toward = toward.and_then(|own| {
        own.preferred_during_scheduling_ignored_during_execution
            .as_deref()
    });
    let away = affinity.and_then(|own| own.pod_anti_affinity.as_ref());
    let away = away.and_then(|own| {
        own.preferred_during_scheduling_ignored_during_execution
            .as_deref()
    });
    let toward = toward.unwrap_or_default().iter();
    let away = away.unwrap_or_default().iter();
    toward
        .map(|own| (i64::from(own.weight), &own.pod_affinity_term))
        .chain(away.map(|own| (-i64::from(own.weight), &own.pod_affinity_term)))
        .collect()
}

impl InterPodAffinity {
    pub(super) fn of(pod: &Pod, cluster: &Cluster<'_>) -> Self {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        // The values of a term's topology key where pods of its scope run.
        let values = |term: &PodAffinityTerm| -> Vec<String> {
            let scope = Scope {
                term,
                namespace,
                labels: cluster.namespace_labels,
            };
            let nodes = cluster.nodes.iter();
            nodes
                .filter_map(|node| Some((label(node, &term.topology_key)?, cluster.load(node))))
                .flat_map(|(value, load)| {
                    let met = load.pods.iter().filter(|other| scope.includes(other));
                    met.map(|_| value.clone())
                })
                .collect()
        };
        let wanted: Vec<(String, BTreeSet<String>)> = required(pod)
            .iter()
            .map(|term| {
                (
                    term.topology_key.clone(),
                    values(term).into_iter().collect(),
                )
            })
            .collect();
        let includes_self = required(pod).iter().all(|term| {
            let scope = Scope {
                term,
                namespace,
                labels: cluster.namespace_labels,
            };
            scope.includes(pod)
        });
        let avoided = refused(pod).iter().flat_map(|term| {
            let values = values(term).into_iter();
            values.map(|value| (term.topology_key.clone(), value))
        });
        let mut liked: BTreeMap<Domain, i64> = BTreeMap::new();
        for (weight, term) in preferred(pod) {
            for value in values(term) {
                *liked.entry((term.topology_key.clone(), value)).or_default() += weight;
            }
        }
        Self {
            may_be_first: wanted.iter().all(|(_, values)| values.is_empty()) && includes_self,
            wanted,
            avoided: avoided.collect(),
            forbidden: forbidden(pod, cluster),
            liked,
        }
    }

    pub(super) fn misfit(&self, node: &Node) -> Option<Misfit> {
        let is_near = |(key, values): &(String, BTreeSet<String>)| {
            label(node, key).is_some_and(|value| self.may_be_first || values.contains(value))
        };
        if !self.wanted.iter().all(is_near) {
            return Some(Misfit::lasting(Reason::PodAffinity));
        }
        if self.is_in(node, &self.avoided) {
            return Some(Misfit::passing(Reason::PodAntiAffinity));
        }
        self.is_in(node, &self.forbidden)
            .then(|| Misfit::passing(Reason::OthersAntiAffinity))
    }

    fn is_in(&self, node: &Node, domains: &BTreeSet<Domain>) -> bool {
        domains
            .iter()
            .any(|(key, value)| label(node, key) == Some(value))
    }

    pub(super) fn preference(&self, node: &Node) -> i64 {
        let liked = self.liked.iter();
        liked
            .filter(|((key, value), _)| label(node, key) == Some(value))
            .map(|(_, weight)| weight)
            .sum()
    }
}

/// Returns the domains that the anti-affinity of running pods excludes for `pod`.
fn forbidden(pod: &Pod, cluster: &Cluster<'_>) -> BTreeSet<Domain> {
    let mut domains = BTreeSet::new();
    for node in &cluster.nodes {
        for other in &cluster.load(node).repelling {
            for term in refused(other) {
                let scope = Scope {
                    term,
                    namespace: other.metadata.namespace.as_deref().unwrap_or_default(),
                    labels: cluster.namespace_labels,
                };
                if let Some(value) = label(node, &term.topology_key)
                    && scope.includes(pod)
                {
                    domains.insert((term.topology_key.clone(), value.clone()));
                }
            }
        }
    }
    domains
}

//! Affinity and anti-affinity between pods.
//!
//! Source: plugin InterPodAffinity.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Affinity, Node, PodAffinityTerm};
use kube::core::{Selector, SelectorExt};
use kubeproof_runtime::pod::Pod;

use super::{Cluster, Misfit, NamespaceLabels, NodeInfo, Reason, SCORE_MAX};

/// A topology domain: a label of nodes with one of its values.
type Domain = (String, String);

/// The inter-pod affinity of one pod, precomputed for the whole cluster.
#[derive(Default)]
pub(super) struct InterPodAffinity {
    /// The topology keys of the required terms.
    wanted: Vec<String>,
    /// The domains of the wanted keys with a pod that meets all required terms.
    met: BTreeSet<Domain>,
    /// Whether only the pod itself meets its required terms, so that it may be the first.
    may_be_first: bool,
    /// The domains that the pod's own anti-affinity excludes.
    avoided: BTreeSet<Domain>,
    /// The domains that the anti-affinity of other pods excludes.
    forbidden: BTreeSet<Domain>,
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

/// Whether the pod has terms about other pods.
pub(super) fn has_affinity(pod: &Pod) -> bool {
    affinity(pod).is_some_and(|own| own.pod_affinity.is_some() || own.pod_anti_affinity.is_some())
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
                .filter_map(|node| Some((label(node, &term.topology_key)?, node.load)))
                .flat_map(|(value, load)| {
                    let met = load.pods.iter().filter(|other| scope.includes(other));
                    met.map(|_| value.clone())
                })
                .collect()
        };
        let scopes: Vec<Scope<'_>> = required(pod)
            .iter()
            .map(|term| Scope {
                term,
                namespace,
                labels: cluster.namespace_labels,
            })
            .collect();
        let meets_all = |other: &Pod| scopes.iter().all(|scope| scope.includes(other));
        let mut met = BTreeSet::new();
        for node in cluster.nodes.iter().filter(|_| !scopes.is_empty()) {
            if node.load.pods.iter().any(|other| meets_all(other)) {
                met.extend(scopes.iter().filter_map(|scope| {
                    let key = &scope.term.topology_key;
                    Some((key.clone(), label(node, key)?.clone()))
                }));
            }
        }
        let avoided = refused(pod).iter().flat_map(|term| {
            let values = values(term).into_iter();
            values.map(|value| (term.topology_key.clone(), value))
        });
        Self {
            may_be_first: met.is_empty() && meets_all(pod),
            wanted: scopes
                .iter()
                .map(|scope| scope.term.topology_key.clone())
                .collect(),
            met,
            avoided: avoided.collect(),
            forbidden: forbidden(pod, cluster),
        }
    }

    pub(super) fn misfit(&self, node: &Node) -> Option<Misfit> {
        let is_near = |key: &String| {
            label(node, key).is_some_and(|value| {
                self.may_be_first || self.met.contains(&(key.clone(), value.clone()))
            })
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
}

/// Returns the scores of the nodes by preferred terms of the pod, and by terms of pods on the nodes
/// of the cluster that select it.
pub(super) fn scores(pod: &Pod, cluster: &Cluster<'_>, nodes: &[NodeInfo<'_>]) -> Vec<i64> {
    let mut liked: BTreeMap<Domain, i64> = BTreeMap::new();
    let own = preferred(pod);
    let arguments = &cluster.profile.arguments;
    if arguments.ignores_preferences_of_others && own.is_empty() {
        return vec![0; nodes.len()];
    }
    for node in &cluster.nodes {
        let load = node.load;
        // Only pods with terms of their own matter to a pod without preferences.
        let others = if own.is_empty() {
            &load.with_affinity
        } else {
            &load.pods
        };
        for other in others {
            let mut like = |weight: i64, (term, from, to): (&PodAffinityTerm, &Pod, &Pod)| {
                let scope = Scope {
                    term,
                    namespace: from.metadata.namespace.as_deref().unwrap_or_default(),
                    labels: cluster.namespace_labels,
                };
                if let Some(value) = label(node, &term.topology_key)
                    && scope.includes(to)
                {
                    let domain = (term.topology_key.clone(), value.clone());
                    *liked.entry(domain).or_default() += weight;
                }
            };
            for (weight, term) in &own {
                like(*weight, (term, pod, other));
            }
            for term in required(other) {
                like(arguments.hard_affinity_weight, (term, other, pod));
            }
            for (weight, term) in preferred(other) {
                like(weight, (term, other, pod));
            }
        }
    }
    let raw = nodes.iter().map(|node| {
        let here = liked
            .iter()
            .filter(|((key, value), _)| label(node, key) == Some(value));
        here.map(|(_, weight)| weight).sum()
    });
    let raw: Vec<i64> = raw.collect();
    let least = raw.iter().copied().min().unwrap_or(0);
    let most = raw.iter().copied().max().unwrap_or(0);
    let scaled = |score: i64| match most - least {
        0 => 0,
        range => (SCORE_MAX as f64 * ((score - least) as f64 / range as f64)) as i64,
    };
    raw.into_iter().map(scaled).collect()
}

/// Returns the domains that the anti-affinity of running pods excludes for `pod`.
fn forbidden(pod: &Pod, cluster: &Cluster<'_>) -> BTreeSet<Domain> {
    let mut domains = BTreeSet::new();
    for node in &cluster.nodes {
        for other in &node.load.repelling {
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

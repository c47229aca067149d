//! Topology spread constraints with `whenUnsatisfiable: DoNotSchedule`; `score` has the others.
//!
//! Source: plugin PodTopologySpread.

pub(super) mod score;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use kube::core::{Selector, SelectorExt};

use kubeproof_runtime::controller_ref::controller_of;

use super::inter_pod_affinity::pod_labels;
use super::{Cluster, Load, Misfit, Reason, affinity, tolerated};

/// The constraints of one pod, with the current counts of matching pods.
pub(super) struct Spread(Vec<Constraint>);

struct Constraint {
    key: String,
    max_skew: i64,
    /// The number of matching pods by value of the topology key.
    counts: BTreeMap<String, i64>,
    /// The minimum of the counts; 0 with fewer domains than `minDomains`.
    least: i64,
    /// Whether the constraint's selector matches the pod itself.
    counts_self: bool,
}

impl Spread {
    pub(super) fn of(pod: &Pod, cluster: &Cluster<'_>) -> Self {
        let constraints = constraints_of(pod, "DoNotSchedule");
        let keys: BTreeSet<&str> = constraints
            .iter()
            .map(|constraint| constraint.topology_key.as_str())
            .collect();
        let of = |constraint: &&TopologySpreadConstraint| {
            Constraint::of(pod, cluster, constraint, &keys)
        };
        Self(constraints.iter().map(of).collect())
    }

    pub(super) fn misfit(&self, node: &Node) -> Option<Misfit> {
        for constraint in &self.0 {
            let labels = node.metadata.labels.as_ref();
            let Some(value) = labels.and_then(|labels| labels.get(&constraint.key)) else {
                return Some(Misfit::lasting(Reason::SpreadLabel));
            };
            let count = constraint.counts.get(value).copied().unwrap_or(0);
            let skew = count + i64::from(constraint.counts_self) - constraint.least;
            if skew > constraint.max_skew {
                return Some(Misfit::passing(Reason::Spread));
            }
        }
        None
    }
}

/// Returns the pod's constraints that are kept in this way.
fn constraints_of<'p>(pod: &'p Pod, when: &str) -> Vec<&'p TopologySpreadConstraint> {
    let constraints = pod.spec.iter().flat_map(|spec| {
        let constraints = spec.topology_spread_constraints.iter().flatten();
        constraints.filter(|own| own.when_unsatisfiable == when)
    });
    constraints.collect()
}

impl Constraint {
    fn of(
        pod: &Pod,
        cluster: &Cluster<'_>,
        constraint: &TopologySpreadConstraint,
        keys: &BTreeSet<&str>,
    ) -> Self {
        let selector = Counted::of(pod, constraint);
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for node in &cluster.nodes {
            let empty = BTreeMap::new();
            let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
            let has_all = keys.iter().all(|key| labels.contains_key(*key));
            let Some(value) = labels.get(&constraint.topology_key) else {
                continue;
            };
            if !has_all || !is_counted(pod, node, constraint) {
                continue;
            }
            *counts.entry(value.clone()).or_default() += selector.count(pod, cluster.load(node));
        }
        let domains = i32::try_from(counts.len()).unwrap_or(i32::MAX);
        let least = match constraint.min_domains {
            Some(wanted) if domains < wanted => 0,
            _ => counts.values().copied().min().unwrap_or(0),
        };
        Self {
            key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            least,
            counts_self: selector.matches(pod),
            counts,
        }
    }
}

/// Returns whether the node counts for the constraint (`nodeAffinityPolicy`, `nodeTaintsPolicy`).
fn is_counted(pod: &Pod, node: &Node, constraint: &TopologySpreadConstraint) -> bool {
    let Some(spec) = &pod.spec else {
        return true;
    };
    let by_affinity = constraint.node_affinity_policy.as_deref() != Some("Ignore");
    let by_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let mut strict = kubeproof_runtime::taints::of(node)
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule");
    (!by_affinity || affinity::matches(spec, node))
        && (!by_taints || strict.all(|taint| tolerated(taint, tolerations)))
}

/// The pods that a constraint counts.
enum Counted {
    None,
    Selected(Box<Selector>),
    /// The pods with a controller of this uid.
    Siblings(String),
}

impl Counted {
    fn of(pod: &Pod, constraint: &TopologySpreadConstraint) -> Self {
        let Some(mut selector) = constraint.label_selector.clone() else {
            return Self::None;
        };
        let own = pod_labels(pod);
        let same = constraint.match_label_keys.iter().flatten();
        let same = same.filter_map(|key| Some((key.clone(), own.get(key)?.clone())));
        selector.match_labels.get_or_insert_default().extend(same);
        Selector::try_from(selector)
            .map_or(Self::None, |selector| Self::Selected(Box::new(selector)))
    }

    /// Returns the pods of the pod's set, which the set's selector and its Services select; None
    /// without a set.
    fn siblings(pod: &Pod) -> Option<Self> {
        let owner = controller_of(&pod.metadata)?;
        let is_set = matches!(
            owner.kind.as_str(),
            "ReplicaSet" | "ReplicationController" | "StatefulSet"
        );
        is_set.then(|| Self::Siblings(owner.uid.clone()))
    }

    fn matches(&self, pod: &Pod) -> bool {
        match self {
            Self::None => false,
            Self::Selected(selector) => selector.matches(&pod_labels(pod)),
            Self::Siblings(uid) => {
                controller_of(&pod.metadata).is_some_and(|owner| owner.uid == *uid)
            }
        }
    }

    /// Counts the pods of the namespace of `pod` that stay on a node. An empty selector counts none
    /// (`countPodsMatchSelector`).
    fn count(&self, pod: &Pod, load: &Load) -> i64 {
        match self {
            Self::None => return 0,
            // Pods of a set are counted beforehand: there may be thousands, and each counts for all that follow.
            Self::Siblings(uid) => return load.siblings.get(uid).copied().unwrap_or(0),
            Self::Selected(selector) if selector.selects_all() => return 0,
            Self::Selected(_) => {}
        }
        let counted = load.pods.iter().filter(|other| {
            other.metadata.namespace == pod.metadata.namespace
                && other.metadata.deletion_timestamp.is_none()
                && self.matches(other)
        });
        i64::try_from(counted.count()).unwrap_or(i64::MAX)
    }
}

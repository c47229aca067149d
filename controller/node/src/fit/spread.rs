//! Topology spread constraints with `whenUnsatisfiable: DoNotSchedule`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use kube::core::{Selector, SelectorExt};

use super::inter_pod_affinity::pod_labels;
use super::{Cluster, Misfit, Reason, affinity, tolerated};

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
        let constraints = pod.spec.iter().flat_map(|spec| {
            let constraints = spec.topology_spread_constraints.iter().flatten();
            constraints.filter(|own| own.when_unsatisfiable == "DoNotSchedule")
        });
        let constraints: Vec<&TopologySpreadConstraint> = constraints.collect();
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

impl Constraint {
    fn of(
        pod: &Pod,
        cluster: &Cluster<'_>,
        constraint: &TopologySpreadConstraint,
        keys: &BTreeSet<&str>,
    ) -> Self {
        let selector = selector(pod, constraint);
        let namespace = &pod.metadata.namespace;
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
            let pods = cluster.load(node).pods.iter().filter(|other| {
                other.metadata.namespace == *namespace
                    && other.metadata.deletion_timestamp.is_none()
                    && selector.matches(&pod_labels(other))
            });
            *counts.entry(value.clone()).or_default() +=
                i64::try_from(pods.count()).unwrap_or(i64::MAX);
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
            counts_self: selector.matches(&pod_labels(pod)),
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

/// Returns the selector of the pods that the constraint counts.
fn selector(pod: &Pod, constraint: &TopologySpreadConstraint) -> Selector {
    let own = pod_labels(pod);
    let mut selector = constraint.label_selector.clone().unwrap_or_default();
    let same = constraint.match_label_keys.iter().flatten();
    let same = same.filter_map(|key| Some((key.clone(), own.get(key)?.clone())));
    selector.match_labels.get_or_insert_default().extend(same);
    Selector::try_from(selector).unwrap_or_default()
}

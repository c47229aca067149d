//! Topology spread constraints with `whenUnsatisfiable: ScheduleAnyway`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use kubeproof_runtime::pod::Pod;

use super::super::{Cluster, NodeInfo, SCORE_MAX};
use super::{Counted, HOSTNAME, constraints_of, is_counted, is_defaulted};

/// Returns the scores of the nodes; the fewer pods in the node's domains, the higher.
pub(in super::super) fn scores(
    pod: &Pod,
    cluster: &Cluster<'_>,
    nodes: &[NodeInfo<'_>],
) -> Vec<i64> {
    let constraints = constraints_of(pod, cluster, "ScheduleAnyway");
    if constraints.is_empty() {
        return vec![0; nodes.len()];
    }
    let keys_may_lack = is_defaulted(pod) && cluster.profile.arguments.spreads_without_keys;
    let has_all = |node: &NodeInfo<'_>| {
        let mut keys = constraints.iter().map(|(own, _)| own.topology_key.as_str());
        keys_may_lack || keys.all(|key| node.label(key).is_some())
    };
    let scored: Vec<&NodeInfo<'_>> = nodes.iter().filter(|node| has_all(node)).collect();
    let domains: Vec<Domains<'_>> = constraints
        .iter()
        .map(|constraint| Domains::of(pod, constraint, (cluster, &scored), &has_all))
        .collect();
    let raw = nodes.iter().map(|node| {
        let score = |own: &Domains<'_>| own.score(pod, *node);
        has_all(node).then(|| domains.iter().map(score).sum::<f64>().round() as i64)
    });
    let raw: Vec<Option<i64>> = raw.collect();
    let least = raw.iter().flatten().copied().min().unwrap_or(0);
    let most = raw.iter().flatten().copied().max().unwrap_or(0);
    let scaled = |score: Option<i64>| match (score, most) {
        // The node lacks a topology key.
        (None, _) => 0,
        (Some(_), 0) => SCORE_MAX,
        (Some(score), most) => SCORE_MAX * (most + least - score) / most,
    };
    raw.into_iter().map(scaled).collect()
}

/// The domains of one constraint among the nodes that are scored.
struct Domains<'a> {
    constraint: &'a TopologySpreadConstraint,
    counted: &'a Counted,
    /// The number of matching pods by value of the topology key; empty for host names, and if no node has the key.
    counts: BTreeMap<&'a str, i64>,
    /// The weight of the topology, which grows with the number of its domains.
    weight: f64,
}

impl<'a> Domains<'a> {
    fn of(
        pod: &Pod,
        (constraint, counted): &'a (&'a TopologySpreadConstraint, Counted),
        (cluster, scored): (&Cluster<'a>, &[&NodeInfo<'a>]),
        has_all: &dyn Fn(&NodeInfo<'_>) -> bool,
    ) -> Self {
        let key = constraint.topology_key.as_str();
        let mut counts = BTreeMap::new();
        // A node without the label has no score, so there is nothing to count without any that has it.
        let has_label = |node: &&NodeInfo<'_>| node.label(key).is_some();
        if key == HOSTNAME || !scored.iter().any(has_label) {
            return Self {
                constraint,
                counted,
                counts,
                weight: weight_of(scored.len()),
            };
        }
        // Nodes without the label are a domain, too, if they count at all.
        let value = |node: &NodeInfo<'a>| node.label(key).unwrap_or_default();
        counts.extend(scored.iter().map(|node| (value(node), 0)));
        for node in &cluster.nodes {
            if has_all(node)
                && is_counted(pod, node, constraint)
                && let Some(count) = counts.get_mut(value(node))
            {
                *count += counted.count(pod, node.load);
            }
        }
        let weight = weight_of(counts.len());
        Self {
            constraint,
            counted,
            counts,
            weight,
        }
    }

    fn score(&self, pod: &Pod, node: NodeInfo<'_>) -> f64 {
        let Some(value) = node.label(&self.constraint.topology_key) else {
            return 0.0;
        };
        let count = match self.constraint.topology_key.as_str() {
            HOSTNAME => self.counted.count(pod, node.load),
            _ => self.counts.get(value).copied().unwrap_or(0),
        };
        count as f64 * self.weight + f64::from(self.constraint.max_skew - 1)
    }
}

/// Returns the weight of a topology of this many domains (`topologyNormalizingWeight`).
fn weight_of(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

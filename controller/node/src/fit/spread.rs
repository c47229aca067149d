//! Topology spread constraints with `whenUnsatisfiable: DoNotSchedule`, and the counting of pods;
//! `score` has the other constraints.
//!
//! Source: plugin PodTopologySpread.

pub(super) mod score;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, TopologySpreadConstraint};
use kube::core::{Selector, SelectorExt};
use kubeproof_runtime::pod::Pod;

use parking_lot::Mutex;

use super::inter_pod_affinity::pod_labels;
use super::{Cluster, Load, Misfit, Reason, affinity, tolerated};

/// The label of a node's host name.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// The constraints of one pod, with the current counts of matching pods.
#[derive(Default)]
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
        let constraints = constraints_of(pod, cluster, "DoNotSchedule");
        let keys: BTreeSet<&str> = constraints
            .iter()
            .map(|(constraint, _)| constraint.topology_key.as_str())
            .collect();
        let constraints = constraints.iter();
        let all =
            constraints.map(|(own, counted)| Constraint::of(pod, cluster, (own, counted), &keys));
        Self(all.collect())
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

/// Returns the pod's constraints that are kept in this way, or those of the scheduler's
/// configuration if the pod has none at all; with the pods that each counts.
fn constraints_of<'p>(
    pod: &'p Pod,
    cluster: &Cluster<'p>,
    when: &str,
) -> Vec<(&'p TopologySpreadConstraint, Counted)> {
    let is_kept = |own: &&'p TopologySpreadConstraint| -> bool { own.when_unsatisfiable == when };
    if !is_defaulted(pod) {
        let own = own_constraints(pod).iter().filter(is_kept);
        return own.map(|own| (own, Counted::of(pod, own))).collect();
    }
    let defaults = &cluster.profile.arguments.spread;
    let defaults: Vec<_> = defaults.iter().filter(is_kept).collect();
    if defaults.is_empty() {
        return Vec::new();
    }
    let selector = (cluster.spread_selector)(pod);
    if selector.selects_all() {
        return Vec::new();
    }
    let counted = Counted::remembered(pod, selector);
    let with_counted = defaults.into_iter().map(|own| (own, counted.clone()));
    with_counted.collect()
}

fn own_constraints(pod: &Pod) -> &[TopologySpreadConstraint] {
    let spec = pod.spec.as_ref();
    let own = spec.and_then(|spec| spec.topology_spread_constraints.as_deref());
    own.unwrap_or_default()
}

/// Returns whether the pod states no constraints.
fn is_defaulted(pod: &Pod) -> bool {
    own_constraints(pod).is_empty()
}

impl Constraint {
    fn of(
        pod: &Pod,
        cluster: &Cluster<'_>,
        (constraint, counted): (&TopologySpreadConstraint, &Counted),
        keys: &BTreeSet<&str>,
    ) -> Self {
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
            *counts.entry(value.clone()).or_default() += counted.count(pod, node.load);
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
            counts_self: counted.matches(pod),
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
#[derive(Clone)]
enum Counted {
    None,
    Selected(Arc<Selector>),
    /// The pods of a selector that many pods share.
    Remembered(Arc<Remembered>),
}

/// A selector in a namespace, whose pods each node counts once.
#[derive(Debug)]
struct Remembered {
    namespace: Option<String>,
    selector: Selector,
    /// The namespace and the selector as text.
    key: Arc<str>,
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
            .map_or(Self::None, |selector| Self::Selected(Arc::new(selector)))
    }

    fn remembered(pod: &Pod, selector: Selector) -> Self {
        let namespace = pod.metadata.namespace.clone();
        Self::Remembered(Arc::new(Remembered {
            key: format!("{}/{selector}", namespace.as_deref().unwrap_or_default()).into(),
            namespace,
            selector,
        }))
    }

    fn matches(&self, pod: &Pod) -> bool {
        match self {
            Self::None => false,
            Self::Selected(selector) => selector.matches(&pod_labels(pod)),
            Self::Remembered(own) => own.selector.matches(&pod_labels(pod)),
        }
    }

    /// Counts the pods of the namespace of `pod` that stay on a node. An empty selector counts none
    /// (`countPodsMatchSelector`).
    fn count(&self, pod: &Pod, load: &Load) -> i64 {
        match self {
            Self::None => 0,
            Self::Selected(selector) if selector.selects_all() => 0,
            Self::Selected(selector) => {
                count(selector, pod.metadata.namespace.as_ref(), &load.pods)
            }
            Self::Remembered(own) => load.counts.of(own, &load.pods),
        }
    }
}

fn count(selector: &Selector, namespace: Option<&String>, pods: &[Arc<Pod>]) -> i64 {
    let counted = pods.iter().filter(|other| {
        other.metadata.namespace.as_ref() == namespace && is_counted_by(selector, other)
    });
    i64::try_from(counted.count()).unwrap_or(i64::MAX)
}

fn is_counted_by(selector: &Selector, pod: &Pod) -> bool {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&NONE);
    pod.metadata.deletion_timestamp.is_none() && selector.matches(labels)
}

/// The pods of a node that were counted by a selector: there may be thousands of pods, and each of
/// a set is counted for all that follow.
#[derive(Debug)]
pub(super) struct Counts(Mutex<KnownCounts>);

/// The selectors by key, with the numbers of their pods.
type KnownCounts = BTreeMap<Arc<str>, (Arc<Remembered>, i64)>;

/// How many selectors a node remembers. There are as many as there are sets.
const REMEMBERED_MAX: usize = 16;

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Counts {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Counts a pod that is added to the node.
    pub(super) fn add(&mut self, pod: &Pod) {
        for (own, count) in self.0.get_mut().values_mut() {
            if own.namespace == pod.metadata.namespace && is_counted_by(&own.selector, pod) {
                *count += 1;
            }
        }
    }

    /// Returns how many of the pods, which are those of the node, the selector counts.
    fn of(&self, own: &Arc<Remembered>, pods: &[Arc<Pod>]) -> i64 {
        if pods.is_empty() {
            return 0;
        }
        let mut known = self.0.lock();
        if let Some((_, counted)) = known.get(&own.key) {
            return *counted;
        }
        if known.len() >= REMEMBERED_MAX {
            known.pop_first();
        }
        let counted = count(&own.selector, own.namespace.as_ref(), pods);
        known.insert(Arc::clone(&own.key), (Arc::clone(own), counted));
        counted
    }
}

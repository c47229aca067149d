//! The order of pods when there are too many of them, and when they are updated.
//!
//! Pods that are equal in all respects keep the order of their names; upstream's is any.
//!
//! Source: openkruise/kruise pkg/controller/cloneset/utils/pod_sorter.go, and `ActivePods` of
//! Kubernetes.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};

/// The topology whose values are the nodes themselves.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The rank of pods by name: those with the highest go first, those without have none.
type Ranks = BTreeMap<String, f64>;

/// The optional criteria of the comparison.
#[derive(Clone, Copy, Default)]
pub(crate) struct Respects<'a> {
    /// Whether a pod is available.
    pub(crate) is_available: Option<&'a dyn Fn(&Pod) -> bool>,
    pub(crate) has_cost: bool,
    pub(crate) ranks: Option<&'a Ranks>,
}

/// Orders two pods for deletion: first the pod that is less far along, then of lower deletion cost,
/// then of higher rank, then younger.
pub(crate) fn compare(a: &Pod, b: &Pod, respects: Respects<'_>) -> Ordering {
    let is_ready = pod::has_ready_condition;
    let is_available = |pod: &Pod| respects.is_available.is_some_and(|is| is(pod));
    let cost = |pod: &Pod| match respects.has_cost {
        true => pod::deletion_cost(pod),
        false => 0,
    };
    let first = |pod: &Pod| {
        (
            !pod::node(pod).is_empty(),
            pod::phase_rank(pod),
            is_available(pod),
            is_ready(pod),
            cost(pod),
        )
    };
    first(a)
        .cmp(&first(b))
        .then_with(|| {
            let rank = |pod: &Pod| {
                let rank = respects.ranks.and_then(|ranks| ranks.get(&pod.name_any()));
                rank.copied().unwrap_or(0.0)
            };
            rank(b).total_cmp(&rank(a))
        })
        .then_with(|| match is_ready(a) && is_ready(b) {
            true => newer_first(pod::ready_since(a), pod::ready_since(b)),
            false => Ordering::Equal,
        })
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| newer_first(created(a), created(b)))
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.creation_timestamp().map(|time| time.0)
}

/// An unknown time comes before all others.
fn newer_first(a: Option<Timestamp>, b: Option<Timestamp>) -> Ordering {
    (a.is_some(), Reverse(a)).cmp(&(b.is_some(), Reverse(b)))
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| &status.container_statuses);
    let restarts = statuses.flatten().map(|status| status.restart_count);
    restarts.max().unwrap_or(0)
}

/// Ranks all pods of a node but the best one, the worst the highest.
pub(crate) fn by_node(pods: &[Arc<Pod>]) -> Ranks {
    let mut on_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod::node(pod).is_empty()) {
        on_node.entry(pod::node(pod)).or_default().push(pod);
    }
    let mut ranks = Ranks::new();
    for mut together in on_node.into_values() {
        let with_cost = Respects {
            has_cost: true,
            ..Respects::default()
        };
        together.sort_by(|a, b| compare(a, b, with_cost));
        together.pop();
        for (pod, rank) in together.iter().rev().zip(1_u32..) {
            ranks.insert(pod.name_any(), rank.into());
        }
    }
    ranks
}

/// Ranks pods by how full the places are that topology keys put them in; `nodes` has the labels of
/// nodes.
pub(crate) fn by_topology(
    pods: &[Arc<Pod>],
    keys: &[String],
    nodes: &BTreeMap<String, BTreeMap<String, String>>,
) -> Ranks {
    let on_same_node = by_node(pods);
    let mut ranks = Ranks::new();
    for key in keys {
        let mut places: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in pods {
            let labels = nodes.get(pod::node(pod));
            if let Some(place) = labels.and_then(|labels| labels.get(key)) {
                places.entry(place).or_default().push(pod);
            }
        }
        let count = u32::try_from(places.len()).unwrap_or(u32::MAX - 2);
        let weight = f64::from(count + 2).ln();
        for mut together in places.into_values() {
            let respects = Respects {
                has_cost: true,
                ranks: (key != HOSTNAME).then_some(&on_same_node),
                ..Respects::default()
            };
            together.sort_by(|a, b| compare(a, b, respects));
            for (pod, rank) in together.iter().rev().zip(1_u32..) {
                *ranks.entry(pod.name_any()).or_default() += f64::from(rank) * weight;
            }
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    /// name, node, phase, ready since (seconds of 2026, none when not ready), restarts, cost.
    fn pod(
        name: &str,
        node: &str,
        phase: &str,
        ready: Option<u8>,
        restarts: i32,
        cost: i32,
    ) -> Arc<Pod> {
        let conditions: Vec<Value> = ready
            .map(|second| {
                json!({"type": "Ready", "status": "True",
                    "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")})
            })
            .into_iter()
            .collect();
        let mut value = json!({
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost.to_string()}},
            "spec": {"containers": []},
            "status": {"phase": phase, "conditions": conditions, "containerStatuses": [
                {"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": restarts}]},
        });
        if !node.is_empty() {
            value["spec"]["nodeName"] = json!(node);
        }
        Arc::new(from_value(value).unwrap())
    }

    fn sorted(mut pods: Vec<Arc<Pod>>, respects: Respects<'_>) -> String {
        pods.sort_by(|a, b| compare(a, b, respects));
        let names: Vec<String> = pods.iter().map(|pod| pod.name_any()).collect();
        names.join(" ")
    }

    #[test]
    fn pods_are_compared_respect_by_respect() {
        let pods = vec![
            pod("old", "n", "Running", Some(1), 0, 0),
            pod("young", "n", "Running", Some(9), 0, 0),
            pod("restarted", "n", "Running", Some(1), 3, 0),
            pod("dear", "n", "Running", Some(9), 9, 5),
            pod("cheap", "n", "Running", Some(1), 0, -1),
            pod("unready", "n", "Running", None, 0, 9),
            pod("pending", "n", "Pending", None, 0, 9),
            pod("unbound", "", "Pending", None, 0, 9),
        ];
        let cost = Respects {
            has_cost: true,
            ..Respects::default()
        };
        assert_eq!(
            sorted(pods.clone(), cost),
            "unbound pending unready cheap young restarted old dear"
        );
        assert_eq!(
            sorted(pods.clone(), Respects::default()),
            "unbound pending unready dear young restarted old cheap"
        );
        let is_available = |pod: &Pod| pod.name_any() != "old";
        let respects = Respects {
            is_available: Some(&is_available),
            ..Respects::default()
        };
        assert!(sorted(pods, respects).starts_with("unbound pending old unready"));
    }

    #[test]
    fn all_but_the_best_of_a_node_are_ranked() {
        let pods = [
            pod("a", "one", "Running", Some(1), 0, 0),
            pod("b", "one", "Running", Some(2), 0, 0),
            pod("c", "one", "Running", Some(3), 0, 0),
            pod("d", "two", "Running", Some(4), 0, 0),
        ];
        let ranks = by_node(&pods);
        let expected = [("b".to_owned(), 1.0), ("c".to_owned(), 2.0)];
        assert_eq!(ranks.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn fuller_places_rank_higher() {
        let pods = [
            pod("a", "one", "Running", Some(1), 0, 0),
            pod("b", "two", "Running", Some(1), 0, 0),
            pod("c", "three", "Running", Some(1), 0, 0),
        ];
        let zone = |zone: &str| BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
        let nodes = BTreeMap::from([
            ("one".to_owned(), zone("x")),
            ("two".to_owned(), zone("y")),
            ("three".to_owned(), zone("x")),
        ]);
        let ranks = by_topology(&pods, &["zone".to_owned()], &nodes);
        assert!(ranks["a"] > ranks["c"] && ranks["b"] == ranks["c"]);
    }
}

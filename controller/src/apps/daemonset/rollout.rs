//! Plans which pods to create and delete, by the nodes and by the template's revision, without I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kubeproof_runtime::int_or_percent::{Round, resolve};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::sync_error::Error;

use super::min_ready_seconds;
use super::placement::{Suits, is_bound, is_updated, suits};

/// The observed state that decisions are based on.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) nodes: &'a [Arc<Node>],
    /// The set's pods by node.
    pub(super) pods: &'a BTreeMap<String, Vec<Arc<Pod>>>,
    /// The revision of the set's template.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

/// Nodes to create pods for, and pods to delete.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that ended by themselves, with their nodes; they are to be deleted as well.
    pub(super) ended: Vec<(String, Arc<Pod>)>,
}

impl<'a> Observed<'a> {
    fn is_available(&self, pod: &Pod) -> bool {
        pod::is_available(pod, min_ready_seconds(self.set), self.now)
    }

    fn on(&self, node: &str) -> &'a [Arc<Pod>] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    fn wants(&self, node: &Node) -> bool {
        suits(self.set, node) == Suits::Yes
    }

    /// The number of nodes that are to have a pod.
    fn desired(&self) -> usize {
        self.nodes.iter().filter(|node| self.wants(node)).count()
    }

    /// How many nodes a rollout may leave without an available pod, and how many may have two, with
    /// pods on `desired` nodes.
    fn limits(&self, desired: usize) -> (usize, usize) {
        let desired = i32::try_from(desired).unwrap_or(i32::MAX);
        let strategy = self
            .set
            .spec
            .as_ref()
            .and_then(|spec| spec.update_strategy.as_ref());
        let block = strategy.and_then(|strategy| strategy.rolling_update.clone());
        let block = block.unwrap_or_default();
        let count = |value: Option<_>| {
            let count = value.and_then(|value| resolve(&value, desired, Round::Up));
            usize::try_from(count.unwrap_or(0)).unwrap_or(0)
        };
        (count(block.max_unavailable), count(block.max_surge))
    }

    /// Whether a node may have two pods. The number of nodes does not matter, and a percentage allows at least one.
    fn allows_surge(&self) -> bool {
        is_rolling(self.set) && self.limits(1).1 > 0
    }
}

/// Strategy RollingUpdate, not OnDelete.
pub(super) fn is_rolling(set: &DaemonSet) -> bool {
    let strategy = set
        .spec
        .as_ref()
        .and_then(|spec| spec.update_strategy.as_ref());
    strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete"))
}

/// Plans one pod for every suitable node.
pub(super) fn reconcile(observed: Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    for node in observed.nodes {
        let name = node.name_any();
        let pods = observed.on(&name);
        match suits(observed.set, node) {
            Suits::Yes if pods.is_empty() => plan.create.push(name),
            Suits::No => plan.delete.extend(living(pods)),
            suits => keep_one(observed, &name, suits == Suits::Yes, &mut plan),
        }
    }
    // No scheduler binds a pod to a node that is gone, and no other controller deletes such a pod.
    for (node, pods) in observed.pods {
        if !observed.nodes.iter().any(|one| one.name_any() == *node) {
            // Upstream deletes terminating pods again, too.
            let unbound = pods.iter().filter(|pod| !is_bound(pod));
            plan.delete.extend(unbound.cloned());
        }
    }
    plan
}

fn living(pods: &[Arc<Pod>]) -> impl Iterator<Item = Arc<Pod>> {
    pods.iter().filter(|pod| !pod::is_terminating(pod)).cloned()
}

fn keep_one(observed: Observed<'_>, node: &str, is_wanted: bool, plan: &mut Plan) {
    let (ended, running): (Vec<_>, Vec<_>) =
        living(observed.on(node)).partition(|pod| pod::is_finished(pod));
    let ended = ended.into_iter().map(|pod| (node.to_owned(), pod));
    plan.ended.extend(ended);
    if !observed.allows_surge() {
        plan.delete.extend(running.into_iter().skip(1));
        return;
    }
    if running.is_empty() && is_wanted {
        plan.create.push(node.to_owned());
    }
    let is_new = |pod: &Arc<Pod>| pod::revision(pod) == observed.hash;
    let (new, old): (Vec<_>, Vec<_>) = running.into_iter().partition(is_new);
    plan.delete.extend(new.iter().skip(1).cloned());
    plan.delete.extend(old.iter().skip(1).cloned());
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!pod::has_ready_condition(old) || observed.is_available(new))
    {
        plan.delete.push(old.clone());
    }
}

/// A pod at the old template and one at the new.
type OldAndNew<'a> = (Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>);

/// A node's pods at the old and at the new template; None when there are several of either.
fn old_and_new<'a>(observed: Observed<'a>, node: &str) -> Option<OldAndNew<'a>> {
    let (mut old, mut new) = (None, None);
    let living = observed
        .on(node)
        .iter()
        .filter(|pod| !pod::is_terminating(pod));
    for pod in living {
        let place = if is_updated(observed.set, pod, observed.hash) {
            &mut new
        } else {
            &mut old
        };
        if place.replace(pod).is_some() {
            return None;
        }
    }
    Some((old, new))
}

/// Replaces pods at an old template, within the limits.
///
/// # Errors
/// With surge, a node is gone on which only a pod at an old template runs: nothing is done until that pod is gone, too.
pub(super) fn roll(observed: Observed<'_>) -> Result<Plan, Error> {
    let (max_unavailable, max_surge) = observed.limits(observed.desired());
    if max_surge == 0 {
        Ok(roll_by_deletion(observed, max_unavailable))
    } else {
        roll_by_surge(observed, max_surge)
    }
}

fn roll_by_deletion(observed: Observed<'_>, max_unavailable: usize) -> Plan {
    let has_none = |node: &Arc<Node>| observed.on(&node.name_any()).is_empty();
    let nodes = observed.nodes.iter();
    let without_pod = nodes.filter(|node| has_none(node) && observed.wants(node));
    let mut unavailable = without_pod.count();
    let mut broken = Vec::new();
    let mut candidates = Vec::new();
    for node in observed.pods.keys() {
        match old_and_new(observed, node) {
            // Several pods, none, or one of each: the node is put in order first.
            None | Some((None, None) | (Some(_), Some(_))) => unavailable += 1,
            Some((None, Some(new))) => unavailable += usize::from(!observed.is_available(new)),
            Some((Some(old), None)) if observed.is_available(old) => candidates.push(old.clone()),
            Some((Some(old), None)) => {
                broken.push(old.clone());
                unavailable += 1;
            }
        }
    }
    candidates.truncate(max_unavailable.saturating_sub(unavailable));
    broken.extend(candidates);
    Plan {
        delete: broken,
        ..Plan::default()
    }
}

fn roll_by_surge(observed: Observed<'_>, max_surge: usize) -> Result<Plan, Error> {
    let (mut surging, mut available) = (0, 0);
    let mut plan = Plan::default();
    let (mut candidates, mut leaving) = (Vec::new(), Vec::new());
    for node in observed.pods.keys() {
        let Some((old, new)) = old_and_new(observed, node) else {
            surging += 1;
            continue;
        };
        let is_available =
            |pod: Option<&Arc<Pod>>| pod.is_some_and(|pod| observed.is_available(pod));
        available += usize::from(is_available(old.or(new)));
        let Some(old) = old else { continue };
        let known = observed.nodes.iter().find(|one| one.name_any() == *node);
        if new.is_none() && known.is_none() {
            let what = format!("couldn't get node for nodeName {node:?}: node {node:?} not found");
            return Err(Error::Refused(what));
        }
        let is_wanted = known.is_some_and(|node| observed.wants(node));
        match (new, is_available(Some(old))) {
            (Some(_), _) if is_available(new) => plan.delete.push(old.clone()),
            (Some(_), _) => surging += 1,
            (None, true) if !is_wanted => leaving.push(old.clone()),
            (None, false) if !is_wanted => plan.delete.push(old.clone()),
            (None, true) => candidates.push(node.clone()),
            (None, false) => plan.create.push(node.clone()),
        }
    }
    candidates.truncate(max_surge.saturating_sub(surging));
    plan.create.extend(candidates);
    // Pods that may stay where none would be placed go once they are not needed.
    leaving.truncate(usize::saturating_sub(available, observed.desired()));
    plan.delete.extend(leaving);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn set(rolling_update: &Value) -> DaemonSet {
        from_value(json!({
            "metadata": {"name": "agent"},
            "spec": {"selector": {}, "template": {},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update}},
        }))
        .unwrap()
    }

    /// `revision` with `+` when ready, `!` when failed, `~` when terminating.
    fn pod(node: &str, index: usize, shorthand: &str) -> Arc<Pod> {
        let ready = if shorthand.contains('+') {
            "True"
        } else {
            "False"
        };
        let phase = if shorthand.contains('!') {
            "Failed"
        } else {
            "Running"
        };
        let revision = shorthand.trim_end_matches(['+', '!', '~']);
        let mut pod = json!({
            "metadata": {"name": format!("{node}-{index}"),
                "labels": {"controller-revision-hash": revision}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        if shorthand.contains('~') {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        Arc::new(from_value(pod).unwrap())
    }

    fn decide(
        decide: impl Fn(Observed<'_>) -> Plan,
        rolling_update: &Value,
        nodes: &[&[&str]],
    ) -> String {
        let mut pods = BTreeMap::new();
        let mut all = Vec::new();
        for (name, on_node) in ["a", "b", "c", "d"].iter().zip(nodes) {
            let node = json!({"metadata": {"name": name}});
            all.push(Arc::new(from_value(node).unwrap()));
            let on_node = on_node.iter().enumerate();
            let on_node: Vec<_> = on_node
                .map(|(at, shorthand)| pod(name, at, shorthand))
                .collect();
            if !on_node.is_empty() {
                pods.insert((*name).to_owned(), on_node);
            }
        }
        let plan = decide(Observed {
            set: &set(rolling_update),
            nodes: &all,
            pods: &pods,
            hash: "new",
            now: NOW.parse().unwrap(),
        });
        let deleted = plan.delete.iter().map(|pod| format!("-{}", pod.name_any()));
        let ended = plan
            .ended
            .iter()
            .map(|(_, pod)| format!("!{}", pod.name_any()));
        let created = plan.create.iter().map(|node| format!("+{node}"));
        let lines: Vec<_> = created.chain(deleted).chain(ended).collect();
        lines.join(" ")
    }

    fn rolled(observed: Observed<'_>) -> Plan {
        roll(observed).unwrap()
    }

    /// The decision with one pod, for a node that is gone.
    fn without_the_node<T>(pod: Pod, decide: impl Fn(Observed<'_>) -> T) -> T {
        let pods = BTreeMap::from([("gone".to_owned(), vec![Arc::new(pod)])]);
        decide(Observed {
            set: &set(&json!({"maxUnavailable": 0, "maxSurge": 1})),
            nodes: &[],
            pods: &pods,
            hash: "new",
            now: NOW.parse().unwrap(),
        })
    }

    #[test]
    fn pods_for_a_node_that_is_gone_are_deleted_if_none_runs_them() {
        let deleted = |pod| without_the_node(pod, |observed| reconcile(observed).delete.len());
        for shorthand in ["old", "old~"] {
            let bound = Pod::clone(&pod("gone", 0, shorthand));
            let mut unbound = bound.clone();
            unbound.spec.as_mut().unwrap().node_name = None;
            assert_eq!((deleted(bound), deleted(unbound)), (0, 1), "{shorthand}");
        }
    }

    #[test]
    fn a_surge_waits_for_the_old_pods_of_nodes_that_are_gone() {
        for (shorthand, waits) in [
            ("old+", true),
            ("old", true),
            ("old~", false),
            ("new", false),
        ] {
            let pod = Pod::clone(&pod("gone", 0, shorthand));
            let failed = without_the_node(pod, |observed| roll(observed).is_err());
            assert_eq!(failed, waits, "{shorthand}");
        }
    }

    #[test]
    fn every_node_gets_one_pod() {
        let table: [(&[&[&str]], &str); 5] = [
            (&[&[], &["new+"]], "+a"),
            (&[&["new+", "new"], &["new~"]], "-a-1"),
            (&[&["new!"]], "!a-0"),
            (&[&["new!", "new+"]], "!a-0"),
            (&[&["old", "new"]], "-a-1"),
        ];
        for (nodes, expected) in table {
            assert_eq!(
                decide(reconcile, &json!({"maxUnavailable": 1}), nodes),
                expected,
                "{nodes:?}"
            );
        }
    }

    #[test]
    fn with_surge_a_node_keeps_the_old_pod_until_the_new_one_is_available() {
        let table: [(&[&[&str]], &str); 5] = [
            (&[&["old+", "new"]], ""),
            (&[&["old+", "new+"]], "-a-0"),
            (&[&["old", "new"]], "-a-0"),
            (&[&["old+", "old+", "new", "new"]], "-a-3 -a-1"),
            (&[&["old~"]], "+a"),
        ];
        let surge = json!({"maxUnavailable": 0, "maxSurge": 1});
        for (nodes, expected) in table {
            assert_eq!(decide(reconcile, &surge, nodes), expected, "{nodes:?}");
        }
    }

    #[test]
    fn old_pods_are_deleted_as_far_as_unavailability_allows() {
        let table: [(u32, &[&[&str]], &str); 8] = [
            (1, &[&["old+"], &["old+"], &["old+"]], "-a-0"),
            (1, &[&[], &["old+"]], ""),
            (2, &[&[], &["old+"], &["old+"]], "-b-0"),
            (2, &[&["old+"], &["old+"], &["old+"]], "-a-0 -b-0"),
            (1, &[&["new"], &["old+"]], ""),
            (1, &[&["new+"], &["old+"]], "-b-0"),
            (1, &[&["old"], &["old+"]], "-a-0"),
            (1, &[&["old~"], &["old+"]], ""),
        ];
        for (max, nodes, expected) in table {
            let block = json!({"maxUnavailable": max});
            assert_eq!(decide(rolled, &block, nodes), expected, "{max} {nodes:?}");
        }
    }

    #[test]
    fn new_pods_are_added_as_far_as_the_surge_allows() {
        let table: [(&[&[&str]], &str); 5] = [
            (&[&["old+"], &["old+"]], "+a"),
            (&[&["old+", "new"], &["old+"]], ""),
            (&[&["old+", "new+"], &["old+"]], "+b -a-0"),
            (&[&["new+"], &["old+"]], "+b"),
            (&[&["old"], &["old+"]], "+a +b"),
        ];
        let surge = json!({"maxUnavailable": 0, "maxSurge": 1});
        for (nodes, expected) in table {
            assert_eq!(decide(rolled, &surge, nodes), expected, "{nodes:?}");
        }
    }
}

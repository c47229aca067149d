//! The nodes and their loads, which the scheduler keeps from one pass to the next.
//!
//! A cluster may have a hundred thousand pods, and a pass a few that wait: only the loads of nodes whose pods have
//! changed are computed again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::store::{Change, ObjectKey, Store};

use crate::fit::{NodeEntry, NodeInfo};

/// The nodes by name, and what has changed since their loads were computed.
#[derive(Default)]
pub(super) struct NodeCache {
    entries: BTreeMap<String, NodeEntry>,
    /// The pods that may have come to a node, or left it, or are other than its load says.
    changed: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// The number of notes of changes.
    notes: usize,
}

/// So many changes are worth a computation although no pod waits: the loads hold pods that may be gone.
const NOTES_MAX: usize = 1_000;

impl NodeCache {
    /// Takes in a change of a node.
    pub(super) fn set_node(&mut self, change: &Change<Node>) {
        let node = match change {
            Change::Deleted { .. } => None,
            Change::Added(node) | Change::Updated { new: node, .. } => Some(Arc::clone(node)),
        };
        let name = change.key().name;
        self.entries.entry(name.clone()).or_default().set_node(node);
        self.forget_empty(&name);
    }

    /// Notes that a pod on a node, or one that was there, has changed.
    pub(super) fn note(&mut self, node: &str, pod: ObjectKey) {
        self.changed.entry(node.to_owned()).or_default().insert(pod);
        self.notes += 1;
    }

    /// Whether very much has changed since the loads were computed.
    pub(super) fn is_behind(&self) -> bool {
        self.notes > NOTES_MAX
    }

    /// Adds a pod to a node until the next pass, which keeps it if it is there.
    pub(super) fn add(&mut self, node: &str, pod: &Arc<Pod>) {
        self.note(node, ObjectKey::of(&**pod));
        let entry = self.entries.entry(node.to_owned()).or_default();
        entry.load.add(pod);
    }

    /// Computes the loads of the nodes with changes; `node_of` returns the node that a pod takes a place on.
    pub(super) fn refresh(&mut self, pods: &Store<Pod>, node_of: impl Fn(&Pod) -> Option<String>) {
        self.notes = 0;
        for (node, mut keys) in std::mem::take(&mut self.changed) {
            let entry = self.entries.entry(node.clone()).or_default();
            let before = std::mem::take(&mut entry.load);
            keys.extend(before.pods().map(ObjectKey::of));
            let there = keys.iter().filter_map(|key| pods.get(key));
            let there = there.filter(|pod| node_of(pod).as_ref() == Some(&node));
            there.for_each(|pod| entry.load.add(pod));
            self.forget_empty(&node);
        }
    }

    fn forget_empty(&mut self, name: &str) {
        if self.entries.get(name).is_some_and(NodeEntry::is_empty) {
            self.entries.remove(name);
        }
    }

    /// The nodes with their loads, by name, without those that are about to go.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeInfo<'_>> {
        self.entries.values().filter_map(NodeEntry::info)
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use kubeproof_machinery::json::json;
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn pod(name: &str, node: &str) -> Arc<Pod> {
        let spec = json!({ "nodeName": node, "containers": [] });
        let pod = json!({ "metadata": { "name": name, "namespace": "ns" }, "spec": spec });
        Arc::new(from_value(pod).unwrap())
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::of(&*pod(name, ""))
    }

    fn node_of(pod: &Pod) -> Option<String> {
        let spec = pod.spec.as_ref()?;
        spec.node_name.clone().filter(|node| !node.is_empty())
    }

    /// The names of the pods by node.
    fn names(cache: &NodeCache) -> Vec<(String, Vec<String>)> {
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap();
        let names = |entry: &NodeEntry| entry.load.pods().map(name).collect();
        let all = cache.entries.iter();
        all.map(|(node, entry)| (node.clone(), names(entry)))
            .collect()
    }

    #[test]
    fn a_load_has_the_pods_that_are_there_by_name() {
        let (mut pods, mut cache) = (Store::default(), NodeCache::default());
        for (name, node) in [("b", "one"), ("a", "one"), ("c", "two"), ("d", "")] {
            pods.apply(Event::Apply(pod(name, node)));
            cache.note(node, key(name));
        }
        cache.refresh(&pods, node_of);
        let both = [("one", &["a", "b"][..]), ("two", &["c"])];
        let owned = |(node, names): (&str, &[&str])| {
            (
                node.to_owned(),
                names.iter().map(|name| (*name).to_owned()).collect(),
            )
        };
        assert_eq!(names(&cache), both.map(owned));
        // A pod goes, another comes in its place, and one is only taken to come.
        pods.apply(Event::Delete(pod("a", "one")));
        pods.apply(Event::Apply(pod("d", "two")));
        cache.note("one", key("a"));
        cache.note("two", key("d"));
        cache.add("one", &pod("e", "one"));
        assert_eq!(names(&cache)[0].1, ["a", "b", "e"]);
        cache.refresh(&pods, node_of);
        let both = [("one", &["b"][..]), ("two", &["c", "d"])];
        assert_eq!(names(&cache), both.map(owned));
        // The last one goes.
        pods.apply(Event::Delete(pod("b", "one")));
        cache.note("one", key("b"));
        cache.refresh(&pods, node_of);
        assert_eq!(names(&cache), [owned(("two", &["c", "d"]))]);
    }

    #[test]
    fn pods_that_are_gone_are_forgotten_although_none_waits() {
        let (mut pods, mut cache) = (Store::default(), NodeCache::default());
        let gone = pod("a", "one");
        pods.apply(Event::Apply(Arc::clone(&gone)));
        cache.note("one", key("a"));
        cache.refresh(&pods, node_of);
        pods.apply(Event::Delete(pod("a", "one")));
        for _ in 0..=NOTES_MAX {
            assert!(!cache.is_behind());
            cache.note("one", key("a"));
        }
        assert!(cache.is_behind());
        cache.refresh(&pods, node_of);
        assert!(!cache.is_behind());
        assert_eq!(Arc::strong_count(&gone), 1);
    }

    #[test]
    fn nodes_come_by_name_without_those_that_go() {
        let node = |name: &str, meta: &str| -> Arc<Node> {
            let node = json!({ "metadata": { "name": name, meta: "2026-01-01T00:00:00Z" } });
            Arc::new(from_value(node).unwrap())
        };
        let names = |cache: &NodeCache| {
            let names = cache.nodes().map(|node| node.metadata.name.clone());
            names.map(Option::unwrap).collect::<Vec<_>>()
        };
        let mut cache = NodeCache::default();
        // A pod on a node that does not exist.
        cache.add("none", &pod("a", "none"));
        for name in ["two", "one", "three"] {
            cache.set_node(&Change::Added(node(name, "creationTimestamp")));
        }
        assert_eq!(names(&cache), ["one", "three", "two"]);
        let [old, new] =
            ["creationTimestamp", "deletionTimestamp"].map(|field| node("three", field));
        let marked = Change::Updated { old, new };
        cache.set_node(&marked);
        assert_eq!(names(&cache), ["one", "two"]);
        let old = node("one", "creationTimestamp");
        let last = Arc::clone(&old);
        cache.set_node(&Change::Deleted { old, last });
        assert_eq!(names(&cache), ["two"]);
        let kept: Vec<_> = cache.entries.keys().collect();
        assert_eq!(kept, ["none", "three", "two"]);
    }
}

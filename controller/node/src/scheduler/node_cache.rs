//! The loads of the nodes, which the scheduler keeps from one pass to the next.
//!
//! A cluster may have a hundred thousand pods, and a pass a few that wait: only the loads of nodes whose pods have
//! changed are computed again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kubeproof_runtime::store::{ObjectKey, Store};

use crate::fit::Load;

/// The loads by node, and what has changed since they were computed.
#[derive(Default)]
pub(super) struct NodeLoads {
    loads: BTreeMap<String, Load>,
    /// The pods that may have come to a node, or left it, or are other than its load says.
    changed: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// The number of notes of changes.
    notes: usize,
}

/// So many changes are worth a computation although no pod waits: the loads hold pods that may be gone.
const NOTES_MAX: usize = 1_000;

impl NodeLoads {
    /// Notes that a pod on a node, or one that was there, has changed.
    pub(super) fn note(&mut self, node: &str, pod: ObjectKey) {
        self.changed.entry(node.to_owned()).or_default().insert(pod);
        self.notes += 1;
    }

    /// Whether very much has changed since the loads were computed.
    pub(super) fn are_behind(&self) -> bool {
        self.notes > NOTES_MAX
    }

    /// Adds a pod to a node until the next pass, which keeps it if it is there.
    pub(super) fn add(&mut self, node: &str, pod: &Arc<Pod>) {
        self.note(node, ObjectKey::of(&**pod));
        self.loads.entry(node.to_owned()).or_default().add(pod);
    }

    /// Computes the loads of the nodes with changes; `node_of` returns the node that a pod takes a place on.
    pub(super) fn refresh(&mut self, pods: &Store<Pod>, node_of: impl Fn(&Pod) -> Option<String>) {
        self.notes = 0;
        for (node, mut keys) in std::mem::take(&mut self.changed) {
            let before = self.loads.remove(&node).unwrap_or_default();
            keys.extend(before.pods().map(ObjectKey::of));
            let there = keys.iter().filter_map(|key| pods.get(key));
            let mut there = there
                .filter(|pod| node_of(pod).as_ref() == Some(&node))
                .peekable();
            if there.peek().is_some() {
                let mut load = Load::default();
                there.for_each(|pod| load.add(pod));
                self.loads.insert(node, load);
            }
        }
    }

    /// The loads by node, without those of nodes without pods.
    pub(super) fn all(&self) -> &BTreeMap<String, Load> {
        &self.loads
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, node: &str) -> Arc<Pod> {
        let spec = json!({ "nodeName": node, "containers": [] });
        let pod = json!({ "metadata": { "name": name, "namespace": "ns" }, "spec": spec });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::of(&*pod(name, ""))
    }

    fn node_of(pod: &Pod) -> Option<String> {
        let spec = pod.spec.as_ref()?;
        spec.node_name.clone().filter(|node| !node.is_empty())
    }

    /// The names of the pods by node.
    fn names(loads: &NodeLoads) -> Vec<(String, Vec<String>)> {
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap();
        let names = |load: &Load| load.pods().map(name).collect();
        let all = loads.all().iter();
        all.map(|(node, load)| (node.clone(), names(load)))
            .collect()
    }

    #[test]
    fn a_load_has_the_pods_that_are_there_by_name() {
        let (mut pods, mut loads) = (Store::default(), NodeLoads::default());
        for (name, node) in [("b", "one"), ("a", "one"), ("c", "two"), ("d", "")] {
            pods.apply(Event::Apply(pod(name, node)));
            loads.note(node, key(name));
        }
        loads.refresh(&pods, node_of);
        let both = [("one", &["a", "b"][..]), ("two", &["c"])];
        let owned = |(node, names): (&str, &[&str])| {
            (
                node.to_owned(),
                names.iter().map(|name| (*name).to_owned()).collect(),
            )
        };
        assert_eq!(names(&loads), both.map(owned));
        // A pod goes, another comes in its place, and one is only taken to come.
        pods.apply(Event::Delete(pod("a", "one")));
        pods.apply(Event::Apply(pod("d", "two")));
        loads.note("one", key("a"));
        loads.note("two", key("d"));
        loads.add("one", &pod("e", "one"));
        assert_eq!(names(&loads)[0].1, ["a", "b", "e"]);
        loads.refresh(&pods, node_of);
        let both = [("one", &["b"][..]), ("two", &["c", "d"])];
        assert_eq!(names(&loads), both.map(owned));
        // The last one goes.
        pods.apply(Event::Delete(pod("b", "one")));
        loads.note("one", key("b"));
        loads.refresh(&pods, node_of);
        assert_eq!(names(&loads), [owned(("two", &["c", "d"]))]);
    }

    #[test]
    fn pods_that_are_gone_are_forgotten_although_none_waits() {
        let (mut pods, mut loads) = (Store::default(), NodeLoads::default());
        let gone = pod("a", "one");
        pods.apply(Event::Apply(Arc::clone(&gone)));
        loads.note("one", key("a"));
        loads.refresh(&pods, node_of);
        pods.apply(Event::Delete(pod("a", "one")));
        for _ in 0..=NOTES_MAX {
            assert!(!loads.are_behind());
            loads.note("one", key("a"));
        }
        assert!(loads.are_behind());
        loads.refresh(&pods, node_of);
        assert!(!loads.are_behind());
        assert_eq!(Arc::strong_count(&gone), 1);
    }
}

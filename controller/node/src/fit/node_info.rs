//! The nodes as the scheduler looks at them.
//!
//! Source: `NodeInfo` of `pkg/scheduler/framework`.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::pod_resources as resources;

use super::node_resources::{allocatable, counted};
use super::resource::Resource;
use super::spread::{Counts, HOSTNAME};
use super::{host_ports, inter_pod_affinity};

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A host port in use: protocol, address, port.
pub(super) type HostPort = (String, String, i32);

/// The pods on a node and the resources they take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    pub(super) pods: Vec<Arc<Pod>>,
    /// The pods among them with required anti-affinity, which keep others away.
    pub(super) repelling: Vec<Arc<Pod>>,
    /// The pods among them with terms about other pods.
    pub(super) with_affinity: Vec<Arc<Pod>>,
    /// The number of pods, including those counted without details.
    pub(super) count: usize,
    pub(super) ports: BTreeSet<HostPort>,
    pub(super) requested: Resource,
    /// The processor and the memory that count for scores.
    pub(super) counted: [i128; 2],
    /// The numbers of pods that selectors of spread constraints have found.
    pub(super) counts: Counts,
}

impl Load {
    /// Adds a pod that runs on the node or has a place there.
    pub(crate) fn add(&mut self, pod: &Arc<Pod>) {
        if let Some(spec) = &pod.spec {
            self.ports.extend(host_ports(spec));
            self.requested.add(&resources::requests(spec));
            let counted = counted(spec);
            self.counted = [0, 1].map(|index| self.counted[index] + counted[index]);
        }
        self.counts.add(pod);
        if inter_pod_affinity::has_affinity(pod) {
            self.with_affinity.push(Arc::clone(pod));
        }
        if inter_pod_affinity::repels(pod) {
            self.repelling.push(Arc::clone(pod));
        }
        self.pods.push(Arc::clone(pod));
        self.count += 1;
    }

    /// The pods on the node that take a place there.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(|pod| &**pod)
    }

    /// Adds a pod that competes for nothing but the number of pods.
    pub(crate) fn count_one(&mut self) {
        self.count += 1;
    }
}

/// A node that the scheduler keeps, with its load. Pods may be bound to a node that does not exist.
#[derive(Default)]
pub(crate) struct NodeEntry {
    node: Option<Kept>,
    pub(crate) load: Load,
}

/// A node, and what is read of it for every pod.
struct Kept {
    node: Arc<Node>,
    allocatable: Resource,
    /// The values of the labels over which pods are spread by default.
    hostname: Option<String>,
    zone: Option<String>,
}

impl NodeEntry {
    /// The entries of nodes with their loads by name.
    #[cfg(test)]
    pub(super) fn all(nodes: &[Node], loads: &BTreeMap<String, Load>) -> Vec<Self> {
        let with_load = |node: &Node| {
            let mut entry = Self::default();
            entry.set_node(Some(Arc::new(node.clone())));
            let load = loads.get(super::name(node));
            entry.load = load.cloned().unwrap_or_default();
            entry
        };
        nodes.iter().map(with_load).collect()
    }

    /// Replaces the node; `None` if it is gone.
    pub(crate) fn set_node(&mut self, node: Option<Arc<Node>>) {
        self.node = node.map(|node| Kept {
            allocatable: allocatable(&node),
            hostname: label(&node, HOSTNAME).map(str::to_owned),
            zone: label(&node, ZONE).map(str::to_owned),
            node,
        });
    }

    /// Whether there is neither a node nor a pod.
    pub(crate) fn is_empty(&self) -> bool {
        self.node.is_none() && self.load.count == 0
    }

    /// The node, unless it is gone or about to go.
    pub(crate) fn info(&self) -> Option<NodeInfo<'_>> {
        let kept = self.node.as_ref()?;
        let stays = kept.node.metadata.deletion_timestamp.is_none();
        stays.then_some(NodeInfo {
            kept,
            load: &self.load,
        })
    }
}

/// A node with its load.
#[derive(Clone, Copy)]
pub(crate) struct NodeInfo<'a> {
    kept: &'a Kept,
    pub(super) load: &'a Load,
}

impl<'a> NodeInfo<'a> {
    /// The node itself.
    pub(super) fn node(self) -> &'a Node {
        &self.kept.node
    }

    /// The node with another load.
    pub(super) fn with_load(self, load: &'a Load) -> Self {
        Self { load, ..self }
    }

    /// The resources that the node has for pods.
    pub(super) fn allocatable(self) -> &'a Resource {
        &self.kept.allocatable
    }

    /// The value of the node's label `key`.
    pub(super) fn label(self, key: &str) -> Option<&'a str> {
        match key {
            HOSTNAME => self.kept.hostname.as_deref(),
            ZONE => self.kept.zone.as_deref(),
            _ => label(&self.kept.node, key),
        }
    }
}

impl Deref for NodeInfo<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.kept.node
    }
}

fn label<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    let labels = node.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

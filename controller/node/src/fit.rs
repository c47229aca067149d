//! The filters and scores of the scheduler: a pure choice of a node for a pod.

mod fit_error;
mod inter_pod_affinity;
mod node_resources;
mod preemption;
mod scores;
mod spread;
mod volumes;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use inter_pod_affinity::InterPodAffinity;
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::node_affinity as affinity;
use kubeproof_runtime::pod_resources::{self as resources, Amounts};
use kubeproof_runtime::tolerations::tolerated;
use node_resources::{Requests, counted, requests_of, shortage};
use spread::Spread;
use volumes::PodVolumes;

pub(super) use fit_error::{FitError, Misfit, Reason};
pub(super) use node_resources::lacking;
pub(super) use preemption::{Plan, plan, priority};
pub(super) use volumes::{Bindings, Storage};

/// The highest score of a plugin.
const SCORE_MAX: i64 = 100;

/// A host port in use: protocol, address, port.
type HostPort = (String, String, i32);

/// The pods on a node and the resources they take.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pods: Vec<Arc<Pod>>,
    /// The pods among them with required anti-affinity, which keep others away.
    repelling: Vec<Arc<Pod>>,
    /// The pods among them with terms about other pods.
    with_affinity: Vec<Arc<Pod>>,
    /// The number of pods, including those counted without details.
    count: usize,
    ports: BTreeSet<HostPort>,
    requested: Amounts,
    /// The processor and the memory that count for scores.
    counted: [i128; 2],
    /// The number of pods that stay, by the uid of their controller.
    siblings: BTreeMap<String, i64>,
}

impl Load {
    /// Adds a pod that runs on the node or has a place there.
    pub(super) fn add(&mut self, pod: &Arc<Pod>) {
        if let Some(spec) = &pod.spec {
            self.ports.extend(host_ports(spec));
            resources::add(&mut self.requested, &resources::requests(spec));
            let counted = counted(spec);
            self.counted = [0, 1].map(|index| self.counted[index] + counted[index]);
        }
        if pod.metadata.deletion_timestamp.is_none()
            && let Some(owner) = controller_of(&pod.metadata)
        {
            *self.siblings.entry(owner.uid.clone()).or_default() += 1;
        }
        if inter_pod_affinity::has_affinity(pod) {
            self.with_affinity.push(Arc::clone(pod));
        }
        if inter_pod_affinity::repels(pod) {
            self.repelling.push(Arc::clone(pod));
        }
        self.pods.push(Arc::clone(pod));
        self.count += 1;
    }

    /// Adds a pod that competes for nothing but the number of pods.
    pub(super) fn count_one(&mut self) {
        self.count += 1;
    }
}

/// A function from the name of a Namespace to its labels.
pub(super) type NamespaceLabels<'a> = dyn Fn(&str) -> BTreeMap<String, String> + Sync + 'a;

/// The nodes and loads from which the scheduler chooses.
pub(super) struct Cluster<'a> {
    pub(super) nodes: Vec<&'a Node>,
    /// The loads by node name.
    pub(super) loads: &'a BTreeMap<String, Load>,
    /// The lookup of a Namespace's labels.
    pub(super) namespace_labels: &'a NamespaceLabels<'a>,
    /// The claims and their volumes, if the scheduler follows them.
    pub(super) storage: Option<Storage<'a>>,
}

static IDLE: Load = Load {
    pods: Vec::new(),
    repelling: Vec::new(),
    with_affinity: Vec::new(),
    count: 0,
    ports: BTreeSet::new(),
    requested: Amounts::new(),
    counted: [0; 2],
    siblings: BTreeMap::new(),
};

impl<'a> Cluster<'a> {
    fn load(&self, node: &Node) -> &'a Load {
        self.loads.get(name(node)).unwrap_or(&IDLE)
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// The state of the filters for one pod, computed once for all nodes (PreFilter).
struct Filters<'a> {
    pod: &'a Pod,
    requests: Requests,
    inter_pod_affinity: InterPodAffinity,
    spread: Spread,
    volumes: PodVolumes<'a>,
    pinned: Option<BTreeSet<String>>,
}

impl<'a> Filters<'a> {
    /// # Errors
    ///
    /// The reason why no node can have the pod.
    fn of(pod: &'a Pod, cluster: &Cluster<'a>) -> Result<Self, String> {
        let requests = pod.spec.as_ref().map(requests_of);
        let pinned = pod.spec.as_ref().and_then(affinity::pinned);
        if pinned.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err("pod affinity terms conflict".to_owned());
        }
        Ok(Self {
            pod,
            requests: requests.unwrap_or_default(),
            volumes: PodVolumes::of(pod, cluster)?,
            inter_pod_affinity: InterPodAffinity::of(pod, cluster),
            spread: Spread::of(pod, cluster),
            pinned,
        })
    }

    fn misfit(&self, node: &Node, load: &Load) -> Option<Misfit> {
        match &self.pinned {
            Some(names) if !names.contains(name(node)) => Some(Misfit::pinned()),
            _ => misfit((self.pod, &self.requests), node, load)
                .or_else(|| self.volumes.misfit(self.pod, node, load))
                .or_else(|| self.spread.misfit(node))
                .or_else(|| self.inter_pod_affinity.misfit(node)),
        }
    }
}

/// Returns the reason why the pod does not fit on a node of the cluster.
fn examine_one(pod: &Pod, cluster: &Cluster<'_>, node: &Node) -> Option<Misfit> {
    match Filters::of(pod, cluster) {
        Ok(filters) => filters.misfit(node, cluster.load(node)),
        // A pod that no node can have preempts none.
        Err(_) => Some(Misfit::pinned()),
    }
}

/// A node for a pod.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) node: String,
    /// The volumes that the pod gets there.
    pub(super) bindings: Bindings,
}

/// Chooses a node for `pod` among those it fits on: the `nominated` one, else the one with the
/// highest score, else the one with the fewest pods, else the first.
///
/// # Errors
///
/// [`FitError`] when it fits on none.
pub(super) fn choose(
    pod: &Pod,
    cluster: &Cluster<'_>,
    nominated: Option<&str>,
) -> Result<Choice, FitError> {
    let filters =
        Filters::of(pod, cluster).map_err(|reason| FitError::before_filters(reason, cluster))?;
    let mut fit_error = FitError::default();
    let mut feasible: Vec<&Node> = Vec::new();
    for node in &cluster.nodes {
        match filters.misfit(node, cluster.load(node)) {
            Some(misfit) => fit_error.add(name(node), misfit),
            None => feasible.push(node),
        }
    }
    let nominated = feasible.iter().find(|node| nominated == Some(name(node)));
    let chosen = nominated.copied().or_else(|| match feasible.as_slice() {
        [only] => Some(only),
        nodes => best(pod, cluster, nodes),
    });
    let node = chosen.ok_or(fit_error)?;
    Ok(Choice {
        node: name(node).to_owned(),
        bindings: filters.volumes.bindings(node).unwrap_or_default(),
    })
}

/// Returns the node with the highest score; upstream decides ties at random.
fn best<'n>(pod: &Pod, cluster: &Cluster<'_>, nodes: &[&'n Node]) -> Option<&'n Node> {
    let scores = scores::of(pod, cluster, nodes);
    let ranked = nodes.iter().copied().zip(scores);
    let best = ranked.min_by_key(|(node, score)| {
        (
            Reverse(*score),
            cluster.load(node).count,
            natural(name(node)),
        )
    });
    best.map(|(node, _)| node)
}

/// Returns a sort key that orders `node-2` before `node-10`.
fn natural(name: &str) -> (usize, &str) {
    (name.len(), name)
}

/// Returns the reason of the first filter that rejects the node for the pod, regardless of the rest
/// of the cluster.
fn misfit((pod, requests): (&Pod, &Requests), node: &Node, load: &Load) -> Option<Misfit> {
    let spec = pod.spec.as_ref()?;
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let node_spec = node.spec.as_ref();
    if node_spec.and_then(|spec| spec.unschedulable) == Some(true) {
        let cordon = Taint {
            key: kubeproof_runtime::taints::UNSCHEDULABLE.to_owned(),
            effect: kubeproof_runtime::taints::NO_SCHEDULE.to_owned(),
            ..Taint::default()
        };
        if !tolerated(&cordon, tolerations) {
            return Some(Misfit::lasting(Reason::Cordoned));
        }
    }
    let mut strict = kubeproof_runtime::taints::of(node)
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule");
    if !strict.all(|taint| tolerated(taint, tolerations)) {
        return Some(Misfit::lasting(Reason::Tainted));
    }
    if !affinity::matches(spec, node) {
        return Some(Misfit::lasting(Reason::Affinity));
    }
    if ports_are_taken(spec, load) {
        return Some(Misfit::passing(Reason::Ports));
    }
    shortage(requests, node, load)
}

/// Returns whether the pod requests host ports or resources, which other pods may have taken.
pub(super) fn competes(spec: &PodSpec) -> bool {
    !host_ports(spec).is_empty() || !resources::requests(spec).is_empty()
}

/// Returns whether a host port of the pod is in use.
pub(super) fn ports_are_taken(spec: &PodSpec, load: &Load) -> bool {
    let wanted = host_ports(spec);
    let mut taken = load.ports.iter();
    !wanted.is_empty() && taken.any(|taken| wanted.iter().any(|port| conflict(port, taken)))
}

fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let taken = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        let address = port.host_ip.clone().unwrap_or_default();
        Some((protocol, address, number))
    });
    taken.collect()
}

fn conflict(one: &HostPort, other: &HostPort) -> bool {
    let any = |address: &str| address.is_empty() || address == "0.0.0.0";
    let addresses = one.1 == other.1 || any(&one.1) || any(&other.1);
    one.0 == other.0 && one.2 == other.2 && addresses
}

#[cfg(test)]
mod tests;

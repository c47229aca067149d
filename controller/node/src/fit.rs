//! The filters and scores of the scheduler: a pure choice of a node for a pod.

mod fit_error;
mod inter_pod_affinity;
mod preemption;
mod spread;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use inter_pod_affinity::InterPodAffinity;
use kubeproof_runtime::node_affinity as affinity;
use kubeproof_runtime::pod_resources::{self as resources, Amounts};
use kubeproof_runtime::tolerations::tolerated;
use spread::Spread;

pub(super) use fit_error::{FitError, Misfit, Reason};
pub(super) use preemption::{Plan, plan, priority};

/// A host port in use: protocol, address, port.
type HostPort = (String, String, i32);

/// The pods on a node and the resources they take.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pods: Vec<Arc<Pod>>,
    /// The pods among them with required anti-affinity, which keep others away.
    repelling: Vec<Arc<Pod>>,
    /// The number of pods, including those counted without details.
    count: usize,
    ports: BTreeSet<HostPort>,
    requested: Amounts,
}

impl Load {
    /// Adds a pod that runs on the node or has a place there.
    pub(super) fn add(&mut self, pod: &Arc<Pod>) {
        if let Some(spec) = &pod.spec {
            self.ports.extend(host_ports(spec));
            resources::add(&mut self.requested, &resources::requests(spec));
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
}

static IDLE: Load = Load {
    pods: Vec::new(),
    repelling: Vec::new(),
    count: 0,
    ports: BTreeSet::new(),
    requested: Amounts::new(),
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
    pinned: Option<BTreeSet<String>>,
}

impl<'a> Filters<'a> {
    fn of(pod: &'a Pod, cluster: &Cluster<'_>) -> Self {
        let requests = pod.spec.as_ref().map(requests_of);
        Self {
            pod,
            requests: requests.unwrap_or_default(),
            inter_pod_affinity: InterPodAffinity::of(pod, cluster),
            spread: Spread::of(pod, cluster),
            pinned: pod.spec.as_ref().and_then(affinity::pinned),
        }
    }

    fn misfit(&self, node: &Node, load: &Load) -> Option<Misfit> {
        match &self.pinned {
            Some(names) if !names.contains(name(node)) => Some(Misfit::pinned()),
            _ => misfit((self.pod, &self.requests), node, load)
                .or_else(|| self.spread.misfit(node))
                .or_else(|| self.inter_pod_affinity.misfit(node)),
        }
    }
}

/// Returns the reason why the pod does not fit on a node of the cluster.
fn examine_one(pod: &Pod, cluster: &Cluster<'_>, node: &Node) -> Option<Misfit> {
    Filters::of(pod, cluster).misfit(node, cluster.load(node))
}

/// Chooses a node for `pod` among those it fits on: the `nominated` one, else the most preferred,
/// else the one with the fewest pods, else the first.
///
/// # Errors
///
/// [`FitError`] when it fits on none.
pub(super) fn choose(
    pod: &Pod,
    cluster: &Cluster<'_>,
    nominated: Option<&str>,
) -> Result<String, FitError> {
    let filters = Filters::of(pod, cluster);
    let mut fit_error = FitError::default();
    let mut best = None;
    for node in &cluster.nodes {
        let load = cluster.load(node);
        match filters.misfit(node, load) {
            Some(misfit) => fit_error.add(name(node), misfit),
            None if nominated == Some(name(node)) => return Ok(name(node).to_owned()),
            None => {
                let unwanted = unwanted_taints(pod, node);
                let liked =
                    affinity::preference(pod, node) + filters.inter_pod_affinity.preference(node);
                let rank = (unwanted, Reverse(liked), load.count, natural(name(node)));
                best = Some(match best {
                    Some(best) => rank.min(best),
                    None => rank,
                });
            }
        }
    }
    match best {
        Some((_, _, _, (_, name))) => Ok(name.to_owned()),
        None => Err(fit_error),
    }
}

/// Returns a sort key that orders `node-2` before `node-10`.
fn natural(name: &str) -> (usize, &str) {
    (name.len(), name)
}

/// Counts the node's `PreferNoSchedule` taints that the pod does not tolerate.
fn unwanted_taints(pod: &Pod, node: &Node) -> usize {
    let spec = pod.spec.as_ref();
    let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
    let taints = kubeproof_runtime::taints::of(node).iter();
    taints
        .filter(|taint| taint.effect == "PreferNoSchedule")
        .filter(|taint| !tolerated(taint, tolerations.unwrap_or_default()))
        .count()
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

/// Returns a misfit with the resources that the node lacks.
fn shortage(requests: &Requests, node: &Node, load: &Load) -> Option<Misfit> {
    let lacking = lacking_of(requests, node, load);
    let lasts = lacking
        .iter()
        .any(|lack| lack.resource != "pods" && lack.requested > lack.capacity);
    let reasons: Vec<Reason> = lacking
        .into_iter()
        .map(|lack| match lack.resource.as_str() {
            "pods" => Reason::Full,
            _ => Reason::Insufficient(lack.resource),
        })
        .collect();
    Misfit::new(reasons, lasts)
}

/// A resource of which a node has too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) resource: String,
    pub(super) requested: i128,
    pub(super) used: i128,
    pub(super) capacity: i128,
}

/// Returns the resources that the pod requests and the node lacks, in upstream's order.
pub(super) fn lacking(spec: &PodSpec, node: &Node, load: &Load) -> Vec<Lack> {
    lacking_of(&requests_of(spec), node, load)
}

/// The requests of a pod, in upstream's order of resources.
type Requests = Vec<(String, i128)>;

fn requests_of(spec: &PodSpec) -> Requests {
    let mut requests: Requests = resources::requests(spec).into_iter().collect();
    let order = |name: &str| match name {
        "cpu" => 0,
        "memory" => 1,
        "ephemeral-storage" => 2,
        _ => 3,
    };
    requests.sort_by(|one, other| (order(&one.0), &one.0).cmp(&(order(&other.0), &other.0)));
    requests
}

fn lacking_of(requests: &Requests, node: &Node, load: &Load) -> Vec<Lack> {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    // Only the quantities that count are read.
    let capacity = |resource: &str| {
        let quantity = allocatable.and_then(|all| all.get(resource));
        quantity.map(|quantity| resources::amount(resource, quantity))
    };
    let mut lacking = Vec::new();
    let pods = i128::try_from(load.count).unwrap_or(i128::MAX);
    // A node without a capacity for pods has room for any number.
    if let Some(capacity) = capacity("pods").filter(|places| pods >= *places) {
        lacking.push(Lack {
            resource: "pods".to_owned(),
            requested: 1,
            used: pods,
            capacity,
        });
    }
    for (resource, requested) in requests.iter().filter(|(_, requested)| *requested > 0) {
        let used = load.requested.get(resource).copied().unwrap_or(0);
        let capacity = capacity(resource).unwrap_or(0);
        if *requested > capacity - used {
            lacking.push(Lack {
                resource: resource.clone(),
                requested: *requested,
                used,
                capacity,
            });
        }
    }
    lacking
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

//! The filters and scores of the scheduler: a pure choice of a node for a pod.

mod devices;
mod fit_error;
mod inter_pod_affinity;
mod node_info;
mod node_resources;
mod preemption;
mod profile;
mod resource;
mod scores;
mod spread;
mod volumes;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PodSpec, Taint};
use kubeproof_runtime::pod::Pod;

use devices::{ClaimsSeen, PodClaims};
use inter_pod_affinity::InterPodAffinity;
use kube::core::Selector;
use kubeproof_runtime::node_affinity as affinity;
use kubeproof_runtime::pod_resources as resources;
use kubeproof_runtime::tolerations::tolerated;
use node_info::HostPort;
use node_resources::{Requests, requests_of, shortage, without_ignored};
use spread::Spread;
use volumes::PodVolumes;

pub use devices::{CompileSelector, DeviceSelector};
pub(super) use devices::{Devices, Reservation};
pub(super) use fit_error::{FitError, Misfit, Reason};
pub(super) use node_info::{Load, NodeEntry, NodeInfo};
pub(super) use node_resources::{is_extended, lacking};
pub(super) use preemption::{NoPlan, Plan, plan, priority};
pub(super) use profile::{Arguments, DEFAULT_PLUGINS, Plugin, Point, Profile, Strategy};
pub(super) use volumes::{Bindings, Storage};

/// The highest score of a plugin.
const SCORE_MAX: i64 = 100;

/// A function from the name of a Namespace to its labels.
pub(super) type NamespaceLabels<'a> = dyn Fn(&str) -> BTreeMap<String, String> + Sync + 'a;

/// A function from a pod without spread constraints to the selector of the pods that it is spread
/// with: the pods of its Services and of its set. A pod with neither gets the empty selector.
pub(super) type SpreadSelector<'a> = dyn Fn(&Pod) -> Selector + Sync + 'a;

/// The nodes and loads from which the scheduler chooses.
pub(super) struct Cluster<'a> {
    /// The plugins that choose, and how.
    pub(super) profile: &'a Profile,
    /// The nodes in the order in which they are looked at.
    pub(super) nodes: Vec<NodeInfo<'a>>,
    /// The lookup of a Namespace's labels.
    pub(super) namespace_labels: &'a NamespaceLabels<'a>,
    /// The lookup of the pods that a pod is spread with.
    pub(super) spread_selector: &'a SpreadSelector<'a>,
    /// The claims and their volumes, if the scheduler follows them.
    pub(super) storage: Option<&'a Storage>,
    /// The devices and their claims, if the scheduler follows them.
    pub(super) devices: Option<&'a Devices>,
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// The state of the filters for one pod, computed once for all nodes (PreFilter).
struct Filters<'a> {
    profile: &'a Profile,
    pod: &'a Pod,
    /// The plugins that may refuse a node for this pod, in their order.
    plugins: Vec<Plugin>,
    /// The filters that cannot do without their PreFilter step, which the profile disables.
    unprepared: Vec<Plugin>,
    /// The host ports of the pod, if NodePorts is prepared.
    ports: BTreeSet<HostPort>,
    requests: Requests,
    inter_pod_affinity: InterPodAffinity,
    spread: Spread,
    volumes: PodVolumes<'a>,
    claims: PodClaims<'a>,
    pinned: Option<BTreeSet<String>>,
}

/// The reason why no node can have a pod, and the plugin that found it.
struct Refusal {
    plugin: Plugin,
    reason: String,
    claims: ClaimsSeen,
}

impl<'a> Filters<'a> {
    /// # Errors
    ///
    /// The reason why no node can have the pod.
    fn of(pod: &'a Pod, cluster: &Cluster<'a>) -> Result<Self, Refusal> {
        let profile = cluster.profile;
        let mut filters = Self {
            profile,
            pod,
            plugins: Vec::new(),
            unprepared: Vec::new(),
            ports: BTreeSet::new(),
            requests: Requests::new(),
            inter_pod_affinity: InterPodAffinity::default(),
            spread: Spread::default(),
            volumes: PodVolumes::of(pod, cluster),
            claims: PodClaims::of(pod, cluster.devices),
            pinned: None,
        };
        for plugin in &profile.pre_filter {
            filters.prepare_or_refuse(*plugin, cluster)?;
        }
        // Without its first step this plugin does all at the second.
        let zones = Plugin::VolumeZone;
        if profile.filter.contains(&zones) && !profile.pre_filter.contains(&zones) {
            filters.prepare_or_refuse(zones, cluster)?;
        }
        let is_prepared = |plugin: &Plugin| profile.pre_filter.contains(plugin);
        let plugins = profile.filter.iter().copied();
        let needed = plugins.clone();
        let needed = needed.filter(|plugin| !(is_prepared(plugin) && filters.is_skipped(*plugin)));
        filters.plugins = needed.collect();
        let unprepared = plugins.filter(|plugin| !is_prepared(plugin));
        let unprepared = unprepared.filter(|plugin| missing_state(*plugin).is_some());
        filters.unprepared = unprepared.collect();
        Ok(filters)
    }

    /// Returns whether the plugin, which is prepared, has nothing to refuse for this pod.
    ///
    /// Source: the status `Skip` of PreFilter.
    fn is_skipped(&self, plugin: Plugin) -> bool {
        match plugin {
            Plugin::NodePorts => self.ports.is_empty(),
            Plugin::NodeAffinity => {
                let spec = self.pod.spec.as_deref();
                let is_added = self.profile.arguments.added_affinity.is_some();
                !is_added && spec.is_none_or(affinity::is_unrestricted)
            }
            _ => false,
        }
    }

    fn prepare_or_refuse(&mut self, plugin: Plugin, cluster: &Cluster<'a>) -> Result<(), Refusal> {
        let prepared = self.prepare(plugin, cluster);
        prepared.map_err(|reason| Refusal {
            plugin,
            reason,
            claims: self.claims.seen(),
        })
    }

    fn prepare(&mut self, plugin: Plugin, cluster: &Cluster<'a>) -> Result<(), String> {
        let pod = self.pod;
        match plugin {
            Plugin::NodeAffinity => {
                self.pinned = pod.spec.as_deref().and_then(affinity::pinned);
                if self.pinned.as_ref().is_some_and(BTreeSet::is_empty) {
                    return Err("pod affinity terms conflict".to_owned());
                }
            }
            Plugin::NodePorts => {
                self.ports = pod.spec.as_deref().map(host_ports).unwrap_or_default();
            }
            Plugin::NodeResourcesFit => {
                let requests = pod.spec.as_deref().map(requests_of).unwrap_or_default();
                self.requests = without_ignored(requests, &self.profile.arguments);
            }
            Plugin::VolumeRestrictions => self.volumes.find_taken(cluster)?,
            Plugin::VolumeBinding => self.volumes.find_unbound()?,
            Plugin::VolumeZone => self.volumes.find_zones()?,
            Plugin::PodTopologySpread => self.spread = Spread::of(pod, cluster),
            Plugin::InterPodAffinity => {
                self.inter_pod_affinity = InterPodAffinity::of(pod, cluster);
            }
            Plugin::DynamicResources => self.claims.find()?,
            _ => {}
        }
        Ok(())
    }

    fn misfit(&self, node: &NodeInfo<'_>) -> Option<Misfit> {
        match &self.pinned {
            Some(names) if !names.contains(name(node)) => Some(Misfit::pinned()),
            _ => {
                let mut plugins = self.plugins.iter();
                plugins.find_map(|plugin| self.misfit_by(*plugin, node))
            }
        }
    }

    fn misfit_by(&self, plugin: Plugin, node: &NodeInfo<'_>) -> Option<Misfit> {
        if self.unprepared.contains(&plugin)
            && let Some(error) = missing_state(plugin)
        {
            let error = format!("running \"{plugin:?}\" filter plugin: {error}");
            return Some(Misfit::error(error));
        }
        let spec = self.pod.spec.as_ref()?;
        match plugin {
            Plugin::NodeUnschedulable => is_cordoned(spec, node),
            Plugin::TaintToleration => is_tainted(spec, node),
            Plugin::NodeAffinity => misses_affinity(spec, &self.profile.arguments, node),
            Plugin::NodePorts => {
                are_taken(&self.ports, node.load).then(|| Misfit::passing(Reason::Ports))
            }
            Plugin::NodeResourcesFit => shortage(&self.requests, node),
            Plugin::VolumeRestrictions => self.volumes.is_refused(node.load),
            Plugin::NodeVolumeLimits => self.volumes.exceeds_limits(node),
            Plugin::VolumeBinding => self.volumes.is_unreachable(node),
            Plugin::VolumeZone => self.volumes.is_elsewhere(node),
            Plugin::PodTopologySpread => self.spread.misfit(node),
            Plugin::InterPodAffinity => self.inter_pod_affinity.misfit(node),
            Plugin::DynamicResources => self.claims.misfit(node),
            _ => None,
        }
    }
}

/// Returns the error of a filter whose first step is disabled, if it cannot do without.
fn missing_state(plugin: Plugin) -> Option<&'static str> {
    Some(match plugin {
        Plugin::NodePorts => "reading \"PreFilterNodePorts\" from cycleState: not found",
        Plugin::NodeResourcesFit => {
            "error reading \"PreFilterNodeResourcesFit\" from cycleState: not found"
        }
        Plugin::VolumeRestrictions => "cannot read \"PreFilterVolumeRestrictions\" from cycleState",
        Plugin::PodTopologySpread => {
            "reading \"PreFilterPodTopologySpread\" from cycleState: not found"
        }
        Plugin::InterPodAffinity => {
            "error reading \"PreFilterInterPodAffinity\" from cycleState: not found"
        }
        Plugin::NodeDeclaredFeatures => {
            "error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found"
        }
        Plugin::VolumeBinding | Plugin::DynamicResources => "not found",
        _ => return None,
    })
}

/// Returns the reason why the pod does not fit on a node of the cluster.
fn examine_one(pod: &Pod, cluster: &Cluster<'_>, node: NodeInfo<'_>) -> Option<Misfit> {
    match Filters::of(pod, cluster) {
        Ok(filters) => filters.misfit(&node),
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
    /// Whether the pod has ResourceClaims.
    pub(super) has_claims: bool,
    /// The number of nodes that were looked at.
    pub(super) examined: usize,
    /// The ResourceClaims that have to be reserved for the pod.
    pub(super) reservations: Vec<Reservation>,
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
    let filters = Filters::of(pod, cluster).map_err(|refusal| {
        let mut fit_error = FitError::before_filters(refusal.reason, refusal.plugin, cluster);
        fit_error.claims = refusal.claims;
        fit_error
    })?;
    let nominee = cluster
        .nodes
        .iter()
        .find(|node| nominated == Some(name(node)));
    let (found, examined) = match nominee {
        Some(nominee) if filters.misfit(nominee).is_none() => (*nominee, 0),
        _ => search(&filters, cluster)?,
    };
    let node = found.node();
    Ok(Choice {
        node: name(node).to_owned(),
        bindings: filters.volumes.bindings(node).unwrap_or_default(),
        has_claims: !filters.claims.is_empty(),
        examined,
        reservations: filters.claims.reservations(node),
    })
}

/// Looks for nodes on which the pod fits, until there are enough. Returns the best of them, and how many were looked at.
///
/// # Errors
///
/// [`FitError`] when it fits on none.
fn search<'n>(
    filters: &Filters<'_>,
    cluster: &Cluster<'n>,
) -> Result<(NodeInfo<'n>, usize), FitError> {
    let is_candidate = |node: &NodeInfo<'_>| {
        let pinned = filters.pinned.as_ref();
        pinned.is_none_or(|names| names.contains(name(node)))
    };
    let nodes = cluster.nodes.iter().copied();
    let (candidates, others): (Vec<_>, Vec<_>) = nodes.partition(is_candidate);
    let enough = cluster.profile.feasible_nodes_to_find(candidates.len());
    let mut fit_error = FitError::default();
    let (mut feasible, mut examined) = (Vec::new(), 0);
    for node in candidates {
        if feasible.len() >= enough {
            break;
        }
        examined += 1;
        match filters.misfit(&node) {
            Some(misfit) => fit_error.add(name(&node), misfit),
            None => feasible.push(node),
        }
    }
    fit_error.claims = filters.claims.seen();
    let chosen = match feasible.as_slice() {
        _ if fit_error.is_error() => None,
        [only] => Some(*only),
        nodes => best(filters, cluster, nodes),
    };
    if let Some(node) = chosen {
        return Ok((node, examined));
    }
    for node in others {
        fit_error.add(name(&node), Misfit::pinned());
    }
    Err(fit_error)
}

/// Returns the node with the highest score; upstream decides ties at random.
fn best<'n>(
    filters: &Filters<'_>,
    cluster: &Cluster<'_>,
    nodes: &[NodeInfo<'n>],
) -> Option<NodeInfo<'n>> {
    let scores = scores::of((filters.pod, &filters.claims), cluster, nodes);
    let ranked = nodes.iter().copied().zip(scores);
    let best = ranked
        .min_by_key(|(node, score)| (Reverse(*score), node.load.count, natural(name(node.node()))));
    best.map(|(node, _)| node)
}

/// Returns a sort key that orders `node-2` before `node-10`.
fn natural(name: &str) -> (usize, &str) {
    (name.len(), name)
}

fn is_cordoned(spec: &PodSpec, node: &Node) -> Option<Misfit> {
    let node_spec = node.spec.as_ref();
    if node_spec.and_then(|spec| spec.unschedulable) != Some(true) {
        return None;
    }
    let cordon = Taint {
        key: kubeproof_runtime::taints::UNSCHEDULABLE.to_owned(),
        effect: kubeproof_runtime::taints::NO_SCHEDULE.to_owned(),
        ..Taint::default()
    };
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    (!tolerated(&cordon, tolerations)).then(|| Misfit::lasting(Reason::Cordoned))
}

fn is_tainted(spec: &PodSpec, node: &Node) -> Option<Misfit> {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let mut strict = kubeproof_runtime::taints::of(node)
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule");
    let is_tolerated = strict.all(|taint| tolerated(taint, tolerations));
    (!is_tolerated).then(|| Misfit::lasting(Reason::Tainted))
}

fn misses_affinity(spec: &PodSpec, arguments: &Arguments, node: &Node) -> Option<Misfit> {
    let added = arguments.added_affinity.as_ref();
    let added = added.and_then(|added| {
        added
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    if added.is_some_and(|added| !affinity::is_selected(added, node)) {
        return Some(Misfit::lasting(Reason::AddedAffinity));
    }
    (!affinity::matches(spec, node)).then(|| Misfit::lasting(Reason::Affinity))
}

/// Returns whether the pod requests host ports or resources, which other pods may have taken.
pub(super) fn competes(spec: &PodSpec) -> bool {
    !host_ports(spec).is_empty() || !resources::requests(spec).is_empty()
}

/// Returns whether a host port of the pod is in use.
pub(super) fn ports_are_taken(spec: &PodSpec, load: &Load) -> bool {
    are_taken(&host_ports(spec), load)
}

fn are_taken(wanted: &BTreeSet<HostPort>, load: &Load) -> bool {
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

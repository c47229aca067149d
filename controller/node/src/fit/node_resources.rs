//! The resources that a pod requests and a node has: the plugins NodeResourcesFit and
//! NodeResourcesBalancedAllocation.

use k8s_openapi::api::core::v1::{Node, PodSpec};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::pod_resources::{self as resources, Amounts};

use super::profile::{Arguments, Strategy};
use super::resource::Resource;
use super::{Load, Misfit, NodeInfo, Reason, SCORE_MAX};

/// The requests of containers that state none, as scores count them.
const DEFAULTS: &[(&str, &str)] = &[("cpu", "100m"), ("memory", "200Mi")];

/// A resource of which a node has too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) resource: String,
    pub(crate) requested: i128,
    pub(crate) used: i128,
    pub(crate) capacity: i128,
}

/// Returns the resources that the pod requests and the node lacks, in upstream's order.
pub(crate) fn lacking(spec: &PodSpec, node: &Node, load: &Load) -> Vec<Lack> {
    lacking_of(&requests_of(spec), &allocatable(node), load)
}

/// The requests of a pod, in upstream's order of resources.
pub(super) type Requests = Vec<(String, i128)>;

pub(super) fn requests_of(spec: &PodSpec) -> Requests {
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

/// Returns the requests that a node has to meet by the configuration of the plugin.
pub(super) fn without_ignored(mut requests: Requests, arguments: &Arguments) -> Requests {
    let is_ignored = |name: &str| {
        let group = name.split('/').next().unwrap_or_default();
        is_extended(name)
            && (arguments.ignored_resources.contains(name)
                || arguments.ignored_groups.contains(group))
    };
    requests.retain(|(name, _)| !is_ignored(name));
    requests
}

/// Returns whether the resource is one that Kubernetes knows nothing about.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// Returns the processor and the memory that a pod on a node counts for in scores
/// (`getNonMissingContainerRequests`).
pub(super) fn counted(spec: &PodSpec) -> [i128; 2] {
    let stated = spec.resources.as_ref();
    let stated = stated.and_then(|resources| resources.requests.as_ref());
    let mut defaults = DEFAULTS.to_vec();
    if stated.is_some_and(|requests| !requests.is_empty()) {
        let requests = resources::requests(spec);
        defaults.retain(|(name, _)| !requests.contains_key(*name));
    }
    both(&resources::requests_or(spec, &defaults))
}

fn both(amounts: &Amounts) -> [i128; 2] {
    ["cpu", "memory"].map(|name| amounts.get(name).copied().unwrap_or(0))
}

/// Returns the resources that a node has for pods.
pub(super) fn allocatable(node: &Node) -> Resource {
    let status = node.status.as_ref();
    resources::amounts(status.and_then(|status| status.allocatable.as_ref())).into()
}

fn lacking_of(requests: &Requests, allocatable: &Resource, load: &Load) -> Vec<Lack> {
    let mut lacking = Vec::new();
    let pods = i128::try_from(load.count).unwrap_or(i128::MAX);
    let places = allocatable.get("pods");
    if pods >= places {
        lacking.push(Lack {
            resource: "pods".to_owned(),
            requested: 1,
            used: pods,
            capacity: places,
        });
    }
    for (resource, requested) in requests.iter().filter(|(_, requested)| *requested > 0) {
        let used = load.requested.get(resource);
        let capacity = allocatable.get(resource);
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

/// Returns a misfit with the resources that the node lacks.
pub(super) fn shortage(requests: &Requests, node: &NodeInfo<'_>) -> Option<Misfit> {
    let lacking = lacking_of(requests, node.allocatable(), node.load);
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

/// The pod's part of the scores of resources.
pub(super) struct ResourceScores<'a> {
    arguments: &'a Arguments,
    /// The requests of the containers, with defaults where they request no processor or no memory.
    /// Requests of the pod as a whole do not count: upstream's scorer skips them, although it counts
    /// those of pods that are on a node.
    counted: Resource,
    requested: Resource,
}

/// The amounts of a resource of a node that are taken before and with the pod.
struct Share {
    weight: i64,
    before: i128,
    with_pod: i128,
    capacity: i128,
}

impl<'a> ResourceScores<'a> {
    pub(super) fn of(pod: &Pod, arguments: &'a Arguments) -> Self {
        let spec = pod.spec.as_deref().cloned().unwrap_or_default();
        let requested = resources::requests(&spec);
        let of_containers = PodSpec {
            resources: None,
            ..spec
        };
        Self {
            arguments,
            counted: resources::requests_or(&of_containers, DEFAULTS).into(),
            requested: requested.into(),
        }
    }

    /// Returns the score of the configured strategy.
    pub(super) fn allocated(&self, node: &NodeInfo<'_>) -> i64 {
        let load = node.load;
        let shares = self
            .arguments
            .resources
            .iter()
            .filter_map(|(name, weight)| {
                let before = match name.as_str() {
                    "cpu" => load.counted[0],
                    "memory" => load.counted[1],
                    name => load.requested.get(name),
                };
                let requested = self.counted.get(name);
                share(node.allocatable(), (name, *weight), before, requested)
            });
        let scored = shares.map(|share| (score(&self.arguments.strategy, &share), share.weight));
        let is_ratio = matches!(
            self.arguments.strategy,
            Strategy::RequestedToCapacityRatio(_)
        );
        // This strategy does not count resources without a score.
        let scored: Vec<_> = scored
            .filter(|(score, _)| !is_ratio || *score > 0)
            .collect();
        let weights: i64 = scored.iter().map(|(_, weight)| weight).sum();
        let sum: i64 = scored.iter().map(|(score, weight)| score * weight).sum();
        match (weights, is_ratio) {
            (0, _) => 0,
            (_, true) => (sum as f64 / weights as f64).round() as i64,
            (_, false) => sum / weights,
        }
    }

    /// Returns how much the pod evens the shares that are taken; 0 for a pod that requests none of
    /// the resources.
    pub(super) fn balance(&self, node: &NodeInfo<'_>) -> i64 {
        let requested = |name: &String| self.requested.get(name);
        let names = &self.arguments.balanced;
        if names.iter().all(|name| requested(name) == 0) {
            return 0;
        }
        let shares = names.iter().filter_map(|name| {
            let before = node.load.requested.get(name);
            share(node.allocatable(), (name, 1), before, requested(name))
        });
        let shares: Vec<Share> = shares.collect();
        let half = SCORE_MAX / 2;
        let with_pod = evenness(&shares, |share| share.with_pod);
        half + (half + with_pod - evenness(&shares, |share| share.before)) / 2
    }
}

/// Returns what is taken of a resource; `None` if the node has none of it, or if it is one that few
/// nodes have and the pod does not request.
fn share(
    allocatable: &Resource,
    (name, weight): (&str, i64),
    before: i128,
    requested: i128,
) -> Option<Share> {
    let is_common = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    let capacity = allocatable.get(name);
    (capacity != 0 && (is_common || requested != 0)).then_some(Share {
        weight,
        before,
        with_pod: before + requested,
        capacity,
    })
}

fn score(strategy: &Strategy, share: &Share) -> i64 {
    let (taken, capacity) = (share.with_pod, share.capacity);
    let most = i128::from(SCORE_MAX);
    let score = match strategy {
        Strategy::LeastAllocated if taken > capacity => 0,
        Strategy::LeastAllocated => (capacity - taken) * most / capacity,
        Strategy::MostAllocated => taken.min(capacity) * most / capacity,
        Strategy::RequestedToCapacityRatio(points) => {
            return on_line(
                points,
                i64::try_from(taken.min(capacity) * 100 / capacity).unwrap_or(100),
            );
        }
    };
    i64::try_from(score).unwrap_or(0)
}

/// Returns the score of a share in percent on the line through the points
/// (`BuildBrokenLinearFunction`).
fn on_line(points: &[(i64, i64)], percent: i64) -> i64 {
    let Some(next) = points.iter().position(|(at, _)| percent <= *at) else {
        return points.last().map_or(0, |(_, score)| *score);
    };
    let (to, last) = points[next];
    match next.checked_sub(1).map(|before| points[before]) {
        None => last,
        Some((from, first)) => first + (last - first) * (percent - from) / (to - from),
    }
}

/// Returns the score of the difference between the shares taken (`balancedResourceScore`).
fn evenness(shares: &[Share], taken: impl Fn(&Share) -> i128) -> i64 {
    let shares: Vec<f64> = shares
        .iter()
        .map(|share| (taken(share) as f64 / share.capacity as f64).min(1.0))
        .collect();
    let deviation = match shares.as_slice() {
        [] | [_] => 0.0,
        [one, other] => ((one - other) / 2.0).abs(),
        several => {
            let count = several.len() as f64;
            let mean = several.iter().sum::<f64>() / count;
            let squares = several.iter().map(|share| (share - mean) * (share - mean));
            (squares.sum::<f64>() / count).sqrt()
        }
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

//! The resources that a pod requests and a node has: the plugins NodeResourcesFit and
//! NodeResourcesBalancedAllocation.

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kubeproof_runtime::pod_resources::{self as resources, Amounts};

use super::{Load, Misfit, Reason, SCORE_MAX};

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
    lacking_of(&requests_of(spec), node, load)
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

fn capacity(node: &Node, resource: &str) -> i128 {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let quantity = allocatable.and_then(|all| all.get(resource));
    quantity.map_or(0, |quantity| resources::amount(resource, quantity))
}

fn lacking_of(requests: &Requests, node: &Node, load: &Load) -> Vec<Lack> {
    let mut lacking = Vec::new();
    let pods = i128::try_from(load.count).unwrap_or(i128::MAX);
    let places = capacity(node, "pods");
    if pods >= places {
        lacking.push(Lack {
            resource: "pods".to_owned(),
            requested: 1,
            used: pods,
            capacity: places,
        });
    }
    for (resource, requested) in requests.iter().filter(|(_, requested)| *requested > 0) {
        let used = load.requested.get(resource).copied().unwrap_or(0);
        let capacity = capacity(node, resource);
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
pub(super) fn shortage(requests: &Requests, node: &Node, load: &Load) -> Option<Misfit> {
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

/// The pod's part of the scores of resources.
pub(super) struct ResourceScores {
    /// Processor and memory, with defaults where containers request none.
    counted: [i128; 2],
    /// Processor and memory as requested.
    requested: [i128; 2],
}

impl ResourceScores {
    pub(super) fn of(pod: &Pod) -> Self {
        let of = |defaults| {
            let spec = pod.spec.as_ref();
            spec.map_or([0; 2], |spec| both(&resources::requests_or(spec, defaults)))
        };
        Self {
            counted: of(DEFAULTS),
            requested: of(&[]),
        }
    }

    /// Returns the mean share of processor and memory that is left with the pod (`LeastAllocated`).
    pub(super) fn least_allocated(&self, node: &Node, load: &Load) -> i64 {
        let mut sum = 0;
        let mut resources = 0;
        for (index, name) in ["cpu", "memory"].into_iter().enumerate() {
            let capacity = capacity(node, name);
            if capacity > 0 {
                let taken = load.counted[index] + self.counted[index];
                resources += 1;
                if taken <= capacity {
                    sum += (capacity - taken) * i128::from(SCORE_MAX) / capacity;
                }
            }
        }
        i64::try_from(sum / resources.max(1)).unwrap_or(0)
    }

    /// Returns how much the pod evens the shares of processor and memory that are taken; 0 for a
    /// pod that requests neither.
    pub(super) fn balance(&self, node: &Node, load: &Load) -> i64 {
        if self.requested == [0; 2] {
            return 0;
        }
        let before = both(&load.requested);
        let after = [0, 1].map(|index| before[index] + self.requested[index]);
        let half = SCORE_MAX / 2;
        half + (half + evenness(node, after) - evenness(node, before)) / 2
    }
}

/// Returns the score of the difference between the shares taken (`balancedResourceScore`).
fn evenness(node: &Node, taken: [i128; 2]) -> i64 {
    let shares: Vec<f64> = ["cpu", "memory"]
        .into_iter()
        .zip(taken)
        .filter_map(|(name, taken)| {
            let capacity = capacity(node, name);
            (capacity > 0).then(|| (taken as f64 / capacity as f64).min(1.0))
        })
        .collect();
    let deviation = match shares.as_slice() {
        [one, other] => ((one - other) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

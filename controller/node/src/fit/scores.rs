//! The scores of nodes that a pod fits on, by plugin, and their sum.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kubeproof_runtime::node_affinity;
use kubeproof_runtime::tolerations::tolerated;

use super::devices::PodClaims;
use super::inter_pod_affinity;
use super::node_resources::ResourceScores;
use super::profile::Plugin;
use super::spread::score as spread;
use super::{Cluster, NodeInfo, SCORE_MAX};

/// Returns the sum of the plugins' scores for each of the nodes, which all fit.
pub(super) fn of(
    (pod, claims): (&Pod, &PodClaims<'_>),
    cluster: &Cluster<'_>,
    nodes: &[NodeInfo<'_>],
) -> Vec<i64> {
    let mut totals = vec![0; nodes.len()];
    let resources = ResourceScores::of(pod, &cluster.profile.arguments);
    for (plugin, weight) in &cluster.profile.score {
        for (total, score) in
            totals
                .iter_mut()
                .zip(by(*plugin, (pod, claims, &resources), cluster, nodes))
        {
            *total += weight * score;
        }
    }
    totals
}

/// Returns the scores of one plugin; none from a plugin that has no effect here.
fn by(
    plugin: Plugin,
    (pod, claims, resources): (&Pod, &PodClaims<'_>, &ResourceScores<'_>),
    cluster: &Cluster<'_>,
    nodes: &[NodeInfo<'_>],
) -> Vec<i64> {
    let each =
        |score: &dyn Fn(&NodeInfo<'_>) -> i64| -> Vec<i64> { nodes.iter().map(score).collect() };
    let arguments = &cluster.profile.arguments;
    match plugin {
        Plugin::TaintToleration => {
            let taints = each(&|node| unwanted_taints(pod, node));
            normalized(taints, Order::LeastIsBest)
        }
        Plugin::NodeAffinity => {
            let added = arguments.added_affinity.as_ref();
            let added = added.map_or(&[][..], node_affinity::preferred);
            let own = node_affinity::preferences(pod);
            if added.is_empty() && own.is_empty() {
                return Vec::new();
            }
            let score = |node: &NodeInfo<'_>| {
                node_affinity::preference(added, node) + node_affinity::preference(own, node)
            };
            normalized(each(&score), Order::MostIsBest)
        }
        Plugin::NodeResourcesFit => each(&|node| resources.allocated(node)),
        Plugin::NodeResourcesBalancedAllocation => each(&|node| resources.balance(node)),
        Plugin::PodTopologySpread => spread::scores(pod, cluster, nodes),
        Plugin::InterPodAffinity => inter_pod_affinity::scores(pod, cluster, nodes),
        Plugin::ImageLocality => {
            let images = Images::of(cluster);
            each(&|node| images.score(pod, node))
        }
        Plugin::DynamicResources => normalized(each(&|node| claims.score(node)), Order::MostIsBest),
        _ => Vec::new(),
    }
}

/// Which raw score is the best.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    LeastIsBest,
    MostIsBest,
}

/// Scales scores to at most [`SCORE_MAX`] (`DefaultNormalizeScore`).
fn normalized(scores: Vec<i64>, order: Order) -> Vec<i64> {
    let highest = scores.iter().copied().max().unwrap_or(0);
    let scaled = |score: i64| match (highest, order) {
        (0, Order::LeastIsBest) => SCORE_MAX,
        (0, Order::MostIsBest) => score,
        (_, Order::MostIsBest) => SCORE_MAX * score / highest,
        (_, Order::LeastIsBest) => SCORE_MAX - SCORE_MAX * score / highest,
    };
    scores.into_iter().map(scaled).collect()
}

/// Counts the node's `PreferNoSchedule` taints that the pod does not tolerate.
fn unwanted_taints(pod: &Pod, node: &Node) -> i64 {
    let spec = pod.spec.as_ref();
    let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
    let taints = kubeproof_runtime::taints::of(node).iter();
    let unwanted = taints
        .filter(|taint| taint.effect == "PreferNoSchedule")
        .filter(|taint| !tolerated(taint, tolerations.unwrap_or_default()));
    i64::try_from(unwanted.count()).unwrap_or(i64::MAX)
}

/// The images on the nodes of a cluster (plugin ImageLocality).
struct Images {
    /// The number of nodes that have an image, by one of its names.
    nodes: BTreeMap<String, i64>,
    total: i64,
}

/// The bytes of images below which a node has no score, and those of a container that give the
/// highest.
const LEAST_SIZE: i64 = 23 * 1024 * 1024;
const MOST_SIZE: i64 = 1000 * 1024 * 1024;

impl Images {
    fn of(cluster: &Cluster<'_>) -> Self {
        let mut nodes: BTreeMap<String, i64> = BTreeMap::new();
        for node in &cluster.nodes {
            for (image, _) in images_of(node) {
                *nodes.entry(image.clone()).or_default() += 1;
            }
        }
        Self {
            nodes,
            total: i64::try_from(cluster.nodes.len()).unwrap_or(i64::MAX),
        }
    }

    fn score(&self, pod: &Pod, node: &Node) -> i64 {
        let Some(spec) = pod.spec.as_ref().filter(|_| !self.nodes.is_empty()) else {
            return 0;
        };
        let init = spec.init_containers.iter().flatten();
        let containers: Vec<_> = spec.containers.iter().chain(init).collect();
        let volumes = spec.volumes.iter().flatten();
        let of_volumes = volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_ref());
        let of_containers = containers.iter().filter_map(|own| own.image.as_ref());
        let here: BTreeMap<&String, i64> = images_of(node).collect();
        let sizes = of_containers.chain(of_volumes).filter_map(|image| {
            let image = with_tag(image);
            let size = *here.get(&image)?;
            let spread = *self.nodes.get(&image)? as f64 / self.total as f64;
            Some((size as f64 * spread) as i64)
        });
        let most = MOST_SIZE * i64::try_from(containers.len()).unwrap_or(1);
        let sum = sizes.sum::<i64>().clamp(LEAST_SIZE, most);
        SCORE_MAX * (sum - LEAST_SIZE) / (most - LEAST_SIZE)
    }
}

fn images_of(node: &Node) -> impl Iterator<Item = (&String, i64)> {
    let images = node.status.iter().flat_map(|status| &status.images);
    images.flatten().flat_map(|image| {
        let names = image.names.iter().flatten();
        names.map(|name| (name, image.size_bytes.unwrap_or(0)))
    })
}

/// Returns the name of an image with its tag.
fn with_tag(image: &str) -> String {
    match image.rfind(':') > image.rfind('/') {
        true => image.to_owned(),
        false => format!("{image}:latest"),
    }
}

#[cfg(test)]
mod tests;

//! The scores of nodes that a pod fits on, by plugin, and their sum.

use k8s_openapi::api::core::v1::Node;
use kubeproof_runtime::node_affinity;
use kubeproof_runtime::pod::Pod;
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
            let images = Images::of(pod, cluster);
            each(&|node| images.score(node))
        }
        Plugin::DynamicResources if claims.is_empty() => Vec::new(),
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

/// The images of a pod (plugin ImageLocality).
struct Images {
    /// The names with their tags, one for each container and each volume with an image, and the number of nodes that
    /// have such an image.
    wanted: Vec<(String, i64)>,
    containers: usize,
    /// The number of nodes of the cluster.
    nodes: usize,
}

/// The bytes of images below which a node has no score, and those of a container that give the
/// highest.
const LEAST_SIZE: i64 = 23 * 1024 * 1024;
const MOST_SIZE: i64 = 1000 * 1024 * 1024;

impl Images {
    fn of(pod: &Pod, cluster: &Cluster<'_>) -> Self {
        let spec = pod.spec.as_ref();
        let own = spec.into_iter().flat_map(|spec| &spec.containers);
        let init = spec.into_iter().flat_map(|spec| &spec.init_containers);
        let containers: Vec<_> = own.chain(init.flatten()).collect();
        let of_containers = containers.iter().filter_map(|own| own.image.as_ref());
        let volumes = spec.into_iter().flat_map(|spec| &spec.volumes).flatten();
        let of_volumes = volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_ref());
        let wanted = of_containers.chain(of_volumes);
        let mut wanted: Vec<_> = wanted.map(|image| (with_tag(image), 0)).collect();
        for (image, _) in cluster.nodes.iter().flat_map(|node| images_of(node)) {
            for (_, nodes) in wanted.iter_mut().filter(|(name, _)| name == image) {
                *nodes += 1;
            }
        }
        Self {
            wanted,
            containers: containers.len(),
            nodes: cluster.nodes.len(),
        }
    }

    fn score(&self, node: &Node) -> i64 {
        if self.wanted.is_empty() {
            return 0;
        }
        let sizes = self.wanted.iter().filter_map(|(name, nodes)| {
            let (_, size) = images_of(node).find(|(image, _)| *image == name)?;
            let spread = *nodes as f64 / self.nodes as f64;
            Some((size as f64 * spread) as i64)
        });
        let most = MOST_SIZE * i64::try_from(self.containers).unwrap_or(1);
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

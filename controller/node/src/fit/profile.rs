//! The profile of a scheduler: its plugins by extension point, and what they are configured with.
//!
//! Source: `pkg/scheduler/framework/plugins/registry.go`, and
//! `pkg/scheduler/apis/config/v1/default_plugins.go` for the plugins of a profile that names none.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeAffinity, TopologySpreadConstraint};

/// A plugin of kube-scheduler, whether or not it has an effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Plugin {
    DefaultBinder,
    DefaultPreemption,
    DynamicResources,
    GangScheduling,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodGroupPodsCount,
    PodTopologySpread,
    PrioritySort,
    SchedulingGates,
    TaintToleration,
    TopologyPlacementGenerator,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
}

/// An extension point, in the order in which kube-scheduler sets them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Point {
    PreFilter,
    Filter,
    PostFilter,
    Reserve,
    PreScore,
    Score,
    PreBind,
    Bind,
    PostBind,
    Permit,
    PreEnqueue,
    QueueSort,
    PlacementGenerate,
    PlacementScore,
}

impl Point {
    pub(crate) const ALL: [Self; 14] = [
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::Reserve,
        Self::PreScore,
        Self::Score,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::Permit,
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// Whether the plugins of this point have an effect here.
    pub(crate) fn has_effect(self) -> bool {
        matches!(
            self,
            Self::PreFilter | Self::Filter | Self::PostFilter | Self::Score
        )
    }
}

/// The plugins with their extension points.
const PLUGINS: &[(Plugin, &[Point])] = &[
    (Plugin::DefaultBinder, &[Point::Bind]),
    (
        Plugin::DefaultPreemption,
        &[Point::PostFilter, Point::PreEnqueue],
    ),
    (
        Plugin::DynamicResources,
        &[
            Point::PreEnqueue,
            Point::PreFilter,
            Point::Filter,
            Point::PostFilter,
            Point::Score,
            Point::Reserve,
            Point::PreBind,
        ],
    ),
    (Plugin::GangScheduling, &[Point::PreEnqueue, Point::Permit]),
    (Plugin::ImageLocality, &[Point::Score]),
    (Plugin::InterPodAffinity, FILTERS_AND_SCORES),
    (Plugin::NodeAffinity, FILTERS_AND_SCORES),
    (Plugin::NodeDeclaredFeatures, FILTERS),
    (Plugin::NodeName, &[Point::Filter]),
    (Plugin::NodePorts, FILTERS),
    (
        Plugin::NodeResourcesBalancedAllocation,
        &[Point::PreScore, Point::Score],
    ),
    (
        Plugin::NodeResourcesFit,
        &[
            Point::PreFilter,
            Point::Filter,
            Point::PreScore,
            Point::Score,
            Point::PlacementScore,
        ],
    ),
    (Plugin::NodeUnschedulable, &[Point::Filter]),
    (Plugin::NodeVolumeLimits, FILTERS),
    (Plugin::PodGroupPodsCount, &[Point::PlacementScore]),
    (Plugin::PodTopologySpread, FILTERS_AND_SCORES),
    (Plugin::PrioritySort, &[Point::QueueSort]),
    (Plugin::SchedulingGates, &[Point::PreEnqueue]),
    (
        Plugin::TaintToleration,
        &[Point::Filter, Point::PreScore, Point::Score],
    ),
    (
        Plugin::TopologyPlacementGenerator,
        &[Point::PlacementGenerate],
    ),
    (
        Plugin::VolumeBinding,
        &[
            Point::PreFilter,
            Point::Filter,
            Point::Reserve,
            Point::PreBind,
            Point::PreScore,
            Point::Score,
        ],
    ),
    (Plugin::VolumeRestrictions, FILTERS),
    (Plugin::VolumeZone, FILTERS),
];

const FILTERS: &[Point] = &[Point::PreFilter, Point::Filter];
const FILTERS_AND_SCORES: &[Point] = &[
    Point::PreFilter,
    Point::Filter,
    Point::PreScore,
    Point::Score,
];

/// The plugins of a profile that names none, in order, with their weights.
pub(crate) const DEFAULT_PLUGINS: &[(Plugin, i32)] = &[
    (Plugin::SchedulingGates, 0),
    (Plugin::PrioritySort, 0),
    (Plugin::NodeUnschedulable, 0),
    (Plugin::NodeName, 0),
    (Plugin::TaintToleration, 3),
    (Plugin::NodeAffinity, 2),
    (Plugin::NodePorts, 0),
    (Plugin::NodeResourcesFit, 1),
    (Plugin::VolumeRestrictions, 0),
    (Plugin::NodeVolumeLimits, 0),
    (Plugin::VolumeBinding, 0),
    (Plugin::VolumeZone, 0),
    (Plugin::PodTopologySpread, 2),
    (Plugin::InterPodAffinity, 2),
    (Plugin::DynamicResources, 2),
    (Plugin::DefaultPreemption, 0),
    (Plugin::NodeResourcesBalancedAllocation, 1),
    (Plugin::ImageLocality, 1),
    (Plugin::DefaultBinder, 0),
    (Plugin::NodeDeclaredFeatures, 0),
];

impl Plugin {
    /// Returns the plugin of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut plugins = PLUGINS.iter().map(|(plugin, _)| *plugin);
        plugins.find(|plugin| plugin.name() == name)
    }

    /// Returns the name by which configurations know the plugin.
    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn extends(self, point: Point) -> bool {
        PLUGINS
            .iter()
            .any(|(plugin, points)| *plugin == self && points.contains(&point))
    }
}

/// How a plugin of resources scores a share that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    LeastAllocated,
    MostAllocated,
    /// Points of a share in percent and its score, of at most 100, with straight lines in between.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// The configuration of the plugins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// The extended resources that no node has to have, by name and by the part before the slash.
    pub(crate) ignored_resources: BTreeSet<String>,
    pub(crate) ignored_groups: BTreeSet<String>,
    pub(crate) strategy: Strategy,
    /// The resources that the strategy counts, with their weights.
    pub(crate) resources: Vec<(String, i64)>,
    /// The resources whose shares are to be even.
    pub(crate) balanced: Vec<String>,
    /// The affinity that every pod has in addition to its own.
    pub(crate) added_affinity: Option<NodeAffinity>,
    /// The spread of pods that state none.
    pub(crate) spread: Vec<TopologySpreadConstraint>,
    /// Whether nodes that lack one of the topology keys of that spread count for the others.
    pub(crate) spreads_without_keys: bool,
    /// The weight of required terms of other pods in scores.
    pub(crate) hard_affinity_weight: i64,
    /// Whether a pod without preferences about other pods disregards theirs about it.
    pub(crate) ignores_preferences_of_others: bool,
}

impl Default for Arguments {
    fn default() -> Self {
        let both = ["cpu", "memory"].map(str::to_owned);
        Self {
            ignored_resources: BTreeSet::new(),
            ignored_groups: BTreeSet::new(),
            strategy: Strategy::LeastAllocated,
            resources: both.iter().map(|name| (name.clone(), 1)).collect(),
            balanced: both.to_vec(),
            added_affinity: None,
            spread: system_spread(),
            spreads_without_keys: true,
            hard_affinity_weight: 1,
            ignores_preferences_of_others: false,
        }
    }
}

/// Returns the spread of pods that state none, unless a list is configured
/// (`systemDefaultConstraints`).
fn system_spread() -> Vec<TopologySpreadConstraint> {
    let constraint = |(key, skew): (&str, i32)| TopologySpreadConstraint {
        topology_key: key.to_owned(),
        max_skew: skew,
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    [
        ("kubernetes.io/hostname", 3),
        ("topology.kubernetes.io/zone", 5),
    ]
    .map(constraint)
    .to_vec()
}

/// A profile, for the pods that name it as their `schedulerName`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) pre_filter: Vec<Plugin>,
    pub(crate) filter: Vec<Plugin>,
    pub(crate) post_filter: Vec<Plugin>,
    /// The plugins that score nodes, with their weights.
    pub(crate) score: Vec<(Plugin, i64)>,
    /// The percentage of the nodes that are scored at most; 0 for one that follows from their number.
    pub(crate) percentage_of_nodes_to_score: usize,
    pub(crate) arguments: Arguments,
}

/// So many feasible nodes are always looked for.
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;
/// The least percentage that follows from the number of nodes.
const MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND: usize = 5;

impl Profile {
    /// Returns the number of feasible nodes after which the search for others ends, of `all` nodes.
    ///
    /// Source: `numFeasibleNodesToFind` of `pkg/scheduler/schedule_one.go`.
    pub(super) fn feasible_nodes_to_find(&self, all: usize) -> usize {
        if self.score.is_empty() {
            return 1;
        }
        let percentage = match self.percentage_of_nodes_to_score {
            0 => 50_usize
                .saturating_sub(all / 125)
                .max(MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND),
            stated => stated,
        };
        (all * percentage / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
    }
}

impl Default for Profile {
    fn default() -> Self {
        let plugins = DEFAULT_PLUGINS.iter();
        let at = |point: Point| -> Vec<Plugin> {
            let plugins = plugins.clone().map(|(plugin, _)| *plugin);
            plugins.filter(|plugin| plugin.extends(point)).collect()
        };
        let score = plugins
            .clone()
            .filter(|(plugin, _)| plugin.extends(Point::Score));
        Self {
            name: "default-scheduler".to_owned(),
            pre_filter: at(Point::PreFilter),
            filter: at(Point::Filter),
            post_filter: at(Point::PostFilter),
            score: score
                .map(|(plugin, weight)| (*plugin, i64::from(*weight).max(1)))
                .collect(),
            percentage_of_nodes_to_score: 0,
            arguments: Arguments::default(),
        }
    }
}

//! The reasons why a pod fits on no node, with the scheduler's messages.

use std::collections::BTreeMap;
use std::fmt;

use kube::ResourceExt;

use super::Cluster;
use super::devices::ClaimsSeen;
use super::profile::Plugin;

/// One filter's reason against a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Cordoned,
    Tainted,
    Affinity,
    /// The node misses the affinity that the scheduler's configuration adds.
    AddedAffinity,
    /// The pod's node affinity names other nodes.
    Pinned,
    Ports,
    Full,
    Insufficient(String),
    PodAffinity,
    PodAntiAffinity,
    /// The anti-affinity of a pod that is running already.
    OthersAntiAffinity,
    Disk,
    /// Another pod uses a claim that only one pod may use.
    ExclusiveClaim,
    VolumeAffinity,
    NoVolume,
    /// The driver that would provision a volume has no room for it.
    NoSpace,
    /// The node has as many volumes of a driver as it can have.
    VolumeCount,
    /// A claim does not exist; the text names it.
    NoClaim(String),
    VolumeGone,
    VolumeZone,
    Spread,
    /// The node has no pods that the pod could displace.
    NoVictims,
    /// The node lacks the topology key of the pod's spread constraints.
    SpreadLabel,
    /// The node cannot reach devices for all claims of the pod.
    NoDevices,
    /// The devices of a claim are elsewhere.
    ClaimElsewhere,
    /// There are no devices, and the slices of a pool contradict each other.
    InvalidPools,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Cordoned => "node(s) were unschedulable",
            Self::Tainted => "node(s) had untolerated taint(s)",
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Self::AddedAffinity => "node(s) didn't match scheduler-enforced node affinity",
            Self::Pinned => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::Full => "Too many pods",
            Self::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
            Self::PodAffinity => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::OthersAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::Disk => "node(s) had no available disk",
            Self::ExclusiveClaim => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod"
            }
            Self::VolumeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::NoSpace => "node(s) did not have enough free storage",
            Self::VolumeCount => "node(s) exceed max volume count",
            Self::NoClaim(missing) => missing,
            Self::VolumeGone => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::NoVictims => "No preemption victims found for incoming pod",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::NoDevices => "cannot allocate all claims",
            Self::ClaimElsewhere => "resourceclaim not available on the node",
            Self::InvalidPools => "invalid resource pools were encountered",
        };
        f.write_str(text)
    }
}

/// The reasons of a filter against a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    reasons: Vec<Reason>,
    /// Whether the pod would not fit even without all other pods (`UnschedulableAndUnresolvable`).
    pub(super) lasts: bool,
    /// The error of a plugin, which ends the attempt.
    error: Option<String>,
}

impl Misfit {
    /// Returns the messages of the reasons.
    pub(super) fn reasons(&self) -> impl Iterator<Item = String> {
        self.reasons.iter().map(ToString::to_string)
    }

    /// Returns the error of a plugin that cannot judge the node, if that is the misfit.
    pub(super) fn into_error(self) -> Result<Vec<String>, String> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.reasons().collect()),
        }
    }

    /// Returns a misfit for these reasons; `None` without reasons.
    pub(super) fn new(reasons: Vec<Reason>, lasts: bool) -> Option<Self> {
        (!reasons.is_empty()).then_some(Self {
            reasons,
            lasts,
            error: None,
        })
    }

    pub(super) fn lasting(reason: Reason) -> Self {
        Self {
            reasons: vec![reason],
            lasts: true,
            error: None,
        }
    }

    pub(super) fn passing(reason: Reason) -> Self {
        Self {
            reasons: vec![reason],
            lasts: false,
            error: None,
        }
    }

    /// Returns the error of a plugin that cannot judge the node.
    pub(super) fn error(error: String) -> Self {
        Self {
            reasons: Vec::new(),
            lasts: true,
            error: Some(error),
        }
    }

    pub(super) fn pinned() -> Self {
        Self::lasting(Reason::Pinned)
    }
}

/// The result of a pod that fits on no node (`FitError`).
#[derive(Clone, Debug, Default)]
pub(crate) struct FitError {
    /// The reasons against each node.
    misfits: Vec<(String, Misfit)>,
    /// The reason that holds for every node, found before any was looked at (`PreFilterMsg`), and
    /// the plugin that found it.
    before_filters: Option<(String, Plugin)>,
    /// The error that ended the attempt.
    error: Option<String>,
    /// The findings about the pod's ResourceClaims.
    pub(crate) claims: ClaimsSeen,
}

impl FitError {
    /// The result of a pod that has a node, and whose claims could not be reserved for it.
    pub(crate) fn of_claims(error: &str) -> Self {
        Self {
            error: Some(format!(
                "running PreBind plugin \"DynamicResources\": {error}"
            )),
            ..Self::default()
        }
    }

    /// The result of a pod that no node of the cluster can have, for this reason of a plugin.
    pub(super) fn before_filters(reason: String, plugin: Plugin, cluster: &Cluster<'_>) -> Self {
        let misfit = Misfit {
            reasons: Vec::new(),
            lasts: true,
            error: None,
        };
        let nodes = cluster.nodes.iter();
        Self {
            misfits: nodes
                .map(|node| (node.name_any(), misfit.clone()))
                .collect(),
            before_filters: Some((reason, plugin)),
            error: None,
            claims: ClaimsSeen::default(),
        }
    }

    pub(super) fn add(&mut self, node: &str, misfit: Misfit) {
        if self.error.is_none() {
            self.error.clone_from(&misfit.error);
        }
        self.misfits.push((node.to_owned(), misfit));
    }

    /// Whether an error ended the attempt, instead of the last node being refused.
    pub(crate) fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// Whether there were no nodes at all.
    pub(super) fn has_no_nodes(&self) -> bool {
        self.misfits.is_empty()
    }

    pub(super) fn misfit(&self, node: &str) -> Option<&Misfit> {
        let mut misfits = self.misfits.iter();
        misfits.find_map(|(name, misfit)| (name == node).then_some(misfit))
    }

    /// Returns whether the pod might fit on `node` if other pods left.
    pub(crate) fn may_pass(&self, node: &str) -> bool {
        self.misfit(node).is_some_and(|misfit| !misfit.lasts)
    }

    /// Returns the plugin that refused the pod before any node was looked at.
    pub(super) fn refused_by(&self) -> Option<Plugin> {
        self.before_filters.as_ref().map(|(_, plugin)| *plugin)
    }

    /// Returns the scheduler's message; `post_filter` is what the plugins say that look for a way
    /// out, if any of them runs and finds none.
    pub(crate) fn message(&self, post_filter: &str) -> String {
        if let Some(error) = &self.error {
            return error.clone();
        }
        if self.misfits.is_empty() {
            return "no nodes available to schedule pods".to_owned();
        }
        let total = self.misfits.len();
        let reasons = self.misfits.iter().flat_map(|(_, misfit)| misfit.reasons());
        let reasons = match &self.before_filters {
            Some((reason, _)) => reason.clone(),
            None => histogram(reasons),
        };
        let filtered = format!("0/{total} nodes are available: {reasons}.");
        match post_filter {
            "" => filtered,
            post_filter => format!("{filtered} {post_filter}"),
        }
    }
}

/// Counts equal texts. Returns `COUNT TEXT` for each, sorted and joined by commas.
pub(super) fn histogram(texts: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let mut counted: Vec<String> = counts
        .into_iter()
        .map(|(text, count)| format!("{count} {text}"))
        .collect();
    counted.sort();
    counted.join(", ")
}

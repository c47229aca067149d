//! Why a pod fits nowhere, as the scheduler words it.

use std::collections::BTreeMap;
use std::fmt;

/// One reason against a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) enum Reason {
    Cordoned,
    Tainted,
    Affinity,
    /// Its name is not among those that the pod's affinity names.
    Pinned,
    Ports,
    Full,
    Insufficient(String),
    PodAffinity,
    PodAntiAffinity,
    /// The anti-affinity of a pod that runs already.
    OthersAntiAffinity,
    Spread,
    /// The node lacks the label by which pods are to be spread.
    SpreadLabel,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Cordoned => "node(s) were unschedulable",
            Self::Tainted => "node(s) had untolerated taint(s)",
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Pinned => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::Full => "Too many pods",
            Self::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
            Self::PodAffinity => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::OthersAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
        };
        f.write_str(text)
    }
}

/// What a filter has against a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) struct Misfit {
    reasons: Vec<Reason>,
    /// It would not fit either if all other pods went away.
    pub(super) lasts: bool,
}

impl Misfit {
    /// The reasons in words.
    pub(super) fn reasons(&self) -> impl Iterator<Item = String> {
        self.reasons.iter().map(ToString::to_string)
    }

    /// A misfit for these reasons, if there are any.
    pub(super) fn new(reasons: Vec<Reason>, lasts: bool) -> Option<Self> {
        (!reasons.is_empty()).then_some(Self { reasons, lasts })
    }

    pub(super) fn lasting(reason: Reason) -> Self {
        Self {
            reasons: vec![reason],
            lasts: true,
        }
    }

    pub(super) fn passing(reason: Reason) -> Self {
        Self {
            reasons: vec![reason],
            lasts: false,
        }
    }

    pub(super) fn pinned() -> Self {
        Self::lasting(Reason::Pinned)
    }
}

/// That a pod fits on none of the nodes.
#[derive(Clone, Debug, Default)]
pub(in crate::node) struct Unfit {
    /// What each node has against it.
    misfits: Vec<(String, Misfit)>,
}

impl Unfit {
    pub(super) fn add(&mut self, node: &str, misfit: Misfit) {
        self.misfits.push((node.to_owned(), misfit));
    }

    pub(super) fn misfit(&self, node: &str) -> Option<&Misfit> {
        let mut misfits = self.misfits.iter();
        misfits.find_map(|(name, misfit)| (name == node).then_some(misfit))
    }

    /// Whether the pod might fit on `node` if others left.
    pub(in crate::node) fn may_pass(&self, node: &str) -> bool {
        self.misfit(node).is_some_and(|misfit| !misfit.lasts)
    }

    /// The message about it; `preemption` says why nobody was displaced, if nobody was.
    pub(in crate::node) fn message(&self, preemption: Option<&str>) -> String {
        if self.misfits.is_empty() {
            return "no nodes available to schedule pods".to_owned();
        }
        let total = self.misfits.len();
        let reasons = self.misfits.iter().flat_map(|(_, misfit)| misfit.reasons());
        let filtered = format!("0/{total} nodes are available: {}.", histogram(reasons));
        match preemption {
            Some(preemption) => {
                format!("{filtered} no new claims to deallocate, preemption: {preemption}")
            }
            None => filtered,
        }
    }
}

/// How often each text occurs, in the order of the texts with their counts.
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

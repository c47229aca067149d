//! Why a pod fits nowhere, as the scheduler words it.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Pod;

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
    lasts: bool,
}

impl Misfit {
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

/// The message about a pod that fits on none of the nodes, one misfit each.
pub(super) fn message(pod: &Pod, misfits: &[Misfit]) -> String {
    let total = misfits.len();
    let reasons = misfits.iter().flat_map(|misfit| &misfit.reasons);
    let filtered = histogram(reasons.map(ToString::to_string));
    let spec = pod.spec.as_ref();
    let policy = spec.and_then(|spec| spec.preemption_policy.as_deref());
    let preemption = if policy == Some("Never") {
        "not eligible due to preemptionPolicy=Never.".to_owned()
    } else {
        let outcomes = misfits.iter().map(|misfit| match misfit.lasts {
            true => "Preemption is not helpful for scheduling".to_owned(),
            false => "No preemption victims found for incoming pod".to_owned(),
        });
        format!("0/{total} nodes are available: {}.", histogram(outcomes))
    };
    format!(
        "0/{total} nodes are available: {filtered}. no new claims to deallocate, \
         preemption: {preemption}"
    )
}

/// How often each text occurs, in the order of the texts with their counts.
fn histogram(texts: impl Iterator<Item = String>) -> String {
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

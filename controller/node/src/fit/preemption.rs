//! Preemption: the pods of lower priority that a pod displaces.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use kubeproof_runtime::pod::Pod;

use super::fit_error::{FitError, Misfit, Reason, histogram};
use super::profile::{Plugin, Profile};
use super::{Cluster, Load, NodeInfo, examine_one, name};

/// The victims of a preemption, and their node.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) node: String,
    /// The victims, the most important first.
    pub(crate) victims: Vec<Arc<Pod>>,
}

struct Candidate {
    victims: Vec<Arc<Pod>>,
    /// The number of victims protected by a disruption budget.
    violations: usize,
}

/// Returns a pod's priority; 0 if the pod states no priority.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.priority)
        .unwrap_or(0)
}

/// The outcome of an attempt to make room that has made none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoPlan {
    /// The scheduler's message, for [`FitError::message`]; empty if no plugin ran.
    pub(crate) message: String,
    /// Whether the pod loses the node that it was nominated for.
    pub(crate) clears_nomination: bool,
    /// Whether this is the error of a plugin, after which no other plugin runs.
    is_error: bool,
}

impl NoPlan {
    /// The outcome of an attempt in which no plugin ran, because of an error.
    pub(crate) fn clearing() -> Self {
        Self {
            clears_nomination: true,
            ..Self::default()
        }
    }
}

/// Runs the plugins that look for a way out for a pod that fits on no node: deallocation of claims,
/// and preemption. Returns the node on which the fewest and least important pods have to leave.
///
/// # Errors
///
/// [`NoPlan`] when no plugin finds a way out.
///
/// Source: `RunPostFilterPlugins`, and `schedulingAlgorithm` for what becomes of the nomination.
pub(crate) fn plan(
    pod: &Pod,
    cluster: &Cluster<'_>,
    fit_error: &FitError,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Plan, NoPlan> {
    let profile = cluster.profile;
    let ends = fit_error.is_error() || fit_error.has_no_nodes() || profile.post_filter.is_empty();
    if ends {
        return Err(NoPlan::clearing());
    }
    let mut messages = Vec::new();
    let mut clears_nomination = false;
    for plugin in &profile.post_filter {
        match plugin {
            Plugin::DynamicResources if !has_seen_claims(profile, fit_error) => {
                return Err(NoPlan {
                    message: "not found".to_owned(),
                    ..NoPlan::default()
                });
            }
            Plugin::DynamicResources => {
                let claims = &fit_error.claims;
                let outcome = match claims.deallocated(pod) {
                    Some(_) => "deallocation of ResourceClaim completed",
                    None if claims.has_claims => "still not schedulable",
                    None => "no new claims to deallocate",
                };
                messages.push(outcome.to_owned());
            }
            Plugin::DefaultPreemption => match preempt(pod, cluster, fit_error, budgets) {
                Ok(plan) => return Ok(plan),
                Err(refused) if refused.is_error => {
                    return Err(NoPlan {
                        message: format!("preemption: {}", refused.message),
                        ..refused
                    });
                }
                Err(refused) => {
                    clears_nomination |= refused.clears_nomination;
                    messages.push(format!("preemption: {}", refused.message));
                }
            },
            _ => {}
        }
    }
    Err(NoPlan {
        message: messages.join(", "),
        clears_nomination,
        ..NoPlan::default()
    })
}

/// Returns whether DynamicResources had its turn before a plugin refused the pod for all nodes;
/// otherwise it misses its state.
fn has_seen_claims(profile: &Profile, fit_error: &FitError) -> bool {
    let place = |wanted: Plugin| profile.pre_filter.iter().position(|own| *own == wanted);
    place(Plugin::DynamicResources).is_some_and(|own| {
        let refused_by = fit_error.refused_by().and_then(place);
        refused_by.is_none_or(|other| own <= other)
    })
}

/// Returns the node on which the fewest and least important pods have to leave for `pod`.
///
/// Source: `pkg/scheduler/framework/preemption`, and the plugin DefaultPreemption.
fn preempt(
    pod: &Pod,
    cluster: &Cluster<'_>,
    fit_error: &FitError,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Plan, NoPlan> {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Err(NoPlan {
            message: "not eligible due to preemptionPolicy=Never.".to_owned(),
            ..NoPlan::default()
        });
    }
    let mut outcomes = Vec::new();
    let mut error = None;
    let mut best: Option<(Rank, Plan)> = None;
    let mut nodes = cluster.nodes.clone();
    nodes.sort_by(|one, other| name(one).cmp(name(other)));
    for (index, node) in nodes.iter().enumerate() {
        if !fit_error.may_pass(name(node)) {
            outcomes.push("Preemption is not helpful for scheduling".to_owned());
            continue;
        }
        match candidate(pod, cluster, *node, budgets) {
            Ok(candidate) => {
                let rank = rank(&candidate, index);
                if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                    let plan = Plan {
                        node: name(node).to_owned(),
                        victims: candidate.victims,
                    };
                    best = Some((rank, plan));
                }
            }
            Err(misfit) => match misfit.into_error() {
                Ok(reasons) => outcomes.extend(reasons),
                Err(failed) => error = error.or(Some(failed)),
            },
        }
    }
    if let (None, Some(error)) = (&best, error) {
        return Err(NoPlan {
            message: error,
            is_error: true,
            ..NoPlan::default()
        });
    }
    best.map(|(_, plan)| plan).ok_or_else(|| {
        let total = cluster.nodes.len();
        let outcomes = histogram(outcomes.into_iter());
        NoPlan {
            message: format!("0/{total} nodes are available: {outcomes}."),
            clears_nomination: true,
            ..NoPlan::default()
        }
    })
}

type Rank = (usize, i32, i64, usize, Reverse<Timestamp>, usize);

/// Returns the rank of a candidate node; the smallest wins.
fn rank(candidate: &Candidate, index: usize) -> Rank {
    let highest = candidate
        .victims
        .first()
        .map_or(i32::MIN, |pod| priority(pod));
    // Each victim adds to the sum, although its priority may be negative.
    let sum = candidate
        .victims
        .iter()
        .map(|pod| i64::from(priority(pod)) + i64::from(i32::MAX) + 1);
    let most_important = candidate
        .victims
        .iter()
        .filter(|pod| priority(pod) == highest);
    let earliest = most_important.map(|pod| started(pod)).min();
    (
        candidate.violations,
        highest,
        sum.sum(),
        candidate.victims.len(),
        Reverse(earliest.unwrap_or(Timestamp::MAX)),
        index,
    )
}

/// Returns the start time of the pod; a pod that has not started counts as the youngest.
fn started(pod: &Pod) -> Timestamp {
    let status = pod.status.as_ref();
    let time = status.and_then(|status| status.start_time.as_ref());
    time.map_or(Timestamp::MAX, |time| time.0)
}

/// Returns the victims on `node`, or the reasons why the pod does not fit there even without them.
fn candidate(
    pod: &Pod,
    cluster: &Cluster<'_>,
    node: NodeInfo<'_>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Candidate, Misfit> {
    let pods = node.load.pods.iter().map(Arc::clone);
    let (mut lower, mut kept): (Vec<_>, Vec<_>) =
        pods.partition(|other| priority(other) < priority(pod));
    if lower.is_empty() {
        return Err(Misfit::passing(Reason::NoVictims));
    }
    if let Some(misfit) = misfit_beside(pod, cluster, node, &kept) {
        return Err(misfit);
    }
    lower.sort_by_key(|pod| (Reverse(priority(pod)), started(pod)));
    let (violating, others) = by_budget(lower, budgets);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (is_violating, group) in [(true, violating), (false, others)] {
        for other in group {
            kept.push(Arc::clone(&other));
            if misfit_beside(pod, cluster, node, &kept).is_some() {
                kept.pop();
                victims.push(other);
                violations += usize::from(is_violating);
            }
        }
    }
    victims.sort_by_key(|pod| (Reverse(priority(pod)), started(pod)));
    Ok(Candidate {
        victims,
        violations,
    })
}

/// Returns the reason why the pod does not fit on the node together with the pods `kept`.
fn misfit_beside(
    pod: &Pod,
    cluster: &Cluster<'_>,
    node: NodeInfo<'_>,
    kept: &[Arc<Pod>],
) -> Option<Misfit> {
    let mut load = Load::default();
    for other in kept {
        load.add(other);
    }
    let reduced_node = node.with_load(&load);
    let is_own = |info: &NodeInfo<'_>| name(info) == name(&node);
    let nodes = cluster.nodes.iter().copied();
    let reduced = Cluster {
        profile: cluster.profile,
        nodes: nodes
            .map(|info| if is_own(&info) { reduced_node } else { info })
            .collect(),
        namespace_labels: cluster.namespace_labels,
        spread_selector: cluster.spread_selector,
        storage: cluster.storage,
        devices: cluster.devices,
    };
    examine_one(pod, &reduced, reduced_node)
}

/// Splits pods by budget: those that may not be disrupted, and the others.
fn by_budget(
    pods: Vec<Arc<Pod>>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut left: Vec<i32> = budgets
        .iter()
        .map(|budget| {
            let status = budget.status.as_ref();
            status.and_then(|status| status.disruptions_allowed)
        })
        .map(Option::unwrap_or_default)
        .collect();
    pods.into_iter().partition(|pod| {
        let mut violates = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if protects(budget, pod) {
                *left -= 1;
                violates |= *left < 0;
            }
        }
        violates
    })
}

/// Returns whether a budget covers a pod that has not been evicted yet. A budget without a selector
/// covers no pod.
fn protects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    if budget.namespace() != pod.namespace() || pod.labels().is_empty() {
        return false;
    }
    let status = budget.status.as_ref();
    let evicted = status.and_then(|status| status.disrupted_pods.as_ref());
    if evicted.is_some_and(|evicted| evicted.contains_key(&pod.name_any())) {
        return false;
    }
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    selector.is_some_and(|selector| !selector.selects_all() && selector.matches(pod.labels()))
}

#[cfg(test)]
mod tests;

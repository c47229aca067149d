//! The writes that are due for a pod whatever its workload does next: the end of a grace period,
//! the next batch of an update, the readiness condition, the next state of its lifecycle.
//!
//! Source: openkruise/kruise pkg/util/inplaceupdate (`Refresh`) and `refreshPodState` of both
//! controllers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kubeproof_runtime::pod::{Pod, condition};
use kubeproof_runtime::sync_error::Error;

use super::api::strategy::Lifecycle;
use super::in_place::{self, READY_CONDITION};
use super::lifecycle::{self, State};
use super::pod_writes::PodWrite;
use super::{pod_readiness, revision};

/// The rules by which a workload refreshes its pods.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) lifecycle: Option<&'a Lifecycle>,
    /// Whether a new pod without a hook waits for its node before it is Normal.
    pub(crate) waits_for_node: bool,
    pub(crate) update_revision: &'a str,
    pub(crate) now: Timestamp,
}

/// The writes that are due.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    pub(crate) writes: Vec<PodWrite>,
    /// Look again then.
    pub(crate) after: Option<Duration>,
}

impl Refresh {
    /// Whether any write changes the pod's state.
    pub(crate) fn changes_state(&self) -> bool {
        let mut writes = self.writes.iter();
        writes.any(|write| matches!(write, PodWrite::State { .. }))
    }
}

/// Returns the writes that are due for `pod`.
///
/// # Errors
/// When an annotation of an update cannot be read.
pub(crate) fn refresh(pod: &Pod, rules: Rules<'_>) -> Result<Refresh, Error> {
    let mut refresh = Refresh::default();
    in_place(pod, rules.now, &mut refresh)?;
    if let Some(state) = next_state(pod, rules) {
        let hook = lifecycle::in_place_update(rules.lifecycle);
        refresh.writes.push(PodWrite::State {
            state,
            restored: None,
            marks_not_ready: lifecycle::marks_not_ready(hook),
        });
    }
    Ok(refresh)
}

fn in_place(pod: &Pod, now: Timestamp, refresh: &mut Refresh) -> Result<(), Error> {
    let malformed = |source| Error::Malformed {
        what: "the annotation of an update in place".to_owned(),
        source,
    };
    let state = in_place::update_state(pod).transpose().map_err(malformed)?;
    if let Some(spec) = in_place::grace(pod).transpose().map_err(malformed)? {
        let mut changed = pod.clone();
        if !revision::is_at(pod, &spec.revision) {
            // Another revision is wanted by now: what was pending is dropped.
            in_place::remove_grace(&mut changed);
        } else {
            let state = state.unwrap_or_default();
            let began: Timestamp = state.update_timestamp.parse().unwrap_or(now);
            let grace = SignedDuration::from_secs(spec.grace_seconds.into());
            let left = grace - now.duration_since(began);
            if left > SignedDuration::ZERO {
                let seconds = left.as_secs() + i64::from(left.subsec_nanos() > 0);
                refresh.after = Some(Duration::from_secs(seconds.unsigned_abs()));
                return Ok(());
            }
            in_place::finish_grace(&mut changed, &spec, state, now);
        }
        refresh.writes.push(PodWrite::Replace(Box::new(changed)));
        return Ok(());
    }
    if let Some(state) = state {
        if in_place::are_containers_complete(pod, &state).is_err() {
            return Ok(());
        }
        if state.has_next_batch() {
            if in_place::is_ready_for_next(pod, &state) {
                let mut changed = pod.clone();
                in_place::start_next_batch(&mut changed, state, now);
                refresh.writes.push(PodWrite::Replace(Box::new(changed)));
            }
            return Ok(());
        }
    }
    conditions(pod, now, refresh);
    Ok(())
}

/// The conditions of the readiness gates that no update holds back.
fn conditions(pod: &Pod, now: Timestamp, refresh: &mut Refresh) {
    let is_ready = condition(pod, READY_CONDITION).is_some_and(|one| one.status == "True");
    let ready = (in_place::has_gate(pod) && !is_ready).then(|| PodCondition {
        type_: READY_CONDITION.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(in_place::whole_second(now))),
        ..PodCondition::default()
    });
    let due: Vec<PodCondition> = pod_readiness::initial(pod, now)
        .into_iter()
        .chain(ready)
        .collect();
    // Few pods have a condition due, and a copy of a pod is costly.
    if due.is_empty() {
        return;
    }
    let mut changed = pod.clone();
    for condition in due {
        in_place::set_condition(&mut changed, condition);
    }
    refresh.writes.push(PodWrite::Status(Box::new(changed)));
}

/// Returns the state that the pod changes to by itself, if any.
fn next_state(pod: &Pod, rules: Rules<'_>) -> Option<State> {
    let updating = lifecycle::in_place_update(rules.lifecycle);
    let updated = if rules.lifecycle.is_some() && !lifecycle::is_all_hooked(updating, pod) {
        State::Updated
    } else {
        State::Normal
    };
    match lifecycle::state(pod)? {
        State::PreparingNormal => {
            let is_due = match lifecycle::pre_normal(rules.lifecycle) {
                None => !rules.waits_for_node || has_node(pod),
                hook => lifecycle::is_all_hooked(hook, pod),
            };
            is_due.then_some(State::Normal)
        }
        // The change for which the pod was prepared was reverted.
        State::PreparingUpdate => revision::is_at(pod, rules.update_revision).then_some(updated),
        State::Updating => in_place::check_complete(pod).is_ok().then_some(updated),
        State::Updated => {
            let is_due = updating.is_none() || lifecycle::is_all_hooked(updating, pod);
            is_due.then_some(State::Normal)
        }
        State::Normal | State::PreparingDelete | State::Unknown => None,
    }
}

/// Whether the scheduler has found a node for the pod.
fn has_node(pod: &Pod) -> bool {
    condition(pod, "PodScheduled").is_some_and(|one| one.status == "True")
}

#[cfg(test)]
mod tests;

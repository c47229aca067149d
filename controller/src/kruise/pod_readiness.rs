//! The readiness gate by which workloads take a pod's readiness away while a hook holds it.
//!
//! Upstream's webhook gives the gate to every pod of its workloads, and a small controller makes its
//! condition True; here only pods get it whose workload has a hook that asks for it, from the
//! workload's controller.
//!
//! Source: openkruise/kruise pkg/util/podreadiness.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, PodReadinessGate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kubeproof_runtime::pod::{Pod, condition};
use serde::{Deserialize, Serialize};

use super::in_place::{self, follow_gates, has_readiness_gate, whole_second};
use super::lifecycle::State;

/// The gate, and its condition.
pub(crate) const GATE: &str = "KruisePodReady";
const USER_AGENT: &str = "Lifecycle";

/// A reason that keeps the pod from being ready, with the component that set it.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
struct Message {
    user_agent: String,
    key: String,
}

/// Returns the pod with the readiness condition that entering `state` sets; None if it does not
/// change.
#[must_use]
pub(crate) fn entering(pod: &Pod, state: State, now: Timestamp) -> Option<Pod> {
    match state {
        State::PreparingDelete => marked(pod, "preDeleteHook", now),
        State::PreparingUpdate => marked(pod, "preUpdateHook", now),
        State::Updated => unmarked(pod, "preUpdateHook", now),
        State::PreparingNormal | State::Normal | State::Updating | State::Unknown => None,
    }
}

/// Adds the gate to a pod that is to be created.
pub(crate) fn inject(pod: &mut Pod) {
    inject_gate(pod, GATE);
}

/// Adds the readiness gate `name` to a pod that is to be created, if missing.
pub(crate) fn inject_gate(pod: &mut Pod, name: &str) {
    if has_readiness_gate(pod, name) {
        return;
    }
    let spec = pod.spec.get_or_insert_default();
    let gates = spec.readiness_gates.get_or_insert_default();
    gates.push(PodReadinessGate {
        condition_type: name.to_owned(),
    });
}

/// The condition of a pod that has just come, when it has none yet.
#[must_use]
pub(crate) fn initial(pod: &Pod, now: Timestamp) -> Option<PodCondition> {
    let is_missing = has_readiness_gate(pod, GATE) && condition(pod, GATE).is_none();
    is_missing.then(|| new_condition("True", None, now))
}

fn messages(pod: &Pod) -> Vec<Message> {
    let text = condition(pod, GATE).and_then(|known| known.message.as_deref());
    serde_json::from_str(text.unwrap_or("[]")).unwrap_or_default()
}

fn message(key: &str) -> Message {
    Message {
        user_agent: USER_AGENT.to_owned(),
        key: key.to_owned(),
    }
}

fn marked(pod: &Pod, key: &str, now: Timestamp) -> Option<Pod> {
    let mut messages = messages(pod);
    if !has_readiness_gate(pod, GATE) || messages.contains(&message(key)) {
        return None;
    }
    messages.push(message(key));
    Some(with_messages(pod, messages, now))
}

fn unmarked(pod: &Pod, key: &str, now: Timestamp) -> Option<Pod> {
    let mut messages = messages(pod);
    if !has_readiness_gate(pod, GATE) || !messages.contains(&message(key)) {
        return None;
    }
    messages.retain(|known| *known != message(key));
    Some(with_messages(pod, messages, now))
}

fn with_messages(pod: &Pod, mut messages: Vec<Message>, now: Timestamp) -> Pod {
    let status = if messages.is_empty() { "True" } else { "False" };
    messages.sort();
    let text = serde_json::to_string(&messages).expect("messages are JSON");
    let mut pod = pod.clone();
    let conditions = pod.status.get_or_insert_default();
    let conditions = conditions.conditions.get_or_insert_default();
    conditions.retain(|known| known.type_ != GATE);
    in_place::set_condition(&mut pod, new_condition(status, Some(text), now));
    if status == "False" {
        // The kubelet makes it True again.
        follow_gates(&mut pod, now);
    }
    pod
}

fn new_condition(status: &str, message: Option<String>, now: Timestamp) -> PodCondition {
    PodCondition {
        type_: GATE.to_owned(),
        status: status.to_owned(),
        message,
        last_transition_time: Some(Time(whole_second(now))),
        ..PodCondition::default()
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    fn pod(gates: &[&str]) -> Pod {
        let gates: Vec<_> = gates
            .iter()
            .map(|gate| json!({"conditionType": gate}))
            .collect();
        from_value(json!({
            "spec": {"containers": [], "readinessGates": gates},
            "status": {"conditions": [{"type": "ContainersReady", "status": "True"},
                {"type": "Ready", "status": "True"}, {"type": GATE, "status": "True"}]},
        }))
        .unwrap()
    }

    fn conditions(pod: &Pod) -> (String, String) {
        let of = |wanted| {
            condition(pod, wanted)
                .map(|one| one.status.clone())
                .unwrap_or_default()
        };
        (of(GATE), of("Ready"))
    }

    #[test]
    fn a_held_pod_is_not_ready_until_its_update_is_over() {
        let now = Timestamp::UNIX_EPOCH;
        let held = entering(&pod(&[GATE]), State::PreparingUpdate, now).unwrap();
        assert_eq!(conditions(&held), ("False".to_owned(), "False".to_owned()));
        let message = condition(&held, GATE).unwrap().message.as_deref();
        assert_eq!(
            message,
            Some(r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#)
        );
        assert_eq!(
            entering(&held, State::PreparingUpdate, now),
            None,
            "the condition is set already"
        );
        let both = entering(&held, State::PreparingDelete, now).unwrap();
        let released = entering(&both, State::Updated, now).unwrap();
        assert_eq!(
            conditions(&released).0,
            "False",
            "still held before deletion"
        );
        let released = entering(&held, State::Updated, now).unwrap();
        assert_eq!(
            conditions(&released),
            ("True".to_owned(), "False".to_owned())
        );
    }

    #[test]
    fn without_the_gate_nothing_happens() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(entering(&pod(&[]), State::PreparingDelete, now), None);
        assert_eq!(entering(&pod(&[GATE]), State::Normal, now), None);
        assert!(initial(&pod(&[]), now).is_none() && initial(&pod(&[GATE]), now).is_none());
    }
}

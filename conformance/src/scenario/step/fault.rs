//! Faults as scenarios write them.

use std::time::Duration;

use kubeproof_apiserver::fault::{Crash, Effect, Fault, Requests, WebhookFailure};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::HumanDuration;

/// A fault from now on: `{name: …, on: {verb: create, resource: pods}, times: 2, refuse: {code: 500}}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(transparent)]
pub struct FaultStep(#[schemars(with = "super::super::schema::Fault")] pub Fault);

impl FaultStep {
    /// The fault in words: its effect, its requests, and how often it strikes.
    #[must_use]
    pub fn in_words(&self) -> String {
        let fault = &self.0;
        let mut words = vec![effect_words(&fault.effect)];
        words.push(on_words(&fault.requests));
        if fault.after > 0 {
            words.push(format!("after {}", fault.after));
        }
        if let Some(times) = fault.times {
            words.push(format!("×{times}"));
        }
        if let Some(lasts) = fault.lasts {
            words.push(format!("for {}", HumanDuration(lasts)));
        }
        words.retain(|part| !part.is_empty());
        format!("fault {}: {}", fault.name, words.join(", "))
    }
}

/// The effect of a fault, in words.
pub(crate) fn effect_words(effect: &Effect) -> String {
    let in_time = |time: &Duration| HumanDuration(*time);
    match effect {
        Effect::Refuse(refusal) => format!("answer {} {}", refusal.code, refusal.reason),
        Effect::DropResponse => "lose the answer".to_owned(),
        Effect::Delay(time) => format!("delay by {}", in_time(time)),
        Effect::Crash(Crash::Before) => "crash before".to_owned(),
        Effect::Crash(Crash::After) => "crash after".to_owned(),
        Effect::Restart => "the server restarts".to_owned(),
        Effect::Relist => "expire all watches".to_owned(),
        Effect::SecondLeader(time) => format!("two leaders for {}", in_time(time)),
        Effect::Webhooks(WebhookFailure::Refuse) => "webhooks refuse the connection".to_owned(),
        Effect::Webhooks(WebhookFailure::Timeout) => "webhooks do not respond".to_owned(),
        Effect::Jump(time) => format!("set the clock by {time:#}"),
        Effect::Unreachable => "the server cannot be reached".to_owned(),
        Effect::Stale(writes) => format!("answer as {writes} writes ago"),
        Effect::Hold => "hold back what is delivered".to_owned(),
        Effect::Batch(time) => format!("deliver every {}", in_time(time)),
        Effect::WithholdBookmarks => "withhold bookmarks".to_owned(),
        Effect::Repeat(events) => format!("deliver {events} events again"),
        Effect::Break => "break off".to_owned(),
        Effect::Expire => "expire".to_owned(),
        Effect::MissEvents(time) => format!("miss what happens for {}", in_time(time)),
        Effect::Late(time) => format!("deliver {} late", in_time(time)),
    }
}

/// `create pods web-1 from statefulset-controller`.
fn on_words(requests: &Requests) -> String {
    let parts = [&requests.verb, &requests.resource, &requests.name];
    let mut words: Vec<String> = parts.into_iter().flatten().cloned().collect();
    if let Some(namespace) = &requests.namespace {
        words.push(format!("in {namespace}"));
    }
    if let Some(from) = &requests.from {
        words.push(format!("from {from}"));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FaultStep, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_fault_is_described_by_its_effect_and_its_requests() {
        let fault = "{name: a, on: {verb: create, resource: pods, name: web-1}, times: 2, \
            refuse: {code: 500, reason: InternalError}}";
        let words = parse(fault).unwrap().in_words();
        assert_eq!(
            words,
            "fault a: answer 500 InternalError, create pods web-1, ×2"
        );
        let held = parse("{name: b, on: {from: kubelet}, hold: true, for: 10m}").unwrap();
        let expected = "fault b: hold back what is delivered, from kubelet, for 10m";
        assert_eq!(held.in_words(), expected);
    }

    #[test]
    fn a_fault_has_exactly_one_effect() {
        for wrong in ["{name: a}", "{name: a, hold: true, unreachable: true}"] {
            assert!(
                parse(wrong).unwrap_err().contains("needs one of"),
                "{wrong}"
            );
        }
    }
}

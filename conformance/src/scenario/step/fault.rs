//! Faults as scenarios write them.

use kubeproof_apiserver::fault::{Effect, Fault, Refusal, Requests};
use serde::Deserialize;

use crate::scenario::HumanDuration;

/// A fault from now on: `{name: …, on: {verb: create, resource: pods}, times: 2, refuse: {code: 500}}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "FaultFields")]
pub struct FaultStep(pub Fault);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FaultFields {
    name: String,
    #[serde(default)]
    on: Requests,
    #[serde(default)]
    after: u32,
    times: Option<u32>,
    #[serde(rename = "for")]
    lasts: Option<HumanDuration>,
    refuse: Option<Refusal>,
    #[serde(default)]
    lose_answer: bool,
    delay: Option<HumanDuration>,
    #[serde(default)]
    hold: bool,
    #[serde(default)]
    unreachable: bool,
}

impl TryFrom<FaultFields> for FaultStep {
    type Error = String;

    fn try_from(fields: FaultFields) -> Result<Self, String> {
        let mut effects = [
            fields.refuse.map(Effect::Refuse),
            fields.lose_answer.then_some(Effect::LoseAnswer),
            fields.delay.map(|time| Effect::Delay(time.0)),
            fields.hold.then_some(Effect::Hold),
            fields.unreachable.then_some(Effect::Unreachable),
        ]
        .into_iter()
        .flatten();
        let (Some(effect), None) = (effects.next(), effects.next()) else {
            return Err(
                "a fault needs one of refuse, loseAnswer, delay, hold and unreachable".to_owned(),
            );
        };
        Ok(Self(Fault {
            name: fields.name,
            requests: fields.on,
            after: fields.after,
            times: fields.times,
            lasts: fields.lasts.map(|lasts| lasts.0),
            effect,
        }))
    }
}

impl FaultStep {
    /// The fault in words: what it does, to which requests, how often.
    #[must_use]
    pub fn in_words(&self) -> String {
        let fault = &self.0;
        let mut words = vec![match &fault.effect {
            Effect::Refuse(refusal) => format!("answer {} {}", refusal.code, refusal.reason),
            Effect::LoseAnswer => "lose the answer".to_owned(),
            Effect::Delay(time) => format!("delay by {}", HumanDuration(*time)),
            Effect::Hold => "hold back what is delivered".to_owned(),
            Effect::Unreachable => "the server cannot be reached".to_owned(),
        }];
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
    fn a_fault_is_told_as_what_it_does_and_to_whom() {
        let fault = "{name: a, on: {verb: create, resource: pods, name: web-1}, times: 2, \
            refuse: {code: 500, reason: InternalError}}";
        let words = parse(fault).unwrap().in_words();
        assert_eq!(
            words,
            "fault a: answer 500 InternalError, create pods web-1, ×2"
        );
        let held = parse("{name: b, on: {from: kubelet}, hold: true, for: 10m}").unwrap();
        let told = "fault b: hold back what is delivered, from kubelet, for 10m";
        assert_eq!(held.in_words(), told);
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

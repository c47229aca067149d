//! The match of webhooks to a write.

use super::Phase;
use super::configuration::Webhook;
use crate::admission::request::{Admission, Invocation, matches_object};
use crate::cel::{Activation, Outcome};
use crate::clock::nanos_between;
use crate::json::Value;
use crate::metrics::admission::ConditionCheck;
use crate::status::ApiError;

impl Admission<'_> {
    /// The form of the write for the review of `webhook`, if its rules and selectors match.
    ///
    /// # Errors
    /// `NotFound` for a namespace whose labels would have to be known.
    pub(super) fn invocation(
        &self,
        webhook: &Webhook,
        phase: Phase,
        (object, old): (Option<&Value>, Option<&Value>),
    ) -> Result<Option<Invocation>, ApiError> {
        let entry = &webhook.entry;
        let Some(invocation) = self.rule(&entry["rules"], &entry["matchPolicy"]) else {
            return Ok(None);
        };
        // Upstream reports a missing namespace only if the rest matches.
        if !matches_object(entry, object, old) || !self.matches_namespace(entry, object)? {
            return Ok(None);
        }
        let holds = self.conditions_hold((webhook, phase), &invocation, object, old)?;
        if !holds {
            let check = self.condition_check(webhook, phase);
            // Upstream calls the validating phase by another name here.
            let step = match phase {
                Phase::Mutating => "admit",
                Phase::Validating => "validate",
            };
            let named = self.state.metrics.admission().named();
            named.excluded(ConditionCheck { step, ..check });
        }
        Ok(holds.then_some(invocation))
    }

    /// Whether all conditions of the webhook hold. A false condition outweighs evaluation errors,
    /// which are a failure of the webhook.
    fn conditions_hold(
        &self,
        (webhook, phase): (&Webhook, Phase),
        invocation: &Invocation,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<bool, ApiError> {
        let conditions = webhook.entry["matchConditions"].as_array();
        let Some(conditions) = conditions.filter(|own| !own.is_empty()) else {
            return Ok(true);
        };
        let request = &self.request("", invocation)["request"];
        let object = self.in_form(object, invocation);
        let old = self.in_form(old, invocation);
        let data = [
            ("object", &object),
            ("oldObject", &old),
            ("request", request),
        ];
        let mut activation = Activation::new(data);
        let authorizer = self.authorizer();
        activation.set_authorizer(&authorizer, self.check());
        let started = self.state.clock.now();
        let mut faults = Vec::new();
        let mut fails = false;
        for condition in conditions {
            let expression = condition["expression"].as_str().unwrap_or_default();
            let compiled = self.state.webhooks.condition(expression.trim());
            match compiled.and_then(|condition| activation.evaluate(&condition)) {
                Ok(Outcome::Bool(true)) => {}
                Ok(_) => {
                    fails = true;
                    break;
                }
                Err(why) => faults.push(why),
            }
        }
        if fails || !faults.is_empty() {
            // Upstream measures no conditions that all hold.
            let nanos = nanos_between(started, self.state.clock.now());
            let check = self.condition_check(webhook, phase);
            let named = self.state.metrics.admission().named();
            named.conditions(check, faults.len(), nanos);
        }
        match faults.as_slice() {
            _ if fails => Ok(false),
            [] => Ok(true),
            _ if webhook.ignores_failure => Ok(false),
            faults => Err(ApiError::Forbidden {
                resource: self.resource.gvr().group_resource(),
                name: self.name.clone(),
                message: match faults {
                    [fault] => fault.clone(),
                    faults => format!("[{}]", faults.join(", ")),
                },
                causes: Vec::new(),
            }),
        }
    }

    fn condition_check<'w>(&self, webhook: &'w Webhook, phase: Phase) -> ConditionCheck<'w> {
        ConditionCheck {
            kind: "webhook",
            name: &webhook.name,
            step: phase.as_str(),
            operation: self.operation,
        }
    }
}

//! What validating policies refuse.

use serde_json::{Value, json};

use super::compiled::{Policy, Validation};
use super::evaluate::{conditions_hold, prepare};
use super::{Family, config_fault, text_of};
use crate::admission::webhook::Admission;
use crate::cel::{Activation, Outcome};
use crate::meta::object::name;
use crate::status::ApiError;

/// The most bytes of a message that an expression makes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// Something that a policy does not agree with.
struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn failure(message: String) -> Self {
        Self {
            message,
            reason: "Invalid".to_owned(),
        }
    }
}

impl Admission<'_> {
    /// Asks the validating policies that the write matches; the first denial is passed on.
    ///
    /// # Errors
    /// The denial.
    pub(in crate::admission) fn validate_by_policies(
        &self,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let mut denied = None;
        for bound in self.policies(Family::Validating) {
            let policy = &bound.policy;
            let matching = self.constrained(&policy.constraints, object, old);
            let matching = matching.map_err(|error| text_of(&error));
            let matching = match matching.and_then(|own| {
                own.map(|own| self.check_param_kind(policy).map(|()| own))
                    .transpose()
            }) {
                Ok(Some(matching)) => matching,
                Ok(None) => continue,
                Err(why) => {
                    let denial = Denial::failure(config_fault(None, &why));
                    if !policy.ignores_failure {
                        denied.get_or_insert_with(|| self.denied(policy, None, &denial));
                    }
                    continue;
                }
            };
            for binding in &bound.bindings {
                let binding = &binding.value();
                let found = match self.bound_params(policy, binding, object, old) {
                    Ok(Some(params)) => params,
                    Ok(None) => continue,
                    Err(why) => {
                        let denial = Denial::failure(config_fault(Some(binding), &why));
                        if !policy.ignores_failure {
                            denied
                                .get_or_insert_with(|| self.denied(policy, Some(binding), &denial));
                        }
                        continue;
                    }
                };
                let namespace = self.namespace_object()?;
                let mut activation = self.activation(&matching, object, old, &namespace);
                for param in found {
                    prepare(&mut activation, policy, &param);
                    for denial in denials(&mut activation, policy, binding) {
                        self.warn_of(policy, binding, &denial);
                        if denial.counts {
                            denied.get_or_insert_with(|| {
                                self.denied(policy, Some(binding), &denial.denial)
                            });
                        }
                    }
                }
            }
        }
        denied.map_or(Ok(()), Err)
    }

    /// The parameters for a binding, if the write matches it.
    pub(super) fn bound_params(
        &self,
        policy: &Policy,
        binding: &Value,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Vec<Value>>, String> {
        let matching = self.constrained(&binding["spec"]["matchResources"], object, old);
        match matching.map_err(|error| text_of(&error))? {
            None => Ok(None),
            Some(_) => self.params(policy, binding).map(Some),
        }
    }

    fn warn_of(&self, policy: &Policy, binding: &Value, found: &Found) {
        let Some(warnings) = self.warnings.filter(|_| found.warns) else {
            return;
        };
        let warning = format!(
            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
            policy.name,
            name(binding),
            found.denial.message
        );
        let mut warnings = warnings.lock();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    fn denied(&self, policy: &Policy, binding: Option<&Value>, denial: &Denial) -> ApiError {
        let binding =
            binding.map_or_else(String::new, |own| format!(" with binding '{}'", name(own)));
        let message = format!(
            "ValidatingAdmissionPolicy '{}'{binding} denied request: {}",
            policy.name, denial.message
        );
        let code = match denial.reason.as_str() {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        let shown = format!("{}: {message}", self.forbidden_subject());
        ApiError::Denied(Box::new(self.status_of(
            &shown,
            &denial.reason,
            code,
            &[message],
        )))
    }

    /// `pods "x" is forbidden`.
    fn forbidden_subject(&self) -> String {
        let resource = self.resource.gvr().group_resource();
        match self.name.as_str() {
            "" => format!("{resource} \"Unknown\" is forbidden"),
            name => format!("{resource} {name:?} is forbidden"),
        }
    }

    /// The status of a refusal.
    pub(super) fn status_of(
        &self,
        message: &str,
        reason: &str,
        code: u16,
        causes: &[String],
    ) -> Value {
        let gvr = self.resource.gvr();
        let causes: Vec<Value> = causes.iter().map(|own| json!({ "message": own })).collect();
        let mut details = json!({ "kind": gvr.resource, "causes": causes });
        details["name"] = match self.name.as_str() {
            "" => "Unknown".into(),
            name => name.into(),
        };
        if !gvr.group.is_empty() {
            details["group"] = gvr.group.as_str().into();
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "details": details, "code": code,
        })
    }
}

/// A denial, and what the binding makes of it.
struct Found {
    denial: Denial,
    counts: bool,
    warns: bool,
}

/// What a policy has against the write.
fn denials(activation: &mut Activation, policy: &Policy, binding: &Value) -> Vec<Found> {
    let acts = |action: &str| {
        let actions = binding["spec"]["validationActions"].as_array();
        actions.into_iter().flatten().any(|own| own == action)
    };
    let found = |denial: Denial| Found {
        denial,
        counts: acts("Deny"),
        warns: acts("Warn"),
    };
    match conditions_hold(activation, policy) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(why) => return vec![found(Denial::failure(why))],
    }
    let mut denials = Vec::new();
    for validation in &policy.validations {
        let outcome = validation
            .expression
            .as_ref()
            .map_err(|why| format!("compilation error: {why}"))
            .and_then(|expression| activation.evaluate(expression));
        match outcome {
            Ok(Outcome::Bool(true)) => {}
            Ok(_) => denials.push(found(Denial {
                message: message(activation, validation),
                reason: validation.reason.clone(),
            })),
            Err(_) if policy.ignores_failure => {}
            Err(why) => denials.push(found(Denial::failure(why))),
        }
    }
    for annotation in &policy.annotations {
        let outcome = annotation
            .as_ref()
            .map_err(|why| format!("compilation error: {why}"))
            .and_then(|expression| activation.evaluate(expression));
        if let Err(why) = outcome
            && !policy.ignores_failure
        {
            // Whatever the binding says of denials.
            denials.push(Found {
                denial: Denial::failure(why),
                counts: true,
                warns: false,
            });
        }
    }
    denials
}

/// The message that an expression makes if it is fit to be shown, or the one stated.
pub(crate) fn message(activation: &mut Activation, validation: &Validation) -> String {
    let made = validation.message_expression.as_ref();
    let made = made.and_then(|own| own.as_ref().ok());
    if let Some(Ok(Outcome::Text(text))) = made.map(|own| activation.evaluate(own)) {
        let text = text.trim();
        if !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n') {
            return text.to_owned();
        }
    }
    validation.message.clone()
}

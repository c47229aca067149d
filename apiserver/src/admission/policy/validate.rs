//! What validating policies refuse.

use std::collections::BTreeMap;

use super::compiled::{Compiled, Policy, Validation};
use super::evaluate::{error_type, prepare};
use super::{Family, config_fault, text_of};
use crate::admission::request::Admission;
use crate::audit::{Level, Record};
use crate::cel::{Activation, Outcome};
use crate::clock::nanos_between;
use crate::json::{Value, html_escape, json};
use crate::meta::object::name;
use crate::metrics::admission::PolicyCheck;
use crate::status::{ApiError, Status};

/// The most bytes of a message that an expression makes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The most bytes of a value of an audit annotation.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

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
            let mut annotations = Annotations::default();
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
                    for denial in self.denials(&mut activation, policy, binding, &mut annotations) {
                        self.warn_of(policy, binding, &denial);
                        if denial.counts {
                            denied.get_or_insert_with(|| {
                                self.denied(policy, Some(binding), &denial.denial)
                            });
                        }
                    }
                }
            }
            annotations.publish(policy, self.request_attributes.audit);
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
        code: u32,
        causes: &[String],
    ) -> Status {
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
        Status::failure(code, reason, message.to_owned()).with_details(details)
    }
}

/// The audit annotations of a policy: the distinct values of all its bindings and parameters, by key.
#[derive(Default)]
struct Annotations(BTreeMap<String, Vec<String>>);

impl Annotations {
    fn add(&mut self, key: &str, value: &str) {
        let end = (0..=value.len().min(ANNOTATION_BYTES_MAX)).rev();
        let mut ends = end.filter(|end| value.is_char_boundary(*end));
        let value = &value[..ends.next().unwrap_or_default()];
        let values = self.0.entry(key.to_owned()).or_default();
        if !value.is_empty() && !values.iter().any(|own| own == value) {
            values.push(value.to_owned());
        }
    }

    fn publish(self, policy: &Policy, record: Option<&Record>) {
        let Some(record) = record else { return };
        for (key, values) in self.0.into_iter().filter(|(_, values)| !values.is_empty()) {
            let key = format!("{}/{key}", policy.name);
            record.annotate_admission(Level::Metadata, &key, values.join(", "));
        }
    }
}

/// A denial, and its consequences by the binding.
struct Found {
    denial: Denial,
    counts: bool,
    warns: bool,
}

impl Admission<'_> {
    /// The denials of a write by a policy.
    fn denials(
        &self,
        activation: &mut Activation,
        policy: &Policy,
        binding: &Value,
        annotations: &mut Annotations,
    ) -> Vec<Found> {
        let actions = binding["spec"]["validationActions"].as_array();
        let actions = || actions.into_iter().flatten().filter_map(Value::as_str);
        let acts = |action: &str| actions().any(|own| own == action);
        // The denial has the consequences that the binding states.
        let found = |denial: Denial, at: usize, nanos: u64| {
            if acts("Audit") {
                self.annotate_failure(policy, binding, &denial.message, at);
            }
            for action in actions() {
                let action = action.to_lowercase();
                self.checked(policy, binding, &denial.message, (&action, nanos));
            }
            Found {
                denial,
                counts: acts("Deny"),
                warns: acts("Warn"),
            }
        };
        match self.applies(activation, policy) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return vec![found(Denial::failure(why), 0, 0)],
        }
        let mut denials = Vec::new();
        for (at, validation) in policy.validations.iter().enumerate() {
            let (outcome, nanos) = self.evaluated(activation, &validation.expression);
            match outcome {
                Ok(Outcome::Bool(true)) => {}
                Ok(_) => {
                    let denial = Denial {
                        message: message(activation, validation),
                        reason: validation.reason.clone(),
                    };
                    denials.push(found(denial, at, nanos));
                }
                Err(why) if policy.ignores_failure => {
                    self.checked(policy, binding, &why, ("allow", nanos));
                }
                Err(why) => denials.push(found(Denial::failure(why), at, nanos)),
            }
        }
        for (key, annotation) in &policy.annotations {
            let (outcome, nanos) = self.evaluated(activation, annotation);
            match outcome {
                Ok(Outcome::Text(value)) => annotations.add(key, value.trim()),
                Ok(_) => {}
                Err(_) if policy.ignores_failure => {}
                Err(why) => {
                    self.checked(policy, binding, &why, ("deny", nanos));
                    // Whatever the binding says of denials.
                    denials.push(Found {
                        denial: Denial::failure(why),
                        counts: true,
                        warns: false,
                    });
                }
            }
        }
        denials
    }

    /// Notes a failed validation in the audit event, where only the first has room.
    fn annotate_failure(&self, policy: &Policy, binding: &Value, message: &str, at: usize) {
        const KEY: &str = "validation.policy.admission.k8s.io/validation_failure";
        if let Some(record) = self.request_attributes.audit {
            let actions = &binding["spec"]["validationActions"];
            let (message, policy) = (json!(message), json!(policy.name));
            let binding = json!(name(binding));
            let failure = format!(
                "[{{\"message\":{message},\"policy\":{policy},\"binding\":{binding},\"expressionIndex\":{at},\"validationActions\":{actions}}}]"
            );
            record.annotate_admission(Level::Metadata, KEY, html_escape(&failure));
        }
    }

    /// The outcome of an expression, and the nanoseconds that it took.
    fn evaluated(
        &self,
        activation: &mut Activation,
        expression: &Compiled,
    ) -> (Result<Outcome, String>, u64) {
        let started = self.state.clock.now();
        let outcome = expression
            .as_ref()
            .map_err(|why| format!("compilation error: {why}"))
            .and_then(|expression| activation.evaluate(expression));
        (outcome, nanos_between(started, self.state.clock.now()))
    }

    /// Counts a validation of which there is something to say, with its consequence.
    fn checked(
        &self,
        policy: &Policy,
        binding: &Value,
        message: &str,
        (action, nanos): (&str, u64),
    ) {
        let check = PolicyCheck {
            policy: &policy.name,
            binding: name(binding),
            error_type: error_type(message),
            nanos,
        };
        let named = self.state.metrics.admission().named();
        named.validated(check, action);
    }
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

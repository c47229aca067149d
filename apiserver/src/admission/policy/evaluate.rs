//! The variables that the expressions of a policy see.

use super::compiled::Policy;
use crate::admission::request::{Admission, Invocation};
use crate::cel::{Activation, Outcome};
use crate::clock::nanos_between;
use crate::json::{Map, Value, json};
use crate::meta::GroupVersionResource;
use crate::metrics::admission::ConditionCheck;
use crate::status::ApiError;
use crate::storage::ObjectKey;

/// The metadata of a namespace that expressions see.
const NAMESPACE_METADATA: [&str; 10] = [
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "finalizers",
];

impl Admission<'_> {
    /// The names that expressions use, except parameters and variables.
    pub(super) fn activation(
        &self,
        invocation: &Invocation,
        object: Option<&Value>,
        old: Option<&Value>,
        namespace: &Value,
    ) -> Activation {
        let request = &self.request("", invocation)["request"];
        let object = self.in_form(object, invocation);
        let old = self.in_form(old, invocation);
        let mut activation = Activation::new([
            ("object", &object),
            ("oldObject", &old),
            ("request", request),
            ("namespaceObject", namespace),
        ]);
        activation.set_authorizer(&self.authorizer(), self.check());
        activation
    }

    /// The namespace of the request as expressions see it, null outside of namespaces.
    ///
    /// # Errors
    /// `NotFound`.
    pub(super) fn namespace_object(&self) -> Result<Value, ApiError> {
        if self.namespace.is_empty() || self.request_attributes.kind.kind == "Namespace" {
            return Ok(Value::Null);
        }
        let gvr = GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "namespaces".to_owned(),
        };
        let key = ObjectKey::new(None, &self.namespace);
        let found = self.state.storage.table(&gvr).get(&key);
        let found = found.ok_or_else(|| ApiError::NotFound {
            resource: gvr.group_resource(),
            name: self.namespace.clone(),
        })?;
        let own = &found.value()["metadata"];
        let fields = NAMESPACE_METADATA
            .into_iter()
            .filter(|field| !own[*field].is_null());
        let mut metadata: Map = fields
            .map(|field| (field.to_owned(), own[field].clone()))
            .collect();
        for field in ["uid", "resourceVersion"] {
            metadata.insert(field.to_owned(), own[field].clone());
        }
        Ok(json!({
            "metadata": metadata,
            "spec": found.value()["spec"],
            "status": found.value()["status"],
        }))
    }
}

/// Makes the activation that of one evaluation of a policy.
pub(super) fn prepare(activation: &mut Activation, policy: &Policy, param: &Value) {
    activation.forget_variables();
    if policy.param_kind.is_some() {
        activation.set("params", param);
    }
    for (name, variable) in &policy.variables {
        activation.add_variable(name, variable.as_ref().map_err(String::as_str));
    }
}

impl Admission<'_> {
    /// Whether all conditions of a policy hold. A false condition outweighs evaluation errors.
    ///
    /// # Errors
    /// The evaluation errors.
    pub(super) fn applies(
        &self,
        activation: &mut Activation,
        policy: &Policy,
    ) -> Result<bool, String> {
        if policy.conditions.is_empty() {
            return Ok(true);
        }
        let started = self.state.clock.now();
        let mut faults = Vec::new();
        let holds = conditions_hold(activation, policy, &mut faults);
        if holds != Ok(true) {
            // Upstream measures no conditions that all hold.
            let nanos = nanos_between(started, self.state.clock.now());
            let check = ConditionCheck {
                kind: "policy",
                name: &policy.name,
                step: "validate",
                operation: self.operation,
            };
            let named = self.state.metrics.admission().named();
            named.conditions(check, faults.len(), nanos);
        }
        holds
    }
}

/// The `error_type` label of policy metrics, by the text of an error or denial.
pub(super) fn error_type(message: &str) -> &'static str {
    const SPENT: &str = "validation failed due to running out of cost budget";
    match message {
        own if own.starts_with("compilation") => "compile_error",
        own if own.starts_with(SPENT) => "out_of_budget",
        _ => "invalid_error",
    }
}

fn conditions_hold(
    activation: &mut Activation,
    policy: &Policy,
    faults: &mut Vec<String>,
) -> Result<bool, String> {
    for condition in &policy.conditions {
        let outcome = condition
            .as_ref()
            .map_err(|why| format!("compilation error: {why}"))
            .and_then(|condition| activation.evaluate(condition));
        match outcome {
            Ok(Outcome::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(why) => faults.push(why),
        }
    }
    match faults.as_slice() {
        [] => Ok(true),
        _ if policy.ignores_failure => Ok(false),
        [fault] => Err(fault.clone()),
        faults => Err(format!("[{}]", faults.join(", "))),
    }
}

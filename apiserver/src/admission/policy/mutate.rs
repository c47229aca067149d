//! What mutating policies change.

use super::compiled::Policy;
use super::evaluate::{error_type, prepare};
use super::{Bound, Family, config_fault, text_of};
use crate::admission::request::{Admission, Invocation};
use crate::cel::Outcome;
use crate::clock::nanos_between;
use crate::field_manager::merge_configuration;
use crate::json::Value;
use crate::meta::object::name;
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::metrics::admission::PolicyCheck;
use crate::nesting;
use crate::patch::JsonPatch;
use crate::schema::{self, scheme};
use crate::status::ApiError;

/// A reinvocable policy, and the object as the policy left it. Where any policy has changed the
/// object, all reinvocable policies run again, and the object is absent.
pub(in crate::admission) struct Reinvocation {
    policy: String,
    object: Option<Value>,
}

/// Refusals of policies that must not fail, and their reasons.
type Faults = Vec<(String, &'static str)>;

impl Admission<'_> {
    /// Lets each mutating policy that the write matches change the object; answers whether one has.
    /// `reinvocations` receives the policies that may run again.
    ///
    /// # Errors
    /// `Forbidden` when a policy fails.
    pub(in crate::admission) fn mutate_by_policies(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        reinvocations: &mut Vec<Reinvocation>,
    ) -> Result<bool, ApiError> {
        let mut faults = Faults::new();
        let before = object.clone();
        for bound in self.policies(Family::Mutating) {
            self.mutate_by(&bound, object, old, &mut faults)?;
            if bound.policy.reinvocable {
                reinvocations.push(Reinvocation {
                    policy: bound.policy.name.clone(),
                    object: Some(object.clone()),
                });
            }
        }
        let changed = before != *object;
        if changed {
            reinvocations.iter_mut().for_each(|own| own.object = None);
        }
        self.refusal(&faults).map(|()| changed)
    }

    /// Asks those policies again whose outcome has been changed by others.
    ///
    /// # Errors
    /// `Forbidden` when a policy fails.
    pub(in crate::admission) fn mutate_again(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        reinvocations: &[Reinvocation],
    ) -> Result<(), ApiError> {
        let mut faults = Faults::new();
        for bound in self.policies(Family::Mutating) {
            let own = reinvocations
                .iter()
                .find(|own| own.policy == bound.policy.name);
            if own.is_some_and(|own| own.object.as_ref() != Some(&*object)) {
                self.mutate_by(&bound, object, old, &mut faults)?;
            }
        }
        self.refusal(&faults)
    }

    fn refusal(&self, faults: &[(String, &'static str)]) -> Result<(), ApiError> {
        let Some((message, reason)) = faults.first() else {
            return Ok(());
        };
        let causes: Vec<String> = faults.iter().map(|(message, _)| message.clone()).collect();
        let status = self.status_of(message, reason, 403, &causes);
        Err(ApiError::Denied(Box::new(status)))
    }

    fn mutate_by(
        &self,
        bound: &Bound,
        object: &mut Value,
        old: Option<&Value>,
        faults: &mut Faults,
    ) -> Result<(), ApiError> {
        let policy = &bound.policy;
        let mut fail = |binding: Option<&Value>, why: &str, reason: &'static str| {
            let message = match binding {
                Some(binding) => format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.name,
                    name(binding)
                ),
                None => format!("policy {:?} denied request: {why}", policy.name),
            };
            if !policy.ignores_failure {
                faults.push((message, reason));
            }
        };
        let matching = self.constrained(&policy.constraints, Some(object), old);
        let matching = match matching.map_err(|error| text_of(&error)) {
            Ok(None) => return Ok(()),
            Ok(Some(own)) => self.check_param_kind(policy).map(|()| own),
            Err(why) => Err(why),
        };
        let matching = match matching {
            Ok(matching) => matching,
            Err(why) => {
                fail(None, &config_fault(None, &why), "Forbidden");
                return Ok(());
            }
        };
        for binding in &bound.bindings {
            let binding = &binding.value();
            let params = match self.bound_params(policy, binding, Some(object), old) {
                Ok(params) => params.unwrap_or_default(),
                Err(why) => {
                    fail(
                        Some(binding),
                        &config_fault(Some(binding), &why),
                        "Forbidden",
                    );
                    continue;
                }
            };
            for param in params {
                let mutated = self.mutations((policy, binding), &matching, &param, object, old)?;
                if let Err(why) = mutated {
                    fail(Some(binding), &why, "Invalid");
                }
            }
        }
        Ok(())
    }

    /// Runs the mutations of a policy in turn.
    fn mutations(
        &self,
        (policy, binding): (&Policy, &Value),
        matching: &Invocation,
        param: &Value,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Result<(), String>, ApiError> {
        let namespace = self.namespace_object()?;
        let mut activation = self.activation(matching, Some(object), old, &namespace);
        prepare(&mut activation, policy, param);
        match self.applies(&mut activation, policy) {
            Ok(true) => {}
            Ok(false) => return Ok(Ok(())),
            Err(why) => return Ok(Err(why)),
        }
        let mut outcome = Ok(());
        for mutation in &policy.mutations {
            let started = self.state.clock.now();
            let shown = self.in_form(Some(object), matching);
            activation.set("object", &shown);
            prepare(&mut activation, policy, param);
            let changed = mutation
                .as_ref()
                .map_err(|why| format!("compilation error: {why}"))
                .and_then(|expression| activation.evaluate(expression));
            let changed = match changed {
                Ok(Outcome::Configuration(applied)) => Ok(self.merged(matching, &shown, applied)),
                Ok(Outcome::Patch(operations)) => self.patched_by(matching, &shown, &operations),
                Ok(_) => Ok(Ok(None)),
                Err(why) => Ok(Err(why)),
            };
            let error_type = match &changed {
                Ok(Ok(_)) => "no_error",
                Ok(Err(why)) => error_type(why),
                Err(_) => "invalid_error",
            };
            let check = PolicyCheck {
                policy: &policy.name,
                binding: name(binding),
                error_type,
                nanos: nanos_between(started, self.state.clock.now()),
            };
            self.state.metrics.admission().named().mutated(check);
            match changed? {
                Ok(Some(next)) => {
                    *object = self.out_of_form(next, matching);
                    self.strategy.default(object);
                }
                Ok(None) => {}
                Err(why) => outcome = outcome.and(Err(why)),
            }
        }
        Ok(outcome)
    }

    fn merged(
        &self,
        matching: &Invocation,
        shown: &Value,
        mut applied: Value,
    ) -> Result<Option<Value>, String> {
        for field in ["apiVersion", "kind"] {
            applied[field] = shown[field].clone();
        }
        let gvr = &matching.resource;
        let catalog = self.state.definitions.catalog();
        let info = catalog.resource(&gvr.group, &gvr.version, &gvr.resource);
        let schema = info.and_then(|info| info.schema());
        let merged = merge_configuration(schema.map(|own| &**own), shown, &applied)
            .map_err(|why| format!("error applying patch: {why}"))?;
        let text = merged.to_string();
        let decoded = self.decoded(&text, &matching.kind);
        decoded.map(Some).map_err(|error| text_of(&error))
    }

    /// The object with the operations applied, unless a test among them fails.
    fn patched_by(
        &self,
        matching: &Invocation,
        shown: &Value,
        operations: &[Value],
    ) -> Result<Result<Option<Value>, String>, ApiError> {
        let mut next = shown.clone();
        for operation in operations {
            let patch = Value::Array(vec![operation.clone()]).to_string();
            let patched = JsonPatch::decode(patch.as_bytes())
                .and_then(|patch| patch.apply(&next))
                .and_then(|text| {
                    nesting::from_slice(text.as_bytes()).map_err(|error| error.to_string())
                });
            match patched {
                Ok(patched) => next = patched,
                Err(why) => {
                    let missing = missing(operation, &next);
                    if operation["op"] == "test" && missing.is_none() {
                        return Ok(Ok(None));
                    }
                    let why = missing.unwrap_or(why);
                    return Ok(Err(format!("JSON Patch: {why}")));
                }
            }
        }
        let is_builtin = schema::builtin(&matching.kind).is_some();
        if let Some(why) = other_kind(&matching.kind, &next).filter(|_| is_builtin) {
            return Err(ApiError::Internal(why));
        }
        self.decoded(&next.to_string(), &matching.kind)
            .map(|next| Ok(Some(next)))
    }
}

/// The error of an object that states another kind than `kind`.
fn other_kind(kind: &GroupVersionKind, object: &Value) -> Option<String> {
    let text = |field: &str| object[field].as_str().filter(|text| !text.is_empty());
    let version = text("apiVersion").map_or_else(|| kind.api_version(), str::to_owned);
    let own = text("kind").unwrap_or(&kind.kind);
    let group_version = GroupVersion::parse(&version)?;
    if !scheme::is_registered(&group_version, own) {
        return Some(scheme::not_registered(own, &version));
    }
    (own != kind.kind).then(|| {
        let why = scheme::unknown_conversion(&group_version, own, kind);
        format!("failed to convert object: {why}")
    })
}

/// The error of an operation whose path does not exist or whose name is unknown, in the words of
/// Go's library.
fn missing(operation: &Value, object: &Value) -> Option<String> {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let (op, path, from) = (text("op"), text("path"), text("from"));
    let is_there = |path: &str| object.pointer(path).is_some();
    let holder = path.rsplit_once('/').map_or("", |(holder, _)| holder);
    let of_key = || path.rsplit('/').next().unwrap_or_default();
    let why = match op {
        "add" if !is_there(holder) => {
            format!("add operation does not apply: doc is missing path: {path:?}")
        }
        "remove" if !is_there(holder) => {
            format!("remove operation does not apply: doc is missing path: {path:?}")
        }
        "remove" if !is_there(path) => {
            let key = of_key();
            format!("error in remove for path: '{path}': Unable to remove nonexistent key: {key}")
        }
        "replace" if !is_there(holder) => {
            format!("replace operation does not apply: doc is missing path: {path}")
        }
        "replace" if !is_there(path) => {
            format!("replace operation does not apply: doc is missing key: {path}")
        }
        "test" if !is_there(holder) => {
            format!("test operation does not apply: is missing path: {path}")
        }
        "move" | "copy" if !is_there(from) => {
            format!("{op} operation does not apply: doc is missing from path: {from}")
        }
        "add" | "remove" | "replace" | "test" | "move" | "copy" => return None,
        other => return Some(format!("Unexpected kind: {other}")),
    };
    Some(format!("{why}: missing value"))
}

//! Permission checks in expressions.

use std::{fmt, sync::Arc};

use super::{Evaluated, Object, Value};

/// Decides whether the user of a request may perform an action.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Returns the decision on `check`.
    fn decide(&self, check: &Check) -> Decision;
}

/// An action whose permission is checked; parts that the expression leaves out are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Namespace and name of the service account whose permission is checked; `None` for the user of the request.
    pub service_account: Option<(String, String)>,
    /// The path of a non-resource request, such as `/healthz`; empty for a resource.
    pub path: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource in its plural form.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// The name of the object; empty for all objects.
    pub name: String,
    /// The field selector of the objects; empty for all objects.
    pub field_selector: String,
    /// The label selector of the objects; empty for all objects.
    pub label_selector: String,
    /// The verb, such as `get`.
    pub verb: String,
}

/// The decision on a [`Check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user may do it.
    pub allowed: bool,
    /// The reason, as the authorizer gives it.
    pub reason: String,
    /// The error of an authorizer that could not decide; usually empty.
    pub error: String,
}

/// A check that an expression builds step by step, or its decision.
#[derive(Clone, Debug)]
pub struct Authorization {
    stage: Stage,
    by: Arc<dyn Authorizer>,
    check: Check,
    decision: Decision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
    Decision,
}

impl Authorization {
    /// Nothing asked yet.
    pub fn root(by: Arc<dyn Authorizer>) -> Value {
        Self::value(Stage::Authorizer, by, Check::default())
    }

    /// All but the verb.
    pub fn of_resource(by: Arc<dyn Authorizer>, check: Check) -> Value {
        Self::value(Stage::Resource, by, check)
    }

    fn value(stage: Stage, by: Arc<dyn Authorizer>, check: Check) -> Value {
        let decision = Decision::default();
        Value::Object(Arc::new(Object::Authorization(Self {
            stage,
            by,
            check,
            decision,
        })))
    }

    pub fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Authorizer => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
            Stage::Decision => "kubernetes.authorization.Decision",
        }
    }

    pub(crate) fn call(&self, function: &str, rest: &[Value]) -> Option<Evaluated> {
        let mut next = self.clone();
        let texts: Option<Vec<&str>> = rest.iter().map(text).collect();
        match (self.stage, function, texts?.as_slice()) {
            (Stage::Authorizer, "path", [path]) => {
                next.stage = Stage::Path;
                (*path).clone_into(&mut next.check.path);
            }
            (Stage::Authorizer, "group", [group]) => {
                next.stage = Stage::Group;
                (*group).clone_into(&mut next.check.group);
            }
            (Stage::Authorizer, "serviceAccount", [namespace, name]) => {
                let account = ((*namespace).to_owned(), (*name).to_owned());
                next.check.service_account = Some(account);
            }
            (Stage::Group, "resource", [resource]) => {
                next.stage = Stage::Resource;
                (*resource).clone_into(&mut next.check.resource);
            }
            (Stage::Resource, "subresource", [subresource]) => {
                (*subresource).clone_into(&mut next.check.subresource);
            }
            (Stage::Resource, "namespace", [namespace]) => {
                (*namespace).clone_into(&mut next.check.namespace);
            }
            (Stage::Resource, "name", [name]) => (*name).clone_into(&mut next.check.name),
            (Stage::Resource, "fieldSelector", [selector]) => {
                (*selector).clone_into(&mut next.check.field_selector);
            }
            (Stage::Resource, "labelSelector", [selector]) => {
                (*selector).clone_into(&mut next.check.label_selector);
            }
            (Stage::Path | Stage::Resource, "check", [verb]) => {
                (*verb).clone_into(&mut next.check.verb);
                next.stage = Stage::Decision;
                next.decision = next.by.decide(&next.check);
            }
            (Stage::Decision, "allowed", []) => {
                return Some(Ok(Value::Bool(self.decision.allowed)));
            }
            (Stage::Decision, "reason", []) => {
                return Some(Ok(Value::string(&self.decision.reason)));
            }
            (Stage::Decision, "errored", []) => {
                return Some(Ok(Value::Bool(!self.decision.error.is_empty())));
            }
            (Stage::Decision, "error", []) => {
                return Some(Ok(Value::string(&self.decision.error)));
            }
            _ => return None,
        }
        Some(Ok(Value::Object(Arc::new(Object::Authorization(next)))))
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

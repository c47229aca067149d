//! Questions to an authorizer, put together part by part.

use std::{fmt, sync::Arc};

use crate::cel::{
    eval::{Evaluated, failed},
    value::Value,
};
use crate::meta::validation::NameRule;

/// Who knows what a user may do.
pub(crate) trait Authorize: fmt::Debug + Send + Sync {
    /// Why it is allowed, `None` if it is not. The user is that of the request unless a service
    /// account is named, by its namespace and name.
    fn allows(&self, account: Option<(&str, &str)>, question: &Question) -> Option<String>;
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// Of a path that is no resource's.
    Path { verb: String, path: String },
    /// Of a resource; `""` where a part is absent.
    Resource {
        verb: String,
        resource: ResourceCheck,
    },
}

/// The resource that is asked about.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceCheck {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A question on its way from the variable `authorizer` to a decision.
#[derive(Clone, Debug)]
pub(in crate::cel) struct Check {
    authorizer: Arc<dyn Authorize>,
    account: Option<(String, String)>,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Authorizer,
    Path(String),
    Group(String),
    Resource(ResourceCheck),
    /// Why it is allowed, if it is.
    Decision(Option<String>),
}

impl Check {
    /// The variable `authorizer`.
    pub(in crate::cel) fn new(authorizer: Arc<dyn Authorize>) -> Self {
        Self {
            authorizer,
            account: None,
            stage: Stage::Authorizer,
        }
    }

    /// The variable `authorizer.requestResource`.
    pub(in crate::cel) fn of(authorizer: Arc<dyn Authorize>, resource: ResourceCheck) -> Self {
        Self {
            stage: Stage::Resource(resource),
            ..Self::new(authorizer)
        }
    }

    pub(in crate::cel) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Authorizer => "kubernetes.authorization.Authorizer",
            Stage::Path(_) => "kubernetes.authorization.PathCheck",
            Stage::Group(_) => "kubernetes.authorization.GroupCheck",
            Stage::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Stage::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    pub(super) fn call(&self, function: &str, args: &[Value]) -> Option<Evaluated> {
        let texts: Option<Vec<&str>> = args
            .iter()
            .map(|arg| match arg {
                Value::String(text) => Some(&**text),
                _ => None,
            })
            .collect();
        let next = |stage| Some(Ok(self.at(stage)));
        match (&self.stage, function, texts?.as_slice()) {
            (Stage::Authorizer, "path", [path]) if path.trim().is_empty() => {
                Some(failed("path must not be empty"))
            }
            (Stage::Authorizer, "path", [path]) => next(Stage::Path((*path).to_owned())),
            (Stage::Authorizer, "group", [group]) => next(Stage::Group((*group).to_owned())),
            (Stage::Authorizer, "serviceAccount", [namespace, name]) => {
                Some(self.as_account(namespace, name))
            }
            (Stage::Group(_), "resource", [resource]) if resource.trim().is_empty() => {
                Some(failed("resource must not be empty"))
            }
            (Stage::Group(group), "resource", [resource]) => next(Stage::Resource(ResourceCheck {
                group: group.clone(),
                resource: (*resource).to_owned(),
                ..ResourceCheck::default()
            })),
            (Stage::Resource(resource), "check", [verb]) => self.decided(Question::Resource {
                verb: (*verb).to_owned(),
                resource: resource.clone(),
            }),
            // Roles know no selectors.
            (Stage::Resource(_), "fieldSelector" | "labelSelector", [_]) => {
                next(self.stage.clone())
            }
            (Stage::Resource(resource), part, [text]) => {
                let mut resource = resource.clone();
                let field = match part {
                    "subresource" => &mut resource.subresource,
                    "namespace" => &mut resource.namespace,
                    "name" => &mut resource.name,
                    _ => return None,
                };
                (*text).clone_into(field);
                next(Stage::Resource(resource))
            }
            (Stage::Path(path), "check", [verb]) => self.decided(Question::Path {
                verb: (*verb).to_owned(),
                path: path.clone(),
            }),
            (Stage::Decision(allowed), function, []) => Some(Ok(match function {
                "allowed" => Value::Bool(allowed.is_some()),
                "reason" => Value::string(allowed.as_deref().unwrap_or_default()),
                "errored" => Value::Bool(false),
                "error" => Value::string(""),
                _ => return None,
            })),
            _ => None,
        }
    }

    fn at(&self, stage: Stage) -> Value {
        let check = Self {
            stage,
            ..self.clone()
        };
        Value::Object(Arc::new(super::Object::Check(check)))
    }

    fn as_account(&self, namespace: &str, name: &str) -> Evaluated {
        if !NameRule::DnsSubdomain.faults(name, false).is_empty() {
            return failed("Invalid service account name");
        }
        if !NameRule::DnsLabel.faults(namespace, false).is_empty() {
            return failed("Invalid service account namespace");
        }
        let check = Self {
            account: Some((namespace.to_owned(), name.to_owned())),
            ..self.clone()
        };
        Ok(Value::Object(Arc::new(super::Object::Check(check))))
    }

    fn decided(&self, question: Question) -> Option<Evaluated> {
        let account = self.account.as_ref();
        let account = account.map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        let allowed = self.authorizer.allows(account, &question);
        Some(Ok(self.at(Stage::Decision(allowed))))
    }
}

//! Authorization by a chain of authorizers: the first that has an opinion decides.

use std::sync::Arc;

use super::{AbacPolicy, Attributes, AuthorizationWebhook, State, User};
use super::{node, questions, rbac};
use crate::json::{Value, json};
use crate::metrics::access::{Access, Authorizer};
use crate::request::Decision;
use crate::status::aggregate;
use crate::storage::Storage;

/// The reason that upstream's AlwaysDeny gives.
const FORBIDDEN: &str = "Everything is forbidden.";

/// A mode of authorization, as `--authorization-mode` names it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Authorization {
    /// Every user may do everything.
    AlwaysAllow,
    /// Nobody but a member of `system:masters` may do anything.
    AlwaysDeny,
    /// Users have the permissions of stored roles.
    #[default]
    Rbac,
    /// Kubelets may read what the pods on their nodes refer to, and write what is their nodes'.
    Node,
    /// A webhook decides.
    Webhook(AuthorizationWebhook),
    /// Users have the permissions of a file of policies.
    Abac(AbacPolicy),
}

impl Authorization {
    /// Returns the mode as flags name it, such as `RBAC`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.kind().mode()
    }

    fn kind(&self) -> Authorizer {
        match self {
            Self::AlwaysAllow => Authorizer::AlwaysAllow,
            Self::AlwaysDeny => Authorizer::AlwaysDeny,
            Self::Rbac => Authorizer::Rbac,
            Self::Node => Authorizer::Node,
            Self::Webhook(_) => Authorizer::Webhook,
            Self::Abac(_) => Authorizer::Abac,
        }
    }
}

/// The authorizers of a server. Members of `system:masters` may do everything before any is asked.
#[derive(Clone, Debug)]
pub(crate) struct Authorizers(Arc<[Authorization]>);

impl Default for Authorizers {
    fn default() -> Self {
        Self::of(vec![Authorization::default()])
    }
}

impl Authorizers {
    pub(crate) fn of(modes: Vec<Authorization>) -> Self {
        Self(modes.into())
    }

    /// Whether every user may do everything, unless another authorizer denies it.
    pub(crate) fn allow_everything(&self) -> bool {
        let mut modes = self.0.iter();
        modes.any(|mode| matches!(mode, Authorization::AlwaysAllow))
    }

    /// Whether a decision may take time, so that it must be made in [`resolved`](super::resolved).
    pub(crate) fn ask_webhooks(&self) -> bool {
        let mut modes = self.0.iter();
        modes.any(|mode| matches!(mode, Authorization::Webhook(_)))
    }

    /// The modes as a flag shows them: `[Node,RBAC]`.
    pub(crate) fn shown(&self) -> String {
        let modes: Vec<&str> = self.0.iter().map(Authorization::as_str).collect();
        format!("[{}]", modes.join(","))
    }

    /// Decides whether `user` has the permission; roles are those in `storage`. Counts decisions.
    pub(crate) fn decide(
        &self,
        storage: &Storage,
        access: &Access,
        (user, attributes): (&User, &Attributes<'_>),
    ) -> Decision {
        if user.is_privileged() {
            return Decision::Allowed(String::new());
        }
        let mut reasons: Vec<String> = Vec::new();
        let mut errors = Vec::new();
        for mode in self.0.iter() {
            let decision = match mode {
                Authorization::AlwaysAllow => Decision::Allowed(String::new()),
                Authorization::AlwaysDeny => Decision::NoOpinion(FORBIDDEN.to_owned()),
                Authorization::Rbac => rbac::decide(storage, user, attributes),
                Authorization::Node => node::decide(storage, user, attributes),
                Authorization::Abac(policy) => policy.decide(user, attributes),
                Authorization::Webhook(webhook) => {
                    match questions::answer(webhook, user, attributes) {
                        Some(decision) => decision,
                        // The webhook is asked now, and then all authorizers again.
                        None => return Decision::NoOpinion(String::new()),
                    }
                }
            };
            if decision.is_allowed() || decision.is_denied() {
                access.decided(mode.kind(), decision.is_allowed());
                return decision;
            }
            errors.extend(decision.error().map(str::to_owned));
            if !decision.reason().is_empty() {
                reasons.push(decision.reason().to_owned());
            }
        }
        let reason = reasons.join("\n");
        match aggregate(errors) {
            None => Decision::NoOpinion(reason),
            Some(error) => Decision::Failed {
                is_denied: false,
                reason,
                error,
            },
        }
    }
}

/// Whether `user` may do it.
pub(crate) fn authorize(state: &State, user: &User, attributes: &Attributes<'_>) -> Decision {
    let access = state.metrics.access();
    let asked = (user, attributes);
    state.authorizers.decide(&state.storage, access, asked)
}

/// The rules by which a user has permissions, as far as authorizers can list them.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) rules: Vec<Value>,
    /// Whether an authorizer may grant more than it lists.
    pub(crate) incomplete: bool,
    /// The authorizers' errors.
    pub(crate) error: Option<String>,
}

/// Returns all rules that grant `user` something in `namespace`.
pub(crate) fn rules_of(state: &State, user: &User, namespace: &str) -> Rules {
    let mut all = Rules::default();
    let mut errors: Vec<String> = Vec::new();
    for mode in state.authorizers.0.iter() {
        match mode {
            Authorization::AlwaysAllow => all.rules.extend([
                json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }),
                json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }),
            ]),
            Authorization::AlwaysDeny => {}
            Authorization::Rbac => {
                let (rules, missing) = rbac::rules_of(&state.storage, user, namespace, None);
                all.rules.extend(rules);
                errors.extend(missing);
            }
            Authorization::Webhook(_) => {
                all.incomplete = true;
                let error = "webhook authorizer does not support user rule resolution";
                errors.push(error.to_owned());
            }
            Authorization::Abac(policy) => all.rules.extend(policy.rules_of(user, namespace)),
            Authorization::Node => {
                if node::of(user).is_some() {
                    all.incomplete = true;
                    errors.push(node::NOT_LISTED.to_owned());
                }
            }
        }
    }
    all.error = aggregate(errors);
    all
}

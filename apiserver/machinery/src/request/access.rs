//! Decisions about a request.

/// The decision of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The user may, for this reason; the reason is empty for a user who may do everything.
    Allowed(String),
    /// No authorizer says that the user may; the text has their reasons, and is usually empty.
    NoOpinion(String),
    /// An authorizer says that the user may not, whatever others say.
    Denied(String),
    /// An authorizer has failed, and no other says that the user may.
    Failed {
        /// Whether the authorizer says nevertheless that the user may not.
        is_denied: bool,
        /// The reasons of the authorizers.
        reason: String,
        /// The errors of the authorizers.
        error: String,
    },
}

impl Decision {
    /// Whether the user may.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// The reason of the decision, which may be empty.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Allowed(reason) | Self::NoOpinion(reason) | Self::Denied(reason) => reason,
            Self::Failed { reason, .. } => reason,
        }
    }

    /// The errors of the authorizers, if one has failed.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed { error, .. } => Some(error),
            Self::Allowed(_) | Self::NoOpinion(_) | Self::Denied(_) => None,
        }
    }

    /// Whether an authorizer says that the user may not, whatever others say.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(
            self,
            Self::Denied(_)
                | Self::Failed {
                    is_denied: true,
                    ..
                }
        )
    }
}

/// A kind of permission to impersonate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImpersonationMode {
    /// A service account as the node that its pod runs on.
    AssociatedNode,
    /// A service account's permission to act as any node.
    ArbitraryNode,
    /// A service account as a user.
    ServiceAccount,
    /// Any user that is neither a node nor a service account.
    UserInfo,
    /// The verb `impersonate`, without further constraints.
    Legacy,
}

impl ImpersonationMode {
    /// The order in which modes are tried.
    pub const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Legacy,
    ];

    /// Returns the mode as audit events name it, such as `user-info`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    /// Whether the mode also constrains what the impersonated user may do.
    pub fn is_constrained(self) -> bool {
        self != Self::Legacy
    }

    /// The verb that is authorized on the impersonated user.
    pub fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.as_str()),
        }
    }
}

//! Decisions about a request.

/// The decision of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The user may, for this reason; the reason is empty for a user who may do everything.
    Allowed(String),
    /// The user may not; the text names the roles that could not be read, and is usually empty.
    Denied(String),
}

/// A kind of permission to impersonate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImpersonationMode {
    /// A service account as the node that its pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Any user that is neither a node nor a service account.
    UserInfo,
    Legacy,
}

impl ImpersonationMode {
    /// The order in which modes are tried.
    pub(crate) const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Legacy,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    pub(crate) fn is_constrained(self) -> bool {
        self != Self::Legacy
    }

    /// The verb that is authorized on the impersonated user.
    pub(crate) fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.as_str()),
        }
    }
}

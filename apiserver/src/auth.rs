//! Authentication and authorization of requests.
//!
//! - `authentication`: from a client's certificate or a bearer token to a [`User`]
//! - `certificate`: the user in a client's certificate
//! - `request_header`: the user that a proxy names
//! - `token_file`: tokens of a file
//! - `bootstrap_token`: tokens with which nodes join
//! - `impersonation`: from that user to the one it asks to be taken for
//! - `attributes`: the attributes of an action that needs a permission
//! - `authorization`: the chain of authorizers
//! - `abac`: the permissions by a file of policies
//! - `authentication_webhook`, `authorization_webhook`: webhooks that know tokens and permissions
//! - `questions`: questions of synchronous code to webhooks
//! - `node`: the permissions of kubelets
//! - `rbac`: the permissions by stored roles
//! - `tokens`: tokens of service accounts
//! - `token_keys`: the keys that sign and verify them

mod abac;
mod attributes;
mod authentication;
mod authentication_webhook;
mod authorization;
mod authorization_webhook;
mod bootstrap_token;
mod certificate;
pub(crate) mod escalation;
mod impersonation;
mod node;
mod peer;
mod questions;
mod rbac;
mod request_attributes;
mod request_header;
mod token_file;
mod token_keys;
mod tokens;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::audit::UserInfo;
use crate::cluster::Cluster;
use crate::json::{Map, Value, json};
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::quoted;
use crate::x509::Authorities;

pub use abac::{AbacPolicy, AbacPolicyError};
pub(crate) use attributes::{ANY_VERSION, Attributes, Selectors};
pub(crate) use authentication::{authenticate, review_token};
pub use authentication_webhook::AuthenticationWebhook;
pub use authorization::Authorization;
pub(crate) use authorization::{Authorizers, authorize, rules_of};
pub use authorization_webhook::{AuthorizationWebhook, ReviewVersionError};
pub(crate) use impersonation::{LastModes, impersonate};
pub(crate) use peer::{Peer, check_local};
pub(crate) use questions::resolved;
pub(crate) use request_attributes::RequestAttributes;
pub use request_header::RequestHeaders;
pub(crate) use request_header::{Proxies, clear as clear_proxy_headers};
pub use token_file::{TokenFile, TokenFileError};
pub use token_keys::{TokenKeyError, TokenKeys};
pub(crate) use tokens::{
    BoundKind, Claims, ISSUER, ISSUER_PATH, KEY_SET_PATH, ObjectReference, SecretClaims,
    TokenSettings, Tokens,
};

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// The group of everybody who has shown who they are.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who has not.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The key under which a user's extra names the credential.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The group of every node.
const NODES: &str = "system:nodes";
/// The prefix of the user names of service accounts.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The user of a request without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// What deciding about requests takes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) cluster: Cluster,
    /// The administrator's token; if absent, every client is the administrator.
    pub(crate) token: Option<String>,
    /// Whether a client on a socket without credentials is anonymous although there is no such token.
    pub(crate) asks_for_credentials: bool,
    /// Authorities of client certificates.
    pub(crate) client_authorities: Option<Arc<Authorities>>,
    pub(crate) authenticators: Authenticators,
    /// Names of the server in addition to those that every server has.
    pub(crate) own_hosts: Vec<String>,
    pub(crate) authorizers: Authorizers,
    /// Tokens issued to service accounts.
    pub(crate) tokens: Tokens,
    /// How each requester was last permitted to impersonate.
    pub(crate) last_modes: LastModes,
}

impl State {
    /// The state of a server that begins with `cluster`, a fork of this one's.
    pub(crate) fn forked(&self, cluster: Cluster) -> Self {
        Self {
            cluster,
            token: self.token.clone(),
            asks_for_credentials: self.asks_for_credentials,
            client_authorities: self.client_authorities.clone(),
            authenticators: self.authenticators.clone(),
            own_hosts: self.own_hosts.clone(),
            authorizers: self.authorizers.clone(),
            tokens: self.tokens.forked(),
            last_modes: LastModes::default(),
        }
    }
}

impl Deref for State {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// The credentials that count in addition to certificates and tokens of service accounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authenticators {
    /// Proxies that name the user.
    pub(crate) proxies: Option<Arc<Proxies>>,
    pub(crate) token_file: Option<Arc<TokenFile>>,
    /// Whether bootstrap tokens count.
    pub(crate) bootstrap_tokens: bool,
    /// Whether a request without credentials is refused instead of being anonymous.
    pub(crate) refuses_anonymous: bool,
    /// Knows tokens that nothing else knows.
    pub(crate) webhook: Option<AuthenticationWebhook>,
}

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The administrator: the holder of the server's own token, or any client of a server without
    /// it.
    fn admin() -> Arc<Self> {
        static ADMIN: LazyLock<Arc<User>> = LazyLock::new(|| {
            Arc::new(User {
                name: "kubernetes-admin".to_owned(),
                groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
                ..User::default()
            })
        });
        Arc::clone(&ADMIN)
    }

    /// How Go writes the struct, with types and all.
    fn as_go(&self) -> String {
        let texts = |list: &[String]| match list {
            [] => "[]string(nil)".to_owned(),
            list => {
                let texts: Vec<String> = list.iter().map(|text| quoted(text)).collect();
                format!("[]string{{{}}}", texts.join(", "))
            }
        };
        let extra = self.extra.iter();
        let extra: Vec<String> = extra
            .map(|(key, values)| format!("{}:{}", quoted(key), texts(values)))
            .collect();
        let extra = match extra.is_empty() {
            true => "(nil)".to_owned(),
            false => format!("{{{}}}", extra.join(", ")),
        };
        format!(
            "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:map[string][]string{extra}}}",
            quoted(&self.name),
            quoted(&self.uid),
            texts(&self.groups)
        )
    }

    fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The user as `authentication.k8s.io/v1 UserInfo`.
    pub(crate) fn to_user_info(&self) -> Value {
        let mut info = Map::new();
        for (field, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                info.insert(field.to_owned(), text.as_str().into());
            }
        }
        if !self.groups.is_empty() {
            info.insert("groups", json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra", json!(self.extra));
        }
        Value::Object(info)
    }

    /// The user as audit events name it.
    pub(crate) fn to_audited(&self) -> UserInfo {
        UserInfo {
            username: self.name.clone(),
            uid: self.uid.clone(),
            groups: self.groups.clone(),
            extra: self.extra.clone(),
        }
    }

    /// Whether the user may do everything, whatever authorizers say.
    pub(crate) fn is_privileged(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// The user with the group of everybody who has shown who they are.
    fn authenticated(mut self) -> Self {
        let has_either = self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED);
        if self.name != ANONYMOUS && !has_either {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// The user that a service account is.
pub(crate) fn service_account_user(namespace: &str, name: &str) -> User {
    let groups = service_account_groups(namespace).into_iter();
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: groups.chain([AUTHENTICATED.to_owned()]).collect(),
        ..User::default()
    }
}

/// The groups of every service account of a namespace.
fn service_account_groups(namespace: &str) -> [String; 2] {
    [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// Namespace and name of the service account that a user name stands for.
pub(crate) fn service_account(user_name: &str) -> Option<(&str, &str)> {
    user_name
        .strip_prefix(SERVICE_ACCOUNT_PREFIX)?
        .split_once(':')
        .filter(|(namespace, name)| {
            dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()
        })
}

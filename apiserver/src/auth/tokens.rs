//! The tokens of service accounts: issued here, known here, and good for nothing elsewhere.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::Entropy;

/// The audience of the server itself, which is also its name as an issuer.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// A service account, or an object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceAccount {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) account: ServiceAccount,
    pub(crate) audiences: Vec<String>,
    pub(crate) expires: Timestamp,
    /// Plural, name and uid of the object that the token lives and dies with.
    pub(crate) bound: Option<(&'static str, String, String)>,
    /// What tells this token from others.
    pub(crate) id: String,
}

/// The tokens that have been issued and have not expired.
///
/// A token counts because it is in here, not for its signature, which is drawn like its id.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<BTreeMap<String, Claims>>);

impl Tokens {
    /// The same tokens, in a store of its own.
    pub(crate) fn forked(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }

    /// A token that makes these claims, in the form of a JWT.
    pub(crate) fn issue(&self, claims: Claims, now: Timestamp, entropy: &Entropy) -> String {
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let key_id = URL_SAFE_NO_PAD.encode(AUDIENCE);
        let header = encode(&json!({ "alg": "RS256", "kid": key_id }));
        let payload = encode(&payload(&claims, now));
        let signature = URL_SAFE_NO_PAD.encode(entropy.uid() + &entropy.uid());
        let token = format!("{header}.{payload}.{signature}");
        let mut issued = self.0.lock();
        issued.retain(|_, claims| claims.expires > now);
        issued.insert(token.clone(), claims);
        token
    }

    /// What a token says, unless it is unknown or has expired.
    pub(crate) fn claims(&self, token: &str, now: Timestamp) -> Option<Claims> {
        let issued = self.0.lock();
        let claims = issued.get(token)?;
        (claims.expires > now).then(|| claims.clone())
    }
}

fn payload(claims: &Claims, now: Timestamp) -> Value {
    let account = &claims.account;
    let mut private = json!({
        "namespace": account.namespace,
        "serviceaccount": { "name": account.name, "uid": account.uid },
    });
    if let Some((plural, name, uid)) = &claims.bound {
        private[plural.trim_end_matches('s')] = json!({ "name": name, "uid": uid });
    }
    json!({
        "aud": claims.audiences,
        "exp": claims.expires.as_second(),
        "iat": now.as_second(),
        "iss": AUDIENCE,
        "jti": claims.id,
        "kubernetes.io": private,
        "nbf": now.as_second(),
        "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
    })
}

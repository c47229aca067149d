//! The tokens of service accounts: JSON Web Tokens, signed here and verified by the public keys.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use lru::LruCache;
use parking_lot::Mutex;

use super::TokenKeys;
use crate::json::{Value, json};

/// The default issuer, and the audience of the server itself.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// The issuer of tokens that are kept in Secrets.
const SECRET_ISSUER: &str = "kubernetes/serviceaccount";
/// The prefix of the names of the claims in such tokens.
const SECRET_CLAIM: &str = "kubernetes.io/serviceaccount/";
/// The path of the document that says who issues tokens.
pub(crate) const ISSUER_PATH: &str = "/.well-known/openid-configuration";
/// The path of the issuer's public keys.
pub(crate) const KEY_SET_PATH: &str = "/openid/v1/jwks";

/// The tolerated difference of clocks: a token is valid for this long before and after its times.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);
/// The number of remembered tokens with verified signatures.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("4,096 is not 0");

/// An object that a token is for or bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectReference {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The kind of object that a token lives and dies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundKind {
    Pod,
    Secret,
    Node,
}

/// The claims of a token of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) namespace: String,
    pub(crate) account: ObjectReference,
    pub(crate) audiences: Vec<String>,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
    /// When clients should have fetched another, though this one is still good.
    pub(crate) warn_after: Option<Timestamp>,
    pub(crate) bound: Option<(BoundKind, ObjectReference)>,
    /// The node of the pod that the token is bound to; its uid is empty if it does not exist.
    pub(crate) node: Option<ObjectReference>,
    /// The id that distinguishes this token from others.
    pub(crate) id: String,
}

/// The claims of a token that is kept in a Secret: it is valid for as long as the Secret has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretClaims {
    pub(crate) namespace: String,
    pub(crate) account: ObjectReference,
    pub(crate) secret: String,
}

/// The reason why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// The token is not of this issuer.
    Foreign,
    /// The token is of this issuer, and is refused with this text.
    Refused(&'static str),
}

/// The parts of tokens that a server's settings determine.
#[derive(Clone, Debug)]
pub(crate) struct TokenSettings {
    /// The first issues tokens; the others' tokens are accepted.
    pub(crate) issuers: Vec<String>,
    /// The audiences that the server itself answers to; `None` for the issuers.
    pub(crate) audiences: Option<Vec<String>>,
    /// Where the public keys are, unless at the server itself.
    pub(crate) key_set_uri: Option<String>,
    /// The longest lifetime that a request may ask for, in seconds.
    pub(crate) max_seconds: Option<i64>,
    /// Whether tokens that kubelets project into pods outlive their time.
    pub(crate) extends: bool,
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self {
            issuers: vec![ISSUER.to_owned()],
            audiences: None,
            key_set_uri: None,
            max_seconds: None,
            extends: true,
        }
    }
}

/// Issues and verifies tokens.
pub(crate) struct Tokens {
    settings: TokenSettings,
    /// Made when first needed: most servers issue no token.
    keys: Arc<LazyLock<TokenKeys, MakeKeys>>,
    /// Tokens whose signatures are right.
    known: Mutex<LruCache<String, Arc<Claims>>>,
}

/// Makes or hands out the keys.
pub(crate) type MakeKeys = Box<dyn FnOnce() -> TokenKeys + Send>;

impl Tokens {
    /// Issues tokens signed by the keys from `keys`.
    pub(crate) fn new(settings: TokenSettings, keys: MakeKeys) -> Self {
        Self {
            settings,
            keys: Arc::new(LazyLock::new(keys)),
            known: Mutex::new(LruCache::new(KNOWN_MAX)),
        }
    }

    /// Tokens with the same keys.
    pub(crate) fn forked(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            keys: Arc::clone(&self.keys),
            known: Mutex::new(LruCache::new(KNOWN_MAX)),
        }
    }

    /// The audiences that the server itself answers to.
    pub(crate) fn audiences(&self) -> &[String] {
        let settings = &self.settings;
        settings.audiences.as_ref().unwrap_or(&settings.issuers)
    }

    /// The settings of requests for tokens.
    pub(crate) fn settings(&self) -> &TokenSettings {
        &self.settings
    }

    fn issuer(&self) -> &str {
        self.settings.issuers.first().map_or(ISSUER, String::as_str)
    }

    /// Issues a token that makes these claims.
    pub(crate) fn issue(&self, claims: Claims) -> String {
        let token = self.sign(&claims.to_payload(self.issuer()));
        self.known.lock().put(token.clone(), Arc::new(claims));
        token
    }

    /// Issues a token for a Secret.
    pub(crate) fn issue_for_secret(&self, claims: &SecretClaims) -> String {
        self.sign(&claims.to_payload())
    }

    fn sign(&self, payload: &Value) -> String {
        let header = URL_SAFE_NO_PAD.encode(self.keys.header());
        let payload = URL_SAFE_NO_PAD.encode(payload.to_string());
        let mut token = format!("{header}.{payload}");
        let signature = self.keys.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// Returns the claims of a token with a valid signature; their times are not checked.
    ///
    /// # Errors
    /// [`TokenError`] for a text that is not a token, or is not signed by a known key.
    pub(crate) fn claims(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        if let Some(claims) = self.known.lock().get(token) {
            return Ok(Arc::clone(claims));
        }
        let issuers = &self.settings.issuers;
        let payload = self.verify(token, |own| issuers.iter().any(|issuer| issuer == own))?;
        let claims = Arc::new(Claims::of_payload(&payload).ok_or(TokenError::Foreign)?);
        self.known.lock().put(token.to_owned(), Arc::clone(&claims));
        Ok(claims)
    }

    /// Returns the claims of a token with a valid signature that is kept in a Secret.
    ///
    /// # Errors
    /// [`TokenError`] for a text that is not such a token, or is not signed by a known key.
    pub(crate) fn secret_claims(&self, token: &str) -> Result<SecretClaims, TokenError> {
        let payload = self.verify(token, |issuer| issuer == SECRET_ISSUER)?;
        SecretClaims::of_payload(&payload)
    }

    /// The payload of a token whose issuer `is_ours`.
    fn verify(&self, token: &str, is_ours: impl Fn(&str) -> bool) -> Result<Value, TokenError> {
        let mut parts = token.splitn(3, '.');
        let mut part = || parts.next().ok_or(TokenError::Foreign);
        let (header, payload, signature) = (part()?, part()?, part()?);
        let decode = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part);
            bytes.map_err(|_| TokenError::Foreign)
        };
        let read = |part: &str| -> Result<Value, TokenError> {
            serde_json::from_slice(&decode(part)?).map_err(|_| TokenError::Foreign)
        };
        let claims = read(payload)?;
        if !claims["iss"].as_str().is_some_and(is_ours) {
            return Err(TokenError::Foreign);
        }
        let signature = decode(signature)?;
        let header_fields = read(header)?;
        let text = |field: &str| header_fields[field].as_str().unwrap_or_default();
        let (id, algorithm) = (text("kid"), text("alg"));
        if !self.keys.has(id) {
            return Err(TokenError::Refused("invalid signature, no keys found"));
        }
        let message = &token[..header.len() + 1 + payload.len()];
        if !self
            .keys
            .verify(id, algorithm, message.as_bytes(), &signature)
        {
            let why = "go-jose/go-jose: error in cryptographic primitive";
            return Err(TokenError::Refused(why));
        }
        Ok(claims)
    }

    /// Whether the issuer is one that others may discover: an `https` URL without query and fragment.
    pub(crate) fn is_discoverable(&self) -> bool {
        let issuer = self.issuer();
        issuer.starts_with("https://") && !issuer.contains(['?', '#'])
    }

    /// The document of [`ISSUER_PATH`]; `server` is the URL of the server.
    pub(crate) fn discovery(&self, server: &str) -> String {
        let issuer = self.issuer();
        let keys = match &self.settings.key_set_uri {
            Some(uri) => json!(uri),
            None => json!(format!("{server}{KEY_SET_PATH}")),
        };
        let issuer = json!(issuer);
        let algorithms = json!(self.keys.algorithms());
        format!(
            "{{\"issuer\":{issuer},\"jwks_uri\":{keys},\"response_types_supported\":[\"id_token\"],\
             \"subject_types_supported\":[\"public\"],\
             \"id_token_signing_alg_values_supported\":{algorithms}}}"
        )
    }

    /// The document of [`KEY_SET_PATH`].
    pub(crate) fn key_set(&self) -> String {
        self.keys.key_set()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Tokens");
        shown
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl BoundKind {
    pub(crate) const ALL: [Self; 3] = [Self::Pod, Self::Secret, Self::Node];

    /// The claim that names the object; its plural has an `s` more.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Secret => "secret",
            Self::Node => "node",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }
}

impl ObjectReference {
    fn to_claim(&self) -> Value {
        match self.uid.is_empty() {
            true => json!({ "name": self.name }),
            false => json!({ "name": self.name, "uid": self.uid }),
        }
    }

    fn of_claim(claim: &Value) -> Option<Self> {
        let text = |field: &str| claim[field].as_str().unwrap_or_default().to_owned();
        claim.is_object().then(|| Self {
            name: text("name"),
            uid: text("uid"),
        })
    }
}

impl Claims {
    /// Checks that the token is used in its time.
    ///
    /// # Errors
    /// Upstream's text for a token that is too old or too young.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<(), &'static str> {
        if now.saturating_sub(LEEWAY).unwrap_or(now) > self.expires {
            return Err("service account token has expired");
        }
        if now.saturating_add(LEEWAY).unwrap_or(now) < self.issued {
            return Err("service account token is not valid yet");
        }
        Ok(())
    }

    fn to_payload(&self, issuer: &str) -> Value {
        let mut private = json!({
            "namespace": self.namespace,
            "serviceaccount": self.account.to_claim(),
        });
        if let Some((kind, object)) = &self.bound {
            private[kind.as_str()] = object.to_claim();
        }
        if let Some(node) = &self.node {
            private["node"] = node.to_claim();
        }
        if let Some(time) = self.warn_after {
            private["warnafter"] = time.as_second().into();
        }
        json!({
            "aud": self.audiences,
            "exp": self.expires.as_second(),
            "iat": self.issued.as_second(),
            "iss": issuer,
            "jti": self.id,
            "kubernetes.io": private,
            "nbf": self.issued.as_second(),
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.account.name),
        })
    }

    fn of_payload(payload: &Value) -> Option<Self> {
        let private = &payload["kubernetes.io"];
        let time = |value: &Value| Timestamp::from_second(value.as_i64()?).ok();
        let audiences = match &payload["aud"] {
            Value::String(one) => vec![one.to_string()],
            Value::Array(all) => {
                let texts = all.iter().filter_map(Value::as_str);
                texts.map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let bound = BoundKind::ALL.into_iter().find_map(|kind| {
            let object = ObjectReference::of_claim(&private[kind.as_str()])?;
            Some((kind, object))
        });
        let of_pod = matches!(bound, Some((BoundKind::Pod, _)));
        let node = of_pod.then(|| ObjectReference::of_claim(&private["node"]));
        Some(Self {
            namespace: private["namespace"].as_str()?.to_owned(),
            account: ObjectReference::of_claim(&private["serviceaccount"])?,
            audiences,
            issued: time(&payload["nbf"]).or(time(&payload["iat"]))?,
            expires: time(&payload["exp"])?,
            warn_after: time(&private["warnafter"]),
            bound,
            node: node.flatten(),
            id: payload["jti"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

impl SecretClaims {
    fn to_payload(&self) -> Value {
        let private = [
            ("namespace", &self.namespace),
            ("secret.name", &self.secret),
            ("service-account.name", &self.account.name),
            ("service-account.uid", &self.account.uid),
        ];
        let mut payload = json!({ "iss": SECRET_ISSUER });
        for (claim, value) in private {
            payload[format!("{SECRET_CLAIM}{claim}")] = value.as_str().into();
        }
        payload["sub"] = self.subject().into();
        payload
    }

    fn subject(&self) -> String {
        format!(
            "system:serviceaccount:{}:{}",
            self.namespace, self.account.name
        )
    }

    fn of_payload(payload: &Value) -> Result<Self, TokenError> {
        let claim = |name: &str, missing: &'static str| {
            let text = payload[format!("{SECRET_CLAIM}{name}")].as_str();
            let text = text.filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or(TokenError::Refused(missing))
        };
        let claims = Self {
            namespace: claim("namespace", "namespace claim is missing")?,
            secret: claim("secret.name", "secretName claim is missing")?,
            account: ObjectReference {
                name: claim(
                    "service-account.name",
                    "serviceAccountName claim is missing",
                )?,
                uid: claim("service-account.uid", "serviceAccountUID claim is missing")?,
            },
        };
        match payload["sub"].as_str() {
            None | Some("") => Err(TokenError::Refused("sub claim is missing")),
            Some(subject) if subject != claims.subject() => {
                Err(TokenError::Refused("sub claim is invalid"))
            }
            Some(_) => Ok(claims),
        }
    }
}

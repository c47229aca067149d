//! The controllers of bootstrap tokens, with which nodes join: one signs the public description of the cluster with
//! each of them, and one deletes those that have expired. A token is a Secret in `kube-system`.
//!
//! Source: pkg/controller/bootstrap of Kubernetes.

pub mod signer;
pub mod token_cleaner;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use kubeproof_runtime::decode_cache::Decoded;

/// The type of a Secret that holds a token.
const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The namespace of the tokens.
const NAMESPACE: &str = "kube-system";
const NAME_PREFIX: &str = "bootstrap-token-";

/// The Secrets that an informer of tokens watches.
fn tokens(client: &Client) -> (Api<Decoded<Secret>>, watcher::Config) {
    let config = watcher::Config::default().fields(&format!("type={TOKEN_TYPE}"));
    (Api::namespaced(client.clone(), NAMESPACE), config)
}

/// A value of the Secret; empty when it is absent or not text.
fn value<'a>(secret: &'a Secret, key: &str) -> &'a str {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    let text = data.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
    text.unwrap_or_default()
}

/// When a token ends.
#[derive(Debug, PartialEq, Eq)]
enum Expiry {
    Never,
    In(Duration),
    Over,
}

impl Expiry {
    /// A time that cannot be read is over.
    fn of(secret: &Secret, now: Timestamp) -> Self {
        let text = value(secret, "expiration");
        if text.is_empty() {
            return Self::Never;
        }
        let Ok(end) = text.parse::<Timestamp>() else {
            return Self::Over;
        };
        match Duration::try_from(end.duration_since(now)) {
            Ok(left) if !left.is_zero() => Self::In(left),
            _ => Self::Over,
        }
    }
}

/// The ID and the secret part of a token that may sign, if the Secret holds one.
fn signing_token(secret: &Secret, now: Timestamp) -> Option<(String, String)> {
    let name = secret.name_any();
    let id = name.strip_prefix(NAME_PREFIX)?;
    let is_id = id.len() == 6
        && id
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let token = value(secret, "token-secret");
    let signs = is_id
        && value(secret, "token-id") == id
        && !token.is_empty()
        && value(secret, "usage-bootstrap-signing") == "true"
        && Expiry::of(secret, now) != Expiry::Over;
    signs.then(|| (id.to_owned(), token.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn secret(name: &str, changed: &Value) -> Secret {
        use k8s_openapi::ByteString;

        let mut values = json!({
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
        });
        let changes = changed.as_object().unwrap().clone();
        values.as_object_mut().unwrap().extend(changes);
        let bytes = |text: &Value| ByteString(text.as_str().unwrap().into());
        let values = values.as_object().unwrap().iter();
        let data = values.map(|(key, text)| (key.clone(), bytes(text)));
        Secret {
            metadata: kube::api::ObjectMeta {
                name: Some(name.to_owned()),
                ..Default::default()
            },
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_token_signs_under_its_own_name_until_it_expires() {
        let signs = |name: &str, changed: Value| {
            signing_token(&secret(name, &changed), now()).map(|(id, _)| id)
        };
        let name = "bootstrap-token-abcdef";
        assert_eq!(signs(name, json!({})).as_deref(), Some("abcdef"));
        let later = json!({"expiration": "2026-01-01T00:00:01Z"});
        assert_eq!(signs(name, later).as_deref(), Some("abcdef"));
        for (name, changed) in [
            ("bootstrap-token-abcdeg", json!({})),
            ("bootstrap-token-abcdefg", json!({"token-id": "abcdefg"})),
            ("bootstrap-token-ABCDEF", json!({"token-id": "ABCDEF"})),
            ("token-abcdef", json!({})),
            (name, json!({"token-secret": ""})),
            (name, json!({"usage-bootstrap-signing": "yes"})),
            (name, json!({"expiration": "2026-01-01T00:00:00Z"})),
            (name, json!({"expiration": "tomorrow"})),
        ] {
            assert_eq!(signs(name, changed.clone()), None, "{name} {changed}");
        }
    }

    #[test]
    fn times_of_another_zone_are_read() {
        let expiry = |text: &str| {
            Expiry::of(
                &secret("bootstrap-token-abcdef", &json!({"expiration": text})),
                now(),
            )
        };
        let minute = Expiry::In(Duration::from_secs(60));
        assert_eq!(expiry("2026-01-01T01:01:00+01:00"), minute);
        assert_eq!(expiry("2025-12-31T23:59:59Z"), Expiry::Over);
        assert_eq!(expiry(""), Expiry::Never);
    }
}

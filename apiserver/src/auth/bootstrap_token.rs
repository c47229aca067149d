//! Bootstrap tokens, with which nodes join: Secrets in `kube-system` whose holders are
//! `system:bootstrap:ID`.
//!
//! Source: plugin/pkg/auth/authenticator/token/bootstrap of Kubernetes.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::{State, User};
use crate::json::Value;
use crate::meta::GroupVersionResource;
use crate::meta::object::meta;
use crate::storage::ObjectKey;

const NAMESPACE: &str = "kube-system";
const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group of all holders. Those that a token adds begin with it and a colon.
const GROUP: &str = "system:bootstrappers";

/// The holder of a bootstrap token, if it is one, and one that may authenticate.
pub(super) fn holder(state: &State, token: &str) -> Option<User> {
    let (id, secret_part) = parsed(token)?;
    let gvr = GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "secrets".to_owned(),
    };
    let name = format!("bootstrap-token-{id}");
    let key = ObjectKey::new(Some(NAMESPACE), &name);
    let secret = state.storage.table(&gvr).get(&key)?.value();
    let is_token = secret["type"] == TOKEN_TYPE && meta(&secret, "deletionTimestamp").is_empty();
    let counts = is_token
        && value(&secret, "token-id") == id
        && value(&secret, "token-secret") == secret_part
        && value(&secret, "usage-bootstrap-authentication") == "true"
        && !has_expired(&secret, state.clock.now());
    let groups = groups(&value(&secret, "auth-extra-groups")).filter(|_| counts)?;
    Some(User {
        name: format!("system:bootstrap:{id}"),
        groups,
        ..User::default()
    })
}

/// The ID and the secret part of `ID.SECRET`.
fn parsed(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_of = |text: &str, length| {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        text.len() == length && text.bytes().all(is_known)
    };
    (is_of(id, 6) && is_of(secret, 16)).then_some((id, secret))
}

/// A value of the Secret; empty when it is absent or not text.
fn value(secret: &Value, key: &str) -> String {
    let encoded = secret["data"][key].as_str().unwrap_or_default();
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

fn has_expired(secret: &Value, now: Timestamp) -> bool {
    let end = value(secret, "expiration");
    // A time that cannot be read is over.
    !end.is_empty() && end.parse::<Timestamp>().map_or(true, |end| end <= now)
}

/// All groups of the holder, in order; None if one of `extra`, with commas between them, is not allowed.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    if !extra.is_empty() {
        for group in extra.split(',') {
            if !is_allowed(group) {
                return None;
            }
            groups.insert(group.to_owned());
        }
    }
    Some(groups.into_iter().collect())
}

fn is_allowed(group: &str) -> bool {
    let name = group
        .strip_prefix(GROUP)
        .and_then(|rest| rest.strip_prefix(':'));
    let is_known =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":-".contains(&byte);
    name.is_some_and(|name| {
        (1..=256).contains(&name.len()) && name.bytes().all(is_known) && !name.ends_with([':', '-'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_two_parts_of_fixed_lengths() {
        let whole = "abcdef.0123456789abcdef";
        assert_eq!(parsed(whole), Some(("abcdef", "0123456789abcdef")));
        for token in [
            "abcdef",
            "abcde.0123456789abcdef",
            "abcdef.0123456789abcde",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789abcdef.",
        ] {
            assert_eq!(parsed(token), None, "{token}");
        }
    }

    #[test]
    fn groups_are_below_that_of_all_holders() {
        let all = |extra: &str| groups(extra).map(|groups| groups.join(" "));
        assert_eq!(all("").as_deref(), Some("system:bootstrappers"));
        let two = "system:bootstrappers:b,system:bootstrappers:a,system:bootstrappers:a";
        let expected = "system:bootstrappers system:bootstrappers:a system:bootstrappers:b";
        assert_eq!(all(two).as_deref(), Some(expected));
        for refused in [
            "system:masters",
            "system:bootstrappers",
            "system:bootstrappers:",
            "system:bootstrappers:a-",
            "system:bootstrappers:A",
            "system:bootstrappers:a,",
        ] {
            assert_eq!(all(refused), None, "{refused}");
        }
    }
}

//! From credentials to a user.

use std::collections::BTreeMap;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::{SignedDuration, Timestamp};

use super::tokens::{BoundKind, Claims, ObjectReference, TokenError};
use super::{
    AUTHENTICATED, Authorization, CREDENTIAL_ID, SERVICE_ACCOUNT_PREFIX, User, certificate,
    service_account_groups,
};
use crate::meta::GroupVersionResource;
use crate::meta::object::meta;
use crate::server::{Core, Peer, check_local};
use crate::status::{ApiError, quoted};
use crate::storage::ObjectKey;

/// The user of a request: the holder of its certificate or bearer token, or the anonymous user.
///
/// # Errors
/// `Unauthorized` for unknown credentials; `Forbidden` for what a web page may have sent to
/// a server that asks for none.
pub(crate) fn authenticate(core: &Core, parts: &Parts) -> Result<User, ApiError> {
    let peer = parts.extensions.get::<Peer>();
    let certificates = peer.map(Peer::certificates).unwrap_or_default();
    let known = match &core.client_authorities {
        Some(authorities) => certificate::user(core, authorities, certificates),
        None => Ok(None),
    };
    if let Ok(Some(user)) = known {
        return Ok(user);
    }
    // Bytes that are not UTF-8 make an unknown token, not an absent one.
    let given = parts.headers.get(AUTHORIZATION);
    let given = given.map(HeaderValue::as_bytes).unwrap_or_default();
    let given = String::from_utf8_lossy(given);
    // What follows the token is not looked at, and after two spaces there is no token.
    let mut words = given.trim().split(' ');
    let is_bearer = words
        .next()
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    if let Some(token) = words.next().filter(|token| is_bearer && !token.is_empty()) {
        // A server that asks for no token refuses one that it does not know all the same.
        let reviewed = review_token(core, token, core.tokens.audiences());
        return reviewed
            .map(|(user, _)| user)
            .map_err(|_| ApiError::Unauthorized);
    }
    if known.is_err() {
        return Err(ApiError::Unauthorized);
    }
    let is_open = core.token.is_none() && !(core.asks_for_credentials && peer.is_some());
    if peer.is_some() && (is_open || core.authorization == Authorization::AlwaysAllow) {
        check_local(parts, &core.own_hosts)?;
    }
    match is_open {
        true => Ok(User::admin()),
        false => Ok(User::anonymous()),
    }
}

/// The holder of `token`, and for which of `audiences` it is.
///
/// # Errors
/// Why it is refused, as TokenReview words it.
pub(crate) fn review_token(
    core: &Core,
    token: &str,
    audiences: &[String],
) -> Result<(User, Vec<String>), String> {
    const INVALID: &str = "invalid bearer token";
    if core.token.as_deref() == Some(token) {
        return Ok((User::admin(), audiences.to_vec()));
    }
    let refused = |why: &str| format!("[{INVALID}, {why}]");
    let claims = core.tokens.claims(token).map_err(|error| match error {
        TokenError::Foreign => INVALID.to_owned(),
        TokenError::Refused(why) => refused(why),
    })?;
    let meant: Vec<String> = audiences
        .iter()
        .filter(|audience| claims.audiences.contains(audience))
        .cloned()
        .collect();
    if meant.is_empty() {
        return Err(refused(&format!(
            "token audiences {} is invalid for the target audiences {}",
            go_list(&claims.audiences),
            go_list(audiences)
        )));
    }
    let now = core.clock.now();
    claims.check_time(now).map_err(refused)?;
    check_objects(core, &claims, now).map_err(|why| refused(&why))?;
    if let Some(warn_after) = claims.warn_after {
        core.metrics.access().token_used(now > warn_after);
    }
    Ok((holder(&claims), meant))
}

fn go_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Checks that the account, and what the token is bound to, are those it was issued for.
///
/// # Errors
/// Upstream's text for the first that is not.
fn check_objects(core: &Core, claims: &Claims, now: Timestamp) -> Result<(), String> {
    // An object may be looked at for a while after its deletion.
    let deadline = now
        .saturating_sub(SignedDuration::from_mins(1))
        .unwrap_or(now);
    let found = |plural: &str, name: &str| {
        let gvr = GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: plural.to_owned(),
        };
        let namespace = (plural != "nodes").then_some(claims.namespace.as_str());
        let key = ObjectKey::new(namespace, name);
        let object = core.storage.table(&gvr).get(&key)?.value();
        let deleted = meta(&object, "deletionTimestamp").parse::<Timestamp>();
        let is_deleted = deleted.is_ok_and(|time| time < deadline);
        Some((meta(&object, "uid").to_owned(), is_deleted))
    };
    let account = &claims.account;
    let of = format!("{}/{}", claims.namespace, account.name);
    match found("serviceaccounts", &account.name) {
        None => return Err(format!("serviceaccounts {:?} not found", account.name)),
        Some((uid, _)) if uid != account.uid => {
            return Err(format!(
                "service account UID ({uid}) does not match claim ({})",
                account.uid
            ));
        }
        Some((_, true)) => return Err(format!("service account {of} has been deleted")),
        Some((_, false)) => {}
    }
    let Some((kind, object)) = &claims.bound else {
        return Ok(());
    };
    match found(kind.plural(), &object.name) {
        None | Some((_, true)) => Err("service account token has been invalidated".to_owned()),
        Some((uid, false)) if uid != object.uid => {
            let kind = kind.as_str();
            Err(format!(
                "{kind} UID ({uid}) does not match service account {kind} ref claim ({})",
                object.uid
            ))
        }
        Some(_) => Ok(()),
    }
}

fn holder(claims: &Claims) -> User {
    let mut groups = service_account_groups(&claims.namespace).to_vec();
    groups.push(AUTHENTICATED.to_owned());
    let mut extra = BTreeMap::new();
    extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.id)]);
    let mut add = |kind: &str, object: &ObjectReference| {
        for (field, value) in [("name", &object.name), ("uid", &object.uid)] {
            if !value.is_empty() {
                let key = format!("authentication.kubernetes.io/{kind}-{field}");
                extra.insert(key, vec![value.clone()]);
            }
        }
    };
    if let Some((kind @ (BoundKind::Pod | BoundKind::Node), object)) = &claims.bound {
        add(kind.as_str(), object);
    }
    if let Some(node) = &claims.node {
        add(BoundKind::Node.as_str(), node);
    }
    let (namespace, account) = (&claims.namespace, &claims.account);
    User {
        name: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", account.name),
        uid: account.uid.clone(),
        groups,
        extra,
    }
}

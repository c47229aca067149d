//! Authentication of a user by credentials.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::{SignedDuration, Timestamp};

use super::tokens::{BoundKind, Claims, ObjectReference, SecretClaims, TokenError};
use super::{
    AUTHENTICATED, CREDENTIAL_ID, SERVICE_ACCOUNT_PREFIX, User, bootstrap_token, certificate,
    service_account_groups,
};
use super::{Peer, State, check_local};
use crate::json::Value;
use crate::meta::GroupVersionResource;
use crate::meta::object::meta;
use crate::status::{ApiError, quoted};
use crate::storage::ObjectKey;

/// The label of Secrets whose tokens count no longer.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The user of a request from `peer`: the holder of its certificate or bearer token, or the anonymous user.
///
/// # Errors
/// `Unauthorized` for unknown credentials; `Forbidden` for a request that a web page may have sent
/// to a server that asks for no credentials.
pub(crate) async fn authenticate(
    state: &State,
    parts: &Parts,
    peer: Option<&Peer>,
) -> Result<Arc<User>, ApiError> {
    let certificates = peer.map(Peer::certificates).unwrap_or_default();
    let authenticators = &state.authenticators;
    let named = match &authenticators.proxies {
        Some(proxies) => proxies.user(state, certificates, &parts.headers),
        None => Ok(None),
    };
    if let Ok(Some(user)) = named {
        return Ok(Arc::new(user.authenticated()));
    }
    let known = match &state.client_authorities {
        Some(authorities) => certificate::user(state, authorities, certificates),
        None => Ok(None),
    };
    if let Ok(Some(user)) = known {
        return Ok(Arc::new(user));
    }
    // Bytes that are not UTF-8 make an unknown token, not an absent one.
    let given = parts.headers.get(AUTHORIZATION);
    let given = given.map(HeaderValue::as_bytes).unwrap_or_default();
    let given = String::from_utf8_lossy(given);
    // Text after the token is ignored, and two spaces mean an empty token.
    let mut words = given.trim().split(' ');
    let is_bearer = words
        .next()
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    if let Some(token) = words.next().filter(|token| is_bearer && !token.is_empty()) {
        // A server that asks for no token refuses one that it does not know all the same.
        let reviewed = review_token(state, token, state.tokens.audiences());
        return reviewed
            .await
            .map(|(user, _)| user)
            .map_err(|_| ApiError::Unauthorized);
    }
    if named.is_err() || known.is_err() {
        return Err(ApiError::Unauthorized);
    }
    let is_open = state.token.is_none() && !(state.asks_for_credentials && peer.is_some());
    if peer.is_some() && (is_open || state.authorizers.allow_everything()) {
        check_local(parts, &state.own_hosts)?;
    }
    match is_open {
        true => Ok(User::admin()),
        false if authenticators.refuses_anonymous => Err(ApiError::Unauthorized),
        false => Ok(Arc::new(User::anonymous())),
    }
}

/// The holder of `token`, and the audiences among `audiences` that it is valid for.
///
/// # Errors
/// The reason of the refusal, in the words of TokenReview.
pub(crate) async fn review_token<'a>(
    state: &State,
    token: &str,
    audiences: &'a [String],
) -> Result<(Arc<User>, Cow<'a, [String]>), String> {
    let known = known_token(state, token, audiences);
    let (Err(why), Some(webhook)) = (&known, &state.authenticators.webhook) else {
        return known;
    };
    // Boxed, or every request of the server were as large as this.
    match Box::pin(webhook.holder(state, token, audiences)).await {
        Ok(Some((user, meant))) => Ok((Arc::new(user.authenticated()), meant.into())),
        Ok(None) => known,
        Err(error) => Err(match why.strip_suffix(']') {
            Some(others) => format!("{others}, {error}]"),
            None => format!("[{why}, {error}]"),
        }),
    }
}

/// The text of a token that nothing knows.
const INVALID: &str = "invalid bearer token";

/// The holder of a token that this server knows itself.
fn known_token<'a>(
    state: &State,
    token: &str,
    audiences: &'a [String],
) -> Result<(Arc<User>, Cow<'a, [String]>), String> {
    if state.token.as_deref() == Some(token) {
        return Ok((User::admin(), audiences.into()));
    }
    let listed = state.authenticators.token_file.as_ref();
    if let Some(user) = listed.and_then(|file| file.user(token)) {
        let meant = own_audiences(state, audiences);
        if !meant.is_empty() {
            return Ok((Arc::new(user.authenticated()), meant.into()));
        }
    }
    if state.authenticators.bootstrap_tokens
        && let Some(user) = bootstrap_token::holder(state, token)
    {
        let meant = own_audiences(state, audiences);
        return Ok((Arc::new(user.authenticated()), meant.into()));
    }
    let refused = |why: &str| format!("[{INVALID}, {why}]");
    let message = |error: TokenError| match error {
        TokenError::Foreign => INVALID.to_owned(),
        TokenError::Refused(why) => refused(why),
    };
    let claims = match state.tokens.claims(token) {
        Err(TokenError::Foreign) => {
            let claims = state.tokens.secret_claims(token).map_err(message)?;
            check_secret(state, &claims, token).map_err(|why| refused(&why))?;
            let user = Arc::new(holder_by_secret(&claims));
            return Ok((user, own_audiences(state, audiences).into()));
        }
        claims => claims.map_err(message)?,
    };
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
    let now = state.clock.now();
    claims.check_time(now).map_err(refused)?;
    check_objects(state, &claims, now).map_err(|why| refused(&why))?;
    if let Some(warn_after) = claims.warn_after {
        state.metrics.access().token_used(now > warn_after);
    }
    Ok((Arc::new(holder(&claims)), meant.into()))
}

/// The server's own audiences among `audiences`.
fn own_audiences(state: &State, audiences: &[String]) -> Vec<String> {
    let own = state.tokens.audiences();
    let meant = audiences.iter().filter(|audience| own.contains(audience));
    meant.cloned().collect()
}

fn go_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Checks that the account and the bound object still are those that the token was issued for.
///
/// # Errors
/// Upstream's text for the first object that is not.
fn check_objects(state: &State, claims: &Claims, now: Timestamp) -> Result<(), String> {
    // An object counts for a while after its deletion.
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
        let object = state.storage.table(&gvr).get(&key)?.value();
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

/// Checks that the Secret still has the token, and that its account is still there.
///
/// # Errors
/// Upstream's text for the first that is not so.
fn check_secret(state: &State, claims: &SecretClaims, token: &str) -> Result<(), String> {
    let found = |plural: &str, name: &str| {
        let gvr = GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: plural.to_owned(),
        };
        let key = ObjectKey::new(Some(claims.namespace.as_str()), name);
        Some(state.storage.table(&gvr).get(&key)?.value())
    };
    let is_deleted = |object: &Value| !meta(object, "deletionTimestamp").is_empty();
    let Some(secret) = found("secrets", &claims.secret).filter(|own| !is_deleted(own)) else {
        return Err("Token has been invalidated".to_owned());
    };
    let kept = secret["data"]["token"].as_str().unwrap_or_default();
    if kept != STANDARD.encode(token) {
        return Err("Token does not match server's copy".to_owned());
    }
    let account = &claims.account;
    let of = format!("{}/{}", claims.namespace, account.name);
    let Some(own) = found("serviceaccounts", &account.name) else {
        return Err(format!("serviceaccounts {:?} not found", account.name));
    };
    if is_deleted(&own) {
        return Err(format!("ServiceAccount {of} has been deleted"));
    }
    let uid = meta(&own, "uid");
    if uid != account.uid {
        return Err(format!(
            "ServiceAccount UID ({uid}) does not match claim ({})",
            account.uid
        ));
    }
    let since = secret["metadata"]["labels"][INVALID_SINCE].as_str();
    if since.is_some_and(|since| !since.is_empty()) {
        return Err(format!(
            "the token in secret {}/{} for service account {of} has been marked invalid. Use \
             tokens from the TokenRequest API or manually created secret-based tokens, or remove \
             the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
            claims.namespace, claims.secret
        ));
    }
    Ok(())
}

fn holder_by_secret(claims: &SecretClaims) -> User {
    let mut groups = service_account_groups(&claims.namespace).to_vec();
    groups.push(AUTHENTICATED.to_owned());
    let (namespace, account) = (&claims.namespace, &claims.account);
    User {
        name: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", account.name),
        uid: account.uid.clone(),
        groups,
        extra: BTreeMap::new(),
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

//! From credentials to a user.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;

use super::rbac::{Attributes, Decision, authorize};
use super::tokens::{AUDIENCE, Claims};
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use super::{service_account, service_account_groups};
use crate::meta::GroupVersionResource;
use crate::meta::object::meta;
use crate::server::Core;
use crate::status::ApiError;
use crate::storage::ObjectKey;

const EXTRA_PREFIX: &str = "impersonate-extra-";
/// The key under which a user's extra names the token.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The user of a request: the holder of its bearer token, or nobody in particular.
///
/// # Errors
/// `Unauthorized` for a token that nobody holds.
pub(crate) fn authenticate(core: &Core, headers: &HeaderMap) -> Result<User, ApiError> {
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    // What follows the token is not looked at, and after two spaces there is no token.
    let mut parts = given.trim().split(' ');
    let is_bearer = parts
        .next()
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    let token = parts.next().filter(|token| is_bearer && !token.is_empty());
    let own_audience = [AUDIENCE.to_owned()];
    match (token, &core.token) {
        // A server that asks for no token still knows the ones it has issued.
        (token, None) => Ok(token
            .and_then(|token| review_token(core, token, &own_audience).ok())
            .map_or_else(User::admin, |(user, _)| user)),
        (Some(token), Some(_)) => review_token(core, token, &own_audience)
            .map(|(user, _)| user)
            .map_err(|_| ApiError::Unauthorized),
        (None, Some(_)) => Ok(User::anonymous()),
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
    let claims = core.tokens.claims(token, core.clock.now()).ok_or(INVALID)?;
    let meant: Vec<String> = audiences
        .iter()
        .filter(|audience| claims.audiences.contains(audience))
        .cloned()
        .collect();
    if meant.is_empty() {
        return Err(format!(
            "[{INVALID}, token audiences {} is invalid for the target audiences {}]",
            go_list(&claims.audiences),
            go_list(audiences)
        ));
    }
    if !is_alive(core, &claims) {
        return Err(format!(
            "[{INVALID}, service account token has been invalidated]"
        ));
    }
    Ok((holder(core, claims), meant))
}

fn go_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

/// Whether the account and what the token is bound to are still those it was issued for.
fn is_alive(core: &Core, claims: &Claims) -> bool {
    let uid_of = |plural: &str, namespace: &str, name: &str| {
        let gvr = GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: plural.to_owned(),
        };
        let namespace = (plural != "nodes").then_some(namespace);
        let object = core
            .storage
            .table(&gvr)
            .get(&ObjectKey::new(namespace, name))?;
        Some(meta(&object.value(), "uid").to_owned())
    };
    let account = &claims.account;
    let found = uid_of("serviceaccounts", &account.namespace, &account.name);
    found.as_ref() == Some(&account.uid)
        && claims.bound.as_ref().is_none_or(|(plural, name, uid)| {
            uid_of(plural, &account.namespace, name).as_ref() == Some(uid)
        })
}

fn holder(core: &Core, claims: Claims) -> User {
    let account = claims.account;
    let mut groups = service_account_groups(&account.namespace).to_vec();
    groups.push(AUTHENTICATED.to_owned());
    let mut extra = BTreeMap::new();
    extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.id)]);
    if let Some((plural, name, uid)) = claims.bound
        && let kind @ ("pod" | "node") = plural.trim_end_matches('s')
    {
        let mut add = |field: &str, value: String| {
            let key = format!("authentication.kubernetes.io/{kind}-{field}");
            extra.insert(key, vec![value]);
        };
        add("name", name.clone());
        add("uid", uid);
        if kind == "pod" {
            add_node(core, &account.namespace, &name, &mut extra);
        }
    }
    User {
        name: format!(
            "system:serviceaccount:{}:{}",
            account.namespace, account.name
        ),
        uid: account.uid,
        groups,
        extra,
    }
}

/// The token of a pod tells of its node as well.
fn add_node(core: &Core, namespace: &str, pod: &str, extra: &mut BTreeMap<String, Vec<String>>) {
    let gvr = |plural: &str| GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: plural.to_owned(),
    };
    let key = ObjectKey::new(Some(namespace), pod);
    let Some(pod) = core.storage.table(&gvr("pods")).get(&key) else {
        return;
    };
    let pod = pod.value();
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return;
    }
    let mut add = |field: &str, value: &str| {
        let key = format!("authentication.kubernetes.io/node-{field}");
        extra.insert(key, vec![value.to_owned()]);
    };
    add("name", node);
    if let Some(node) = core
        .storage
        .table(&gvr("nodes"))
        .get(&ObjectKey::new(None, node))
    {
        add("uid", meta(&node.value(), "uid"));
    }
}

/// The user that `user` asks to be taken for, if any.
///
/// # Errors
/// `Forbidden` unless `user` may impersonate it; `BadRequest` for headers that name no user.
pub(crate) fn impersonate(core: &Core, user: User, headers: &HeaderMap) -> Result<User, ApiError> {
    let text = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .filter(|value| !value.is_empty())
            .collect()
    };
    let first = |name: &str| text(name).into_iter().next().unwrap_or_default();
    let mut wanted = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: text("impersonate-group"),
        extra: BTreeMap::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            wanted.extra.insert(key, text(name.as_str()));
        }
    }
    if wanted == User::default() {
        return Ok(user);
    }
    if wanted.name.is_empty() {
        return Err(ApiError::BadRequest(format!(
            "requested {} without impersonating a user name",
            wanted.as_go()
        )));
    }
    check_impersonation(core, &user, &wanted)?;
    if let (Some((namespace, _)), true) = (service_account(&wanted.name), wanted.groups.is_empty())
    {
        wanted.groups.extend(service_account_groups(namespace));
    }
    let known = |group: &&str| wanted.is_in(group);
    if [AUTHENTICATED, UNAUTHENTICATED]
        .iter()
        .find(|group| known(group))
        .is_none()
    {
        let group = match wanted.name.as_str() {
            ANONYMOUS => UNAUTHENTICATED,
            _ => AUTHENTICATED,
        };
        wanted.groups.push(group.to_owned());
    }
    Ok(wanted)
}

fn check_impersonation(core: &Core, user: &User, wanted: &User) -> Result<(), ApiError> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let attributes = Attributes::Resource {
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match authorize(core, user, &attributes) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied => Err(attributes.forbidden(user)),
        }
    };
    match service_account(&wanted.name) {
        Some((namespace, name)) => check("", "serviceaccounts", "", namespace, name)?,
        None => check("", "users", "", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        check("", "groups", "", "", group)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            check(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }
    if !wanted.uid.is_empty() {
        check(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
    }
    Ok(())
}

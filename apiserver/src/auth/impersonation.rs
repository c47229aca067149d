//! Impersonation: the user that a request asks to be taken for, and the modes that permit it.
//!
//! A constrained mode asks for two permissions, `impersonate:MODE` on the wanted user and
//! `impersonate-on:MODE:VERB` on the request itself; the legacy mode asks for `impersonate` on the
//! wanted user alone. Source: KEP-5284 (constrained impersonation).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use http::{HeaderMap, HeaderValue};
use lru::LruCache;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use super::State;
use super::{ANONYMOUS, AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED, User};
use super::{ANY_VERSION, Attributes, Selectors, authorize, resolved};
use super::{service_account, service_account_groups};
use crate::clock::nanos_between;
use crate::meta::validation::{dns1123_subdomain, validate_domain_prefixed_path};
use crate::request::ImpersonationMode;
use crate::request::options::is_well_escaped;
use crate::status::{ApiError, FieldErrors, FieldPath};

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_PREFIX: &str = "system:node:";
/// The key under which the extra of a service account names the node of its pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// From this many groups or extra values on, a permission for all of them is checked first.
const MANY: usize = 4;
/// The number of requesters whose last modes are remembered.
const LAST_MODES_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("10,000 is not 0");

/// Whether `requester` asks for `wanted` in a way that `mode` covers.
fn applies(mode: ImpersonationMode, wanted: &User, requester: &User) -> bool {
    let is_bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let node = node_name(&wanted.name);
    let is_account = service_account(&wanted.name).is_some();
    match mode {
        ImpersonationMode::AssociatedNode => {
            let own = requester.extra.get(NODE_NAME).map(Vec::as_slice);
            is_bare
                && service_account(&requester.name).is_some()
                && node.is_some_and(|node| own == Some(&[node.to_owned()]))
        }
        ImpersonationMode::ArbitraryNode => is_bare && node.is_some(),
        ImpersonationMode::ServiceAccount => is_bare && is_account,
        ImpersonationMode::UserInfo => node.is_none() && !is_account,
        ImpersonationMode::Legacy => true,
    }
}

/// The mode that last permitted an impersonation, by the requester's name; it is tried first.
///
/// The cache takes its memory at once, so it is made for the first impersonation: most servers of
/// tests have none.
#[derive(Debug, Default)]
pub(crate) struct LastModes(OnceLock<Mutex<LruCache<String, ImpersonationMode>>>);

impl LastModes {
    fn of(&self, requester: &User) -> Option<ImpersonationMode> {
        self.0.get()?.lock().get(&requester.name).copied()
    }

    fn set(&self, requester: &User, mode: ImpersonationMode) {
        let cache = || Mutex::new(LruCache::new(LAST_MODES_MAX));
        let cache = self.0.get_or_init(cache);
        cache.lock().put(requester.name.clone(), mode);
    }
}

/// Returns the user that a request of `requester` is answered as, and the mode that permits another user.
///
/// # Errors
/// `Forbidden` if no mode permits the impersonation, with the refusal of the first mode tried;
/// `BadRequest` for impersonation headers without a user name.
pub(crate) async fn impersonate(
    state: &State,
    requester: Arc<User>,
    headers: &HeaderMap,
    attributes: &Attributes<'_>,
) -> Result<(Arc<User>, Option<ImpersonationMode>), ApiError> {
    let Some(wanted) = wanted(headers)? else {
        return Ok((requester, None));
    };
    let started = state.clock.now();
    let check = || permitted(state, &requester, &wanted, attributes);
    let permitted = resolved(state, check).await;
    if let Ok((mode, _)) = &permitted
        && state.last_modes.of(&requester) != Some(*mode)
    {
        state.last_modes.set(&requester, *mode);
    }
    let nanos = nanos_between(started, state.clock.now());
    let mode = permitted.as_ref().ok().map(|(mode, _)| *mode);
    state.metrics.access().impersonated(mode, nanos);
    permitted.map(|(mode, user)| (Arc::new(user), Some(mode)))
}

/// The first mode that permits the impersonation, and the user as it has them.
fn permitted(
    state: &State,
    requester: &User,
    wanted: &User,
    attributes: &Attributes<'_>,
) -> Result<(ImpersonationMode, User), ApiError> {
    let check = Check {
        state,
        requester,
        attributes,
    };
    let last = state.last_modes.of(requester);
    let others = ImpersonationMode::ALL
        .into_iter()
        .filter(|mode| Some(*mode) != last);
    let mut first_refusal = None;
    for mode in last.into_iter().chain(others) {
        if !applies(mode, wanted, requester) {
            continue;
        }
        match check.mode(mode, wanted) {
            Ok(user) => return Ok((mode, user)),
            Err(refusal) => {
                first_refusal.get_or_insert(refusal);
            }
        }
    }
    Err(first_refusal.expect("the legacy mode applies to every user"))
}

/// The user that the headers name, as they name it.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let all = |name: &str| -> Vec<String> { headers.get_all(name).iter().map(text).collect() };
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut wanted = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: all("impersonate-group"),
        extra: BTreeMap::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = match is_well_escaped(key) {
                true => percent_decode_str(key).decode_utf8_lossy().into_owned(),
                false => key.to_owned(),
            };
            let values = wanted.extra.entry(key).or_default();
            values.extend(all(name.as_str()));
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == User::default() {
        return Ok(None);
    }
    Err(ApiError::BadRequest(format!(
        "requested {} without impersonating a user name",
        wanted.as_go()
    )))
}

/// The text of a header of any bytes; empty only for an empty header.
// DIVERGES: bytes of an impersonated name that are not UTF-8 become U+FFFD, because names are texts here.
pub(super) fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The node in the user name of a kubelet.
fn node_name(user_name: &str) -> Option<&str> {
    let name = user_name.strip_prefix(NODE_PREFIX)?;
    dns1123_subdomain(name).is_empty().then_some(name)
}

struct Check<'a> {
    state: &'a State,
    requester: &'a User,
    /// The access that the request asks for.
    attributes: &'a Attributes<'a>,
}

impl Check<'_> {
    /// The wanted user with the groups that its mode adds.
    fn mode(&self, mode: ImpersonationMode, wanted: &User) -> Result<User, ApiError> {
        if mode.is_constrained() {
            let verb = self.attributes.verb();
            let verb = format!("impersonate-on:{}:{verb}", mode.as_str());
            self.permit(mode, &self.attributes.with_verb(verb))?;
        }
        let mut user = wanted.clone();
        self.name(mode, wanted, &mut user)?;
        if !wanted.uid.is_empty() {
            self.permit(mode, &of(mode, AUTHENTICATION, "uids", &wanted.uid))?;
        }
        self.groups(mode, &wanted.groups)?;
        self.extra(mode, &wanted.extra)?;
        let group = match user.name == ANONYMOUS {
            true => Some(UNAUTHENTICATED),
            false => (!user.is_in(UNAUTHENTICATED)).then_some(AUTHENTICATED),
        };
        if let Some(group) = group.filter(|group| !user.is_in(group)) {
            user.groups.push(group.to_owned());
        }
        Ok(user)
    }

    fn name(
        &self,
        mode: ImpersonationMode,
        wanted: &User,
        user: &mut User,
    ) -> Result<(), ApiError> {
        if let (true, Some(node)) = (mode.is_constrained(), node_name(&wanted.name)) {
            user.groups = vec![NODES.to_owned()];
            // The permission for one's own node is one for every node that has the account's pods.
            let name = if mode == ImpersonationMode::AssociatedNode {
                "*"
            } else {
                node
            };
            return self.permit(mode, &of(mode, AUTHENTICATION, "nodes", name));
        }
        let group = group_of(mode);
        let Some((namespace, name)) = service_account(&wanted.name) else {
            return self.permit(mode, &of(mode, group, "users", &wanted.name));
        };
        if wanted.groups.is_empty() {
            user.groups = service_account_groups(namespace).into();
        }
        let mut attributes = of(mode, group, "serviceaccounts", name);
        if let Attributes::Resource { namespace: own, .. } = &mut attributes {
            *own = namespace.into();
        }
        self.permit(mode, &attributes)
    }

    fn groups(&self, mode: ImpersonationMode, groups: &[String]) -> Result<(), ApiError> {
        fn asked(mode: ImpersonationMode, name: &str) -> Attributes<'_> {
            of(mode, group_of(mode), "groups", name)
        }
        if mode.is_constrained() {
            let is_in = |group: &str| groups.iter().any(|own| own == group);
            if is_in("") {
                let why = "impersonating the empty string group is not allowed";
                return Err(asked(mode, "").forbidden(self.requester, why));
            }
            if is_in(MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(asked(mode, MASTERS).forbidden(self.requester, why));
            }
            if groups.len() >= MANY && self.permit(mode, &asked(mode, "*")).is_ok() {
                return Ok(());
            }
        }
        groups
            .iter()
            .try_for_each(|group| self.permit(mode, &asked(mode, group)))
    }

    fn extra(
        &self,
        mode: ImpersonationMode,
        extra: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), ApiError> {
        fn asked<'a>(mode: ImpersonationMode, key: &'a str, value: &'a str) -> Attributes<'a> {
            let mut attributes = of(mode, AUTHENTICATION, "userextras", value);
            if let Attributes::Resource { subresource, .. } = &mut attributes {
                *subresource = key.into();
            }
            attributes
        }
        if mode.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| fault(key, values)) {
                return Err(asked(mode, "", "").forbidden(self.requester, &why));
            }
            let count: usize = extra.values().map(Vec::len).sum();
            if count >= MANY && self.permit(mode, &asked(mode, "*", "*")).is_ok() {
                return Ok(());
            }
        }
        let mut pairs = extra
            .iter()
            .flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        pairs.try_for_each(|(key, value)| self.permit(mode, &asked(mode, key, value)))
    }

    fn permit(&self, mode: ImpersonationMode, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let clock = &self.state.clock;
        let started = clock.now();
        let decision = authorize(self.state, self.requester, attributes);
        let nanos = nanos_between(started, clock.now());
        let access = self.state.metrics.access();
        access.asked(mode, decision.is_allowed(), nanos);
        match decision.is_allowed() {
            true => Ok(()),
            false => Err(attributes.forbidden(self.requester, decision.reason())),
        }
    }
}

/// The API group of user names and groups.
fn group_of(mode: ImpersonationMode) -> &'static str {
    match mode {
        ImpersonationMode::Legacy => "",
        _ => AUTHENTICATION,
    }
}

/// The permission of `mode` on a part of the wanted user.
fn of<'a>(
    mode: ImpersonationMode,
    group: &'a str,
    resource: &'a str,
    name: &'a str,
) -> Attributes<'a> {
    Attributes::Resource {
        verb: mode.verb().into(),
        group: group.into(),
        version: ANY_VERSION.into(),
        resource: resource.into(),
        subresource: "".into(),
        namespace: "".into(),
        name: name.into(),
        selectors: Selectors::default(),
    }
}

/// The fault of an extra that no constrained mode permits.
fn fault(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let mut errors = FieldErrors::new();
    validate_domain_prefixed_path(key, &FieldPath::new("extra.key"), &mut errors);
    if !errors.is_empty() {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: {errors}"
        ));
    }
    if key.to_lowercase() != key {
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {key:?}"
        ));
    }
    values
        .iter()
        .any(String::is_empty)
        .then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

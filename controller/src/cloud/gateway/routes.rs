//! The routes of Gateways: whether they attach, and whether what they name exists.

use kube::ResourceExt;

use super::World;
use super::api::{GROUP, Gateway, ParentReference, Reference, Route, RouteKind};
use super::listeners::{Judged, allows_namespace, shares_hostname};
use super::verdict::Verdict;

/// The result for a route and one of its parents.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) accepted: Verdict,
    /// The indices of the listeners that the route attaches to.
    pub(super) listeners: Vec<usize>,
}

/// Whether the reference is one of the route to the gateway.
pub(super) fn refers_to(parent: &ParentReference, route: &Route, gateway: &Gateway) -> bool {
    let of_route = route.namespace();
    let namespace = parent.namespace.as_ref().or(of_route.as_ref());
    parent.group.as_deref().unwrap_or(GROUP) == GROUP
        && parent.kind.as_deref().unwrap_or("Gateway") == "Gateway"
        && namespace == gateway.namespace().as_ref()
        && parent.name == gateway.name_any()
}

/// Attaches a route to the gateway that `parent` refers to.
pub(super) fn attach(
    (kind, route): (RouteKind, &Route),
    parent: &ParentReference,
    (gateway, judged): (&Gateway, &[Judged]),
    world: &World,
) -> Attachment {
    let refused = |reason: &'static str, message: &str| Attachment {
        accepted: Verdict::no(reason, message),
        listeners: Vec::new(),
    };
    let listeners = &gateway.spec.listeners;
    let is_meant = |index: &usize| {
        let listener = &listeners[*index];
        let section = parent.section_name.as_ref();
        section.is_none_or(|section| *section == listener.name)
            && parent.port.is_none_or(|port| port == listener.port)
    };
    let meant: Vec<usize> = (0..listeners.len()).filter(is_meant).collect();
    if meant.is_empty() {
        let message = "no listener of the Gateway has this name and port";
        return refused("NoMatchingParent", message);
    }
    let (own, of_route) = (gateway.namespace(), route.namespace());
    let (own, of_route) = (own.unwrap_or_default(), of_route.unwrap_or_default());
    let allows = |index: &usize| {
        let namespaces = &listeners[*index].allowed_routes.namespaces;
        judged[*index].kinds.contains(&kind) && allows_namespace(namespaces, &own, &of_route, world)
    };
    let allowed: Vec<usize> = meant.into_iter().filter(allows).collect();
    if allowed.is_empty() {
        let message = "no listener allows routes of this kind and namespace";
        return refused("NotAllowedByListeners", message);
    }
    let shares = |index: &usize| shares_hostname(&listeners[*index], route);
    let named: Vec<usize> = allowed.into_iter().filter(shares).collect();
    if named.is_empty() {
        let message = "no listener has a hostname of the route";
        return refused("NoMatchingListenerHostname", message);
    }
    Attachment {
        accepted: Verdict::yes("Accepted", "the route is attached"),
        listeners: named,
    }
}

/// Whether every Service that the route sends requests to exists.
pub(super) fn resolve((kind, route): (RouteKind, &Route), world: &World) -> Verdict {
    let backends = route.spec.rules.iter().flat_map(|rule| {
        let mirrors = rule
            .filters
            .iter()
            .filter_map(|it| it.request_mirror.as_ref());
        let mirrors = mirrors.map(|mirror| &mirror.backend_ref);
        rule.backend_refs.iter().chain(mirrors)
    });
    let mut unresolved = backends.filter_map(|backend| unresolved((kind, route), backend, world));
    let resolved = || Verdict::yes("ResolvedRefs", "all references are resolved");
    unresolved.next().unwrap_or_else(resolved)
}

fn unresolved(
    (kind, route): (RouteKind, &Route),
    backend: &Reference,
    world: &World,
) -> Option<Verdict> {
    let own = route.namespace().unwrap_or_default();
    let namespace = backend.namespace.as_deref().unwrap_or(&own);
    let name = &backend.name;
    let group = backend.group.as_deref().unwrap_or_default();
    let of = backend.kind.as_deref().unwrap_or("Service");
    if !group.is_empty() || of != "Service" {
        let message = format!("{of} {name} is no Service");
        return Some(Verdict::no("InvalidKind", message));
    }
    if !world.permits((kind.name(), &own), ("", "Service", namespace, name)) {
        let message = format!("no ReferenceGrant in {namespace} permits Service {name}");
        return Some(Verdict::no("RefNotPermitted", message));
    }
    let key = (namespace.to_owned(), name.clone());
    (!world.services.contains(&key)).then(|| {
        let message = format!("there is no Service {namespace}/{name}");
        Verdict::no("BackendNotFound", message)
    })
}

//! The listeners of a Gateway: which are valid, and which routes they let attach.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::World;
use super::api::{
    GROUP, Gateway, Listener, Reference, Route, RouteGroupKind, RouteKind, RouteNamespaces,
};
use super::verdict::Verdict;

/// The conditions of a listener.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) accepted: Verdict,
    pub(super) conflicted: Verdict,
    pub(super) resolved: Verdict,
    pub(super) programmed: Verdict,
    pub(super) kinds: Vec<RouteKind>,
}

/// Judges each listener of the gateway, in their order.
pub(super) fn judge(gateway: &Gateway, world: &World) -> Vec<Judged> {
    let listeners = gateway.spec.listeners.iter();
    let judged = listeners.map(|listener| {
        let conflicted = conflict(listener, &gateway.spec.listeners);
        let accepted = match listener.protocol.as_str() {
            "HTTP" | "HTTPS" if conflicted.holds => Verdict {
                holds: false,
                ..conflicted.clone()
            },
            "HTTP" | "HTTPS" => Verdict::yes("Accepted", "the listener is valid"),
            protocol => Verdict::no(
                "UnsupportedProtocol",
                format!("the protocol {protocol} is none of HTTP, HTTPS"),
            ),
        };
        let (kinds, invalid) = kinds(listener);
        let resolved = match invalid {
            Some(invalid) => invalid,
            None => certificates(gateway, listener, world),
        };
        let has_kinds = !kinds.is_empty();
        let is_programmable = resolved.holds || resolved.reason == "InvalidRouteKinds" && has_kinds;
        let programmed = match accepted.holds && is_programmable {
            true => Verdict::yes("Programmed", "the listener is programmed"),
            false => Verdict::no("Invalid", "the listener is not valid"),
        };
        Judged {
            accepted,
            conflicted,
            resolved,
            programmed,
            kinds,
        }
    });
    judged.collect()
}

/// Whether another listener wants the same traffic.
fn conflict(listener: &Listener, all: &[Listener]) -> Verdict {
    let hostname = |listener: &Listener| listener.hostname.clone().unwrap_or_default();
    let others = || {
        all.iter()
            .filter(|other| other.name != listener.name && other.port == listener.port)
    };
    if let Some(other) = others().find(|other| other.protocol != listener.protocol) {
        return Verdict::yes(
            "ProtocolConflict",
            format!(
                "the listener {:?} has another protocol on port {}",
                other.name, other.port
            ),
        );
    }
    match others().find(|other| hostname(other) == hostname(listener)) {
        Some(other) => Verdict::yes(
            "HostnameConflict",
            format!(
                "the listener {:?} has the same hostname on port {}",
                other.name, other.port
            ),
        ),
        None => Verdict::no("NoConflicts", "no other listener wants the same traffic"),
    }
}

/// The kinds of routes that may attach, and what is wrong with those that the listener names.
fn kinds(listener: &Listener) -> (Vec<RouteKind>, Option<Verdict>) {
    let named = &listener.allowed_routes.kinds;
    if !matches!(listener.protocol.as_str(), "HTTP" | "HTTPS") {
        return (Vec::new(), None);
    }
    if named.is_empty() {
        return (RouteKind::ALL.to_vec(), None);
    }
    let is = |named: &RouteGroupKind, kind: RouteKind| {
        named.group.as_deref().unwrap_or(GROUP) == GROUP && named.kind == kind.name()
    };
    let known = RouteKind::ALL.into_iter();
    let known = known.filter(|kind| named.iter().any(|named| is(named, *kind)));
    let mut unknown = named.iter();
    let unknown = unknown.find(|named| !RouteKind::ALL.iter().any(|kind| is(named, *kind)));
    let invalid = unknown.map(|unknown| {
        let kind = &unknown.kind;
        Verdict::no(
            "InvalidRouteKinds",
            format!("the kind {kind} is none of HTTPRoute, GRPCRoute"),
        )
    });
    (known.collect(), invalid)
}

/// Whether the certificates of a listener that ends TLS can be read.
fn certificates(gateway: &Gateway, listener: &Listener, world: &World) -> Verdict {
    let tls = listener.tls.as_ref();
    let passes_on = tls.is_some_and(|tls| tls.mode.as_deref() == Some("Passthrough"));
    if listener.protocol == "HTTPS" && !passes_on {
        let references = tls.map_or(&[][..], |tls| &tls.certificate_refs);
        if references.is_empty() {
            return Verdict::no("InvalidCertificateRef", "the listener has no certificate");
        }
        for reference in references {
            if let Some(invalid) = certificate(gateway, reference, world) {
                return invalid;
            }
        }
    }
    Verdict::yes("ResolvedRefs", "all references are resolved")
}

fn certificate(gateway: &Gateway, reference: &Reference, world: &World) -> Option<Verdict> {
    let own = gateway.namespace().unwrap_or_default();
    let namespace = reference.namespace.as_deref().unwrap_or(&own);
    let name = &reference.name;
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    let invalid = |message: String| Some(Verdict::no("InvalidCertificateRef", message));
    if !group.is_empty() || kind != "Secret" {
        return invalid(format!("{kind} {name} is no Secret"));
    }
    if !world.permits(("Gateway", &own), ("", "Secret", namespace, name)) {
        return Some(Verdict::no(
            "RefNotPermitted",
            format!("no ReferenceGrant in {namespace} permits Secret {name}"),
        ));
    }
    match world.secret(namespace, name) {
        Some(secret) if is_certificate(secret) => None,
        Some(_) => invalid(format!("Secret {namespace}/{name} holds no certificate")),
        None => invalid(format!("there is no Secret {namespace}/{name}")),
    }
}

fn is_certificate(secret: &Secret) -> bool {
    let data = secret.data.as_ref();
    let has = |key: &str| data.is_some_and(|data| data.get(key).is_some_and(|it| !it.0.is_empty()));
    has("tls.crt") && has("tls.key")
}

/// Whether the listener lets routes of the namespace attach.
pub(super) fn allows_namespace(
    allowed: &RouteNamespaces,
    of_gateway: &str,
    of_route: &str,
    world: &World,
) -> bool {
    match allowed.from.as_deref().unwrap_or("Same") {
        "All" => true,
        "Same" => of_gateway == of_route,
        "Selector" => {
            let selector = allowed.selector.clone().unwrap_or_default();
            let labels = world.namespaces.get(of_route);
            labels.is_some_and(|labels| {
                Selector::try_from(selector).is_ok_and(|selector| selector.matches(labels))
            })
        }
        _ => false,
    }
}

/// Whether a name of the route is one of the listener's, where both have some.
pub(super) fn shares_hostname(listener: &Listener, route: &Route) -> bool {
    let own = listener.hostname.as_deref().unwrap_or_default();
    let names = &route.spec.hostnames;
    own.is_empty() || names.is_empty() || names.iter().any(|name| overlap(own, name))
}

/// Whether two hostnames, of which each may begin with `*.`, have one in common.
fn overlap(a: &str, b: &str) -> bool {
    match (a.strip_prefix('*'), b.strip_prefix('*')) {
        (None, None) => a == b,
        (Some(suffix), None) => is_below(b, suffix),
        (None, Some(suffix)) => is_below(a, suffix),
        (Some(a), Some(b)) => a.ends_with(b) || b.ends_with(a),
    }
}

/// Whether a name has at least one label before `suffix`, which begins with a dot.
fn is_below(name: &str, suffix: &str) -> bool {
    name.len() > suffix.len() && name.ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label_or_more() {
        for (a, b, expected) in [
            ("shop.example", "shop.example", true),
            ("shop.example", "cafe.example", false),
            ("*.example", "shop.example", true),
            ("a.shop.example", "*.example", true),
            ("*.example", "example", false),
            ("*.example", "badexample", false),
            ("*.example", "*.shop.example", true),
            ("*.shop.example", "*.example", true),
            ("*.shop.example", "*.cafe.example", false),
        ] {
            assert_eq!(overlap(a, b), expected, "{a} {b}");
        }
    }
}

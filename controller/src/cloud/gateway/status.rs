//! The statuses that follow from all objects of the Gateway API, and from what they name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::api::{
    Address, Gateway, GatewayClass, GatewayClassStatus, GatewayStatus, GrantFrom, ListenerStatus,
    Namespaces, ParentReference, ReferenceGrant, Route, RouteKind, RouteParentStatus, RouteStatus,
};
use super::listeners::{self, Judged};
use super::routes;
use super::verdict::{Conditions, Verdict};

/// The only type of addresses that a Gateway may ask for.
const IP_ADDRESS: &str = "IPAddress";

/// All objects that statuses follow from.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) classes: Vec<Arc<GatewayClass>>,
    pub(super) gateways: Vec<Arc<Gateway>>,
    pub(super) routes: Vec<(RouteKind, Arc<Route>)>,
    pub(super) grants: Vec<Arc<ReferenceGrant>>,
    pub(super) namespaces: Namespaces,
    /// Namespaces and names.
    pub(super) services: BTreeSet<(String, String)>,
    /// By namespace and name.
    pub(super) secrets: BTreeMap<(String, String), Arc<Secret>>,
}

impl World {
    pub(super) fn secret(&self, namespace: &str, name: &str) -> Option<&Secret> {
        let key = (namespace.to_owned(), name.to_owned());
        self.secrets.get(&key).map(|secret| &**secret)
    }

    /// Whether an object of the Gateway API, by kind and namespace, may refer to another, by group, kind, namespace and
    /// name: to one in its own namespace, or where a ReferenceGrant says so.
    pub(super) fn permits(
        &self,
        (from_kind, from_namespace): (&str, &str),
        (group, kind, namespace, name): (&str, &str, &str, &str),
    ) -> bool {
        if from_namespace == namespace {
            return true;
        }
        let from = GrantFrom {
            group: super::api::GROUP.to_owned(),
            kind: from_kind.to_owned(),
            namespace: from_namespace.to_owned(),
        };
        let mut grants = self.grants.iter();
        grants.any(|grant| {
            let mut to = grant.spec.to.iter();
            grant.namespace().as_deref() == Some(namespace)
                && grant.spec.from.contains(&from)
                && to.any(|to| {
                    let names = to.name.as_ref();
                    to.group == group && to.kind == kind && names.is_none_or(|only| only == name)
                })
        })
    }
}

/// The controller whose objects the statuses are of.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// `spec.controllerName` of its classes.
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
}

/// The statuses that differ from those in the objects.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) classes: Vec<(Arc<GatewayClass>, GatewayClassStatus)>,
    pub(super) gateways: Vec<(Arc<Gateway>, GatewayStatus)>,
    pub(super) routes: Vec<(RouteKind, Arc<Route>, RouteStatus)>,
}

/// Computes the statuses of the classes of this controller, of their Gateways, and of the routes that refer to these.
pub(super) fn changed(world: &World, identity: &Identity, now: Timestamp) -> Changed {
    let mut changed = Changed::default();
    let classes = world.classes.iter();
    let classes = classes.filter(|class| class.spec.controller_name == identity.name);
    let mut own: BTreeSet<String> = BTreeSet::new();
    for class in classes {
        own.insert(class.name_any());
        let stored = class.status.clone().unwrap_or_default();
        let accepted = Verdict::yes("Accepted", "Gateways of this class are simulated");
        let conditions = Conditions {
            generation: class.metadata.generation,
            now,
        };
        let status = GatewayClassStatus {
            conditions: conditions.with(&stored.conditions, [("Accepted", &accepted)]),
        };
        if status != stored {
            changed.classes.push((Arc::clone(class), status));
        }
    }
    let gateways = world.gateways.iter();
    let gateways = gateways.filter(|gateway| own.contains(&gateway.spec.gateway_class_name));
    let gateways: Vec<(&Arc<Gateway>, Vec<Judged>)> = gateways
        .map(|gateway| (gateway, listeners::judge(gateway, world)))
        .collect();
    let mut attached: BTreeMap<(usize, usize), i32> = BTreeMap::new();
    for (kind, route) in &world.routes {
        let route_kind = (*kind, &**route);
        let stored = route.status.clone().unwrap_or_default();
        let is_others = |parent: &RouteParentStatus| parent.controller_name != identity.name;
        let others = stored.parents.iter().filter(|parent| is_others(parent));
        let mut parents: Vec<RouteParentStatus> = others.cloned().collect();
        for parent in &route.spec.parent_refs {
            let meant = gateways
                .iter()
                .position(|(gateway, _)| routes::refers_to(parent, route, gateway));
            let Some(index) = meant else { continue };
            let (gateway, judged) = &gateways[index];
            let attachment = routes::attach(route_kind, parent, (gateway, judged), world);
            for listener in &attachment.listeners {
                *attached.entry((index, *listener)).or_default() += 1;
            }
            let verdicts = [
                ("Accepted", &attachment.accepted),
                ("ResolvedRefs", &routes::resolve(route_kind, world)),
            ];
            parents.push(parent_status(
                (parent, route),
                &stored,
                verdicts,
                (identity, now),
            ));
        }
        let status = RouteStatus { parents };
        if status != stored {
            changed.routes.push((*kind, Arc::clone(route), status));
        }
    }
    for (index, (gateway, judged)) in gateways.iter().enumerate() {
        let attached = |listener: usize| attached.get(&(index, listener)).copied();
        let status = of_gateway(gateway, judged, attached, (identity, now));
        if gateway.status.as_ref() != Some(&status) {
            changed.gateways.push((Arc::clone(gateway), status));
        }
    }
    changed
}

fn parent_status(
    (parent, route): (&ParentReference, &Route),
    stored: &RouteStatus,
    verdicts: [(&str, &Verdict); 2],
    (identity, now): (&Identity, Timestamp),
) -> RouteParentStatus {
    let mut known = stored.parents.iter();
    let known =
        known.find(|known| known.controller_name == identity.name && known.parent_ref == *parent);
    let conditions = Conditions {
        generation: route.metadata.generation,
        now,
    };
    RouteParentStatus {
        parent_ref: parent.clone(),
        controller_name: identity.name.clone(),
        conditions: conditions.with(known.map_or(&[], |known| &known.conditions), verdicts),
    }
}

fn of_gateway(
    gateway: &Gateway,
    judged: &[Judged],
    attached: impl Fn(usize) -> Option<i32>,
    (identity, now): (&Identity, Timestamp),
) -> GatewayStatus {
    let stored = gateway.status.clone().unwrap_or_default();
    let conditions = Conditions {
        generation: gateway.metadata.generation,
        now,
    };
    let listeners = gateway.spec.listeners.iter().zip(judged).enumerate();
    let listeners = listeners.map(|(index, (listener, judged))| {
        let mut known = stored.listeners.iter();
        let known = known.find(|known| known.name == listener.name);
        let verdicts = [
            ("Accepted", &judged.accepted),
            ("Conflicted", &judged.conflicted),
            ("ResolvedRefs", &judged.resolved),
            ("Programmed", &judged.programmed),
        ];
        ListenerStatus {
            name: listener.name.clone(),
            supported_kinds: judged.kinds.iter().map(|kind| kind.group_kind()).collect(),
            attached_routes: attached(index).unwrap_or(0),
            conditions: conditions.with(known.map_or(&[], |known| &known.conditions), verdicts),
        }
    });
    let listeners = listeners.collect();
    let accepted = accepted(gateway, judged);
    let given = given(gateway, identity);
    let programmed = match &given {
        _ if !accepted.holds => Verdict::no("Invalid", "the Gateway is not accepted"),
        Err(address) => Verdict::no(
            "AddressNotUsable",
            format!("the address {address} is none of those of the simulated cloud"),
        ),
        Ok(_) => Verdict::yes("Programmed", "the Gateway is programmed"),
    };
    let verdicts = [("Accepted", &accepted), ("Programmed", &programmed)];
    let given = given.unwrap_or_default();
    GatewayStatus {
        addresses: if programmed.holds { given } else { Vec::new() },
        conditions: conditions.with(&stored.conditions, verdicts),
        listeners,
    }
}

fn accepted(gateway: &Gateway, judged: &[Judged]) -> Verdict {
    let mut asked = gateway.spec.addresses.iter();
    let other = asked.find_map(|address| {
        let of = address.type_.as_deref().unwrap_or(IP_ADDRESS);
        (of != IP_ADDRESS).then_some(of)
    });
    if let Some(other) = other {
        let message = format!("addresses of the type {other} are not supported");
        return Verdict::no("UnsupportedAddress", message);
    }
    let is_valid = |judged: &Judged| judged.accepted.holds && judged.programmed.holds;
    match judged.iter().filter(|judged| is_valid(judged)).count() {
        valid if valid == judged.len() => Verdict::yes("Accepted", "the Gateway is valid"),
        0 => Verdict::no("ListenersNotValid", "no listener is valid"),
        _ => Verdict::yes("ListenersNotValid", "not all listeners are valid"),
    }
}

/// The addresses of the gateway: those that it asks for, or else all that there are.
///
/// # Errors
/// An address that it asks for and cannot have.
fn given(gateway: &Gateway, identity: &Identity) -> Result<Vec<Address>, String> {
    let all: Vec<String> = identity.addresses.iter().map(ToString::to_string).collect();
    let asked = gateway.spec.addresses.iter();
    let asked: Vec<&String> = asked.filter_map(|address| address.value.as_ref()).collect();
    if let Some(other) = asked.iter().find(|asked| !all.contains(asked)) {
        return Err((*other).clone());
    }
    let given = all.into_iter();
    let given = given.filter(|address| asked.is_empty() || asked.contains(&address));
    let given = given.map(|address| Address {
        type_: Some(IP_ADDRESS.to_owned()),
        value: Some(address),
    });
    Ok(given.collect())
}

//! The endpoints that the slices of an Endpoints object should list.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{self as core_v1, EndpointAddress, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};

/// The most addresses of a subset that are mirrored.
pub(super) const ENDPOINTS_MAX: usize = 1000;

/// The key of a slice: address type and ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SliceKey {
    pub(super) address_type: String,
    /// Sorted: name, port, protocol, application protocol.
    ports: Vec<(String, i32, String, String)>,
}

impl SliceKey {
    pub(super) fn new(address_type: &str, ports: &[EndpointPort]) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mut ports: Vec<_> = ports
            .iter()
            .map(|port| {
                let (name, protocol) = (text(&port.name), text(&port.protocol));
                (
                    name,
                    port.port.unwrap_or(0),
                    protocol,
                    text(&port.app_protocol),
                )
            })
            .collect();
        ports.sort();
        Self {
            address_type: address_type.to_owned(),
            ports,
        }
    }
}

/// A slice to be.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wanted {
    pub(super) ports: Vec<EndpointPort>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// The slices that an Endpoints object should have, and what is left out.
#[derive(Debug, Default)]
pub(super) struct Desired {
    pub(super) slices: BTreeMap<SliceKey, Wanted>,
    /// Addresses that cannot be parsed.
    pub(super) invalid: usize,
    /// Addresses that are invalid or exceed the limit.
    pub(super) skipped: usize,
}

impl Desired {
    pub(super) fn of(endpoints: &Endpoints) -> Self {
        let mut desired = Self::default();
        for subset in repacked(endpoints.subsets.as_deref().unwrap_or_default()) {
            desired.add(&subset);
        }
        desired
    }

    fn add(&mut self, subset: &EndpointSubset) {
        let ports: Vec<EndpointPort> = subset.ports.iter().flatten().map(port).collect();
        let ready = subset.addresses.iter().flatten().map(|own| (own, true));
        let not_ready = subset.not_ready_addresses.iter().flatten();
        let not_ready = not_ready.map(|own| (own, false));
        let mut added = 0;
        for (address, is_ready) in ready.chain(not_ready) {
            if added == ENDPOINTS_MAX {
                self.skipped += 1;
                continue;
            }
            let Some(ip) = parse(&address.ip) else {
                self.invalid += 1;
                self.skipped += 1;
                continue;
            };
            added += 1;
            let key = SliceKey::new(if ip.is_ipv4() { "IPv4" } else { "IPv6" }, &ports);
            let wanted = self.slices.entry(key).or_insert_with(|| Wanted {
                ports: ports.clone(),
                endpoints: Vec::new(),
            });
            let endpoint = endpoint(address, ip, is_ready);
            if !wanted.endpoints.contains(&endpoint) {
                wanted.endpoints.push(endpoint);
            }
        }
    }
}

/// An address with the ports at which it is ready, and those at which it is not.
struct Host {
    address: EndpointAddress,
    ports: Vec<(core_v1::EndpointPort, bool)>,
}

/// Repacks subsets so that each address occurs in as few of them as possible. A port of an address
/// that is listed as both ready and not ready counts as not ready.
///
/// Source: `RepackSubsets` of `pkg/api/v1/endpoints`.
fn repacked(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut hosts: Vec<Host> = Vec::new();
    for subset in subsets {
        let ready = subset.addresses.iter().flatten().map(|own| (own, true));
        let not_ready = subset.not_ready_addresses.iter().flatten();
        for (address, is_ready) in ready.chain(not_ready.map(|own| (own, false))) {
            let known = hosts
                .iter()
                .position(|host| is_same(&host.address, address));
            let index = known.unwrap_or_else(|| {
                hosts.push(Host {
                    address: address.clone(),
                    ports: Vec::new(),
                });
                hosts.len() - 1
            });
            let nothing = core_v1::EndpointPort {
                port: -1,
                ..core_v1::EndpointPort::default()
            };
            let ports = subset.ports.as_deref().unwrap_or_default();
            let ports = if ports.is_empty() {
                std::slice::from_ref(&nothing)
            } else {
                ports
            };
            let own = &mut hosts[index].ports;
            for port in ports {
                match own.iter_mut().find(|(known, _)| known == port) {
                    Some((_, state)) => *state &= is_ready,
                    None => own.push((port.clone(), is_ready)),
                }
            }
        }
    }
    let mut repacked: Vec<EndpointSubset> = Vec::new();
    for host in hosts {
        for is_ready in [true, false] {
            let of_state = host.ports.iter().filter(|(_, state)| *state == is_ready);
            let ports: Vec<_> = of_state.map(|(port, _)| port.clone()).collect();
            if !ports.is_empty() {
                pack(&mut repacked, &host.address, ports, is_ready);
            }
        }
    }
    repacked
}

fn pack(
    subsets: &mut Vec<EndpointSubset>,
    address: &EndpointAddress,
    ports: Vec<core_v1::EndpointPort>,
    is_ready: bool,
) {
    let ports: Vec<_> = ports.into_iter().filter(|port| port.port != -1).collect();
    let has = |subset: &EndpointSubset| {
        let own = subset.ports.as_deref().unwrap_or_default();
        own.len() == ports.len() && own.iter().all(|port| ports.contains(port))
    };
    let index = subsets.iter().position(has).unwrap_or_else(|| {
        subsets.push(EndpointSubset {
            ports: Some(ports.clone()),
            ..EndpointSubset::default()
        });
        subsets.len() - 1
    });
    let subset = &mut subsets[index];
    let list = match is_ready {
        true => &mut subset.addresses,
        false => &mut subset.not_ready_addresses,
    };
    list.get_or_insert_default().push(address.clone());
}

/// Whether both addresses are equal and of one pod.
fn is_same(one: &EndpointAddress, other: &EndpointAddress) -> bool {
    let uid = |address: &EndpointAddress| {
        let target = address.target_ref.as_ref();
        target.map(|target| target.uid.clone())
    };
    one.ip == other.ip && uid(one) == uid(other)
}

fn port(port: &core_v1::EndpointPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(address: &EndpointAddress, ip: IpAddr, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(is_ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

/// An address, which may have zeros before its numbers.
fn parse(text: &str) -> Option<IpAddr> {
    let plain = text.split('.').map(|part| {
        let short = part.trim_start_matches('0');
        if short.is_empty() && !part.is_empty() {
            "0"
        } else {
            short
        }
    });
    let plain = plain.collect::<Vec<_>>().join(".");
    let parsed = text.parse().or_else(|_| plain.parse()).ok()?;
    Some(IpAddr::to_canonical(&parsed))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn desired(subsets: Value) -> Desired {
        let endpoints = json!({ "metadata": { "name": "web" }, "subsets": subsets });
        Desired::of(&from_value(endpoints).unwrap())
    }

    fn described(desired: &Desired) -> Vec<String> {
        let lines = desired.slices.iter().map(|(key, wanted)| {
            let ports: Vec<String> = wanted
                .ports
                .iter()
                .map(|port| port.port.unwrap().to_string())
                .collect();
            let endpoints: Vec<String> = wanted
                .endpoints
                .iter()
                .map(|own| {
                    let is_ready = own.conditions.as_ref().unwrap().ready;
                    format!("{}={}", own.addresses[0], is_ready.unwrap())
                })
                .collect();
            format!(
                "{} {}: {}",
                key.address_type,
                ports.join(","),
                endpoints.join(" ")
            )
        });
        lines.collect()
    }

    #[test]
    fn subsets_become_slices_by_address_type_and_ports() {
        let address = |ip: &str| json!({ "ip": ip });
        let subsets = json!([
            {
                "addresses": [address("10.0.0.1"), address("fd00::1"), address("010.0.0.002")],
                "notReadyAddresses": [address("10.0.0.3"), address("nonsense")],
                "ports": [{ "port": 80 }],
            },
            { "addresses": [address("10.0.0.1")], "ports": [{ "name": "b", "port": 81 }] },
            { "notReadyAddresses": [address("10.0.0.9")], "ports": [{ "port": 80 }] },
            { "addresses": [address("10.0.0.9")], "ports": [{ "port": 80 }] },
        ]);
        let desired = desired(subsets);
        assert_eq!(
            described(&desired),
            [
                "IPv4 80: 10.0.0.2=true 10.0.0.3=false 10.0.0.9=false",
                "IPv4 80,81: 10.0.0.1=true",
                "IPv6 80: fd00::1=true",
            ]
        );
        assert_eq!((desired.invalid, desired.skipped), (1, 1));
    }

    #[test]
    fn a_thousand_addresses_of_a_subset_are_mirrored() {
        let addresses: Vec<Value> = (0..1010)
            .map(|index| json!({ "ip": format!("10.0.{}.{}", index / 250, index % 250) }))
            .collect();
        let desired = desired(json!([{ "addresses": addresses, "ports": [{ "port": 80 }] }]));
        let sizes = desired.slices.values().map(|wanted| wanted.endpoints.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [1000]);
        assert_eq!((desired.invalid, desired.skipped), (0, 10));
    }
}

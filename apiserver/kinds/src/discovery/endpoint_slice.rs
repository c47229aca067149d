//! EndpointSlices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::columns::{Printable, first_three, or_unset};
use crate::json::{Value, json};
use crate::meta::object::{default, meta_mut};
use crate::meta::validation::{
    dns1123_label, dns1123_subdomain, label_value, qualified_name, validate_immutable,
    validate_labels,
};
use crate::net::{validate_ip, validate_reachable, validate_strict_ip, warn_of_ip};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, items_mut, text};
use crate::validation::{invalid_each, one_of};
use crate::{Context, MetadataCheck, Strategy};

/// How many endpoints a slice may have, addresses an endpoint, and ports a slice.
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
/// How many labels the topology of an endpoint may have.
const TOPOLOGY_MAX: usize = 16;
/// How many zones or nodes an endpoint may be meant for.
const HINTS_MAX: usize = 8;

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLERS: [&str; 2] = [
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
];

#[derive(Debug)]
pub(crate) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, slice: &mut Value) {
        let Some(fields) = slice.as_object_mut() else {
            return;
        };
        for port in items_mut(fields, "ports") {
            default(port, "name", "");
            default(port, "protocol", "TCP");
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if new["addressType"] == "FQDN" {
            if old.is_none() {
                warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
            }
            return warnings;
        }
        // The controllers of slices write addresses as they should be.
        let manager = text(&new["metadata"]["labels"][MANAGED_BY]);
        if CONTROLLERS.contains(&manager) {
            return warnings;
        }
        for (index, endpoint) in items(&new["endpoints"]).enumerate() {
            let path = FieldPath::new("endpoints").index(index).child("addresses");
            for (index, address) in items(&endpoint["addresses"]).enumerate() {
                warn_of_ip(address, &path.index(index), &mut warnings);
            }
        }
        warnings
    }

    fn prepare_for_create(&self, slice: &mut Value, _context: Context<'_>) {
        drop_topology(slice, &Value::Null);
    }

    /// A change of labels counts too, as they say whose endpoints these are.
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        let same = |field: &str| {
            new[field] == old[field] || is_empty(&new[field]) && is_empty(&old[field])
        };
        let relabeled = new["metadata"]["labels"] != old["metadata"]["labels"];
        // A topology that is dropped below also counts as a change.
        if relabeled || !["endpoints", "ports", "addressType"].into_iter().all(same) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta_mut(new).insert("generation", generation.into());
        }
        if new["endpoints"] != old["endpoints"] {
            drop_topology(new, old);
        }
    }

    fn validate(&self, slice: &Value) -> FieldErrors {
        validate_slice(slice, &Value::Null)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = validate_slice(new, old);
        let path = FieldPath::new("addressType");
        let kind = |slice: &Value| slice["addressType"].clone();
        validate_immutable(&kind(new), &kind(old), &path, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let port = |port: Printable<'_>| {
            port.scalar("/port")
                .unwrap_or_else(|| match port.get("/name") {
                    Some(_) => port.str("/name").to_owned(),
                    None => "*".to_owned(),
                })
        };
        let ports: Vec<String> = view.items("/ports").map(port).collect();
        let addresses: Vec<String> = view
            .items("/endpoints")
            .flat_map(|endpoint| endpoint.strs("/addresses"))
            .map(str::to_owned)
            .collect();
        Some(vec![
            view.name(),
            json!(view.str("/addressType")),
            json!(or_unset(first_three(&ports))),
            json!(or_unset(first_three(&addresses))),
            view.age(),
        ])
    }
}

/// Faults of a slice that replaces `old`, which is null if the slice is new.
fn validate_slice(slice: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("addressType");
    let kind = text(&slice["addressType"]);
    if kind.is_empty() {
        errors.required(&path, "");
    } else {
        one_of(
            &slice["addressType"],
            &path,
            &["FQDN", "IPv4", "IPv6"],
            &mut errors,
        );
    }
    let path = FieldPath::new("ports");
    let mut names = BTreeSet::new();
    for (index, port) in few(&slice["ports"], PORTS_MAX, &path, &mut errors) {
        validate_port(port, &mut names, &path.index(index), &mut errors);
    }
    let path = FieldPath::new("endpoints");
    // Faults that older versions of Kubernetes let pass stay possible.
    if slice["endpoints"] != old["endpoints"] {
        for (index, endpoint) in few(&slice["endpoints"], ENDPOINTS_MAX, &path, &mut errors) {
            validate_endpoint(endpoint, kind, &path.index(index), &mut errors);
        }
    }
    errors
}

/// Nobody writes the topology of endpoints any more; the node that it named before is kept.
fn drop_topology(slice: &mut Value, old: &Value) {
    const HOSTNAME: &str = "kubernetes.io/hostname";
    let node = |own: &Value| {
        own["deprecatedTopology"][HOSTNAME]
            .as_str()
            .map(str::to_owned)
    };
    let known: BTreeSet<String> = items(&old["endpoints"]).filter_map(node).collect();
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        let named = node(endpoint).filter(|own| known.contains(own));
        let Some(fields) = endpoint.as_object_mut() else {
            continue;
        };
        fields.remove("deprecatedTopology");
        if let Some(node) = named.filter(|own| dns1123_subdomain(own).is_empty()) {
            default(fields, "nodeName", node);
        }
    }
}

fn validate_port(
    port: &Value,
    names: &mut BTreeSet<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let name = text(&port["name"]);
    let name_path = path.child("name");
    if !name.is_empty() {
        invalid_each(dns1123_label(name), &port["name"], &name_path, errors);
    }
    if !names.insert(name.to_owned()) {
        errors.duplicate(&name_path, &port["name"]);
    }
    let protocols = ["SCTP", "TCP", "UDP"];
    one_of(
        &port["protocol"],
        &path.child("protocol"),
        &protocols,
        errors,
    );
    let protocol = &port["appProtocol"];
    if let Some(own) = protocol.as_str() {
        let path = path.child("appProtocol");
        invalid_each(qualified_name(own), protocol, &path, errors);
    }
}

/// The items of a list with their places, none if there are more than `most`.
fn few<'v>(
    list: &'v Value,
    most: usize,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> impl Iterator<Item = (usize, &'v Value)> + use<'v> {
    let count = items(list).count();
    if count > most {
        errors.too_many(path, count, most);
    }
    items(list).enumerate().filter(move |_| count <= most)
}

/// The name of a host with its domain.
fn validate_domain(address: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let name = address.strip_suffix('.').unwrap_or(address);
    let faults = dns1123_subdomain(name);
    if address.is_empty() {
        errors.required(path, "");
    } else if !faults.is_empty() {
        errors.invalid(path, &name.into(), &faults.join(","));
    } else if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.invalid(path, &name.into(), detail);
    } else if let Some((label, faults)) = name
        .split('.')
        .map(|label| (label, dns1123_label(label)))
        .find(|(_, faults)| !faults.is_empty())
    {
        errors.invalid(path, &label.into(), &faults.join(","));
    }
}

fn validate_endpoint(endpoint: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let addresses = path.child("addresses");
    let count = items(&endpoint["addresses"]).count();
    if count == 0 {
        errors.required(&addresses, "must contain at least 1 address");
    } else if count > ADDRESSES_MAX {
        errors.too_many(&addresses, count, ADDRESSES_MAX);
    }
    for (index, address) in items(&endpoint["addresses"]).enumerate() {
        let path = addresses.index(index);
        if kind == "FQDN" {
            validate_domain(text(address), &path, errors);
            continue;
        }
        // Addresses of IPv4 are read as they always were. Upstream accepts any address of an unknown type.
        let validate = match kind {
            "IPv4" => validate_ip,
            "IPv6" => validate_strict_ip,
            _ => continue,
        };
        let Some(ip) = validate(address, &path, errors) else {
            continue;
        };
        // Upstream leaves the index out of this one.
        match (kind, ip) {
            ("IPv4", IpAddr::V6(_)) => {
                errors.invalid(&addresses, address, "must be an IPv4 address");
            }
            ("IPv6", IpAddr::V4(_)) => {
                errors.invalid(&addresses, address, "must be an IPv6 address");
            }
            _ => {}
        }
        validate_reachable(address, &path, errors);
    }
    let name = &endpoint["nodeName"];
    if let Some(own) = name.as_str() {
        invalid_each(
            dns1123_subdomain(own),
            name,
            &path.child("nodeName"),
            errors,
        );
    }
    let topology = path.child("deprecatedTopology");
    validate_labels(endpoint.get("deprecatedTopology"), &topology, errors);
    let count = entries(&endpoint["deprecatedTopology"]).count();
    if count > TOPOLOGY_MAX {
        errors.too_many(&topology, count, TOPOLOGY_MAX);
    }
    let name = &endpoint["hostname"];
    if let Some(own) = name.as_str() {
        invalid_each(dns1123_label(own), name, &path.child("hostname"), errors);
    }
    let hints = path.child("hints");
    for (field, faults) in [
        ("forZones", label_value as fn(&str) -> Vec<String>),
        ("forNodes", dns1123_subdomain),
    ] {
        validate_hints(
            &endpoint["hints"][field],
            faults,
            &hints.child(field),
            errors,
        );
    }
}

fn validate_hints(
    hints: &Value,
    faults: fn(&str) -> Vec<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let count = items(hints).count();
    if count > HINTS_MAX {
        return errors.too_many(path, count, HINTS_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, hint) in items(hints).enumerate() {
        let name = &hint["name"];
        let path = path.index(index).child("name");
        if !seen.insert(text(name)) {
            errors.duplicate(&path, name);
        }
        invalid_each(faults(text(name)), name, &path, errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_list_has_a_limit_and_hosts_have_domains() {
        let slice = |kind: &str, addresses: Vec<String>| json!({"addressType": kind, "endpoints": [{"addresses": addresses}]});
        let many = (0..101).map(|own| format!("10.0.0.{own}")).collect();
        let one = |own: &str| vec![own.to_owned()];
        let label = "x".repeat(64);
        let table = [
            (slice("FQDN", one("a.example.com.")), ""),
            (slice("FQDN", one("")), "Required value"),
            (
                slice("FQDN", one("host")),
                "Invalid value: \"host\": should be a domain with at least two segments separated by dots",
            ),
            (
                slice("FQDN", one(&format!("{label}.io"))),
                "must be no more than 63 characters",
            ),
            (
                slice("IPv6", one("2001:DB8::1")),
                "Invalid value: \"2001:DB8::1\": must be in canonical form (\"2001:db8::1\")",
            ),
            (
                slice("IPv4", many),
                "Too many: 101: must have at most 100 items",
            ),
        ];
        for (slice, want) in table {
            let errors = EndpointSlice.validate(&slice);
            let found = errors.causes().first().map_or("", |own| &own.message);
            assert!(found.ends_with(want), "{found}");
            assert_eq!(found.is_empty(), want.is_empty(), "{found}");
        }
        let ports: Vec<Value> = vec![json!({}); PORTS_MAX + 1];
        let slice = json!({"addressType": "IPv4", "ports": ports});
        assert_eq!(EndpointSlice.validate(&slice).causes().len(), 1);
    }

    #[test]
    fn topology_is_dropped_and_the_node_it_named_kept() {
        let slice = |node: &str| json!({"endpoints": [{"deprecatedTopology": {"kubernetes.io/hostname": node}}]});
        for (node, want) in [("a", json!({"nodeName": "a"})), ("b", json!({}))] {
            let mut new = slice(node);
            drop_topology(&mut new, &slice("a"));
            assert_eq!(new["endpoints"][0], want);
        }
    }
}

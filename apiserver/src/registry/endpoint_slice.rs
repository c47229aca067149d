//! EndpointSlices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::checks::{default_text, entries, invalid_each, items, items_mut, one_of, text};
use super::net::{validate_ip, validate_reachable, warn_of_ip};
use super::{Context, Strategy};
use crate::meta::object::{default, meta_mut};
use crate::meta::validation::{
    dns1123_label, dns1123_subdomain, label_value, qualified_name, validate_immutable,
    validate_labels,
};
use crate::status::{FieldErrors, FieldPath};

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
pub(super) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, slice: &mut Value) {
        let Some(fields) = slice.as_object_mut() else {
            return;
        };
        for port in items_mut(fields, "ports") {
            default(port, "name", "");
            default_text(port, "protocol", "TCP");
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if new["addressType"] == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
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

    /// A change of labels counts too, as they say whose endpoints these are.
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        if new["metadata"]["labels"] != old["metadata"]["labels"] {
            let same = |field: &str| new[field] == old[field];
            if same("endpoints") && same("ports") && same("addressType") {
                let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                meta_mut(new).insert("generation".to_owned(), generation.into());
            }
        }
    }

    fn validate(&self, slice: &Value) -> FieldErrors {
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
        for (index, port) in items(&slice["ports"]).enumerate() {
            validate_port(port, &mut names, &path.index(index), &mut errors);
        }
        let path = FieldPath::new("endpoints");
        for (index, endpoint) in items(&slice["endpoints"]).enumerate() {
            validate_endpoint(endpoint, kind, &path.index(index), &mut errors);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let path = FieldPath::new("addressType");
        let kind = |slice: &Value| slice["addressType"].clone();
        validate_immutable(&kind(new), &kind(old), &path, &mut errors);
        errors
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

fn validate_endpoint(endpoint: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let addresses = path.child("addresses");
    if items(&endpoint["addresses"]).next().is_none() {
        errors.required(&addresses, "must contain at least 1 address");
    }
    for (index, address) in items(&endpoint["addresses"]).enumerate() {
        let path = addresses.index(index);
        if kind == "FQDN" {
            let faults = dns1123_subdomain(text(address));
            invalid_each(faults, address, &path, errors);
            continue;
        }
        let Some(ip) = validate_ip(address, &path, errors) else {
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

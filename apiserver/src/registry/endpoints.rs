//! Endpoints.

use serde_json::Value;

use super::Strategy;
use super::checks::{default_text, invalid_each, is_empty, items, items_mut, one_of, text};
use super::endpoint_slice::validate_reachable;
use super::net::{PORT_RANGE, validate_ip};
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn default(&self, endpoints: &mut Value) {
        let Some(fields) = endpoints.as_object_mut() else {
            return;
        };
        for subset in items_mut(fields, "subsets") {
            for port in items_mut(subset, "ports") {
                default_text(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, endpoints: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for (index, subset) in items(&endpoints["subsets"]).enumerate() {
            let path = FieldPath::new("subsets").index(index);
            let lists = ["addresses", "notReadyAddresses"];
            if lists.iter().all(|list| is_empty(&subset[*list])) {
                let detail = "must specify `addresses` or `notReadyAddresses`";
                errors.required(&path, detail);
            }
            for list in lists {
                for (index, address) in items(&subset[list]).enumerate() {
                    let path = path.child(list).index(index);
                    validate_address(address, &path, &mut errors);
                }
            }
            let several = items(&subset["ports"]).count() > 1;
            for (index, port) in items(&subset["ports"]).enumerate() {
                let path = path.child("ports").index(index);
                validate_port(port, several, &path, &mut errors);
            }
        }
        errors
    }
}

fn validate_address(address: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let ip_path = path.child("ip");
    let ip = &address["ip"];
    let parsed = validate_ip(ip, &ip_path, errors);
    for (field, faults) in [
        ("hostname", dns1123_label as fn(&str) -> Vec<String>),
        ("nodeName", dns1123_subdomain),
    ] {
        let value = text(&address[field]);
        if !value.is_empty() {
            invalid_each(faults(value), &value.into(), &path.child(field), errors);
        }
    }
    // Upstream parses the address once more to see whether it may be reached.
    match parsed {
        Some(parsed) => validate_reachable(parsed, ip, &ip_path, errors),
        None => errors.invalid(&ip_path, ip, "must be a valid IP address"),
    }
}

fn validate_port(port: &Value, named: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let name = text(&port["name"]);
    let name_path = path.child("name");
    if !name.is_empty() {
        invalid_each(dns1123_label(name), &name.into(), &name_path, errors);
    } else if named {
        errors.required(&name_path, "");
    }
    let number = port["port"].as_i64().unwrap_or(0);
    if !(1..=65535).contains(&number) {
        errors.invalid(&path.child("port"), &number.into(), PORT_RANGE);
    }
    let protocols = ["SCTP", "TCP", "UDP"];
    one_of(
        &port["protocol"],
        &path.child("protocol"),
        &protocols,
        errors,
    );
}

//! Endpoints.

use crate::columns::{Printable, first_three};
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use crate::net::{PORT_RANGE, validate_ip, validate_reachable, warn_of_ip};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{default_text, is_empty, items, items_mut, text};
use crate::validation::{invalid_each, one_of};
use crate::{MetadataCheck, Strategy};

#[derive(Debug)]
pub(crate) struct Endpoints;

impl Strategy for Endpoints {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn storage_prefix(&self, _resource: &GroupResource) -> String {
        "services/endpoints".to_owned()
    }

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

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, subset) in items(&new["subsets"]).enumerate() {
            let path = FieldPath::new("subsets").index(index);
            for list in ["addresses", "notReadyAddresses"] {
                for (index, address) in items(&subset[list]).enumerate() {
                    let path = path.child(list).index(index).child("ip");
                    warn_of_ip(&address["ip"], &path, &mut warnings);
                }
            }
        }
        warnings
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        for subset in view.items("/subsets") {
            let ips: Vec<&str> = subset
                .items("/addresses")
                .map(|address| address.str("/ip"))
                .collect();
            if subset.len("/ports") == 0 {
                all.extend(ips.iter().map(|ip| (*ip).to_owned()));
            }
            for port in subset.items("/ports") {
                all.extend(ips.iter().map(|ip| host_port(ip, port.int("/port"))));
            }
        }
        let text = if view.len("/subsets") == 0 {
            "<none>".to_owned()
        } else {
            first_three(&all)
        };
        Some(vec![view.name(), json!(text), view.age()])
    }
}

fn validate_address(address: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let ip_path = path.child("ip");
    let ip = text(&address["ip"]).into();
    validate_ip(&ip, &ip_path, errors);
    let hostname = text(&address["hostname"]);
    if !hostname.is_empty() {
        let path = path.child("hostname");
        invalid_each(dns1123_label(hostname), &hostname.into(), &path, errors);
    }
    if let Some(node) = address["nodeName"].as_str() {
        let path = path.child("nodeName");
        invalid_each(dns1123_subdomain(node), &node.into(), &path, errors);
    }
    // Upstream parses the address again to check whether it is reachable.
    validate_reachable(&ip, &ip_path, errors);
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
    if let Some(protocol) = port["appProtocol"].as_str() {
        let path = path.child("appProtocol");
        invalid_each(qualified_name(protocol), &protocol.into(), &path, errors);
    }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_fault_is_found() {
        let subset = json!({
            "addresses": [{"ip": "0.0.0.0"}, {"ip": "010.0.0.1"}, {"ip": "224.0.0.1", "nodeName": ""}],
            "ports": [{"port": 80, "protocol": "TCP", "appProtocol": "a b"}],
        });
        let errors = Endpoints.validate(&json!({ "subsets": [subset] }));
        let causes = errors.causes().iter();
        let found: Vec<&str> = causes.map(|own| &*own.field).collect();
        let want = [
            "subsets[0].addresses[0].ip",
            "subsets[0].addresses[1].ip",
            "subsets[0].addresses[2].nodeName",
            "subsets[0].addresses[2].ip",
            "subsets[0].ports[0].appProtocol",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn addresses_that_others_would_write_otherwise_are_warned_of() {
        let endpoints = json!({"subsets": [
            {"addresses": [{"ip": "fd00::1"}], "notReadyAddresses": [{"ip": "FD00::2"}]}]});
        let want = "subsets[0].notReadyAddresses[0].ip: IPv6 address \"FD00::2\" should be in \
                    RFC 5952 canonical format (\"fd00::2\")";
        assert_eq!(Endpoints.warnings(&endpoints, None), [want]);
    }
}

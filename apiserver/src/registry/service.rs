//! Services.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::{Context, Strategy};
use crate::meta::object::{child_mut, default};
use crate::meta::validation::NameRule;
use crate::status::{FieldErrors, FieldPath};

/// Cluster addresses are given out of 10.0.0.0/24.
const NETWORK: [u8; 3] = [10, 0, 0];
/// The first address is that of the API server itself.
const FIRST: u8 = 2;

#[derive(Debug)]
pub(super) struct Service;

impl Strategy for Service {
    fn name_rule(&self) -> NameRule {
        NameRule::DnsLabel
    }

    fn default(&self, service: &mut Value) {
        let spec = child_mut(service, "spec");
        default(spec, "sessionAffinity", "None");
        default(spec, "type", "ClusterIP");
        let external = spec.get("type").and_then(Value::as_str) == Some("ExternalName");
        if !external {
            default(spec, "internalTrafficPolicy", "Cluster");
        }
        if matches!(
            spec.get("type").and_then(Value::as_str),
            Some("NodePort" | "LoadBalancer")
        ) {
            default(spec, "externalTrafficPolicy", "Cluster");
        }
        if spec.get("type").and_then(Value::as_str) == Some("LoadBalancer") {
            default(spec, "allocateLoadBalancerNodePorts", true);
        }
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(port) = port.as_object_mut() {
                default(port, "protocol", "TCP");
                let target = port.get("targetPort");
                let unset = target.is_none_or(|target| *target == 0 || *target == "");
                if unset && let Some(number) = port.get("port").cloned() {
                    port.insert("targetPort".to_owned(), number);
                }
            }
        }
    }

    fn prepare_for_create(&self, service: &mut Value, context: Context<'_>) {
        service["status"] = json!({ "loadBalancer": {} });
        let spec = child_mut(service, "spec");
        if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
            return;
        }
        let address = match spec.get("clusterIP").and_then(Value::as_str) {
            None | Some("") => free_address(context),
            Some(own) => Some(own.to_owned()),
        };
        default_ip_families(spec);
        if let Some(address) = address {
            spec.insert("clusterIPs".to_owned(), json!([address]));
            spec.insert("clusterIP".to_owned(), address.into());
        }
    }

    /// An update that leaves the address out keeps it.
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if new["spec"][field].is_null() {
                crate::meta::object::copy_field(&mut new["spec"], &old["spec"], field);
            }
        }
    }

    fn validate(&self, service: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &service["spec"];
        let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
        let headless = spec["clusterIP"] == "None";
        if ports.is_empty() && !headless && spec["type"] != "ExternalName" {
            errors.required(&path.child("ports"), "");
        }
        for (index, port) in ports.iter().enumerate() {
            let path = path.child("ports").index(index);
            if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
                errors.required(&path.child("name"), "");
            }
            if !port["port"]
                .as_i64()
                .is_some_and(|port| (1..=65535).contains(&port))
            {
                let detail = "must be between 1 and 65535, inclusive";
                errors.invalid(&path.child("port"), &port["port"], detail);
            }
        }
        let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        if !spec["type"]
            .as_str()
            .is_some_and(|own| types.contains(&own))
        {
            errors.not_supported(&path.child("type"), &spec["type"], &types);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let address = |service: &Value| service["spec"]["clusterIP"].clone();
        if !address(old).is_null()
            && address(new) != address(old)
            && new["spec"]["type"] != "ExternalName"
        {
            let path = FieldPath::new("spec.clusterIPs[0]");
            errors.invalid(&path, &new["spec"]["clusterIPs"], "may not change once set");
        }
        errors
    }
}

/// Given at creation, not as a default: no client owns them.
fn default_ip_families(spec: &mut serde_json::Map<String, Value>) {
    let headless = spec.get("clusterIP").and_then(Value::as_str) == Some("None");
    let selects = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|own| !own.is_empty());
    // Nobody knows which families the endpoints of such a service will have.
    let any = headless && !selects;
    let policy = if any {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    default(spec, "ipFamilyPolicy", policy);
    let single = spec.get("ipFamilyPolicy").and_then(Value::as_str) == Some("SingleStack");
    let both = !single && any;
    default(
        spec,
        "ipFamilies",
        if both {
            json!(["IPv4", "IPv6"])
        } else {
            json!(["IPv4"])
        },
    );
}

/// The lowest address that no service has.
fn free_address(context: Context<'_>) -> Option<String> {
    let used: BTreeSet<String> = context
        .siblings
        .range(None, None)
        .filter_map(|service| {
            service.value["spec"]["clusterIP"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    let [a, b, c] = NETWORK;
    (FIRST..255)
        .map(|d| Ipv4Addr::new(a, b, c, d).to_string())
        .find(|free| !used.contains(free))
}

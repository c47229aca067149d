//! Services.

mod allocation;
mod ranges;
mod validation;
mod warnings;

use std::collections::BTreeSet;

use crate::columns::{Printable, or_none};
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, default};
use crate::meta::validation::NameRule;
use crate::rest::{ProxyTarget, SubresourceRest};
use crate::status::{ApiError, FieldErrors};
use crate::unstructured::{default_text, is_empty, items, items_mut, object_in, text};
use crate::{Context, Strategy};
pub use ranges::ServiceRanges;

/// Three hours.
const AFFINITY_SECONDS: i64 = 10_800;

/// The strategy of Services.
#[derive(Debug)]
pub struct Service;

impl Strategy for Service {
    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        match name {
            "status" => Some(SubresourceRest::Status),
            "proxy" => Some(SubresourceRest::Proxy(ProxyTarget::Service)),
            _ => None,
        }
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn return_deleted_object(&self) -> bool {
        true
    }

    fn storage_prefix(&self, _resource: &GroupResource) -> String {
        "services/specs".to_owned()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsLabel
    }

    fn default(&self, service: &mut Value) {
        let spec = child_mut(service, "spec");
        default_text(spec, "sessionAffinity", "None");
        if spec["sessionAffinity"] == "None" {
            spec.remove("sessionAffinityConfig");
        } else if spec["sessionAffinity"] == "ClientIP" {
            let config = object_in(spec, "sessionAffinityConfig");
            default(
                object_in(config, "clientIP"),
                "timeoutSeconds",
                AFFINITY_SECONDS,
            );
        }
        default_text(spec, "type", "ClusterIP");
        let kind = text(&spec["type"]).to_owned();
        if kind != "ExternalName" {
            default(spec, "internalTrafficPolicy", "Cluster");
        }
        for port in items_mut(spec, "ports") {
            default_text(port, "protocol", "TCP");
            let target = port.get("targetPort");
            let unset = target.is_none_or(|target| *target == 0 || *target == "");
            if unset && let Some(number) = port.get("port").cloned() {
                port.insert("targetPort", number);
            }
        }
        let exposed = spec.get("externalIPs").is_some_and(|own| !is_empty(own));
        if matches!(&*kind, "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && exposed) {
            default_text(spec, "externalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            default(spec, "allocateLoadBalancerNodePorts", true);
            let balancer = child_mut(service, "status").get_mut("loadBalancer");
            for ingress in balancer
                .and_then(Value::as_object_mut)
                .into_iter()
                .flat_map(|balancer| items_mut(balancer, "ingress"))
            {
                if ingress.get("ip").is_some_and(|own| !text(own).is_empty()) {
                    default(ingress, "ipMode", "VIP");
                }
            }
        }
    }

    fn begin_create(
        &self,
        service: &mut Value,
        context: Context<'_>,
    ) -> Result<FieldErrors, ApiError> {
        allocation::allocate(service, None, context)
    }

    fn begin_update(
        &self,
        new: &mut Value,
        old: &Value,
        context: Context<'_>,
    ) -> Result<FieldErrors, ApiError> {
        allocation::keep_allocated(new, old);
        allocation::follow_address(new, old);
        drop_fields_of_old_type(new, old);
        allocation::allocate(new, Some(old), context)
    }

    fn prepare_for_create(&self, service: &mut Value, _context: Context<'_>) {
        service["status"] = json!({ "loadBalancer": {} });
        drop_traffic_policy(service);
    }

    /// Only a LoadBalancer service keeps its load balancer status.
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        let balances = |service: &Value| service["spec"]["type"] == "LoadBalancer";
        if balances(old) && !balances(new) {
            new["status"]["loadBalancer"] = json!({});
        }
        drop_traffic_policy(new);
    }

    fn validate(&self, service: &Value) -> FieldErrors {
        validation::validate_service(service)
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings::of_service(new)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::validate_service_update(new, old)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        validation::validate_balancer(new)
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.str("/spec/type")),
            json!(view.str_or("/spec/clusterIPs/0", "<none>")),
            json!(external_ip(view)),
            json!(ports(view)),
            view.age(),
            json!(view.labels("/spec/selector")),
        ])
    }
}

/// Nothing is routed to where a name leads.
fn drop_traffic_policy(service: &mut Value) {
    if service["spec"]["type"] == "ExternalName" {
        child_mut(service, "spec").remove("internalTrafficPolicy");
    }
}

/// Whether services of this type have ports on every node.
fn has_node_ports(spec: &Value) -> bool {
    let balances = spec["type"] == "LoadBalancer";
    spec["type"] == "NodePort" || (balances && spec["allocateLoadBalancerNodePorts"] != false)
}

/// Whether the service has a health check port, which reports whether a node has endpoints.
fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Whether clients outside of the cluster reach the service.
fn is_exposed(spec: &Value) -> bool {
    match text(&spec["type"]) {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !is_empty(&spec["externalIPs"]),
        _ => false,
    }
}

/// Drops the fields that only the old type had, unless the update sets them again.
fn drop_fields_of_old_type(new: &mut Value, old: &Value) {
    let before = &old["spec"];
    let now = new["spec"].clone();
    let spec = child_mut(new, "spec");
    let same = |field: &str| now[field] == before[field];
    let mut drop = |field: &str, had: bool, has: bool| {
        if had && !has && same(field) {
            spec.remove(field);
        }
    };
    let (was, is) = (text(&before["type"]), text(&now["type"]));
    let addressed = |kind: &str| kind != "ExternalName";
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        drop(field, addressed(was), addressed(is));
    }
    drop(
        "healthCheckNodePort",
        needs_health_check(before),
        needs_health_check(&now),
    );
    drop(
        "externalTrafficPolicy",
        is_exposed(before),
        is_exposed(&now),
    );
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        drop(field, was == "LoadBalancer", is == "LoadBalancer");
    }
    let ports = |spec: &Value| -> Vec<Value> {
        items(&spec["ports"])
            .map(|port| port["nodePort"].clone())
            .collect()
    };
    let none_now = !matches!(is, "NodePort" | "LoadBalancer");
    if matches!(was, "NodePort" | "LoadBalancer") && none_now && ports(&now) == ports(before) {
        for port in items_mut(spec, "ports") {
            port.remove("nodePort");
        }
    }
}

fn external_ip(view: Printable<'_>) -> String {
    let external_ips = view.strs("/spec/externalIPs").join(",");
    match view.str("/spec/type") {
        "ClusterIP" | "NodePort" => or_none(external_ips),
        "LoadBalancer" => {
            let addresses = load_balancer(view);
            let both = [addresses, external_ips];
            let both: Vec<String> = both.into_iter().filter(|text| !text.is_empty()).collect();
            if both.is_empty() {
                "<pending>".to_owned()
            } else {
                both.join(",")
            }
        }
        "ExternalName" => view.str("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses that a load balancer got: its IP, else its host name, sorted.
pub(crate) fn load_balancer(view: Printable<'_>) -> String {
    let ingress = view.items("/status/loadBalancer/ingress");
    let addresses: BTreeSet<&str> = ingress
        .map(|point| point.str_or("/ip", point.str("/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn ports(view: Printable<'_>) -> String {
    let port = |port: Printable<'_>| {
        let (number, protocol) = (port.int("/port"), port.str("/protocol"));
        match port.int("/nodePort") {
            0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    };
    or_none(
        view.items("/spec/ports")
            .map(port)
            .collect::<Vec<_>>()
            .join(","),
    )
}

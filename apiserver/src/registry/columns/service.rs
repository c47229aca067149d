//! Services: addresses inside and outside of the cluster, and ports.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::view::{View, or_none};

pub(super) fn service(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.str("/spec/type")),
        json!(view.str_or("/spec/clusterIPs/0", "<none>")),
        json!(external_ip(view)),
        json!(ports(view)),
        view.age(),
        json!(view.labels("/spec/selector")),
    ]
}

fn external_ip(view: View<'_>) -> String {
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
pub(super) fn load_balancer(view: View<'_>) -> String {
    let ingress = view.items("/status/loadBalancer/ingress");
    let addresses: BTreeSet<&str> = ingress
        .map(|point| point.str_or("/ip", point.str("/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn ports(view: View<'_>) -> String {
    let port = |port: View<'_>| {
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

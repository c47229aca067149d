//! The subsets of endpoints: ports, and the addresses that have all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, ObjectReference, Service, ServicePort,
};
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};

use crate::core::services;

/// The most addresses of all subsets together.
const ADDRESSES_MAX: usize = 1000;

/// An address is known by itself and by the uid of its pod.
type AddressKey = (String, String);

/// A port as it is grouped: its place in the service, and its number.
type PortKey = (usize, i32);

/// Addresses, each with whether it is ready.
type Addresses = BTreeSet<(AddressKey, bool)>;

/// The subsets for the pods of `service`.
pub(super) fn of(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let spec = service.spec.clone().unwrap_or_default();
    let publishes_all = spec.publish_not_ready_addresses == Some(true);
    let ports = spec.ports.unwrap_or_default();
    let mut addresses: BTreeMap<AddressKey, EndpointAddress> = BTreeMap::new();
    // Which addresses have a port, and whether each is ready. No port at all is a group of its own.
    let mut by_port: BTreeMap<Option<PortKey>, Addresses> = BTreeMap::new();
    for pod in pods {
        if !services::is_published(pod, publishes_all) {
            continue;
        }
        let Some(address) = address(service, pod) else {
            continue;
        };
        let key = (address.ip.clone(), pod.uid().unwrap_or_default());
        let is_ready = publishes_all || pod::has_ready_condition(pod);
        addresses.insert(key.clone(), address);
        if ports.is_empty() && services::is_headless(service) {
            by_port.entry(None).or_default().insert((key, is_ready));
            continue;
        }
        for (index, port) in ports.iter().enumerate() {
            if let Some(number) = services::target_port(pod, port) {
                let of_port = by_port.entry(Some((index, number))).or_default();
                of_port.insert((key.clone(), is_ready));
            }
        }
    }
    // Ports with the same addresses share a subset.
    let mut subsets: Vec<(Vec<EndpointPort>, Addresses)> = Vec::new();
    for (port, of_port) in by_port {
        let port = port.map(|(index, number)| endpoint_port(&ports[index], number));
        match subsets.iter_mut().find(|(_, known)| *known == of_port) {
            Some((ports, _)) => ports.extend(port),
            None => subsets.push((port.into_iter().collect(), of_port)),
        }
    }
    let subset = |(ports, of_ports): (Vec<EndpointPort>, Addresses)| {
        let listed = |wanted: bool| {
            let keys = of_ports.iter().filter(|(_, ready)| *ready == wanted);
            let listed = keys.filter_map(|(key, _)| addresses.get(key).cloned());
            let listed: Vec<EndpointAddress> = listed.collect();
            Some(listed).filter(|listed| !listed.is_empty())
        };
        EndpointSubset {
            addresses: listed(true),
            not_ready_addresses: listed(false),
            ports: Some(ports).filter(|ports| !ports.is_empty()),
        }
    };
    subsets.into_iter().map(subset).collect()
}

/// Takes addresses away until all subsets together have as many as Endpoints may have: the addresses that are not ready first,
/// and of each subset in proportion to those it has. Returns whether there were too many.
///
/// Source: `endpoint/endpoints_controller.go`, truncateEndpoints.
pub(super) fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let count = |list: &Option<Vec<EndpointAddress>>| list.as_ref().map_or(0, Vec::len);
    let ready: usize = subsets.iter().map(|one| count(&one.addresses)).sum();
    let others = subsets.iter().map(|one| count(&one.not_ready_addresses));
    let others: usize = others.sum();
    if ready + others <= ADDRESSES_MAX {
        return false;
    }
    let truncates_ready = ready > ADDRESSES_MAX;
    let (room, total) = match truncates_ready {
        true => (ADDRESSES_MAX, ready),
        false => (ADDRESSES_MAX - ready, others),
    };
    let mut left = room;
    for subset in subsets {
        let list = match truncates_ready {
            true => {
                subset.not_ready_addresses = None;
                &mut subset.addresses
            }
            false => &mut subset.not_ready_addresses,
        };
        // Rounded up, so the last subset may have less than its share.
        let share = (count(list) * room).div_ceil(total).min(left);
        if let Some(list) = list {
            list.truncate(share);
        }
        *list = list.take().filter(|list| !list.is_empty());
        left -= share;
    }
    true
}

fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let families = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ip_families.as_ref());
    let is_v6 = families
        .and_then(|families| families.first())
        .map(String::as_str)
        == Some("IPv6");
    let addresses = services::addresses(pod);
    let ip = addresses.into_iter().find(|ip| ip.contains(':') == is_v6)?;
    Some(EndpointAddress {
        hostname: services::hostname(pod, service),
        ip: ip.to_owned(),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.namespace(),
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
    })
}

fn endpoint_port(port: &ServicePort, number: i32) -> EndpointPort {
    EndpointPort {
        app_protocol: port.app_protocol.clone(),
        name: port.name.clone(),
        port: number,
        protocol: port.protocol.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn pod(index: usize, ready: &str, port: i32) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": format!("web-{index}"), "namespace": "ns", "uid": "u"},
            "spec": {"nodeName": "n", "hostname": format!("web-{index}"), "subdomain": "web",
                "containers": [{"name": "main",
                    "ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"podIPs": [{"ip": format!("10.0.0.{index}")}],
                "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(from_value(pod).unwrap())
    }

    fn described(spec: Value, pods: &[Arc<Pod>]) -> Vec<String> {
        let service = json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec});
        let service: Service = from_value(service).unwrap();
        let names = |list: &Option<Vec<EndpointAddress>>| {
            let list = list.iter().flatten();
            list.map(|one| one.hostname.clone().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let described = |subset: EndpointSubset| {
            let ports = subset
                .ports
                .iter()
                .flatten()
                .map(|port| port.port.to_string());
            let ports: Vec<String> = ports.collect();
            let (ready, not) = (names(&subset.addresses), names(&subset.not_ready_addresses));
            format!("{}: [{ready}] [{not}]", ports.join(","))
        };
        of(&service, pods).into_iter().map(described).collect()
    }

    #[test]
    fn addresses_with_the_same_ports_share_a_subset() {
        let ports = json!([{"name": "web", "port": 80, "targetPort": "http"},
            {"name": "metrics", "port": 90, "targetPort": 9090}]);
        let one = [pod(0, "True", 80), pod(1, "False", 80)];
        assert_eq!(
            described(json!({"ports": ports}), &one),
            ["80,9090: [web-0] [web-1]"]
        );
        let two = [pod(0, "True", 80), pod(1, "True", 8080)];
        assert_eq!(
            described(json!({"ports": ports}), &two),
            [
                "80: [web-0] []",
                "8080: [web-1] []",
                "9090: [web-0 web-1] []"
            ]
        );
    }

    #[test]
    fn a_headless_service_may_have_no_ports_and_publish_all() {
        let pods = [pod(0, "True", 80), pod(1, "False", 80)];
        let spec = json!({"clusterIP": "None"});
        assert_eq!(described(spec, &pods), [": [web-0] [web-1]"]);
        let spec = json!({"clusterIP": "None", "publishNotReadyAddresses": true});
        assert_eq!(described(spec, &pods), [": [web-0 web-1] []"]);
        assert_eq!(described(json!({"clusterIP": "10.0.0.9"}), &pods), [""; 0]);
    }

    /// The numbers of ready and of other addresses in each subset after `truncate`, or `None` if nothing is taken away.
    fn truncated<const N: usize>(before: [(usize, usize); N]) -> Option<[(usize, usize); N]> {
        let list = |count: usize| Some(vec![EndpointAddress::default(); count]);
        let mut subsets = before.map(|(ready, others)| EndpointSubset {
            addresses: list(ready),
            not_ready_addresses: list(others),
            ports: None,
        });
        let length = |list: &Option<Vec<EndpointAddress>>| list.as_ref().map_or(0, Vec::len);
        truncate(&mut subsets)
            .then(|| subsets.map(|one| (length(&one.addresses), length(&one.not_ready_addresses))))
    }

    #[test]
    fn at_most_a_thousand_addresses_are_listed_ready_ones_first() {
        assert_eq!(truncated([(600, 100), (200, 100)]), None);
        assert_eq!(
            truncated([(500, 500), (400, 0)]),
            Some([(500, 100), (400, 0)])
        );
        assert_eq!(truncated([(1500, 9)]), Some([(1000, 0)]));
        // A third of 1,000 is rounded up twice, so the last subset gets the rest.
        assert_eq!(
            truncated([(400, 1), (400, 1), (400, 1)]),
            Some([(334, 0), (334, 0), (332, 0)])
        );
        assert_eq!(
            truncated([(0, 900), (700, 900)]),
            Some([(0, 150), (700, 150)])
        );
    }
}

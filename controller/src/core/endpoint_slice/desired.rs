//! The endpoints that a service should have.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, Pod};

use crate::core::services;

/// The label that names a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Endpoints whose pods have the same ports, in the order of their pods' names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) ports: Vec<EndpointPort>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// The groups by address type; each type that the service has is there, if only without a group.
pub(super) fn of(
    service: &Service,
    pods: &[Arc<Pod>],
    node: impl Fn(&str) -> Option<Arc<Node>>,
) -> BTreeMap<String, Vec<Group>> {
    let mut by_type: BTreeMap<String, Vec<Group>> = families(service)
        .into_iter()
        .map(|family| (family, Vec::new()))
        .collect();
    for pod in pods {
        if !services::is_published(pod, true) {
            continue;
        }
        let ports = ports(service, pod);
        let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let zone = node_name
            .as_deref()
            .and_then(&node)
            .and_then(|node| node.labels().get(ZONE).cloned());
        for (family, groups) in &mut by_type {
            let is_v6 = family == "IPv6";
            let addresses = services::addresses(pod).into_iter();
            let addresses: Vec<String> = addresses
                .filter(|address| address.contains(':') == is_v6)
                .map(str::to_owned)
                .collect();
            if addresses.is_empty() {
                continue;
            }
            let endpoint = Endpoint {
                addresses,
                conditions: Some(conditions(service, pod)),
                hostname: services::hostname(pod, service),
                node_name: node_name.clone(),
                target_ref: Some(ObjectReference {
                    kind: Some("Pod".to_owned()),
                    namespace: pod.namespace(),
                    name: pod.metadata.name.clone(),
                    uid: pod.uid(),
                    ..ObjectReference::default()
                }),
                zone: zone.clone(),
                ..Endpoint::default()
            };
            match groups.iter_mut().find(|group| group.ports == ports) {
                Some(group) => group.endpoints.push(endpoint),
                None => groups.push(Group {
                    ports: ports.clone(),
                    endpoints: vec![endpoint],
                }),
            }
        }
    }
    by_type
}

fn families(service: &Service) -> Vec<String> {
    let families = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ip_families.clone());
    let families = families.unwrap_or_default();
    if families.is_empty() {
        return vec!["IPv4".to_owned()];
    }
    families
}

fn conditions(service: &Service, pod: &Pod) -> EndpointConditions {
    let spec = service.spec.as_ref();
    let publishes_all = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let serving = pod::has_ready_condition(pod);
    let terminating = pod::is_terminating(pod);
    EndpointConditions {
        ready: Some(publishes_all || (serving && !terminating)),
        serving: Some(serving),
        terminating: Some(terminating),
    }
}

fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| &spec.ports).flatten();
    let ports = ports.filter_map(|port| {
        Some(EndpointPort {
            app_protocol: port.app_protocol.clone(),
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(services::target_port(pod, port)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        })
    });
    ports.collect()
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn desired(service: Value, pod: Value) -> Value {
        let service = json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": service});
        let service: Service = from_value(service).unwrap();
        let pod: Pod = from_value(pod).unwrap();
        let zone = |name: &str| -> Option<Arc<Node>> {
            let node = json!({"metadata": {"name": name, "labels": {ZONE: "z"}}});
            Some(Arc::new(from_value(node).unwrap()))
        };
        let by_type = of(&service, &[Arc::new(pod)], zone);
        let group = |group: &Group| json!({"ports": group.ports, "endpoints": group.endpoints});
        by_type
            .iter()
            .map(|(type_, groups)| (type_.clone(), groups.iter().map(group).collect::<Value>()))
            .collect()
    }

    fn pod(ready: &str, extra: &Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": "web-0", "namespace": "ns", "uid": "u"},
            "spec": {"nodeName": "n", "hostname": "web-0", "subdomain": "web", "containers": []},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": ready}]},
        });
        for (key, value) in extra.as_object().unwrap() {
            pod["metadata"][key] = value.clone();
        }
        pod
    }

    #[test]
    fn an_endpoint_names_its_pod_its_node_and_its_zone() {
        let service = json!({"ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]});
        let expected = json!({"IPv4": [{
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "hostname": "web-0",
                "nodeName": "n",
                "targetRef": {"kind": "Pod", "namespace": "ns", "name": "web-0", "uid": "u"},
                "zone": "z",
            }],
        }]});
        assert_eq!(desired(service, pod("True", &json!({}))), expected);
    }

    #[test]
    fn a_pod_that_terminates_serves_but_is_not_ready() {
        let conditions = |spec: Value, ready: &str, terminating: bool| {
            let extra = match terminating {
                true => json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
                false => json!({}),
            };
            let slices = desired(spec, pod(ready, &extra));
            let conditions = &slices["IPv4"][0]["endpoints"][0]["conditions"];
            [
                &conditions["ready"],
                &conditions["serving"],
                &conditions["terminating"],
            ]
            .map(|one| one == true)
        };
        assert_eq!(conditions(json!({}), "True", true), [false, true, true]);
        assert_eq!(conditions(json!({}), "False", false), [false, false, false]);
        let all = json!({"publishNotReadyAddresses": true});
        assert_eq!(conditions(all, "False", false), [true, false, false]);
    }
}

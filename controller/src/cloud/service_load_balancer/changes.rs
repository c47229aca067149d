//! The changes of services and nodes that concern a load balancer.

use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Resource, ResourceExt};
use kubeproof_runtime::taints;

/// Keeps a node out of load balancers.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The taint of a node that the cluster autoscaler is about to delete.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Whether the service is of type `LoadBalancer`.
pub(super) fn has_type(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Whether the service is for this controller to serve: one with a class is for another.
pub(super) fn wants_balancer(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let class = spec.and_then(|spec| spec.load_balancer_class.as_ref());
    has_type(service) && class.is_none()
}

/// Whether the load balancer has to be looked at after this change of its service.
pub(super) fn matter(old: &Service, new: &Service) -> bool {
    if !wants_balancer(old) && !wants_balancer(new) {
        return false;
    }
    wants_balancer(old) != wants_balancer(new)
        || old.meta().uid != new.meta().uid
        || old.annotations() != new.annotations()
        || served(old) != served(new)
}

/// The fields of a service that its load balancer depends on, and no others.
fn served(service: &Service) -> impl PartialEq {
    let spec = service.spec.clone().unwrap_or_default();
    (
        spec.ports,
        (spec.session_affinity, spec.session_affinity_config),
        (spec.load_balancer_ip, spec.load_balancer_source_ranges),
        spec.external_ips,
        (spec.external_traffic_policy, spec.health_check_node_port),
        spec.ip_families.map(|families| families.len()),
    )
}

/// Whether load balancers send traffic to the node.
pub(super) fn takes_traffic(node: &Node) -> bool {
    let taints = taints::of(node);
    node.meta().deletion_timestamp.is_none()
        && !node.labels().contains_key(EXCLUDED)
        && !taints.iter().any(|taint| taint.key == TO_BE_DELETED)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: Value) -> Service {
        from_value(json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_service_with_a_class_is_for_another_controller() {
        assert!(wants_balancer(&service(json!({"type": "LoadBalancer"}))));
        assert!(!wants_balancer(&service(json!({"type": "NodePort"}))));
        let of_class = json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/lb"});
        assert!(!wants_balancer(&service(of_class.clone())));
        assert!(has_type(&service(of_class)));
    }

    #[test]
    fn changes_of_type_and_of_what_is_served_matter() {
        let before = service(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
        let after = |spec: Value| matter(&before, &service(spec));
        assert!(!after(
            json!({"type": "LoadBalancer", "ports": [{"port": 80}]})
        ));
        assert!(!after(
            json!({"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}})
        ));
        assert!(after(
            json!({"type": "LoadBalancer", "ports": [{"port": 81}]})
        ));
        assert!(after(json!({"type": "ClusterIP", "ports": [{"port": 80}]})));
        let (one, two) = (json!({"type": "ClusterIP"}), json!({"type": "NodePort"}));
        assert!(!matter(&service(one), &service(two)));
        let mut annotated = before.clone();
        annotated
            .annotations_mut()
            .insert("a".to_owned(), "b".to_owned());
        assert!(matter(&before, &annotated));
    }

    #[test]
    fn nodes_are_left_out_by_label_taint_and_deletion() {
        let node = |value: Value| takes_traffic(&from_value(value).unwrap());
        assert!(node(json!({"metadata": {"name": "n"}})));
        let not_ready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
        assert!(node(
            json!({"metadata": {"name": "n"}, "spec": {"taints": not_ready}})
        ));
        assert!(!node(
            json!({"metadata": {"name": "n", "labels": {EXCLUDED: ""}}})
        ));
        let doomed = json!([{"key": TO_BE_DELETED, "effect": "NoSchedule"}]);
        assert!(!node(
            json!({"metadata": {"name": "n"}, "spec": {"taints": doomed}})
        ));
        let deleted = json!({"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!node(json!({"metadata": deleted})));
    }
}

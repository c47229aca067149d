use crate::json::json;

use super::*;

fn usage(spec: &Value, objects: &[(&str, Value)]) -> Value {
    let objects: Vec<Counted<'_>> = objects
        .iter()
        .map(|(resource, object)| Counted { resource, object })
        .collect();
    json!(used(spec, &objects, Timestamp::from_second(100).unwrap()))
}

#[test]
fn pods_use_what_runs_at_the_same_time_until_they_end() {
    let container = |cpu: &str, memory: &str| {
        let amounts = json!({ "cpu": cpu, "memory": memory });
        json!({ "name": "c", "resources": { "requests": amounts, "limits": amounts } })
    };
    let spec = json!({
        "containers": [container("500m", "64Mi"), container("1", "64Mi")],
        "initContainers": [container("2", "1Mi")],
    });
    let hard = json!({ "hard": {
        "pods": "9", "count/pods": "9", "cpu": "9", "limits.memory": "1Gi", "requests.cpu": "9",
    } });
    let pod = |metadata: Value, phase: &str| {
        let status = json!({ "phase": phase });
        (
            "pods",
            json!({ "metadata": metadata, "spec": spec, "status": status }),
        )
    };
    let marked = |second: u32| {
        let time = format!("1970-01-01T00:01:{second:02}Z");
        json!({ "deletionTimestamp": time, "deletionGracePeriodSeconds": 30 })
    };
    let objects = [
        pod(json!({}), "Running"),
        pod(json!({}), "Succeeded"),
        pod(marked(9), "Running"),
        pod(marked(10), "Running"),
    ];
    let expected = json!({
        "pods": "2", "count/pods": "4", "cpu": "4", "limits.memory": "256Mi", "requests.cpu": "4",
    });
    assert_eq!(usage(&hard, &objects), expected);
}

#[test]
fn a_quota_with_scopes_counts_the_pods_in_them_and_nothing_else() {
    let pod = |resources: Value| {
        let containers = json!([{ "name": "c", "resources": resources }]);
        ("pods", json!({ "spec": { "containers": containers } }))
    };
    let bounded = || pod(json!({ "limits": { "cpu": "1" } }));
    let objects = [
        pod(json!({})),
        bounded(),
        bounded(),
        ("services", json!({})),
    ];
    for (scope, expected) in [
        ("BestEffort", "1"),
        ("NotBestEffort", "2"),
        ("Terminating", "0"),
    ] {
        let spec = json!({ "hard": { "pods": "5", "services": "5" }, "scopes": [scope] });
        let expected = json!({ "pods": expected, "services": "0" });
        assert_eq!(usage(&spec, &objects), expected, "{scope}");
    }
}

#[test]
fn services_claims_and_others_are_counted() {
    let hard = json!({ "hard": {
        "services": "9", "services.nodeports": "9", "services.loadbalancers": "9",
        "persistentvolumeclaims": "9", "requests.storage": "9Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "9Gi",
        "configmaps": "9", "count/deployments.apps": "9",
    } });
    let ports = json!([{ "port": 80 }, { "port": 81, "nodePort": 30001 }]);
    let service = |type_: &str| {
        let spec = json!({ "type": type_, "ports": ports, "allocateLoadBalancerNodePorts": false });
        ("services", json!({ "spec": spec }))
    };
    let claim = |class: Value, allocated: Value| {
        let storage = json!({ "requests": { "storage": "1Gi" } });
        let spec = json!({ "resources": storage, "storageClassName": class });
        let status = json!({ "allocatedResources": { "storage": allocated } });
        (
            "persistentvolumeclaims",
            json!({ "spec": spec, "status": status }),
        )
    };
    let objects = [
        service("ClusterIP"),
        service("NodePort"),
        service("LoadBalancer"),
        claim(Value::Null, json!("2Gi")),
        claim(json!("fast"), Value::Null),
        ("configmaps", Value::Null),
        ("configmaps", Value::Null),
        ("deployments.apps", Value::Null),
        ("secrets", Value::Null),
    ];
    let expected = json!({
        "services": "3", "services.nodeports": "3", "services.loadbalancers": "1",
        "persistentvolumeclaims": "2", "requests.storage": "3Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
        "configmaps": "2", "count/deployments.apps": "1",
    });
    assert_eq!(usage(&hard, &objects), expected);
}

#[test]
fn claims_are_in_the_scopes_of_all_their_attributes_classes() {
    let claim = json!({
        "spec": { "volumeAttributesClassName": "gold" },
        "status": { "currentVolumeAttributesClassName": "silver" },
    });
    let objects = [
        ("persistentvolumeclaims", claim),
        ("persistentvolumeclaims", json!({ "spec": {} })),
    ];
    for (operator, values, expected) in [
        ("Exists", json!([]), "1"),
        ("DoesNotExist", json!([]), "1"),
        ("In", json!(["gold"]), "1"),
        ("In", json!(["silver", "other"]), "1"),
        ("In", json!(["other"]), "0"),
        // The claim is not gold alone.
        ("NotIn", json!(["gold"]), "2"),
    ] {
        let scope = json!({
            "scopeName": "VolumeAttributesClass", "operator": operator, "values": values,
        });
        let spec = json!({
            "hard": { "persistentvolumeclaims": "5" },
            "scopeSelector": { "matchExpressions": [scope] },
        });
        let used = usage(&spec, &objects);
        assert_eq!(used["persistentvolumeclaims"], expected, "{scope}");
    }
}

#[test]
fn devices_are_counted_by_class_and_alternatives_at_their_most() {
    let exactly = |class: &str, count: u32| json!({ "deviceClassName": class, "allocationMode": "ExactCount", "count": count });
    let requests = json!([
        { "name": "a", "exactly": exactly("gold", 2) },
        { "name": "b", "exactly": { "deviceClassName": "silver", "allocationMode": "All" } },
        { "name": "c", "firstAvailable": [
            exactly("gold", 1), exactly("gold", 3), exactly("tin", 1),
        ] },
    ]);
    let claim = json!({ "spec": { "devices": { "requests": requests } } });
    let devices = |class: &str| format!("{class}.deviceclass.resource.k8s.io/devices");
    let hard = json!({ "hard": {
        "count/resourceclaims.resource.k8s.io": "9",
        devices("gold"): "9", devices("silver"): "9", devices("tin"): "9", devices("none"): "9",
    } });
    let expected = json!({
        "count/resourceclaims.resource.k8s.io": "1",
        devices("gold"): "5", devices("silver"): "32", devices("tin"): "1", devices("none"): "0",
    });
    let objects = [("resourceclaims.resource.k8s.io", claim)];
    assert_eq!(usage(&hard, &objects), expected);
}

use serde_json::{Value, json};

use super::*;

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn used(spec: &Value, count: impl FnOnce(&mut Counted<'_>)) -> Value {
    let spec: ResourceQuotaSpec = object(spec.clone());
    let mut counted = Counted::new(&spec, spec.hard.as_ref().unwrap());
    count(&mut counted);
    serde_json::to_value(counted.used()).unwrap()
}

fn pod(spec: &Value, status: &Value) -> Pod {
    object(json!({ "metadata": { "name": "a" }, "spec": spec, "status": status }))
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
    let told = used(&hard, |counted| {
        counted.add_pod(
            &pod(&spec, &json!({ "phase": "Running" })),
            Timestamp::UNIX_EPOCH,
        );
        counted.add_pod(
            &pod(&spec, &json!({ "phase": "Succeeded" })),
            Timestamp::UNIX_EPOCH,
        );
    });
    let expected = json!({
        "pods": "1", "count/pods": "2", "cpu": "2", "limits.memory": "128Mi", "requests.cpu": "2",
    });
    assert_eq!(told, expected);
}

#[test]
fn a_quota_with_scopes_counts_the_pods_in_them_and_nothing_else() {
    let best_effort = pod(&json!({ "containers": [{ "name": "c" }] }), &json!({}));
    let bounded =
        json!({ "containers": [{ "name": "c", "resources": { "limits": { "cpu": "1" } } }] });
    let bounded = pod(&bounded, &json!({}));
    for (scope, expected) in [
        ("BestEffort", "1"),
        ("NotBestEffort", "2"),
        ("Terminating", "0"),
    ] {
        let spec = json!({ "hard": { "pods": "5", "services": "5" }, "scopes": [scope] });
        let told = used(&spec, |counted| {
            for pod in [&best_effort, &bounded, &bounded] {
                counted.add_pod(pod, Timestamp::UNIX_EPOCH);
            }
            counted.add_service(&Service::default());
        });
        assert_eq!(
            told,
            json!({ "pods": expected, "services": "0" }),
            "{scope}"
        );
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
    let told = used(&hard, |counted| {
        let ports = json!([{ "port": 80 }, { "port": 81, "nodePort": 30001 }]);
        for spec in [
            json!({ "type": "ClusterIP", "ports": ports }),
            json!({ "type": "NodePort", "ports": ports }),
            json!({ "type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false }),
        ] {
            counted.add_service(&object(json!({ "metadata": {}, "spec": spec })));
        }
        for class in [Value::Null, json!("fast")] {
            let storage = json!({ "requests": { "storage": "1Gi" } });
            let spec = json!({ "resources": storage, "storageClassName": class });
            counted.add_claim(&object(json!({ "metadata": {}, "spec": spec })));
        }
        counted.add_others("configmaps", 3);
        counted.add_others("deployments.apps", 2);
    });
    let expected = json!({
        "services": "3", "services.nodeports": "3", "services.loadbalancers": "1",
        "persistentvolumeclaims": "2", "requests.storage": "2Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
        "configmaps": "3", "count/deployments.apps": "2",
    });
    assert_eq!(told, expected);
}

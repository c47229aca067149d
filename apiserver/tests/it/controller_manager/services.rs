//! Endpoints, EndpointSlices and the ranges of service addresses.

use kubeproof_apiserver::json::json;

use super::client::{Client, STRATEGIC, controller_ref, options};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

#[tokio::test]
async fn the_endpoints_controller_writes_the_object_of_a_service() {
    let client = Client::new();
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    client.made(SERVICES, service).await;
    let base = "/api/v1/namespaces/default/endpoints";
    client.get(&format!("{base}/web")).await.expect(404);
    let target = json!({"kind": "Pod", "namespace": "default", "name": "web-0", "uid": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"});
    let mut endpoints = json!({
        "kind": "Endpoints", "apiVersion": "v1",
        "metadata": {"name": "web", "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
        "subsets": [{
            "addresses": [{"ip": "10.244.0.5", "nodeName": "n", "targetRef": target}],
            "ports": [{"port": 80, "protocol": "TCP"}],
        }],
    });
    endpoints = client.post(base, &endpoints).await.expect(201).body;
    endpoints["subsets"] = json!([]);
    let emptied = client
        .put(&format!("{base}/web"), &endpoints)
        .await
        .expect(200);
    assert!(emptied.body.get("subsets").is_none(), "{}", emptied.body);
}

#[tokio::test]
async fn the_slice_controller_names_its_slices_by_their_service() {
    let client = Client::new();
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let service = client.made(SERVICES, service).await;
    let slice = json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "generateName": "web-", "namespace": "default",
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": "web",
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
            "ownerReferences": [controller_ref("v1", "Service", &service)],
        },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.244.0.5"], "conditions": {"ready": true, "serving": true, "terminating": false}, "nodeName": "n",
        }],
        "ports": [{"name": "", "protocol": "TCP", "port": 80}],
    });
    let created = client.post(SLICES, &slice).await.expect(201);
    let name = created.text("/metadata/name");
    assert!(name.starts_with("web-"), "{name}");
    assert_eq!(created.at("/metadata/generation"), 1);
    let mut unready = created.body.clone();
    unready["endpoints"][0]["conditions"]["ready"] = json!(false);
    let updated = client
        .put(&format!("{SLICES}/{name}"), &unready)
        .await
        .expect(200);
    assert_eq!(updated.at("/metadata/generation"), 2);
    let own = options("discovery.k8s.io/v1", json!({}));
    client
        .delete(&format!("{SLICES}/{name}"), &own)
        .await
        .expect(200);
}

#[tokio::test]
async fn the_range_controller_protects_ranges_and_says_that_they_are_ready() {
    let client = Client::new();
    let ranges = "/apis/networking.k8s.io/v1/servicecidrs";
    let default = client
        .get(&format!("{ranges}/kubernetes"))
        .await
        .expect(200);
    assert_eq!(default.at("/spec/cidrs"), &json!(["10.0.0.0/24"]));
    let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.1.0.0/24"]}});
    client.made(ranges, more).await;
    let uri = format!("{ranges}/more");
    let finalizer = "networking.k8s.io/service-cidr-finalizer";
    let patch = json!({"metadata": {"finalizers": [finalizer]}});
    let held = client.patch(STRATEGIC, &uri, &patch).await.expect(200);
    assert_eq!(held.at("/metadata/finalizers"), &json!([finalizer]));
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let applied = json!({
        "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "more"},
        "status": {"conditions": [condition]},
    });
    let ready = client
        .apply(
            &format!("{uri}/status"),
            "service-cidrs-controller",
            &applied,
        )
        .await
        .expect(200);
    assert_eq!(ready.at("/status/conditions"), &json!([condition]));
    client
        .delete(&uri, &options("networking.k8s.io/v1", json!({})))
        .await
        .expect(200);
    let free = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}});
    client.patch(STRATEGIC, &uri, &free).await.expect(200);
    client.get(&uri).await.expect(404);
}

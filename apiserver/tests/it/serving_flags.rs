//! Flags that choose what a server serves and how: feature gates, and APIs that are on.

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, FeatureGates, RuntimeConfig};

use crate::support::requests::send;

#[tokio::test]
async fn a_feature_gate_keeps_the_field_that_it_guards() {
    let set = json!({ "metadata": { "name": "s" }, "spec": {
        "serviceName": "s",
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }] } },
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 2 } },
    } });
    let sets = "POST /apis/apps/v1/namespaces/default/statefulsets";
    for (value, kept) in [("true", json!(2)), ("false", json!(null))] {
        let gates = format!("MaxUnavailableStatefulSet={value}");
        let gates = FeatureGates::read([gates.as_str()]).unwrap();
        let server = ApiServer::builder().feature_gates(&gates).build();
        let created = send(&server, sets, &set).await;
        let strategy = &created.body["spec"]["updateStrategy"]["rollingUpdate"];
        assert_eq!(strategy["maxUnavailable"], kept);
    }
}

#[tokio::test]
async fn an_api_that_is_off_is_neither_found_nor_discovered() {
    let settings = [
        ("apps/v1", "false"),
        ("/v1/secrets", "false"),
        ("autoscaling/v1", "false"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = RuntimeConfig::read(&settings.into()).unwrap();
    let server = ApiServer::builder().runtime_config(config).build();
    let get = async |path: &str| send(&server, &format!("GET {path}"), Value::Null).await;
    for path in [
        "/apis/apps/v1",
        "/apis/apps",
        "/apis/apps/v1/namespaces/default/deployments",
        "/api/v1/namespaces/default/secrets",
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
    ] {
        assert_eq!(get(path).await.code, 404, "{path}");
    }
    for path in [
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        "/api/v1/namespaces/default/pods",
        "/apis/batch/v1",
    ] {
        assert_eq!(get(path).await.code, 200, "{path}");
    }
    let groups = get("/apis").await.body.to_string();
    assert!(!groups.contains("\"apps\"") && groups.contains("\"batch\""));
    let resources = get("/api/v1").await.body.to_string();
    assert!(!resources.contains("\"secrets\"") && resources.contains("\"pods\""));
    // The server's own needs stay.
    let map = json!({ "metadata": { "name": "m" } });
    let created = send(&server, "POST /api/v1/namespaces/default/configmaps", map).await;
    assert_eq!(created.code, 201);
}

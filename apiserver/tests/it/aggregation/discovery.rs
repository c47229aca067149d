//! Discovery with group versions of other servers.
//!
//! Source: `pkg/apiserver/handler_apis.go` and `handler_discovery.go` of kube-aggregator.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::{register, start_before};
use crate::support::extension_server::{Discovery, ExtensionServer, GROUP, VERSION, api_service};
use crate::support::requests::{answer, respond, send, server};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The versions of a group in the aggregated form.
async fn aggregated(server: &ApiServer, group: &str) -> Value {
    let accept = [("accept", AGGREGATED)];
    let list = answer(respond(server, "GET /apis", &accept, "").await).await;
    let mut groups = list.body["items"].as_array().unwrap().iter();
    let found = groups.find(|own| own["metadata"]["name"] == group);
    found.unwrap()["versions"].clone()
}

#[tokio::test]
async fn a_version_that_was_never_reached_is_stale() {
    let server = server();
    let before = send(&server, "GET /apis", Value::Null).await;
    register(&server, &api_service(GROUP, VERSION, json!({}))).await;
    let stale = json!([{"version": VERSION, "freshness": "Stale"}]);
    assert_eq!(aggregated(&server, GROUP).await, stale);
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    let group = json!({"name": GROUP, "versions": [version], "preferredVersion": version});
    let after = send(&server, "GET /apis", Value::Null).await;
    let mut expected = before.body.clone();
    expected["groups"].as_array_mut().unwrap().push(group);
    assert_eq!(after.body, expected);
    let root = send(&server, "GET /", Value::Null).await;
    let paths = root.body["paths"].as_array().unwrap();
    assert!(paths.contains(&json!(format!("/apis/{GROUP}/{VERSION}"))));
    let protobuf = AGGREGATED.replace("json", "vnd.kubernetes.protobuf");
    let encoded = respond(&server, "GET /apis", &[("accept", protobuf)], "").await;
    assert_eq!(encoded.status(), 200);
    let deleted = format!("DELETE {}/{VERSION}.{GROUP}", super::API_SERVICES);
    assert_eq!(send(&server, &deleted, Value::Null).await.code, 200);
    assert_eq!(
        send(&server, "GET /apis", Value::Null).await.body,
        before.body
    );
}

#[tokio::test]
async fn groups_and_versions_are_in_the_order_of_their_priorities() {
    let server = server();
    for (version, group, more) in [
        ("v1", "low.example.com", json!({"groupPriorityMinimum": 10})),
        ("v1beta1", GROUP, json!({})),
        ("v1", GROUP, json!({})),
        ("v2alpha1", GROUP, json!({"versionPriority": 100})),
        (
            "v1",
            "high.example.com",
            json!({"groupPriorityMinimum": 17900}),
        ),
    ] {
        register(&server, &api_service(group, version, more)).await;
    }
    let list = send(&server, "GET /apis", Value::Null).await;
    let names: Vec<&str> = list.body["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["name"].as_str().unwrap())
        .collect();
    // `apiregistration.k8s.io` is always first, and `apps` has the priority 17800.
    assert_eq!(
        names[..3],
        ["apiregistration.k8s.io", "high.example.com", "apps"]
    );
    assert_eq!(names[names.len() - 2..], [GROUP, "low.example.com"]);
    let group = send(&server, &format!("GET /apis/{GROUP}"), Value::Null).await;
    assert_eq!(group.body["kind"], "APIGroup");
    assert_eq!(group.body["preferredVersion"]["version"], "v2alpha1");
    let versions = |list: &Value| {
        let versions = list.as_array().unwrap().iter();
        versions
            .map(|own| own["version"].clone())
            .collect::<Vec<Value>>()
    };
    assert_eq!(
        versions(&group.body["versions"]),
        ["v2alpha1", "v1", "v1beta1"]
    );
    assert_eq!(
        versions(&aggregated(&server, GROUP).await),
        ["v2alpha1", "v1", "v1beta1"]
    );
}

#[tokio::test]
async fn the_resources_are_those_of_the_service_in_either_form() {
    let kind = |kind: &str| json!({"group": "", "version": "", "kind": kind});
    for form in [Discovery::Aggregated, Discovery::Legacy] {
        let extension = ExtensionServer::start(form).await;
        let running = start_before(&extension).await;
        let server = &running.server;
        let mut flunders = json!({
            "resource": "flunders", "scope": "Namespaced", "singularResource": "flunder",
            "verbs": ["get", "list"], "shortNames": ["fl"], "responseKind": kind(""),
        });
        if form == Discovery::Legacy {
            flunders["responseKind"] = kind("Flunder");
            flunders["subresources"] = json!([
                {"subresource": "status", "verbs": ["get"], "responseKind": kind("Flunder")},
            ]);
        }
        let expected =
            json!([{"version": VERSION, "resources": [flunders], "freshness": "Current"}]);
        assert_eq!(aggregated(server, GROUP).await, expected, "{form:?}");
        let path = format!("/apis/{GROUP}/{VERSION}");
        let resources = send(server, &format!("GET {path}"), Value::Null).await;
        assert_eq!(resources.body["resources"][0]["name"], "flunders");
        let index = send(server, "GET /openapi/v3", Value::Null).await;
        let paths = &index.body["paths"];
        let url = format!("/openapi/v3{path}?hash=1");
        assert_eq!(paths[&path[1..]]["serverRelativeURL"], url);
        assert!(paths["apis/apps/v1"].is_object());
        let document = send(server, &format!("GET {url}"), Value::Null).await;
        assert_eq!(document.body, json!({"openapi": "3.0.0"}));
        // Without its service the version keeps its resources, which may be of the past.
        let other = json!({"spec": {"service": {"name": "other"}}});
        let service = format!("PATCH {}/{VERSION}.{GROUP}", super::API_SERVICES);
        assert_eq!(send(server, &service, other).await.code, 200);
        let stale = loop {
            let found = aggregated(server, GROUP).await;
            if found[0]["freshness"] == "Stale" {
                break found;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(stale[0]["resources"], expected[0]["resources"]);
    }
}

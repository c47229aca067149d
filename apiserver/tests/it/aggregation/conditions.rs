//! The condition `Available`.
//!
//! Source: `pkg/controllers/status/remote/remote_available_controller.go` of kube-aggregator.

use bytes::Bytes;
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::{API_SERVICES, FLUNDERS, condition, register, start};
use crate::support::extension_server::{Discovery, ExtensionServer, GROUP, VERSION, api_service};
use crate::support::ports::RefusingPort;
use crate::support::requests::{read, respond, send, server};

const NAME: &str = "v1alpha1.wardle.example.com";

/// The present condition: its status, reason and message.
async fn now(server: &ApiServer) -> [String; 3] {
    let service = send(server, &format!("GET {API_SERVICES}/{NAME}"), Value::Null).await;
    let condition = &service.body["status"]["conditions"][0];
    ["status", "reason", "message"].map(|field| condition[field].as_str().unwrap().to_owned())
}

async fn apply(server: &ApiServer, request: &str, body: Value) {
    let written = send(server, request, body).await;
    assert!(written.code < 300, "{request}: {}", written.message());
}

#[tokio::test]
async fn it_follows_from_the_service_and_its_endpoints() {
    let server = server();
    register(&server, &api_service(GROUP, VERSION, json!({}))).await;
    let refused = |reason: &str, message: &str| ["False", reason, message].map(str::to_owned);
    let missing = refused(
        "ServiceNotFound",
        "service/ext in \"default\" is not present",
    );
    assert_eq!(now(&server).await, missing);
    let none: [(&str, &str); 0] = [];
    let response = respond(&server, &format!("GET {FLUNDERS}"), &none, "").await;
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
    let unavailable = (503, Bytes::from("service unavailable\n"));
    assert_eq!(read(response).await, unavailable);

    let services = "/api/v1/namespaces/default/services";
    let ports = json!([{"name": "api", "port": 80, "targetPort": 8080}]);
    let service = json!({"metadata": {"name": "ext"}, "spec": {"ports": ports}});
    apply(&server, &format!("POST {services}"), service).await;
    let message = "service/ext in \"default\" is not listening on port 443";
    assert_eq!(now(&server).await, refused("ServicePortError", message));

    let ports = json!([{"name": "api", "port": 443, "targetPort": 8443}]);
    let patch = json!({"spec": {"ports": ports}});
    apply(&server, &format!("PATCH {services}/ext"), patch).await;
    let message = "cannot find endpointslices for service/ext in \"default\"";
    assert_eq!(now(&server).await, refused("EndpointsNotFound", message));

    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let endpoint = json!({"addresses": ["10.244.0.5"], "conditions": {"ready": false}});
    let slice = json!({
        "metadata": {"name": "ext-1", "labels": {"kubernetes.io/service-name": "ext"}},
        "addressType": "IPv4", "ports": [{"name": "api", "port": 8443}], "endpoints": [endpoint],
    });
    apply(&server, &format!("POST {slices}"), slice).await;
    let message =
        "endpointslices for service/ext in \"default\" have no addresses with port name \"api\"";
    assert_eq!(now(&server).await, refused("MissingEndpoints", message));

    apply(&server, &format!("DELETE {slices}/ext-1"), Value::Null).await;
    let message = "cannot find endpointslices for service/ext in \"default\"";
    assert_eq!(now(&server).await, refused("EndpointsNotFound", message));
    apply(&server, &format!("DELETE {services}/ext"), Value::Null).await;
    assert_eq!(now(&server).await, missing);
}

#[tokio::test]
async fn its_time_is_that_of_the_last_change_of_status_and_its_owner_the_server() {
    let server = server();
    register(&server, &api_service(GROUP, VERSION, json!({}))).await;
    let service = send(&server, &format!("GET {API_SERVICES}/{NAME}"), Value::Null).await;
    let condition = &service.body["status"]["conditions"][0];
    assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:00:00Z");
    let managers = service.body["metadata"]["managedFields"]
        .as_array()
        .unwrap();
    let of_status = managers
        .iter()
        .find(|own| own["subresource"] == "status")
        .unwrap();
    assert_eq!(of_status["manager"], "kube-apiserver");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) =
        read(respond(&server, &format!("GET {API_SERVICES}/{NAME}"), &table, "").await).await;
    let table: Value = serde_json::from_slice(&table).unwrap();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [NAME, "default/ext", "False (ServiceNotFound)"]);
}

#[tokio::test]
async fn a_service_without_a_listener_fails_its_check() {
    let port = RefusingPort::bind();
    let address = port.address;
    let builder = ApiServer::builder().resolve_service("default", "ext", 443, address);
    let running = start(builder).await;
    register(&running.server, &api_service(GROUP, VERSION, json!({}))).await;
    let failed = condition(&running.server, NAME, "FailedDiscoveryCheck").await;
    let url = format!("https://{address}/apis/{GROUP}/{VERSION}");
    let why = format!(
        "failing or missing response from {url}: Get {url:?}: dial tcp {address}: connect: \
         connection refused"
    );
    assert_eq!(
        (&failed["status"], &failed["message"]),
        (&json!("False"), &json!(why))
    );
}

#[tokio::test]
async fn the_certificate_of_a_service_is_checked_unless_it_is_not_to_be() {
    let extension = ExtensionServer::start(Discovery::Aggregated).await;
    let builder = ApiServer::builder().resolve_service("default", "ext", 443, extension.address);
    let running = start(builder).await;
    let server = &running.server;
    register(server, &api_service(GROUP, VERSION, json!({}))).await;
    let failed = condition(server, NAME, "FailedDiscoveryCheck").await;
    let unknown =
        "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    let message = failed["message"].as_str().unwrap();
    assert!(message.ends_with(unknown), "{message}");
    let insecure = json!({"spec": {"insecureSkipTLSVerify": true}});
    apply(server, &format!("PATCH {API_SERVICES}/{NAME}"), insecure).await;
    let passed = condition(server, NAME, "Passed").await;
    assert_eq!(
        (&passed["status"], &passed["message"]),
        (&json!("True"), &json!("all checks passed"))
    );
    let secure =
        json!({"spec": {"insecureSkipTLSVerify": false, "caBundle": extension.ca_bundle()}});
    apply(server, &format!("PATCH {API_SERVICES}/{NAME}"), secure).await;
    let listed = send(server, &format!("GET {FLUNDERS}"), Value::Null).await;
    assert_eq!(listed.code, 200);
}

//! `/statusz`, `/flagz`, `/metrics/slis`, and metrics that come and go with what they are about.

use std::time::Duration;

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::{ask, read, respond, server};

async fn page(server: &ApiServer, path: &str, accept: &str) -> (u16, String, String) {
    let headers = [("accept", accept)];
    let response = respond(server, &format!("GET {path}"), &headers, b"").await;
    let content_type = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    let (code, _, body) = read(response).await;
    (
        code,
        content_type,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn statusz_is_text_unless_the_client_names_the_object() {
    let server = server();
    tokio::time::advance(Duration::from_secs(3_723)).await;
    let (code, content_type, text) = page(&server, "/statusz", "*/*").await;
    assert_eq!(
        (code, content_type.as_str()),
        (200, "text/plain; charset=utf-8")
    );
    assert!(text.starts_with("\napiserver statusz\nWarning: This endpoint is not meant"));
    assert!(text.contains("\nUp: 1 hr 02 min 03 sec\n"), "{text}");
    assert!(text.contains("\nEmulation version: 1.36\n"), "{text}");
    let named = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    let (code, content_type, text) = page(&server, "/statusz", named).await;
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 200);
    assert_eq!(
        content_type,
        "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"
    );
    assert_eq!(object["uptimeSeconds"], 3_723);
    assert_eq!(object["metadata"]["name"], "apiserver");
    let early = [(
        "accept",
        "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz",
    )];
    let response = respond(&server, "GET /statusz", &early, b"").await;
    let warning =
        "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\"";
    assert_eq!(response.headers()["warning"], warning);
    for other in [
        "application/json",
        "text/plain;v=1",
        "application/json;v=v1beta2;g=config.k8s.io;as=Statusz",
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
    ] {
        let (code, _, text) = page(&server, "/statusz", other).await;
        assert_eq!(code, 406, "{other}");
        let wanted = "only the following media types are accepted: application/json, application/yaml, text/plain";
        assert!(text.contains(wanted), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn flagz_shows_the_flags_that_say_what_this_server_does() {
    let server = ApiServer::builder().service_account_admission().build();
    let (code, _, text) = page(&server, "/flagz", "text/plain").await;
    assert_eq!(code, 200);
    assert!(text.contains("\nauthorization-mode: [RBAC]\n"), "{text}");
    let named = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    let (_, _, text) = page(&server, "/flagz", named).await;
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["kind"], "Flagz");
    assert_eq!(object["flags"]["disable-admission-plugins"], "[]");
}

#[tokio::test(start_paused = true)]
async fn pages_are_shown_to_the_group_system_monitoring() {
    let server = ApiServer::builder().token(Some("t".to_owned())).build();
    for path in ["/statusz", "/flagz", "/metrics", "/metrics/slis"] {
        let (code, _) = ask(&server, &format!("GET {path}")).await;
        assert_eq!(code, 403, "{path}");
        let monitoring = [
            ("authorization", "Bearer t"),
            ("impersonate-user", "prometheus"),
            ("impersonate-group", "system:monitoring"),
        ];
        let response = respond(&server, &format!("GET {path}"), &monitoring, b"").await;
        assert_eq!(response.status(), 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn slis_count_the_checks_that_were_made() {
    let server = server();
    let (_, text) = ask(&server, "GET /metrics/slis").await;
    assert_eq!(text, "");
    ask(&server, "GET /readyz").await;
    ask(&server, "GET /readyz?exclude=etcd").await;
    ask(&server, "GET /readyz/ping").await;
    let (_, text) = ask(&server, "GET /metrics/slis").await;
    for line in [
        "kubernetes_healthcheck{name=\"etcd\",type=\"readyz\"} 1",
        "kubernetes_healthchecks_total{name=\"etcd\",status=\"success\",type=\"readyz\"} 1",
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"readyz\"} 2",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
    }
    assert!(!text.contains("livez"));
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_definition_go_with_it() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let server = server();
    let definition = json!({"metadata": {"name": "tabs.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "tabs", "kind": "Tab"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let json = [("content-type", "application/json")];
    let body = definition.to_string();
    let created = respond(
        &server,
        &format!("POST {DEFINITIONS}"),
        &json,
        body.as_bytes(),
    )
    .await;
    assert_eq!(created.status(), 201);
    ask(&server, "GET /apis/example.com/v1/tabs").await;
    let tab = json!({"apiVersion": "example.com/v1", "kind": "Tab", "metadata": {"name": "a"}});
    let path = "/apis/example.com/v1/namespaces/default/tabs";
    let (post, tab) = (format!("POST {path}"), tab.to_string());
    let posted = respond(&server, &post, &json, tab.as_bytes()).await;
    assert_eq!(posted.status(), 201);
    ask(&server, &format!("GET {path}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")).await;
    let (_, text) = ask(&server, "GET /metrics").await;
    assert!(text.contains("apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"example.com\",resource=\"tabs\""));
    assert!(text.contains("apiserver_resource_objects{group=\"example.com\",resource=\"tabs\"} 1"));
    assert!(text.contains("apiserver_cache_list_total{group=\"example.com\""));
    assert!(text.contains("apiserver_init_events_total{group=\"example.com\""));
    assert!(text.contains("apiserver_request_body_size_bytes_count{group=\"example.com\""));
    assert!(
        text.contains("\nauthenticated_user_requests{username=\"other\"} "),
        "{text}"
    );
    assert!(text.contains("\nauthorization_attempts_total{result=\"allowed\"} "));
    let gone = respond(
        &server,
        &format!("DELETE {DEFINITIONS}/tabs.example.com"),
        &[],
        b"",
    )
    .await;
    assert_eq!(gone.status(), 200);
    let (_, text) = ask(&server, "GET /metrics").await;
    assert!(!text.contains("example.com"), "{text}");
}

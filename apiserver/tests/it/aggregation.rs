//! APIServices whose group version another server serves.
//!
//! Source: `k8s.io/kube-aggregator` of Kubernetes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conditions;
mod discovery;

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, ApiServerBuilder, MetricValue, Tls, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, crypto};

use crate::support::extension_server::{Discovery, ExtensionServer, api_service};
use crate::support::requests::{answer, read, respond, send};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders";

/// A server on a socket, which checks its API services.
struct Running {
    server: ApiServer,
    _stop: oneshot::Sender<()>,
    _served: JoinHandle<std::io::Result<()>>,
}

async fn start(builder: ApiServerBuilder) -> Running {
    let server = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async { drop(stopped.await) };
    Running {
        server: server.clone(),
        _stop: stop,
        _served: tokio::spawn(serve(server, listener, shutdown)),
    }
}

/// A server whose service `default/ext` is `extension`, with an APIService of it that is available.
async fn start_before(extension: &ExtensionServer) -> Running {
    let builder = ApiServer::builder().resolve_service("default", "ext", 443, extension.address);
    let running = start(builder).await;
    register(&running.server, &extension.api_service()).await;
    condition(&running.server, "v1alpha1.wardle.example.com", "Passed").await;
    running
}

async fn register(server: &ApiServer, service: &Value) {
    let created = send(server, &format!("POST {API_SERVICES}"), service).await;
    assert_eq!(created.code, 201, "{}", created.message());
}

/// The condition of an API service, once it has this reason.
async fn condition(server: &ApiServer, name: &str, reason: &str) -> Value {
    let mut versions = server.subscribe();
    loop {
        versions.borrow_and_update();
        let service = send(server, &format!("GET {API_SERVICES}/{name}"), Value::Null).await;
        let condition = &service.body["status"]["conditions"][0];
        if condition["reason"] == reason {
            return condition.clone();
        }
        versions.changed().await.unwrap();
    }
}

#[tokio::test]
async fn requests_are_passed_on_with_the_user_in_headers() {
    let extension = ExtensionServer::start(Discovery::Aggregated).await;
    let running = start_before(&extension).await;
    let server = &running.server;
    let headers = [
        ("impersonate-user", "jane"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "42"),
        ("impersonate-extra-acme.com%2fproject", "some"),
        ("x-remote-user", "root"),
        ("x-remote-extra-own", "forged"),
        ("connection", "x-hop"),
        ("x-hop", "here"),
        ("x-kept", "there"),
        ("audit-id", "audit-1"),
    ];
    let listed = respond(server, &format!("GET {FLUNDERS}?limit=5"), &headers, "").await;
    assert_eq!(listed.headers()["x-served-by"], "extension");
    assert_eq!(listed.headers()["audit-id"], "audit-1");
    for dropped in ["access-control-allow-origin", "keep-alive"] {
        assert_eq!(listed.headers().get(dropped), None);
    }
    let listed = answer(listed).await;
    assert_eq!(
        (listed.code, &listed.body["kind"]),
        (200, &json!("FlunderList"))
    );
    let body = json!({"kind": "Flunder", "metadata": {"name": "b"}});
    let created = send(server, &format!("POST {FLUNDERS}"), &body).await;
    assert_eq!((created.code, &created.body), (201, &body));

    let seen = extension.seen();
    let (parts, _) = &seen[0];
    let value = |name: &str| {
        let values = parts.headers.get_all(name).iter();
        let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
        values.join(" ")
    };
    assert_eq!(parts.uri, format!("{FLUNDERS}?limit=5").as_str());
    for (name, expected) in [
        ("x-remote-user", "jane"),
        ("x-remote-uid", "42"),
        ("x-remote-group", "system:masters system:authenticated"),
        ("x-remote-extra-acme.com%2fproject", "some"),
        ("x-remote-extra-own", ""),
        ("impersonate-user", ""),
        ("x-hop", ""),
        ("connection", ""),
        ("x-kept", "there"),
        ("audit-id", "audit-1"),
        ("host", &extension.address.to_string()),
        ("x-forwarded-uri", FLUNDERS),
        ("x-forwarded-host", &extension.address.to_string()),
        ("x-forwarded-proto", "https"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    assert_eq!(seen[1].0.method, "POST");
    assert_eq!(seen[1].1, body.to_string());
}

#[tokio::test]
async fn the_server_authorizes_requests_before_it_passes_them_on() {
    let extension = ExtensionServer::start(Discovery::Aggregated).await;
    let running = start_before(&extension).await;
    let headers = [("impersonate-user", "jane")];
    let refused = respond(&running.server, &format!("GET {FLUNDERS}"), &headers, "").await;
    let refused = answer(refused).await;
    let message = "flunders.wardle.example.com is forbidden: User \"jane\" cannot list resource \
                   \"flunders\" in API group \"wardle.example.com\" in the namespace \"default\"";
    assert_eq!((refused.code, refused.message()), (403, message));
    assert!(extension.seen().is_empty());
}

#[tokio::test]
async fn a_watch_is_streamed() {
    let extension = ExtensionServer::start(Discovery::Aggregated).await;
    let running = start_before(&extension).await;
    let events = extension.events();
    let none: [(&str, &str); 0] = [];
    let request = format!("GET {FLUNDERS}?watch=true");
    let mut watch = respond(&running.server, &request, &none, "")
        .await
        .into_body();
    for name in ["a", "b"] {
        // The next event is only made when the last one has arrived.
        let event = json!({"type": "ADDED", "object": {"metadata": {"name": name}}});
        events.send(event.clone()).await.unwrap();
        let frame = watch.frame().await.unwrap().unwrap();
        assert_eq!(
            frame.into_data().unwrap(),
            Bytes::from(format!("{event}\n"))
        );
    }
    drop(events);
    assert!(watch.frame().await.is_none());
}

#[tokio::test]
async fn a_service_that_has_gone_away_is_not_reached() {
    let extension = ExtensionServer::start(Discovery::Aggregated).await;
    let running = start_before(&extension).await;
    let refusing = extension.stop().await;
    let address = refusing.address;
    let none: [(&str, &str); 0] = [];
    let response = respond(&running.server, &format!("GET {FLUNDERS}"), &none, "").await;
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
    let (code, body) = read(response).await;
    let expected =
        format!("error trying to reach service: dial tcp {address}: connect: connection refused\n");
    assert_eq!((code, body), (503, Bytes::from(expected)));
}

#[tokio::test]
async fn a_redirect_of_a_service_is_refused() {
    let extension = ExtensionServer::start(Discovery::Aggregated).await;
    let running = start_before(&extension).await;
    let none: [(&str, &str); 0] = [];
    let response = respond(&running.server, &format!("GET {FLUNDERS}/moved"), &none, "").await;
    assert_eq!(response.headers().get("location"), None);
    let (code, body) = read(response).await;
    let expected = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!((code, body), (502, Bytes::from(expected)));
}

#[tokio::test]
async fn the_server_shows_the_certificate_of_a_front_proxy() {
    let tls = Tls::generate("127.0.0.1".parse().unwrap());
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(tls.authority_pem().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let clients = clients.build().unwrap();
    let extension = ExtensionServer::start_for(clients, Discovery::Aggregated).await;
    let proxy = tls.client_certificate("front-proxy-client", &[]);
    let (certificate, key) = (proxy.certificate_pem, proxy.key_pem);
    let builder = ApiServer::builder().resolve_service("default", "ext", 443, extension.address);
    let builder = builder.proxy_client_certificate(certificate.as_bytes(), key.as_bytes());
    let running = start(builder.unwrap()).await;
    register(&running.server, &extension.api_service()).await;
    condition(&running.server, "v1alpha1.wardle.example.com", "Passed").await;
    let listed = send(&running.server, &format!("GET {FLUNDERS}"), Value::Null).await;
    assert_eq!(listed.code, 200);
    let other = Tls::generate("127.0.0.1".parse().unwrap()).client_certificate("x", &[]);
    let builder = ApiServer::builder();
    let refused =
        builder.proxy_client_certificate(certificate.as_bytes(), other.key_pem.as_bytes());
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_service_takes_over_a_group_of_the_server_itself() {
    let extension = ExtensionServer::start(Discovery::Legacy).await;
    let builder = ApiServer::builder().metrics_apis();
    let builder = builder.resolve_service("default", "ext", 443, extension.address);
    let running = start(builder).await;
    let server = &running.server;
    let put = MetricValue {
        name: "own".to_owned(),
        value: Some("1".to_owned()),
        ..MetricValue::default()
    };
    server.put_metric(&put).unwrap();
    let group = "external.metrics.k8s.io";
    let path = format!("/apis/{group}/v1beta1/namespaces/default/own");
    let own = send(server, &format!("GET {path}"), Value::Null).await;
    assert_eq!(own.body["items"][0]["value"], "1");
    let spec = api_service(group, "v1beta1", json!({"insecureSkipTLSVerify": true}));
    let service = format!("{API_SERVICES}/v1beta1.{group}");
    let patched = send(server, &format!("PATCH {service}"), &spec).await;
    assert_eq!(patched.code, 200, "{}", patched.message());
    // The extension does not have this group.
    let failed = condition(server, &format!("v1beta1.{group}"), "FailedDiscoveryCheck").await;
    let url = format!("https://{}/apis/{group}/v1beta1", extension.address);
    let why = format!("failing or missing response from {url}: bad status from {url}: 404");
    assert_eq!(failed["message"], why);
    let none: [(&str, &str); 0] = [];
    let taken = read(respond(server, &format!("GET {path}"), &none, "").await).await;
    assert_eq!(taken, (503, Bytes::from("service unavailable\n")));
    let local = json!({"spec": {"service": null, "insecureSkipTLSVerify": false}});
    send(server, &format!("PATCH {service}"), &local).await;
    condition(server, &format!("v1beta1.{group}"), "Local").await;
    let own = send(server, &format!("GET {path}"), Value::Null).await;
    assert_eq!(own.body["items"][0]["value"], "1");
}

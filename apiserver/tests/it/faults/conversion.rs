//! Faults of webhooks that convert objects.

use std::sync::Arc;

use futures::future::BoxFuture;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock, Webhook};

use super::{inject, send};

/// A webhook that converts by another `apiVersion` alone.
#[derive(Debug)]
struct Converts;

impl Webhook for Converts {
    fn answer(&self, _: ApiServer, _: &str, document: Value) -> BoxFuture<'static, Value> {
        let request = &document["request"];
        let mut objects = request["objects"].clone();
        for object in objects.as_array_mut().into_iter().flatten() {
            object["apiVersion"] = request["desiredAPIVersion"].clone();
        }
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects},
        });
        Box::pin(async { review })
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_converts_is_down_for_reads_and_writes_of_another_version() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    let server = builder
        .answer_service("default", "hook", 443, Arc::new(Converts))
        .build();
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shops", "kind": "Shop"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
            }},
        },
    });
    let path = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _) = send(&server, path, definition).await;
    assert_eq!(code, 201);
    server.record_points();
    let attempt = async |verb: &str, version: &str| {
        let shops = format!("/apis/example.com/{version}/namespaces/default/shops");
        let api_version = format!("example.com/{version}");
        let shop =
            json!({"apiVersion": api_version, "kind": "Shop", "metadata": {"name": version}});
        let (code, answer) = match verb {
            "create" => send(&server, &format!("POST {shops}"), shop).await,
            "get" => send(&server, &format!("GET {shops}/v1"), Value::Null).await,
            _ => send(&server, &format!("GET {shops}"), Value::Null).await,
        };
        (
            code,
            answer["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(attempt("create", "v1").await.0, 201);
    for verb in ["get", "list", "get"] {
        assert_eq!(attempt(verb, "v2").await.0, 200);
        assert_eq!(attempt(verb, "v1").await.0, 200);
    }
    let points = server.points();
    let calling: Vec<bool> = points.iter().map(|point| point.calls_webhooks).collect();
    assert_eq!(calling, [false, true, false, true, false, true, false]);

    let on = json!({"resource": "shops.example.com"});
    inject(
        &server,
        json!({"name": "down", "on": on, "webhooks": "refuse"}),
    );
    let why = "conversion webhook for example.com/v1, Kind=Shop failed: Post \
               \"https://hook.default.svc:443/?timeout=30s\": connect: connection refused";
    for verb in ["get", "list"] {
        assert_eq!(attempt(verb, "v2").await, (500, why.to_owned()), "{verb}");
        assert_eq!(attempt(verb, "v1").await.0, 200);
    }
    let why = why.replace("/v1,", "/v2,");
    assert_eq!(attempt("create", "v2").await, (500, why));
    server.lift("down");
    assert_eq!(attempt("get", "v2").await.0, 200);
}

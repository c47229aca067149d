//! Custom resources whose versions a webhook converts, over real TLS.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::outcome;
use crate::support::webhook_server::{Reply, WebhookServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Renames the one field of the spec: `host` in v1, `hostName` in v2.
fn rename(review: &Value) -> Reply {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap().iter();
    let converted: Vec<Value> = objects
        .map(|object| {
            let mut object = object.clone();
            let spec = &object["spec"];
            let host = spec.get("host").or_else(|| spec.get("hostName")).unwrap();
            let field = if to.ends_with("v2") {
                "hostName"
            } else {
                "host"
            };
            object["spec"] = json!({ field: host });
            object["apiVersion"] = to.into();
            object["metadata"]["labels"] = json!({ "converted": "yes" });
            object["metadata"]["finalizers"] = json!(["example.com/not-taken-over"]);
            object
        })
        .collect();
    Reply::Json(json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "response": {
            "uid": request["uid"], "result": { "status": "Success" },
            "convertedObjects": converted,
        },
    }))
}

async fn define(server: &ApiServer, hook: &WebhookServer) {
    let version = |name: &str, storage: bool, field: &str| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {
                "type": "object", "properties": { field: { "type": "string" } },
            } } } },
        })
    };
    let definition = json!({
        "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "sites", "kind": "Site" },
            "versions": [version("v1", true, "host"), version("v2", false, "hostName")],
            "conversion": { "strategy": "Webhook", "webhook": {
                "clientConfig": hook.by_url("/convert"), "conversionReviewVersions": ["v1"],
            } },
        },
    });
    let (code, body) = outcome(server, &format!("POST {DEFINITIONS}"), definition).await;
    assert_eq!(code, 201, "{body}");
}

fn sites(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/sites")
}

fn site(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Site",
        "metadata": { "name": name }, "spec": spec,
    })
}

/// The counts of conversions, without durations.
async fn counts(server: &ApiServer) -> Vec<String> {
    let request = Request::get("/metrics").body(Full::<Bytes>::default());
    let response = server.handle(request.unwrap()).await;
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.contains("conversion_webhook"));
    let lines = lines.filter(|line| line.contains("_count{") || line.contains("_total{"));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn conversions_are_counted_by_outcome_and_definition() {
    let hook = WebhookServer::start(|review| match &review["request"]["objects"][0]["spec"] {
        spec if spec["host"] == "none" => Reply::Json(json!({ "response": {} })),
        _ => rename(review),
    })
    .await;
    let server = ApiServer::builder().build();
    define(&server, &hook).await;
    for (name, host, code) in [("a", "h", 200), ("b", "none", 500)] {
        let body = site("v1", name, json!({ "host": host }));
        let post = format!("POST {}", sites("v1"));
        assert_eq!(outcome(&server, &post, body).await.0, 201);
        let get = format!("GET {}/{name}", sites("v2"));
        assert_eq!(outcome(&server, &get, Value::Null).await.0, code);
    }
    let start = "apiserver_conversion_webhook";
    let failed =
        "{failure_type=\"conversion_webhook_malformed_response_failure\",result=\"failure\"} 1";
    let good = "{failure_type=\"\",result=\"success\"} 1";
    let of = |succeeded: bool| {
        format!(
            "apiserver_crd_conversion_webhook_duration_seconds_count{{\
             crd_name=\"sites.example.com\",from_version=\"v1\",succeeded=\"{succeeded}\",\
             to_version=\"v2\"}} 1"
        )
    };
    let wanted = [
        format!("{start}_duration_seconds_count{good}"),
        format!("{start}_duration_seconds_count{failed}"),
        format!("{start}_request_total{good}"),
        format!("{start}_request_total{failed}"),
        of(false),
        of(true),
    ];
    assert_eq!(counts(&server).await, wanted);
    let delete = format!("DELETE {DEFINITIONS}/sites.example.com");
    outcome(&server, &delete, Value::Null).await;
    let left = counts(&server).await;
    assert_eq!(left[..], wanted[..4], "{left:?}");
}

#[tokio::test]
async fn a_webhook_converts_what_is_written_and_read_in_another_version() {
    let hook = WebhookServer::start(rename).await;
    let server = ApiServer::builder().build();
    define(&server, &hook).await;
    let (_, list) = outcome(&server, &format!("GET {}", sites("v1")), Value::Null).await;
    let before = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    for name in ["a", "b"] {
        let body = site("v1", name, json!({ "host": name }));
        let (code, body) = outcome(&server, &format!("POST {}", sites("v1")), body).await;
        assert_eq!(code, 201, "{body}");
    }
    assert!(
        hook.seen().is_empty(),
        "nothing is converted to its own version"
    );

    let (code, list) = outcome(&server, &format!("GET {}", sites("v2")), Value::Null).await;
    assert_eq!(code, 200, "{list}");
    let specs: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["spec"])
        .collect();
    assert_eq!(
        specs,
        [&json!({ "hostName": "a" }), &json!({ "hostName": "b" })]
    );
    assert_eq!(hook.seen().len(), 1, "a list is converted in one call");
    let metadata = &list["items"][0]["metadata"];
    assert_eq!(metadata["labels"], json!({ "converted": "yes" }));
    assert_eq!(
        metadata["finalizers"],
        Value::Null,
        "the rest of the metadata stays"
    );

    let body = site("v2", "c", json!({ "hostName": "c" }));
    let (code, created) = outcome(&server, &format!("POST {}", sites("v2")), body).await;
    assert_eq!((code, &created["spec"]), (201, &json!({ "hostName": "c" })));
    let (_, stored) = outcome(&server, &format!("GET {}/c", sites("v1")), Value::Null).await;
    assert_eq!(stored["spec"], json!({ "host": "c" }));

    let mut changed = created.clone();
    changed["spec"]["hostName"] = "d".into();
    let (code, changed) = outcome(&server, &format!("PUT {}/c", sites("v2")), changed).await;
    assert_eq!((code, &changed["spec"]["hostName"]), (200, &json!("d")));

    let path = format!(
        "GET {}?watch=1&timeoutSeconds=1&resourceVersion={before}",
        sites("v2")
    );
    let (method, path) = path.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let body = server.handle(request).await.into_body();
    let lines = body.collect().await.unwrap().to_bytes();
    let hosts: Vec<Value> = serde_json::Deserializer::from_slice(&lines)
        .into_iter::<Value>()
        .map(|event| event.unwrap()["object"]["spec"]["hostName"].clone())
        .collect();
    assert_eq!(hosts, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn a_conversion_that_fails_is_the_answer() {
    let hook = WebhookServer::start(|review| {
        Reply::Json(json!({
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "response": {
                "uid": review["request"]["uid"],
                "result": { "status": "Failure", "message": "not today" },
            },
        }))
    })
    .await;
    let server = ApiServer::builder().build();
    define(&server, &hook).await;
    let body = site("v1", "a", json!({ "host": "a" }));
    assert_eq!(
        outcome(&server, &format!("POST {}", sites("v1")), body)
            .await
            .0,
        201
    );
    let (code, status) = outcome(&server, &format!("GET {}/a", sites("v2")), Value::Null).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "conversion webhook for example.com/v1, Kind=Site failed: not today"
    );
}

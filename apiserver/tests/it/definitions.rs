//! Definitions that are refused, and those that are stored but not established.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::outcome;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SCHEMA: &str = "spec.validation.openAPIV3Schema";

/// The causes of a refusal, as `field: message`.
fn causes(answer: &Value) -> Vec<String> {
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or("").to_owned();
    causes
        .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
        .collect()
}

fn definition(schema: Value) -> Value {
    json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

fn with_field(field: Value) -> Value {
    json!({ "type": "object", "properties": { "spec": {
        "type": "object", "properties": { "a": field } } } })
}

/// What creating a definition is refused for.
async fn faults(definition: &Value) -> Vec<String> {
    let server = ApiServer::builder().build();
    let (_, answer) = outcome(&server, &format!("POST {DEFINITIONS}"), definition).await;
    causes(&answer)
}

#[tokio::test]
async fn what_no_schema_supports_hides_whether_it_is_structural() {
    let reference = definition(with_field(json!({ "$ref": "#/x" })));
    let field = format!("{SCHEMA}.properties[spec].properties[a]");
    assert_eq!(
        faults(&reference).await,
        [format!("{field}.$ref: Forbidden: $ref is not supported")]
    );
    let mut named = with_field(json!({ "type": "string" }));
    named["$schema"] = "http://json-schema.org/schema".into();
    let expected = "Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported";
    assert_eq!(
        faults(&definition(named)).await,
        [format!("{SCHEMA}: {expected}")]
    );
}

#[tokio::test]
async fn defaults_need_pruning() {
    let mut kept = definition(with_field(json!({ "type": "string", "default": "x" })));
    kept["spec"]["preserveUnknownFields"] = true.into();
    assert_eq!(
        faults(&kept).await,
        [
            "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema",
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ]
    );
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_keeps_a_definition_from_being_established() {
    let server = ApiServer::builder().build();
    let mut broken = definition(with_field(json!({ "type": "string" })));
    let conversion = json!({ "strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": { "url": "https://example.com/", "caBundle": "Cg==" },
    } });
    broken["spec"]["conversion"] = conversion.clone();
    let (code, _) = outcome(&server, &format!("POST {DEFINITIONS}"), &broken).await;
    assert_eq!(code, 201);
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let (_, mut stored) = outcome(&server, &format!("GET {path}"), &Value::Null).await;
    let established = &stored["status"]["conditions"][1];
    assert_eq!(established["status"], "False");
    assert_eq!(established["reason"], "InvalidCABundle");

    stored["spec"]["conversion"] = json!({ "strategy": "None" });
    outcome(&server, &format!("PUT {path}"), &stored).await;
    let (_, mut stored) = outcome(&server, &format!("GET {path}"), &Value::Null).await;
    assert_eq!(stored["status"]["conditions"][1]["status"], "True");

    stored["spec"]["conversion"] = conversion;
    let (code, refused) = outcome(&server, &format!("PUT {path}"), &stored).await;
    assert_eq!(code, 422);
    assert_eq!(
        causes(&refused),
        [
            "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"Cg==\": unable to load root certificates: unable to parse bytes as PEM block"
        ]
    );
}

#[tokio::test]
async fn a_condition_shows_who_approved_a_definition_of_the_community() {
    let server = ApiServer::builder().build();
    let approved = "api-approved.kubernetes.io";
    let mut own = definition(json!({ "type": "object" }));
    own["metadata"] = json!({
        "name": "widgets.example.k8s.io", "annotations": { approved: "unapproved, a test" },
    });
    own["spec"]["group"] = "example.k8s.io".into();
    let (code, answer) = outcome(&server, &format!("POST {DEFINITIONS}"), &own).await;
    assert_eq!(code, 201, "{answer}");
    let path = format!("{DEFINITIONS}/widgets.example.k8s.io");
    let (_, mut held) = outcome(&server, &format!("GET {path}"), &Value::Null).await;
    let described = |held: &Value| {
        let condition = held["status"]["conditions"][2].clone();
        ["type", "status", "reason", "message"].map(|field| condition[field].clone())
    };
    let conformant = "KubernetesAPIApprovalPolicyConformant";
    assert_eq!(
        described(&held),
        [
            conformant,
            "False",
            "UnapprovedAnnotation",
            "not approved: \"unapproved, a test\""
        ]
    );
    held["metadata"]["annotations"][approved] = "https://a.b/c".into();
    let (code, answer) = outcome(&server, &format!("PUT {path}"), &held).await;
    assert_eq!(code, 200, "{answer}");
    let (_, held) = outcome(&server, &format!("GET {path}"), &Value::Null).await;
    assert_eq!(
        described(&held),
        [
            conformant,
            "True",
            "ApprovedAnnotation",
            "approved in https://a.b/c"
        ]
    );
}

/// The body of a GET as text.
async fn text(server: &ApiServer, path: &str) -> String {
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let body = server.handle(request).await.into_body();
    let bytes = body.collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_deleted_definition_leaves_nothing_behind() {
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let server = ApiServer::builder().build();
    let widgets = definition(json!({ "type": "object" }));
    let create = format!("POST {DEFINITIONS}");
    assert_eq!(outcome(&server, &create, &widgets).await.0, 201);
    let before = server.resource_version();
    let widget =
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
    let post = format!("POST {WIDGETS}");
    assert_eq!(outcome(&server, &post, &widget).await.0, 201);
    let metrics = text(&server, "/metrics").await;
    assert!(metrics.contains("group=\"example.com\""));
    let open = Request::get(format!("{WIDGETS}?watch=1&resourceVersion={before}"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let watch = server.handle(open).await.into_body();

    let delete = format!("DELETE {DEFINITIONS}/widgets.example.com");
    assert_eq!(outcome(&server, &delete, &Value::Null).await.0, 200);
    // The watch ends, and has seen all there was.
    let seen = watch.collect().await.unwrap().to_bytes();
    let seen = String::from_utf8(seen.to_vec()).unwrap();
    let types: Vec<_> = seen.lines().map(|line| &line[..15]).collect();
    assert_eq!(types.first(), Some(&r#"{"type":"ADDED""#), "{seen}");
    assert!(seen.lines().last().unwrap().contains("DELETED"), "{seen}");
    let metrics = text(&server, "/metrics").await;
    assert!(!metrics.contains("apiserver_resource_objects{group=\"example.com\""));
    assert!(!metrics.contains("verb=\"POST\",version=\"v1\",group=\"example.com\""));
    let requests = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total") && line.contains("example.com"));
    assert!(
        requests.clone().all(|line| line.contains("WATCH")),
        "{:?}",
        requests.collect::<Vec<_>>()
    );

    // A definition of the same name starts anew: earlier events cannot be watched.
    assert_eq!(outcome(&server, &create, &widgets).await.0, 201);
    let path = format!("{WIDGETS}?watch=1&resourceVersion={before}&timeoutSeconds=1");
    let answer = text(&server, &path).await;
    assert!(answer.contains("too old resource version"), "{answer}");
}

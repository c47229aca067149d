//! Bad answers of webhooks, refused in upstream's words.

use kubeproof_apiserver::json::{Value, json};

use super::{create, for_configmaps, mutating, patch, response, send};
use crate::support::webhook_server::{Reply, WebhookServer};
use kubeproof_apiserver::ApiServer;

/// The answer to the creation of a config map that a mutating webhook answers like this.
async fn mutated(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> super::Answer {
    let hook = WebhookServer::start(reply).await;
    let server = ApiServer::builder().build();
    mutating(&server, for_configmaps("m.example.com", hook.by_url("/m"))).await;
    let body = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
    send(&server, &format!("POST {}", super::CONFIGMAPS), body).await
}

fn review(fields: Value) -> Reply {
    let mut review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview" });
    for (name, value) in fields.as_object().unwrap() {
        review[name.as_str()] = value.clone();
    }
    Reply::Json(review)
}

#[tokio::test]
async fn documents_that_cannot_be_decoded_are_reported_as_by_go() {
    let into_type = r#"into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let parse = "failed to call webhook: couldn't get version/kind; json parse error: ";
    let absent = "received invalid webhook response: webhook response was absent";
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m"}"#;
    for (code, body, why) in [
        (200, " ", absent.to_owned()),
        (200, "null", absent.to_owned()),
        (200, "{}", absent.to_owned()),
        (
            200,
            "hello",
            format!("{parse}json: cannot unmarshal string {into_type}"),
        ),
        (
            200,
            "[]",
            format!("{parse}json: cannot unmarshal array {into_type}"),
        ),
        (
            200,
            "{\"kind\":",
            format!("{parse}unexpected end of JSON input"),
        ),
        (400, status, "failed to call webhook: m".to_owned()),
        (
            200,
            status,
            "failed to call webhook: converting (v1.Status) to (v1.AdmissionReview): \
             unknown conversion"
                .to_owned(),
        ),
    ] {
        let answer = mutated(move |_| Reply::Text(code, body)).await;
        let want =
            format!("Internal error occurred: failed calling webhook \"m.example.com\": {why}");
        assert_eq!(
            (answer.code, answer.message()),
            (500, want.as_str()),
            "{body}"
        );
    }
    let answer = mutated(|_| Reply::Text(200, "")).await;
    assert!(
        answer.message().contains(
            "failed to call webhook: 0-length response with status code: 200 and content type: "
        ),
        "{}",
        answer.message()
    );
}

#[tokio::test]
async fn reviews_of_other_kinds_and_types_are_reported_as_by_go() {
    let scheme = r#"in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71""#;
    let field = "json: cannot unmarshal";
    for (fields, why) in [
        (
            json!({ "kind": "Foo" }),
            format!(r#"no kind "Foo" is registered for version "admission.k8s.io/v1" {scheme}"#),
        ),
        (
            json!({ "apiVersion": "admission.k8s.io/v1beta1" }),
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
                .to_owned(),
        ),
        (
            json!({ "response": "x" }),
            format!(
                "{field} string into Go struct field AdmissionReview.response of type v1.AdmissionResponse"
            ),
        ),
        (
            json!({ "response": { "allowed": "true" } }),
            format!(
                "{field} string into Go struct field AdmissionResponse.response.allowed of type bool"
            ),
        ),
        (
            json!({ "response": { "warnings": "w" } }),
            format!(
                "{field} string into Go struct field AdmissionResponse.response.warnings of type []string"
            ),
        ),
        (
            json!({ "response": { "patch": "???" } }),
            "illegal base64 data at input byte 0".to_owned(),
        ),
    ] {
        let answer = mutated(move |_| review(fields.clone())).await;
        let want = format!(
            "Internal error occurred: failed calling webhook \"m.example.com\": failed to call \
             webhook: {why}"
        );
        assert_eq!((answer.code, answer.message()), (500, want.as_str()));
    }
}

#[tokio::test]
async fn patches_that_do_not_apply_are_reported_as_by_upstream() {
    for (operation, why) in [
        (
            json!({ "op": "frob", "path": "/data" }),
            "Unexpected kind: frob",
        ),
        (
            json!({ "op": "add" }),
            "add operation failed to decode path: missing value",
        ),
        (
            json!({ "op": "add", "path": "/x/y", "value": 1 }),
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (
            json!({ "op": "remove", "path": "/data/x" }),
            "error in remove for path: '/data/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            json!({ "op": "test", "path": "/data/k", "value": "x" }),
            "testing value /data/k failed: test failed",
        ),
        (
            json!({ "op": "move", "path": "/data/y" }),
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            json!({ "op": "add", "path": "/metadata/managedFields/7", "value": {} }),
            "error in add for path: '/metadata/managedFields/7': Unable to access invalid index: 7: \
             invalid index referenced",
        ),
        (
            json!({ "op": "add", "path": "/metadata/managedFields/x", "value": {} }),
            "error in add for path: '/metadata/managedFields/x': value was not a proper array index: \
             'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            json!({ "op": "replace", "path": "/kind", "value": "Foo" }),
            "no kind \"Foo\" is registered for version \"v1\" in scheme \
             \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            json!({ "op": "replace", "path": "/kind", "value": "Secret" }),
            "illegal base64 data at input byte 0",
        ),
    ] {
        let answer = mutated(move |review| patch(review, json!([operation]))).await;
        let want = format!("Internal error occurred: {why}");
        assert_eq!((answer.code, answer.message()), (500, want.as_str()));
    }
    let to_account = json!([{ "op": "replace", "path": "/kind", "value": "ServiceAccount" }]);
    let answer = mutated(move |review| patch(review, to_account.clone())).await;
    assert_eq!(
        answer.message(),
        "converting (v1.ServiceAccount) to (core.ConfigMap): unknown conversion"
    );
}

#[tokio::test]
async fn managed_fields_left_in_disorder_are_put_back_with_a_warning() {
    let entries = json!([{ "manager": "m" }]);
    let operations = json!([{ "op": "add", "path": "/metadata/managedFields", "value": entries }]);
    let answer = mutated(move |review| patch(review, operations.clone())).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    let held = &answer.body["metadata"]["managedFields"];
    assert_eq!(held[0]["fieldsV1"]["f:data"]["f:k"], json!({}), "{held}");
    assert_eq!(
        answer.warnings,
        [
            "299 - \".metadata.managedFields was in an invalid state after admission; this could be \
             caused by an outdated mutating admission controller; please fix your requests: \
             operation must be `Apply` or `Update`\""
        ]
    );
}

#[tokio::test]
async fn an_object_moved_to_another_namespace_is_refused() {
    let answer = mutated(|review| {
        patch(
            review,
            json!([{ "op": "replace", "path": "/metadata/namespace", "value": "other" }]),
        )
    })
    .await;
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!((answer.code, answer.message()), (400, why));
    let hook = WebhookServer::start(|review| response(review, json!({ "allowed": true }))).await;
    let server = ApiServer::builder().build();
    mutating(&server, for_configmaps("m.example.com", hook.by_url("/m"))).await;
    assert_eq!(create(&server, "a").await.code, 201);
}

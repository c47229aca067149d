//! Patches and the bodies of writes at the wire: what is taken, and in which words the rest is
//! refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::{send_typed, server};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A server with the ConfigMap `a`.
async fn with_config_map() -> ApiServer {
    let server = server();
    let config = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } }).to_string();
    let created = send_typed(&server, &format!("POST {CONFIGMAPS}"), JSON, &config).await;
    assert_eq!(created.code, 201);
    server
}

/// Checks the code and the end of the message of each patch of the ConfigMap `a`.
async fn check(rows: &[(&str, &str, &str, u16, &str)]) {
    let server = with_config_map().await;
    for (content_type, query, body, code, message) in rows {
        let request = format!("PATCH {CONFIGMAPS}/a{query}");
        let answer = send_typed(&server, &request, content_type, body).await;
        assert_eq!(answer.code, *code, "{content_type} {body}: {}", answer.body);
        let found = answer.message();
        assert!(found.ends_with(message), "{content_type} {body}: {found}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_decoded_as_the_form_of_its_patch_has_it() {
    let unmarshal = "json: cannot unmarshal";
    let value = |patch: &str, why: &str| format!("Invalid value: \"{patch}\": {why}");
    let not_registered = "no kind \"Foo\" is registered for version \"v1\" in scheme \
                          \"pkg/runtime/scheme.go:111\"";
    check(&[
        (
            MERGE,
            "",
            r#"{"metadata":{"labels":{"a":1}}}"#,
            422,
            &format!(
                "{unmarshal} number into Go struct field ObjectMeta.metadata.labels of type string"
            ),
        ),
        (
            STRATEGIC,
            "",
            r#"{"metadata":{"labels":{"a":1}}}"#,
            422,
            &value(
                "map[metadata:map[labels:map[a:1]]]",
                "cannot convert int64 to string",
            ),
        ),
        (
            STRATEGIC,
            "",
            r#"{"immutable":"x"}"#,
            422,
            &value("map[immutable:x]", "unrecognized type: bool"),
        ),
        (MERGE, "", r#"{"kind":"Foo"}"#, 422, not_registered),
        (
            MERGE,
            "",
            r#"{"kind":"Secret"}"#,
            422,
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            MERGE,
            "",
            r#"{"kind":5}"#,
            422,
            &format!("parse error: {unmarshal} number into Go struct field .kind of type string"),
        ),
        (MERGE, "", r#"{"kind":null}"#, 200, ""),
        // A strategic merge patch never was an object of a kind.
        (STRATEGIC, "", r#"{"kind":"Secret"}"#, 200, ""),
        (STRATEGIC, "", r#"{"apiVersion":null}"#, 200, ""),
        (
            MERGE,
            "",
            r#"{"apiVersion":null}"#,
            400,
            "undeterminable: name must be provided",
        ),
        (
            MERGE,
            "",
            r#"{"metadata":{"name":"b","namespace":"x"}}"#,
            400,
            "does not match the namespace sent on the request",
        ),
        (
            MERGE,
            "",
            r#"{"metadata":{"name":"b","labels":{"a":1}}}"#,
            422,
            "of type string",
        ),
        (
            JSON_PATCH,
            "?fieldValidation=Ignore",
            "{}",
            400,
            &format!("{unmarshal} object into Go value of type jsonpatch.Patch"),
        ),
        (
            MERGE,
            "?fieldValidation=Ignore",
            "[1]",
            422,
            "Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_applied_configuration_that_does_not_fit_is_refused() {
    let base = |rest: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap",{rest}}}"#);
    let named = |rest: &str| base(&format!(r#""metadata":{{"name":"a"{rest}}}"#));
    let typed = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): ";
    let manager = "?fieldManager=m";
    check(&[
        (APPLY, "", &named(""), 422, "fieldManager: Required value: is required for apply patch"),
        (APPLY, "?fieldValidation=X&dryRun=Y", &named(""), 422,
            "[fieldManager: Required value: is required for apply patch, dryRun: Unsupported value: \
             [\"Y\"]: supported values: \"All\", fieldValidation: Unsupported value: \"X\": \
             supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"),
        (APPLY, manager, &named(r#","managedFields":[]"#), 400, "metadata.managedFields must be nil"),
        (APPLY, manager, &named(r#","managedFields":null"#), 200, ""),
        (APPLY, manager, r#"{"apiVersion":"a/b/c","kind":"X"}"#, 400, "invalid object type: /, Kind="),
        (APPLY, manager, r#"{"kind":"ConfigMap"}"#, 400, "invalid object type: /, Kind=ConfigMap"),
        (APPLY, manager, &base(r#""metadata":{"name":"b"}"#), 400,
            "the name of the object (b) does not match the name on the URL (a)"),
        (APPLY, manager, &named(r#","bogus":1,"cluster":2"#), 500,
            &format!("{typed}.metadata.bogus: field not declared in schema")),
        (APPLY, manager, &named(r#","labels":{"a":1234567}"#), 500,
            &format!("{typed}.metadata.labels.a: expected string, got \
                      &value.valueUnstructured{{Value:1.234567e+06}}")),
        (APPLY, manager, &named(r#","creationTimestamp":"x""#), 500,
            "failed to convert new object (/a; /v1, Kind=ConfigMap) to proper version: unable to \
             convert unstructured object to /v1, Kind=ConfigMap: parsing time \"x\" as \
             \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\""),
        (APPLY, manager, "a: b: c", 400, "error converting YAML to JSON: yaml: mapping values are \
            not allowed in this context"),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_body_are_reported_in_the_order_of_upstream() {
    let server = server();
    let yaml =
        "kind: ConfigMap\nmetadata: {name: a, name: a}\nextra: 1\ndata: {a: x}\ndata: {a: z}\n";
    let strict = format!("POST {CONFIGMAPS}?fieldValidation=Strict");
    let refused = send_typed(&server, &strict, YAML, yaml).await;
    assert_eq!(
        refused.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: \
         unmarshal errors:\n  line 2: key \"name\" already set in map\n  line 5: key \"data\" \
         already set in map, unknown field \"extra\""
    );
    let warned = send_typed(&server, &format!("POST {CONFIGMAPS}"), YAML, yaml).await;
    let warnings = [
        r#"299 - "line 2: key \"name\" already set in map""#,
        r#"299 - "line 5: key \"data\" already set in map""#,
        r#"299 - "unknown field \"extra\"""#,
    ];
    assert_eq!(
        (warned.code, warned.warnings),
        (201, warnings.map(str::to_owned).to_vec())
    );
    for (body, message) in [
        (
            r#"{"apiVersion":"v2","kind":"Pod"}"#,
            "Pod in version \"v2\" cannot be handled as a ConfigMap: no kind \"Pod\" is registered \
             for version \"v2\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            r#"{"apiVersion":"extensions/v1beta1","kind":"Ingress"}"#,
            "Ingress in version \"v1beta1\" cannot be handled as a ConfigMap: converting \
             (v1beta1.Ingress) to (core.ConfigMap): unknown conversion",
        ),
        (
            r#"{"metadata":{"generation":1e2}}"#,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal \
             number 1e2 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            " {\"kind\":5}",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get \
             version/kind; json parse error: json: cannot unmarshal number into Go struct field \
             .kind of type string (207b226b696e64223a357d)",
        ),
    ] {
        let answer = send_typed(&server, &format!("POST {CONFIGMAPS}"), JSON, body).await;
        assert_eq!((answer.code, answer.message()), (400, message));
    }
}

#[tokio::test(start_paused = true)]
async fn ephemeral_containers_can_be_applied() {
    let server = server();
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    send_typed(&server, &format!("POST {PODS}"), JSON, &pod.to_string()).await;
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "ephemeralContainers": [{ "name": "debug", "image": "busybox" }] },
    });
    let request = format!("PATCH {PODS}/p/ephemeralcontainers?fieldManager=m");
    let answer = send_typed(&server, &request, APPLY, &applied.to_string()).await;
    assert_eq!(answer.code, 200);
    let entry = &answer.body["metadata"]["managedFields"][0];
    assert_eq!(entry["subresource"], "ephemeralcontainers");
    let owned = json!({ "f:spec": { "f:ephemeralContainers": {
        "k:{\"name\":\"debug\"}": { ".": {}, "f:image": {}, "f:name": {} },
    } } });
    assert_eq!(entry["fieldsV1"], owned);
    let request = request.replace("/p/", "/none/");
    let answer = send_typed(&server, &request, APPLY, &applied.to_string()).await;
    assert_eq!(
        (answer.code, answer.message()),
        (404, "pods \"none\" not found")
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_owner_references_are_dropped_with_a_warning() {
    let server = with_config_map().await;
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u" });
    let patch = json!({ "metadata": { "ownerReferences": [owner, owner] } }).to_string();
    let request = format!("PATCH {CONFIGMAPS}/a");
    let answer = send_typed(&server, &request, MERGE, &patch).await;
    assert_eq!(answer.body["metadata"]["ownerReferences"], json!([owner]));
    let [warning] = answer.warnings.as_slice() else {
        panic!("one warning: {:?}", answer.warnings);
    };
    let text = "299 - \".metadata.ownerReferences contains duplicate entries after mutating admission \
                happens; API server dedups";
    assert!(warning.starts_with(text), "{warning}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_owned_before_it_is_forgotten() {
    let server = server();
    let role = json!({ "metadata": { "name": "r" }, "rules": [] }).to_string();
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let created = send_typed(&server, &format!("POST {path}"), JSON, &role)
        .await
        .body;
    assert_eq!(created["rules"], Value::Null);
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({ "f:rules": {} })
    );
    let request = format!("PUT {path}/r");
    let updated = send_typed(&server, &request, JSON, &role).await.body;
    assert_eq!(updated, created);
}

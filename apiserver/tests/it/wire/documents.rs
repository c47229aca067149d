//! JSON as Go's encoder writes it, and answers whose form depends on who gives them.

use http_body_util::BodyExt;
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};
use tokio::time::Instant;

use super::{CONFIGMAPS, ask, read, respond, server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/w.io/v1/namespaces/default/widgets";
/// What Go escapes, and what it leaves.
const LETTERS: &str = "<a>&\u{2028}\u{2029}\u{7f}é€";
const ESCAPED: &str = "\\u003ca\\u003e\\u0026\\u2028\\u2029\u{7f}é€";
const JSON: (&str, &str) = ("content-type", "application/json");

async fn post(server: &ApiServer, path: &str, object: Value) -> String {
    let (request, object) = (format!("POST {path}"), object.to_string());
    let response = respond(server, &request, &[JSON], object.as_bytes()).await;
    let (code, _, body) = read(response).await;
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(code, 201, "{body}");
    body
}

async fn define(server: &ApiServer, group: &str, annotations: Value) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    let names = json!({
        "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}"), "annotations": annotations },
        "spec": { "group": group, "scope": "Namespaced", "names": names, "versions": [version] },
    });
    post(server, DEFINITIONS, definition).await;
}

#[tokio::test(start_paused = true)]
async fn json_ends_with_a_line_break_and_is_safe_in_html() {
    let server = server();
    define(&server, "w.io", json!({})).await;
    let data = json!({ "k": LETTERS });
    let map = json!({ "metadata": { "name": "a" }, "data": data });
    let widget = json!({
        "apiVersion": "w.io/v1", "kind": "Widget", "metadata": { "name": "a" }, "<x>": data,
    });
    for (path, object, field) in [
        (CONFIGMAPS, map, "\"data\":".to_owned()),
        (WIDGETS, widget, "\"\\u003cx\\u003e\":".to_owned()),
    ] {
        let field = format!("{field}{{\"k\":\"{ESCAPED}\"}}}}");
        let is_custom = path == WIDGETS;
        let created = post(&server, path, object).await;
        assert!(created.ends_with("}\n"), "{created}");
        let (_, got) = ask(&server, &format!("GET {path}/a")).await;
        assert_eq!(got, created);
        let (_, list) = ask(&server, &format!("GET {path}")).await;
        let (_, frames) = ask(&server, &format!("GET {path}?watch=1&timeoutSeconds=1")).await;
        assert_eq!(frames.matches('\n').count(), frames.lines().count());
        if is_custom {
            // The owners of the field are written as safely.
            assert!(got.contains("\"f:\\u003cx\\u003e\":"), "{got}");
            assert!(
                got.starts_with(r#"{"\u003cx\u003e":{"k":"#),
                "sorted: {got}"
            );
            let head = r#"{"apiVersion":"w.io/v1","items":[{"\u003cx\u003e":"#;
            assert!(list.starts_with(head), "{list}");
            let tail = r#"}],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"#;
            assert!(list.contains(tail), "{list}");
        } else {
            let head =
                r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"#;
            assert!(got.contains(&field), "{got}");
            assert!(list.starts_with(head), "{list}");
        }
        assert!(frames.contains(ESCAPED), "{frames}");
        assert!(list.contains(ESCAPED) && list.ends_with("}\n"), "{list}");
        let (_, pretty) = ask(&server, &format!("GET {path}/a?pretty=1")).await;
        assert!(
            pretty.contains(ESCAPED) && pretty.ends_with('}'),
            "{pretty}"
        );
        let (code, status) = ask(&server, &format!("GET {path}/%3Ca%3E%26")).await;
        assert_eq!(code, 404);
        assert!(
            status.contains(r#"\"\u003ca\u003e\u0026\" not found"#),
            "{status}"
        );
        assert!(status.ends_with("}\n"), "{status}");
        // The object read back equals the stored object: no change, no new version.
        let patch = [("content-type", "application/merge-patch+json")];
        let same = respond(&server, &format!("PATCH {path}/a"), &patch, b"{}").await;
        let (_, _, same) = read(same).await;
        assert_eq!(String::from_utf8(same.to_vec()).unwrap(), created);
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_written_in_the_order_of_their_names() {
    let server = server();
    define(&server, "w.io", json!({})).await;
    let widget = json!({
        "kind": "Widget", "apiVersion": "w.io/v1", "metadata": { "name": "a" }, "spec": { "b": 1, "a": 2 },
    });
    let created = post(&server, WIDGETS, widget).await;
    let head = r#"{"apiVersion":"w.io/v1","kind":"Widget","metadata":{"creationTimestamp":"#;
    assert!(created.starts_with(head), "{created}");
    assert!(
        created.ends_with("},\"spec\":{\"a\":2,\"b\":1}}\n"),
        "{created}"
    );
    let (_, frames) = ask(&server, &format!("GET {WIDGETS}?watch=1&timeoutSeconds=1")).await;
    let frame = format!(r#"{{"type":"ADDED","object":{head}"#);
    assert!(frames.starts_with(&frame), "{frames}");
}

#[tokio::test(start_paused = true)]
async fn slashes_with_nothing_between_lead_nowhere() {
    let server = server();
    const STATUS: &str = "the server could not find the requested resource";
    for (path, code, text) in [
        ("//api/v1/pods", 404, "404 page not found\n"),
        ("//healthz", 404, "404 page not found\n"),
        ("/apis//v1/pods", 404, "404 page not found\n"),
        ("/apis//apps/v1", 404, "404 page not found\n"),
        ("/apis//", 404, "404 page not found\n"),
        ("/api//v1/pods", 404, STATUS),
        ("/api/v1//pods", 404, STATUS),
        ("/apis/apps//v1/deployments", 404, STATUS),
        ("/api/v1/namespaces/default//pods", 404, STATUS),
        ("/api/v1/pods/", 200, "PodList"),
    ] {
        let (got, body) = ask(&server, &format!("GET {path}")).await;
        assert_eq!(got, code, "{path}: {body}");
        assert!(body.contains(text), "{path}: {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn browsers_are_not_to_guess_at_refusals_of_authorization() {
    let server = server();
    for (request, headers, code, is_marked) in [
        (CONFIGMAPS, vec![("impersonate-user", "x")], 403, true),
        ("/metrics", vec![("impersonate-user", "x")], 403, true),
        (CONFIGMAPS, vec![("impersonate-group", "x")], 400, true),
        (CONFIGMAPS, vec![("authorization", "Bearer x")], 401, false),
        (CONFIGMAPS, vec![], 200, false),
        ("/api/v1/nope", vec![], 404, false),
    ] {
        let response = respond(&server, &format!("GET {request}"), &headers, b"").await;
        assert_eq!(response.status(), code, "{request} {headers:?}");
        let mark = response.headers().get("x-content-type-options");
        assert_eq!(
            mark.is_some_and(|mark| mark == "nosniff"),
            is_marked,
            "{request} {headers:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn resources_may_be_asked_for_by_the_version_of_the_server_group() {
    let server = server();
    define(&server, "w.io", json!({})).await;
    for (path, accept, code) in [
        (CONFIGMAPS, "application/json;sv=v1", 200),
        (
            CONFIGMAPS,
            "application/json;as=Table;g=meta.k8s.io;v=v1;sv=v1",
            200,
        ),
        (CONFIGMAPS, "application/json;sv=", 200),
        (CONFIGMAPS, "application/json;sv=v2", 406),
        (WIDGETS, "application/json;sv=v1", 200),
        (WIDGETS, "application/json;sv=v1beta1", 406),
        ("/apis", "application/json;sv=v1", 406),
        ("/api/v1", "application/json;sv=v1", 406),
    ] {
        let response = respond(&server, &format!("GET {path}"), &[("accept", accept)], b"").await;
        assert_eq!(response.status(), code, "{path} {accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_end_with_the_definition_in_any_group() {
    let server = server();
    let approved = json!({ "api-approved.kubernetes.io": "unapproved, a test" });
    for (group, annotations) in [("w.io", json!({})), ("w.k8s.io", approved)] {
        define(&server, group, annotations).await;
        let watch = format!("GET /apis/{group}/v1/widgets?watch=1&timeoutSeconds=3600");
        let watch = respond(&server, &watch, &[], b"").await;
        assert_eq!(watch.status(), 200, "{group}");
        let began = Instant::now();
        let (code, _) = ask(&server, &format!("DELETE {DEFINITIONS}/widgets.{group}")).await;
        assert_eq!(code, 200);
        watch.into_body().collect().await.unwrap();
        assert!(began.elapsed().as_secs() < 60, "{group}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_definitions_of_one_port_are_warned_of_in_a_moment() {
    let server = server();
    let port = json!({ "containerPort": 80, "protocol": "TCP" });
    let distinct =
        |at: usize| json!({ "containerPort": 81, "protocol": "TCP", "hostPort": at % 60_000 + 1 });
    let mut ports: Vec<Value> = (0..20_000).map(distinct).collect();
    ports.extend(vec![port; 20_000]);
    let container = json!({ "name": "c", "image": "i", "ports": ports });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
        "spec": { "containers": [container] },
    });
    let request = "POST /api/v1/namespaces/default/pods?dryRun=All";
    let response = respond(&server, request, &[JSON], pod.to_string().as_bytes()).await;
    assert_eq!(response.status(), 201);
    let warnings = response.headers().get_all("warning").iter();
    let texts: Vec<&str> = warnings.filter_map(|text| text.to_str().ok()).collect();
    let first = "spec.containers[0].ports[20001]: duplicate port definition with spec.containers[0].ports[20000]";
    assert_eq!(texts[0], format!("299 - \"{first}\""));
    let letters: usize = texts.iter().map(|text| text.len()).sum();
    assert!((4_096..8_192).contains(&letters), "{letters}");
}

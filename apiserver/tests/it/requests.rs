//! Requests at the wire, in process: their answers, and that a refused request changes nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::{send_typed, server};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends `METHOD PATH` and answers the code and the body (null if it is no JSON).
async fn send(server: &ApiServer, request: &str, content_type: &str, body: &[u8]) -> (u16, Value) {
    let answer = send_typed(server, request, content_type, body).await;
    (answer.code, answer.body)
}

async fn json(server: &ApiServer, request: &str, body: Value) -> (u16, Value) {
    send(
        server,
        request,
        "application/json",
        body.to_string().as_bytes(),
    )
    .await
}

async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    send(server, &format!("GET {path}"), "application/json", b"").await
}

/// The first `count` events of a watch, without the stream's end.
async fn watch(server: &ApiServer, path: &str, count: usize) -> Vec<Value> {
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let mut body = server.handle(request).await.into_body();
    let mut events = Vec::new();
    while events.len() < count {
        let Some(frame) = body.frame().await else {
            break;
        };
        let line = frame.unwrap().into_data().unwrap();
        events.push(serde_json::from_slice(&line).unwrap());
    }
    events
}

fn shown(events: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let show = |event: &Value| {
        let name = text(&event["object"]["metadata"]["name"]);
        format!("{} {name}", text(&event["type"]))
    };
    events.iter().map(show).collect()
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": "x" } },
        "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": "i:1" }] },
    })
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn bad_requests_get_their_status_and_change_nothing() {
    let server = server();
    json(
        &server,
        &format!("POST {CONFIGMAPS}"),
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    let before = server.resource_version();
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let oversize = format!("{{\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(3 << 20));
    let post = format!("POST {CONFIGMAPS}");
    let put = format!("PUT {CONFIGMAPS}/a");
    let patch = format!("PATCH {CONFIGMAPS}/a");
    let (plain, merge) = ("application/json", "application/merge-patch+json");
    let jsonpatch = "application/json-patch+json";
    let stale = r#"{"metadata":{"name":"a","resourceVersion":"1"},"data":{"k":"v"}}"#;
    let table: &[(&str, &str, &str, u16, &str)] = &[
        (&post, plain, "{", 400, "BadRequest"),
        (&post, plain, "nope", 400, "BadRequest"),
        (&post, plain, "[]", 400, "BadRequest"),
        (&post, plain, &deep, 400, "BadRequest"),
        (&post, plain, "\u{1}", 400, "BadRequest"),
        (&post, plain, &oversize, 413, "RequestEntityTooLarge"),
        (&post, "text/plain", "{}", 415, "UnsupportedMediaType"),
        (
            &post,
            plain,
            r#"{"kind":"Secret","apiVersion":"v1"}"#,
            400,
            "BadRequest",
        ),
        (
            &post,
            plain,
            r#"{"kind":"ConfigMap","apiVersion":"v2"}"#,
            400,
            "BadRequest",
        ),
        (
            &post,
            plain,
            r#"{"metadata":{"name":"a"}}"#,
            409,
            "AlreadyExists",
        ),
        (
            &post,
            plain,
            r#"{"metadata":{"name":"A b"}}"#,
            422,
            "Invalid",
        ),
        (
            &post,
            plain,
            r#"{"metadata":{"name":"b"},"data":{"k":1}}"#,
            400,
            "BadRequest",
        ),
        (&put, plain, stale, 409, "Conflict"),
        (
            &put,
            plain,
            r#"{"metadata":{"name":"b"}}"#,
            400,
            "BadRequest",
        ),
        (&patch, merge, "[", 400, "BadRequest"),
        (
            &patch,
            jsonpatch,
            r#"[{"op":"replace","path":"/nope/x","value":1}]"#,
            422,
            "Invalid",
        ),
        (
            &patch,
            jsonpatch,
            r#"[{"op":"test","path":"/metadata/name","value":"b"}]"#,
            422,
            "Invalid",
        ),
        (&patch, plain, "{}", 415, "UnsupportedMediaType"),
        (
            "POST /api/v1/namespaces/none/configmaps",
            plain,
            r#"{"metadata":{"name":"b"}}"#,
            404,
            "NotFound",
        ),
        (
            "POST /api/v1/namespaces/default/nopes",
            plain,
            "{}",
            404,
            "NotFound",
        ),
        (
            "PUT /api/v1/namespaces/default/configmaps",
            plain,
            "{}",
            405,
            "MethodNotAllowed",
        ),
    ];
    for (request, content_type, body, code, reason) in table {
        let shown: String = body.chars().take(60).collect();
        let (got, status) = send(&server, request, content_type, body.as_bytes()).await;
        assert_eq!(got, *code, "{request} {shown}: {status}");
        assert_eq!(status["reason"], *reason, "{request} {shown}");
        assert_eq!(status["kind"], "Status", "{request} {shown}");
    }
    assert_eq!(
        server.resource_version(),
        before,
        "refused requests write nothing"
    );
    let strict = format!("POST {CONFIGMAPS}?fieldValidation=Strict");
    let (code, status) = json(
        &server,
        &strict,
        json!({"metadata": {"name": "b"}, "datta": {}}),
    )
    .await;
    assert_eq!(code, 400);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with(r#"strict decoding error: unknown field "datta""#),
        "{message}"
    );
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/b")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_while_sending_changes_nothing() {
    struct Broken;
    impl http_body::Body for Broken {
        type Data = Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
            std::task::Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
        }
    }
    let server = server();
    let before = server.resource_version();
    let request = Request::post(CONFIGMAPS).body(Broken).unwrap();
    assert_eq!(server.handle(request).await.status(), 400);
    assert_eq!(server.resource_version(), before);
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_what_enters_and_leaves_its_selector() {
    let server = server();
    let rv = server.resource_version();
    json(&server, &format!("POST {PODS}"), pod("a")).await;
    json(&server, &format!("POST {PODS}"), pod("b")).await;
    let merge = "application/merge-patch+json";
    for label in ["y", "x"] {
        let body = json!({"metadata": {"labels": {"app": label}}}).to_string();
        send(&server, &format!("PATCH {PODS}/a"), merge, body.as_bytes()).await;
    }
    let path =
        format!("{PODS}?watch=1&labelSelector=app%3Dx&resourceVersion={rv}&timeoutSeconds=1");
    let events = watch(&server, &path, 9).await;
    assert_eq!(
        shown(&events),
        ["ADDED a", "ADDED b", "DELETED a", "ADDED a"]
    );
    assert_eq!(
        events[2]["object"]["metadata"]["labels"]["app"], "x",
        "its last state inside"
    );
    let path = format!("{PODS}?watch=1&fieldSelector=metadata.name%3Db&timeoutSeconds=1");
    assert_eq!(shown(&watch(&server, &path, 9).await), ["ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_window_gets_410_expired() {
    let server = ApiServer::builder().watch_window_events(2).build();
    for name in ["a", "b", "c"] {
        json(
            &server,
            &format!("POST {CONFIGMAPS}"),
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let events = watch(
        &server,
        &format!("{CONFIGMAPS}?watch=1&resourceVersion=1"),
        9,
    )
    .await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["type"], &events[0]["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(events[0]["object"]["reason"], "Expired");
    let live = format!("{CONFIGMAPS}?watch=1&resourceVersion=0&timeoutSeconds=1");
    assert_eq!(watch(&server, &live, 9).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn pods_end_by_their_grace_and_at_once_when_forced() {
    let server = server();
    json(&server, &format!("POST {PODS}"), pod("a")).await;
    let (_, marked) = json(&server, &format!("DELETE {PODS}/a"), json!({})).await;
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:30Z"
    );
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    let (_, longer) = json(
        &server,
        &format!("DELETE {PODS}/a"),
        json!({"gracePeriodSeconds": 60}),
    )
    .await;
    assert_eq!(longer, marked, "a deletion can't be put off");
    let (_, shorter) = json(
        &server,
        &format!("DELETE {PODS}/a"),
        json!({"gracePeriodSeconds": 10}),
    )
    .await;
    assert_eq!(
        shorter["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:10Z"
    );
    let (code, _) = json(
        &server,
        &format!("DELETE {PODS}/a"),
        json!({"gracePeriodSeconds": 0}),
    )
    .await;
    assert_eq!(
        (code, get(&server, &format!("{PODS}/a")).await.0),
        (200, 404)
    );
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_taken_away() {
    let server = server();
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/f"]}});
    json(&server, &format!("POST {CONFIGMAPS}"), object).await;
    let (_, marked) = json(&server, &format!("DELETE {CONFIGMAPS}/a"), json!({})).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let merge = "application/merge-patch+json";
    let more = br#"{"metadata":{"finalizers":["example.com/f","example.com/g"]}}"#;
    let (code, _) = send(&server, &format!("PATCH {CONFIGMAPS}/a"), merge, more).await;
    assert_eq!(code, 422, "no finalizer may be added now");
    let none = br#"{"metadata":{"finalizers":null}}"#;
    let (code, _) = send(&server, &format!("PATCH {CONFIGMAPS}/a"), merge, none).await;
    assert_eq!(
        (code, get(&server, &format!("{CONFIGMAPS}/a")).await.0),
        (200, 404)
    );
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_are_of_one_version() {
    let server = server();
    for name in ["a", "b", "c"] {
        json(
            &server,
            &format!("POST {CONFIGMAPS}"),
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let (_, first) = get(&server, &format!("{CONFIGMAPS}?limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    json(
        &server,
        &format!("POST {CONFIGMAPS}"),
        json!({"metadata": {"name": "d"}}),
    )
    .await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = get(&server, &format!("{CONFIGMAPS}?limit=2&continue={token}")).await;
    let names: Vec<_> = second["items"].as_array().unwrap().iter().collect();
    assert_eq!(
        names.len(),
        1,
        "what came later is not on a page of the first version"
    );
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    server.compact();
    let (code, status) = get(&server, &format!("{CONFIGMAPS}?limit=2&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let next = status["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = get(&server, &format!("{CONFIGMAPS}?continue={next}")).await;
    assert_eq!(
        rest["items"].as_array().unwrap().len(),
        2,
        "the rest as it is now"
    );
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_bytes() {
    let run = async || {
        let server = server();
        let body = json!({"metadata": {"generateName": "a-"}});
        let (_, created) = json(&server, &format!("POST {CONFIGMAPS}"), body).await;
        created
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn pretty_answers_have_their_keys_in_the_order_of_upstream_s_types() {
    let server = server();
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let (code, _) = json(&server, &format!("POST {CONFIGMAPS}"), body).await;
    assert_eq!(code, 201);
    for (path, agent, begins) in [
        (
            "/a?pretty=1",
            "x",
            "{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"name\": \"a\",",
        ),
        (
            "/a",
            "Mozilla/5.0",
            "{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",",
        ),
        (
            "?pretty=true",
            "x",
            "{\n  \"kind\": \"ConfigMapList\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"resourceVersion\": ",
        ),
        (
            "/b?pretty=1",
            "x",
            "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n  \"message\": ",
        ),
        ("/a", "x", "{\"kind\":\"ConfigMap\","),
    ] {
        let request = Request::get(format!("{CONFIGMAPS}{path}")).header("user-agent", agent);
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let response = server.handle(request).await;
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.starts_with(begins), "{path}: {text}");
        let is_pretty = begins.contains('\n');
        assert_eq!(text.ends_with('\n'), !is_pretty, "{path}: {text}");
    }
}

/// Times that a quadratic walk over these lists exceeds many times over.
#[tokio::test]
async fn long_lists_take_linear_time() {
    const LIMIT: Duration = Duration::from_secs(20);
    let server = ApiServer::builder().build();
    let list =
        |count: usize, item: &dyn Fn(usize) -> Value| -> Value { (0..count).map(item).collect() };
    let reference = |at: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("n{at}"), "uid": format!("u{at}")});
    let spread = |at: usize| json!({"maxSkew": 1, "topologyKey": format!("k{at}"), "whenUnsatisfiable": "DoNotSchedule"});
    let version = |at: usize| {
        json!({"name": format!("v{at}"), "served": true, "storage": at == 0,
        "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let names = json!({"plural": "longs", "kind": "Long"});
    let pod = |field: &str, items: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        spec[field] = items;
        json!({"metadata": {"name": "a"}, "spec": spec})
    };
    let bodies = [
        (
            CONFIGMAPS,
            json!({"metadata": {"name": "a", "ownerReferences": list(20_000, &reference)}}),
        ),
        (
            CONFIGMAPS,
            json!({"metadata": {"name": "a", "finalizers": list(30_000, &|at| json!(format!("f{at}")))}}),
        ),
        (
            "/api/v1/namespaces/default/pods",
            pod("topologySpreadConstraints", list(8_000, &spread)),
        ),
        (
            "/api/v1/namespaces/default/pods",
            pod(
                "volumes",
                list(
                    8_000,
                    &|at| json!({"name": format!("v{at}"), "emptyDir": {}}),
                ),
            ),
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({"metadata": {"name": "longs.example.com"}, "spec": {"group": "example.com",
                "scope": "Cluster", "names": names, "versions": list(3_000, &version)}}),
        ),
    ];
    for (path, body) in bodies {
        let request = Request::post(format!("{path}?dryRun=All"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let start = Instant::now();
        let answer = server.handle(request).await;
        assert!([201, 422].contains(&answer.status().as_u16()), "{path}");
        let taken = start.elapsed();
        assert!(taken < LIMIT, "{path}: {taken:?}");
    }
}

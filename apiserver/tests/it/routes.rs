//! Which of upstream's two routers a path belongs to, and what is checked first in a request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::meta::ResourceVersion;

use crate::support::requests::{read, respond};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Sends `METHOD PATH` and answers the code, the media type and the body.
async fn send(
    server: &ApiServer,
    request: &str,
    accept: &str,
    body: impl Into<Bytes>,
) -> (u16, String, Value) {
    let headers = [("accept", accept), ("content-type", "application/json")];
    let response = respond(server, request, &headers, body.into()).await;
    let media = response.headers().get("content-type");
    let media = media.map_or("", |media| media.to_str().unwrap()).to_owned();
    let (code, body) = read(response).await;
    let text = || Value::from(String::from_utf8(body.to_vec()).unwrap());
    (
        code,
        media,
        serde_json::from_slice(&body).unwrap_or_else(|_| text()),
    )
}

#[tokio::test]
async fn paths_answer_as_their_router_does() {
    const TEXT: &str = "text/plain; charset=utf-8";
    const JSON: &str = "application/json";
    const YAML: &str = "application/yaml";
    let server = ApiServer::builder().build();
    let rows: &[(&str, &str, u16, &str)] = &[
        // The mux reads only the path.
        ("POST /nope", JSON, 404, TEXT),
        ("GET /nope", "text/html", 404, TEXT),
        ("GET /apis/nope/v1", JSON, 404, TEXT),
        ("DELETE /", "text/html", 200, JSON),
        ("GET /index.html", YAML, 200, JSON),
        ("PUT /apis", JSON, 200, JSON),
        ("POST /apis/apps", YAML, 200, YAML),
        ("POST /openapi/v3", JSON, 200, TEXT),
        ("GET //api/v1", JSON, 404, TEXT),
        // The router of methods answers failures as a Status.
        ("GET /api/v2", JSON, 404, JSON),
        ("GET /apis/apps/v2", YAML, 404, YAML),
        ("GET /version/x", JSON, 404, JSON),
        ("POST /version", JSON, 405, JSON),
        ("HEAD /version", JSON, 405, JSON),
        ("GET /version", "text/html", 406, JSON),
        ("DELETE /apis/apps/v1", "text/html", 405, JSON),
        ("GET /api/v1/nopes", "text/html", 404, JSON),
        ("DELETE /api/v1/namespaces", "text/html", 405, JSON),
        ("GET /api/v1/namespaces", "text/html", 406, JSON),
        // Nothing transforms a discovery document.
        (
            "GET /api/v1",
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            406,
            JSON,
        ),
    ];
    for (request, accept, code, media) in rows {
        let (got, got_media, body) = send(&server, request, accept, "").await;
        assert_eq!(
            (got, got_media.as_str()),
            (*code, *media),
            "{request} in {accept}: {body}"
        );
    }
}

#[tokio::test]
async fn numbers_are_read_before_selectors_and_selectors_before_what_excludes_what() {
    let server = ApiServer::builder().build();
    let rows = [
        ("labelSelector=a=b=c&limit=x", "strconv.ParseInt"),
        ("watch=1&limit=x", "strconv.ParseInt"),
        (
            "watch=1&labelSelector=a=b=c&timeoutSeconds=x",
            "strconv.ParseInt",
        ),
        (
            "watch=1&resourceVersionMatch=Exact&labelSelector=a=b=c",
            "found '='",
        ),
        (
            "resourceVersionMatch=Exact&fieldSelector=data%3Dx",
            "resourceVersionMatch",
        ),
        (
            "watch=1&resourceVersionMatch=Exact&fieldSelector=data%3Dx",
            "resourceVersionMatch",
        ),
    ];
    for (query, want) in rows {
        let request = format!("GET {CONFIGMAPS}?{query}");
        let (_, _, status) = send(&server, &request, "application/json", "").await;
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(want), "{query}: {message}");
    }
}

#[tokio::test]
async fn logs_are_routed_as_text_and_refused_as_objects() {
    let server = ApiServer::builder().build();
    let path = "GET /api/v1/namespaces/default/pods/p/log";
    let rows = [
        (
            "text/plain",
            "only the following media types are accepted: application/json, ",
        ),
        (
            "text/html",
            "406: Not Acceptable\n\nAvailable representations: text/plain, ",
        ),
    ];
    for (accept, want) in rows {
        let (code, _, status) = send(&server, path, accept, "").await;
        let message = status["message"].as_str().unwrap();
        assert_eq!(code, 406);
        assert!(message.starts_with(want), "{accept}: {message}");
    }
}

#[tokio::test]
async fn what_can_be_listed_and_not_watched_says_so() {
    let server = ApiServer::builder().build();
    let path = "GET /api/v1/componentstatuses?watch=1";
    let (code, _, status) = send(&server, path, "application/json", "").await;
    assert_eq!(code, 405);
    assert_eq!(
        status["message"],
        "watch is not supported on resources of kind \"componentstatuses\""
    );
    let path = "GET /api/v1/componentstatuses?watch=1&limit=x";
    let (code, _, _) = send(&server, path, "application/json", "").await;
    assert_eq!(code, 400, "the options come first");
    let path = "GET /api/v1/watch/componentstatuses";
    let (code, _, _) = send(&server, path, "application/json", "").await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn a_list_at_a_version_before_the_first_event_shows_what_there_was() {
    let server = ApiServer::builder().build();
    let object = json!({"metadata": {"name": "a"}}).to_string();
    send(
        &server,
        &format!("POST {CONFIGMAPS}"),
        "application/json",
        object,
    )
    .await;
    let exact = |rv: ResourceVersion, plural: &str| {
        format!("GET /api/v1/{plural}?resourceVersion={rv}&resourceVersionMatch=Exact")
    };
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        let names = items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let (code, _, list) = send(
        &server,
        &exact(ResourceVersion::new(1), "namespaces"),
        "application/json",
        "",
    )
    .await;
    assert_eq!((code, names(&list).len()), (200, 0));
    assert_eq!(list["metadata"]["resourceVersion"], "1");
    let (_, _, list) = send(
        &server,
        &exact(ResourceVersion::new(3), "namespaces"),
        "application/json",
        "",
    )
    .await;
    assert_eq!(names(&list), ["default", "kube-node-lease"]);
    let before = server.resource_version().before(1);
    let (_, _, list) = send(
        &server,
        &exact(before, "configmaps"),
        "application/json",
        "",
    )
    .await;
    assert!(!names(&list).contains(&"a".to_owned()));
    server.compact();
    let (code, _, _) = send(
        &server,
        &exact(ResourceVersion::new(1), "namespaces"),
        "application/json",
        "",
    )
    .await;
    assert_eq!(code, 410, "compaction forgets it");
}

#[tokio::test]
async fn the_body_of_a_delete_is_read_as_options_of_any_group() {
    let server = ApiServer::builder().build();
    let rows = [
        (
            "[]",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into",
        ),
        (
            "\"x\"",
            "couldn't get version/kind; json parse error: json: cannot unmarshal string",
        ),
        (
            "hello",
            "couldn't get version/kind; json parse error: invalid character 'h'",
        ),
        (
            r#"{"kind":"Pod"}"#,
            "no kind \"Pod\" is registered for version \"meta.k8s.io/v1\"",
        ),
        (
            r#"{"apiVersion":"a/b/c"}"#,
            "unexpected GroupVersion string: a/b/c",
        ),
        (
            r#"{"kind":"Status","apiVersion":"v1"}"#,
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
        ),
    ];
    let object = json!({"metadata": {"name": "a"}}).to_string();
    send(
        &server,
        &format!("POST {CONFIGMAPS}"),
        "application/json",
        object,
    )
    .await;
    let request = format!("DELETE {CONFIGMAPS}/a");
    for (body, want) in rows {
        let (code, _, status) = send(&server, &request, "application/json", body).await;
        let message = status["message"].as_str().unwrap();
        assert_eq!(code, 400, "{body}");
        assert!(message.starts_with(want), "{body}: {message}");
    }
    let (code, _, _) = send(&server, &request, "application/json", "null").await;
    assert_eq!(code, 200, "no options are options");
}

//! The log and the page that a server leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use kubeproof::log::{Moment, State};
use kubeproof::served::{FailedRequests, ServedRun};
use kubeproof_apiserver::ApiServer;

use crate::support::process::file;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(server: &ApiServer, user_agent: &str, request: &str, body: &str) -> u16 {
    let (method, path) = request.split_once(' ').unwrap();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("user-agent", user_agent)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap();
    server.handle(request).await.status().as_u16()
}

#[tokio::test]
async fn a_server_leaves_a_log_and_a_page() {
    let marker = file("served/runs/marker", "");
    let dir = marker.parent().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    let failed = FailedRequests::default();
    let server = ApiServer::builder().journal().audit(failed.audit()).build();
    let before = server.resource_version();
    let run = ServedRun::begin(&server, dir, &failed).unwrap();
    let map = r#"{"metadata":{"name":"a<b"}}"#;
    let good = r#"{"metadata":{"name":"good"},"data":{"k":"v"}}"#;
    let post = format!("POST {CONFIGMAPS}");
    for (user_agent, request, body, code) in [
        ("manager/v1 (linux)", post.as_str(), good, 201),
        ("manager/v1 (linux)", post.as_str(), map, 422),
        ("manager/v1 (linux)", post.as_str(), map, 422),
        (
            "suite.test/v2",
            &format!("GET {CONFIGMAPS}/none?x=1"),
            "",
            404,
        ),
        (
            "suite.test/v2",
            &format!("DELETE {CONFIGMAPS}/good"),
            "",
            200,
        ),
        ("suite.test/v2", &post, &good.replace("good", "other"), 201),
    ] {
        assert_eq!(send(&server, user_agent, request, body).await, code);
    }
    let page = run.end().await.unwrap();
    assert_eq!(page, dir.join("1.html"));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(!html.contains("{{"), "{html}");
    let rows: Vec<&str> = html
        .lines()
        .filter(|line| line.starts_with("<tr><td>"))
        .collect();
    let cells = |row: &str| {
        let row = row.strip_prefix("<tr><td>").unwrap();
        row.strip_suffix("</td></tr>")
            .unwrap()
            .replace("</td><td>", " | ")
    };
    let rows: Vec<String> = rows.into_iter().map(cells).collect();
    let has = |start: &str, end: &str| {
        let found = rows
            .iter()
            .any(|row| row.starts_with(start) && row.ends_with(end));
        assert!(found, "{start} … {end}: {rows:#?}");
    };
    has("manager | 1 | 0 | 0", "");
    has("suite.test | 1 | 0 | 1", "");
    has(
        "+",
        "| 2 | manager | <code>create /api/v1/namespaces/default/configmaps</code> | 422 | ConfigMap &quot;a&lt;b&quot; is invalid: metadata.name: Invalid value: &quot;a&lt;b&quot;: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, &#39;-&#39; or &#39;.&#39;, and must start and end with an alphanumeric character (e.g. &#39;example.com&#39;, regex used for validation is &#39;[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*&#39;)",
    );
    has(
        "+",
        "| 1 | suite.test | <code>get /api/v1/namespaces/default/configmaps/none</code> | 404 | configmaps &quot;none&quot; not found",
    );
    has(
        "configmaps | <code>default/good</code> | manager | suite.test | 2 | gone",
        "",
    );
    has(
        "configmaps | <code>default/other</code> | suite.test | suite.test | 1 | exists",
        "",
    );
    assert_eq!(rows.len(), 6, "{rows:#?}");
    assert!(
        html.contains("manager                     configmap good created"),
        "{html}"
    );
    assert!(
        html.contains("<b class=\"bad\">3 requests failed</b>"),
        "{html}"
    );

    // The log opens where the run ended.
    let log = std::fs::read_to_string(dir.join("1.log")).unwrap();
    let state = State::read(&log, Moment::End).unwrap();
    let reopened = state.open(ApiServer::builder());
    assert_eq!(reopened.resource_version(), server.resource_version());
    assert!(server.resource_version() > before);
    let code = send(&reopened, "", &format!("GET {CONFIGMAPS}/other"), "").await;
    assert_eq!(code, 200);

    // The next server has the next number.
    let next = ApiServer::builder().journal().build();
    let run = ServedRun::begin(&next, dir, &FailedRequests::default()).unwrap();
    let page = run.end().await.unwrap();
    assert_eq!(page, dir.join("2.html"));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("Nobody wrote anything.") && html.contains("Nothing changed."),
        "{html}"
    );
}

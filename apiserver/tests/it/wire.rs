//! What every request and answer has in common: headers, deadlines, compression, paths, metrics.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documents;
mod flow_control;
mod metrics;
mod pages;
mod protobuf;

use std::convert::Infallible;
use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock, RequestTimeouts, ResponseBody};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::builder().clock(Clock::simulated(epoch)).build()
}

/// The answer to `METHOD PATH` with headers.
async fn respond(
    server: &ApiServer,
    request: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response<ResponseBody> {
    let (method, path) = request.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Full::new(Bytes::copy_from_slice(body));
    server.handle(request.body(body).unwrap()).await
}

async fn read(response: Response<ResponseBody>) -> (u16, HeaderMap, Bytes) {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, body)
}

async fn ask(server: &ApiServer, request: &str) -> (u16, String) {
    let (code, _, body) = read(respond(server, request, &[], b"").await).await;
    (code, String::from_utf8(body.to_vec()).unwrap())
}

async fn create(server: &ApiServer, name: &str, data: &str) {
    let object = json!({"metadata": {"name": name}, "data": {"k": data}}).to_string();
    let request = format!("POST {CONFIGMAPS}");
    let json = [("content-type", "application/json")];
    let response = respond(server, &request, &json, object.as_bytes()).await;
    assert_eq!(response.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_an_audit_id_and_is_not_to_be_cached() {
    let run = async || {
        let server = server();
        let mut ids = Vec::new();
        for path in [
            "GET /healthz",
            "GET /nope",
            "GET /api/v1/namespaces",
            "GET /openapi/v3/x",
        ] {
            let response = respond(&server, path, &[], b"").await;
            let headers = response.headers();
            assert_eq!(headers["cache-control"], "no-cache, private", "{path}");
            ids.push(headers["audit-id"].to_str().unwrap().to_owned());
        }
        ids
    };
    let ids = run().await;
    assert!(ids.iter().all(|id| id.len() == 36));
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids, run().await, "seeded");
    let own = [("Audit-ID", "mine")];
    let response = respond(&server(), "GET /healthz", &own, b"").await;
    assert_eq!(response.headers()["audit-id"], "mine");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
}

#[tokio::test(start_paused = true)]
async fn answers_name_the_flow_of_the_request() {
    const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let server = ApiServer::builder().token(Some("t".to_owned())).build();
    let admin = [("authorization", "Bearer t")];
    let flow = async |request: &str, headers: &[(&str, &str)]| {
        let response = respond(&server, request, headers, b"").await;
        let uid = |header: &str| {
            let value = response.headers().get(header);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let schema = uid("x-kubernetes-pf-flowschema-uid");
        (schema, uid("x-kubernetes-pf-prioritylevel-uid"))
    };
    let uid = async |path: &str| {
        let request = format!("GET {FLOWS}/{path}");
        let (_, _, body) = read(respond(&server, &request, &admin, b"").await).await;
        let object: Value = serde_json::from_slice(&body).unwrap();
        object["metadata"]["uid"].as_str().map(str::to_owned)
    };
    let exempt = uid("prioritylevelconfigurations/exempt").await;
    assert!(exempt.is_some());
    let list = format!("GET {CONFIGMAPS}");
    let expected = (uid("flowschemas/exempt").await, exempt.clone());
    assert_eq!(flow(&list, &admin).await, expected);
    let expected = (uid("flowschemas/probes").await, exempt);
    assert_eq!(flow("GET /livez", &[]).await, expected);
    let level = uid("prioritylevelconfigurations/global-default").await;
    let expected = (uid("flowschemas/global-default").await, level);
    assert_eq!(flow(&list, &[]).await, expected, "the refused as well");
    let nobody = [("authorization", "Bearer x")];
    assert_eq!(flow(&list, &nobody).await, (None, None));

    let request = format!("DELETE {FLOWS}/flowschemas/global-default");
    assert_eq!(respond(&server, &request, &admin, b"").await.status(), 200);
    let level = uid("prioritylevelconfigurations/catch-all").await;
    let expected = (uid("flowschemas/catch-all").await, level);
    assert_eq!(flow(&list, &[]).await, expected, "as the schemas are now");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_read_before_anything_else_and_ends_slow_requests() {
    let server = ApiServer::builder().token(Some("t".to_owned())).build();
    let request = format!("GET {CONFIGMAPS}?timeout=5");
    let (code, body) = ask(&server, &request).await;
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
    assert_eq!(
        status["message"],
        "invalid timeout specified in the request URL - time: missing unit in duration \"5\""
    );
    // A watch knows timeoutSeconds only.
    let (code, _) = ask(&server, &format!("GET {CONFIGMAPS}?watch=1&timeout=5")).await;
    assert_eq!(code, 403);

    let server = self::server();
    let endless = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = Request::post(format!("{CONFIGMAPS}?timeout=7s"))
        .body(endless)
        .unwrap();
    let start = tokio::time::Instant::now();
    let (code, _, body) = read(server.handle(request).await).await;
    assert_eq!((code, start.elapsed()), (504, Duration::from_secs(7)));
    let (_, text) = ask(&server, "GET /metrics").await;
    let terminated = "apiserver_request_terminations_total{code=\"504\",component=\"apiserver\",\
                      group=\"\",resource=\"configmaps\",scope=\"resource\",subresource=\"\",\
                      verb=\"POST\",version=\"v1\"} 1";
    assert!(text.contains(&format!("\n{terminated}\n")), "{text}");
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        status["message"],
        "Timeout: request did not complete within the allotted timeout"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_has_time_limits_of_its_own() {
    let limited = |request: u64, min_watch: u64| {
        let timeouts = RequestTimeouts {
            request: Duration::from_secs(request),
            min_watch: Duration::from_secs(min_watch),
        };
        ApiServer::builder().request_timeouts(timeouts).build()
    };
    let server = limited(3, 20);
    for (query, seconds) in [("", 3), ("?timeout=2s", 2), ("?timeout=1m", 3)] {
        let endless =
            StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let request = Request::post(format!("{CONFIGMAPS}{query}"))
            .body(endless)
            .unwrap();
        let start = tokio::time::Instant::now();
        let (code, _, _) = read(server.handle(request).await).await;
        let took = start.elapsed();
        assert_eq!((code, took), (504, Duration::from_secs(seconds)), "{query}");
    }

    let start = tokio::time::Instant::now();
    let watch = format!("GET {CONFIGMAPS}?watch=1");
    assert_eq!(ask(&server, &watch).await.0, 200);
    let took = start.elapsed().as_secs();
    assert!((20..40).contains(&took), "{took}");

    let endless = limited(3, 0);
    let open = tokio::time::timeout(Duration::from_secs(7_200), ask(&endless, &watch));
    assert!(open.await.is_err(), "it ends with the server alone");
}

#[tokio::test(start_paused = true)]
async fn only_large_answers_are_compressed_and_bodies_of_requests_are_not_read_as_gzip() {
    let server = server();
    create(&server, "small", "v").await;
    let large = "0123456789abcdef".repeat(10_000);
    create(&server, "large", &large).await;
    let gzip = [("accept-encoding", "br, gzip")];
    let get = |name: &str| format!("GET {CONFIGMAPS}/{name}");
    let (_, headers, _) = read(respond(&server, &get("small"), &gzip, b"").await).await;
    assert!(!headers.contains_key("content-encoding"));
    let (_, headers, plain) = read(respond(&server, &get("large"), &[], b"").await).await;
    assert!(!headers.contains_key("content-encoding"));
    let weighted = [("accept-encoding", "gzip;q=1")];
    let response = respond(&server, &get("large"), &weighted, b"").await;
    assert!(
        !response.headers().contains_key("content-encoding"),
        "as upstream reads it"
    );
    let (_, headers, packed) = read(respond(&server, &get("large"), &gzip, b"").await).await;
    assert_eq!(headers["content-encoding"], "gzip");
    assert_eq!(headers["vary"], "Accept-Encoding");
    assert!(packed.len() * 10 < plain.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&*packed)
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain);

    let watch = respond(&server, &format!("GET {CONFIGMAPS}?watch=1"), &gzip, b"").await;
    assert!(!watch.headers().contains_key("content-encoding"));
    let mut watch = watch.into_body();
    let event = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(event.len() > 128 * 1024 && event.starts_with(b"{\"type\":\"ADDED\""));

    let headers = [
        ("content-encoding", "gzip"),
        ("content-type", "application/json"),
    ];
    let request = format!("POST {CONFIGMAPS}");
    let (code, _, body) = read(respond(&server, &request, &headers, &packed).await).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(code, 400);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("invalid character '\\x1f' looking for"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn paths_that_name_nothing_are_404_and_methods_that_a_path_lacks_405() {
    let server = server();
    create(&server, "a", "v").await;
    let before = server.resource_version();
    let cases = [
        ("GET /api/v1/configmaps/a", 404),
        ("GET /api/v1/namespaces/default/nodes", 404),
        ("GET /api/v1/namespaces/default/nodes/n", 404),
        ("POST /api/v1/bindings", 404),
        ("GET /api/v1/watch/configmaps/a", 404),
        (
            "GET /api/v1/watch/namespaces/default/configmaps/a/status",
            404,
        ),
        (
            "GET /apis/authentication.k8s.io/v1/selfsubjectreviews/x",
            404,
        ),
        ("POST /api/v1/configmaps", 405),
        ("DELETE /api/v1/configmaps", 405),
        ("PUT /api/v1/namespaces/default/configmaps", 405),
        ("POST /api/v1/namespaces/default/configmaps/a", 405),
        ("POST /api/v1/watch/namespaces/default/configmaps", 405),
        ("DELETE /api/v1/watch/namespaces/default/configmaps/a", 405),
        ("HEAD /api/v1/namespaces/default/configmaps", 405),
        ("OPTIONS /api/v1/namespaces/default/configmaps/a", 405),
        ("GET /api/v1/namespaces/default/configmaps/", 200),
        (
            "GET /api/v1/namespaces/default/configmaps?limit=x;&%zz=1&limit=1",
            200,
        ),
    ];
    for (request, want) in cases {
        assert_eq!(ask(&server, request).await.0, want, "{request}");
    }
    assert_eq!(server.resource_version(), before);
    let (code, body) = ask(&server, "GET /api/v1/watch?x=1").await;
    let why = "failed to create RequestInfo: unable to determine kind and namespace from url";
    let want = format!("Internal Server Error: \"/api/v1/watch?x=1\": {why}, /api/v1/watch?x=1\n");
    assert_eq!((code, body), (500, want));
    assert_eq!(
        ask(&server, "GET /api/%zz").await,
        (400, "400 Bad Request".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn failures_are_encoded_as_the_client_accepts() {
    let server = ApiServer::builder().token(Some("t".to_owned())).build();
    let yaml = [("accept", "application/yaml")];
    let request = format!("GET {CONFIGMAPS}");
    let (code, headers, body) = read(respond(&server, &request, &yaml, b"").await).await;
    assert_eq!(
        (code, &headers["content-type"]),
        (403, &"application/yaml".parse().unwrap())
    );
    assert!(body.starts_with(b"apiVersion: v1\n"));
    // The clause means the object, not the failure to get it.
    let table = [
        ("accept", "application/yaml;as=Table;g=meta.k8s.io;v=v1"),
        ("authorization", "Bearer t"),
    ];
    let request = format!("GET {CONFIGMAPS}/none");
    let (code, headers, _) = read(respond(&server, &request, &table, b"").await).await;
    assert_eq!(
        (code, &headers["content-type"]),
        (404, &"application/json".parse().unwrap())
    );
}

#[tokio::test(start_paused = true)]
async fn pretty_is_a_boolean_and_browsers_are_shown_it() {
    let server = server();
    let lines = async |query: &str, agent: &str| {
        let request = format!("GET /api/v1/namespaces/default{query}");
        let agent = [("user-agent", agent)];
        let (_, _, body) = read(respond(&server, &request, &agent, b"").await).await;
        body.iter().filter(|byte| **byte == b'\n').count()
    };
    for query in ["?pretty=1", "?pretty=true", "?pretty=T"] {
        assert!(lines(query, "kubectl").await > 5, "{query}");
    }
    for query in ["", "?pretty=", "?pretty=0", "?pretty=yes"] {
        assert!(lines(query, "kubectl").await < 2, "{query}");
    }
    assert!(lines("?pretty=", "curl/8").await > 5);
    assert!(lines("?pretty=yes", "curl/8").await < 2);
}

#[tokio::test]
async fn metrics_miss_nothing_of_many_requests_and_events() {
    const MANY: usize = 700;
    let server = server();
    let watch = respond(&server, &format!("GET {CONFIGMAPS}?watch=1"), &[], b"").await;
    let mut watch = watch.into_body();
    for index in 0..MANY {
        create(&server, &format!("map-{index}"), "v").await;
        watch.frame().await.unwrap().unwrap();
    }
    let (_, text) = ask(&server, "GET /metrics").await;
    let total = |name: &str, part: &str| -> usize {
        let lines = text.lines();
        let mut counts = lines.filter(|line| {
            line.starts_with(name) && line.contains(part) && line.contains("configmaps")
        });
        let count = counts.next().unwrap().rsplit(' ').next().unwrap();
        count.parse().unwrap()
    };
    assert_eq!(total("apiserver_watch_events_total", ""), MANY);
    assert_eq!(total("apiserver_watch_events_sizes_count", ""), MANY);
    assert_eq!(total("apiserver_request_total", "verb=\"POST\""), MANY);
}

#[tokio::test(start_paused = true)]
async fn metrics_count_requests_watches_and_objects_under_upstreams_names() {
    let server = server();
    create(&server, "a", "v").await;
    ask(&server, &format!("GET {CONFIGMAPS}")).await;
    ask(&server, &format!("GET {CONFIGMAPS}/none")).await;
    ask(&server, &format!("PATCH {CONFIGMAPS}?nope")).await;
    let watch = respond(&server, &format!("GET {CONFIGMAPS}?watch=1"), &[], b"").await;
    let mut watch = watch.into_body();
    watch.frame().await.unwrap().unwrap();
    tokio::time::advance(Duration::from_secs(50)).await;

    let request = |dry_run: &str, rest: &str| {
        format!("component=\"apiserver\",dry_run=\"{dry_run}\",group=\"\",{rest}")
    };
    let of = |code: u16, scope: &str, verb: &str| {
        let start = format!("code=\"{code}\",{}", request("", "resource=\"configmaps\""));
        let end = format!("scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\"");
        format!("apiserver_request_total{{{start},{end}}} 1")
    };
    let open = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",\
                resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"WATCH\",\
                version=\"v1\"}";
    let (code, text) = ask(&server, "GET /metrics").await;
    assert_eq!(code, 200);
    for line in [
        of(201, "resource", "POST"),
        of(200, "namespace", "LIST"),
        of(404, "resource", "GET"),
        format!("{open} 1"),
        "apiserver_watch_events_total{group=\"\",resource=\"configmaps\",version=\"v1\"} 1"
            .to_owned(),
        "apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4".to_owned(),
        "apiserver_storage_objects{resource=\"statefulsets.apps\"} 0".to_owned(),
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1".to_owned(),
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} in\n{text}");
    }
    assert!(!text.contains("verb=\"PATCH\""), "not routed, not counted");

    drop(watch);
    let (_, text) = ask(&server, "GET /metrics").await;
    assert!(text.contains(&format!("\n{open} 0\n")));
    assert!(text.contains(&of(200, "namespace", "WATCH")), "{text}");
    let bucket = |le: &str| {
        let labels = request(
            "",
            "resource=\"configmaps\",scope=\"namespace\",subresource=\"\"",
        );
        let verb = "verb=\"WATCH\",version=\"v1\"";
        format!("apiserver_request_duration_seconds_bucket{{{labels},{verb},le=\"{le}\"}}")
    };
    assert!(text.contains(&format!("{} 0\n", bucket("45"))), "{text}");
    assert!(
        text.contains(&format!("{} 1\n", bucket("60"))),
        "in the server's time"
    );
}

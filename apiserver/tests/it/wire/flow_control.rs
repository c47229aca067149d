//! API Priority and Fairness: conditions of FlowSchemas, seats, queues, refusals and their metrics.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, SinkExt, channel::mpsc};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, ResponseBody};

use super::{ask, read, respond, server};

const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

async fn write(server: &ApiServer, request: &str, body: Value) -> Value {
    let content_type = [("content-type", "application/json")];
    let body = body.to_string();
    let response = respond(server, request, &content_type, body.as_bytes()).await;
    let (code, _, body) = read(response).await;
    assert!(code < 300, "{code} {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap()
}

/// A level that gives requests of the user noxu one seat.
async fn level_of_noxu(server: &ApiServer, response: Value) {
    let level = json!({"metadata": {"name": "narrow"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "limitResponse": response}}});
    let request = format!("POST {FLOWS}/prioritylevelconfigurations");
    write(server, &request, level).await;
    let rules = json!([{
        "subjects": [{"kind": "User", "user": {"name": "noxu"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
            "clusterScope": true, "namespaces": ["*"]}],
    }]);
    write(server, &format!("POST {FLOWS}/flowschemas"), schema(rules)).await;
}

fn schema(rules: Value) -> Value {
    json!({"metadata": {"name": "noxus"}, "spec": {
        "priorityLevelConfiguration": {"name": "narrow"}, "matchingPrecedence": 50,
        "distinguisherMethod": {"type": "ByUser"}, "rules": rules}})
}

type Body = StreamBody<mpsc::Receiver<Result<Frame<Bytes>, std::io::Error>>>;
type Sender = mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>;

/// A request of noxu whose body comes when it is sent.
fn slow(server: &ApiServer) -> (Sender, impl Future<Output = Response<ResponseBody>>) {
    let (sender, receiver) = mpsc::channel(1);
    let request = Request::post(REVIEWS)
        .header("impersonate-user", "noxu")
        .header("content-type", "application/json");
    let request = request.body(Body::new(receiver)).unwrap();
    let server = server.clone();
    (sender, async move { server.handle(request).await })
}

async fn finish(mut sender: Sender) {
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let frame = Frame::data(Bytes::from(review.to_string()));
    sender.send(Ok(frame)).await.unwrap();
}

async fn metric(server: &ApiServer, line: &str) -> String {
    let (_, text) = ask(server, "GET /metrics").await;
    let mut lines = text.lines();
    let value = lines.find_map(|own| own.strip_prefix(line)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("{line} in\n{text}"))
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_flow_schema_says_whether_its_level_is_missing() {
    let server = server();
    let path = format!("{FLOWS}/flowschemas");
    write(&server, &format!("POST {path}"), schema(json!([]))).await;
    let condition = async || {
        let (_, text) = ask(&server, &format!("GET {path}/noxus")).await;
        let schema: Value = serde_json::from_str(&text).unwrap();
        let condition = &schema["status"]["conditions"][0];
        assert_eq!(condition["type"], "Dangling");
        let (status, reason) = (&condition["status"], &condition["reason"]);
        let message = condition["message"].as_str().unwrap();
        let (_, end) = message.split_once("\"narrow\" ").unwrap();
        let owner = &schema["metadata"]["managedFields"];
        let mut owners = owner.as_array().unwrap().iter();
        let own = owners.find(|own| own["subresource"] == "status").unwrap();
        assert_eq!(
            own["manager"],
            "api-priority-and-fairness-config-consumer-v1"
        );
        assert_eq!(own["operation"], "Apply");
        format!("{status} {reason} {end}")
    };
    let missing = "\"True\" \"NotFound\" but there is no such object";
    assert_eq!(condition().await, missing);
    let level = json!({"metadata": {"name": "narrow"}, "spec": {"type": "Limited", "limited": {
        "limitResponse": {"type": "Reject"}}}});
    let levels = format!("{FLOWS}/prioritylevelconfigurations");
    write(&server, &format!("POST {levels}"), level).await;
    assert_eq!(condition().await, "\"False\" \"Found\" and it exists");
    write(&server, &format!("DELETE {levels}/narrow"), Value::Null).await;
    assert_eq!(condition().await, missing);
}

#[tokio::test(start_paused = true)]
async fn a_level_that_rejects_answers_429_when_its_seats_are_taken() {
    let server = server();
    level_of_noxu(&server, json!({"type": "Reject"})).await;
    let (body, first) = slow(&server);
    let mut first = pin!(first);
    assert!(first.as_mut().now_or_never().is_none());
    let (_body, second) = slow(&server);
    let refused = second.await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(
        refused.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
    assert!(
        refused
            .headers()
            .contains_key("x-kubernetes-pf-flowschema-uid")
    );
    let text = refused.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, "Too many requests, please try again later.\n");
    let labels = "{flow_schema=\"noxus\",priority_level=\"narrow\"}";
    let name = "apiserver_flowcontrol_current_executing_requests";
    assert_eq!(metric(&server, &format!("{name}{labels}")).await, "1");
    finish(body).await;
    assert_eq!(first.await.status(), 201);
    assert_eq!(metric(&server, &format!("{name}{labels}")).await, "0");
    let name = "apiserver_flowcontrol_dispatched_requests_total";
    assert_eq!(metric(&server, &format!("{name}{labels}")).await, "1");
    let rejected = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"noxus\",\
                    priority_level=\"narrow\",reason=\"concurrency-limit\"}";
    assert_eq!(metric(&server, rejected).await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_level_with_queues_lets_requests_wait_for_a_quarter_of_their_time() {
    let server = server();
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 2});
    level_of_noxu(&server, json!({"type": "Queue", "queuing": queuing})).await;
    let (first_body, first) = slow(&server);
    let mut first = pin!(first);
    assert!(first.as_mut().now_or_never().is_none());
    let (second_body, second) = slow(&server);
    let mut second = pin!(second);
    assert!(second.as_mut().now_or_never().is_none());
    let (_third_body, third) = slow(&server);
    let mut third = pin!(third);
    assert!(third.as_mut().now_or_never().is_none());
    let labels = "{flow_schema=\"noxus\",priority_level=\"narrow\"}";
    let waiting = format!("apiserver_flowcontrol_current_inqueue_requests{labels}");
    assert_eq!(metric(&server, &waiting).await, "2");
    let kind = "apiserver_current_inqueue_requests{request_kind=\"mutating\"}";
    assert_eq!(metric(&server, kind).await, "2");
    let (_fourth_body, fourth) = slow(&server);
    assert_eq!(fourth.await.status(), 429, "the queue is full");
    // The first waiting request takes the seat of the finished one.
    finish(first_body).await;
    assert_eq!(first.await.status(), 201);
    assert!(second.as_mut().now_or_never().is_none());
    assert_eq!(metric(&server, &waiting).await, "1");
    tokio::time::advance(Duration::from_secs(14)).await;
    assert!(third.as_mut().now_or_never().is_none());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(third.await.status(), 429, "its time to wait is over");
    assert_eq!(metric(&server, &waiting).await, "0");
    finish(second_body).await;
    assert_eq!(second.await.status(), 201);
    let wait = |execute: &str| {
        format!(
            "apiserver_flowcontrol_request_wait_duration_seconds_count{{execute=\"{execute}\",\
             flow_schema=\"noxus\",priority_level=\"narrow\"}}"
        )
    };
    assert_eq!(metric(&server, &wait("true")).await, "2");
    assert_eq!(metric(&server, &wait("false")).await, "2");
}

#[tokio::test(start_paused = true)]
async fn the_time_in_a_queue_is_no_part_of_the_indicated_latency() {
    let server = server();
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 2});
    level_of_noxu(&server, json!({"type": "Queue", "queuing": queuing})).await;
    let (first_body, first) = slow(&server);
    let mut first = pin!(first);
    assert!(first.as_mut().now_or_never().is_none());
    let (second_body, second) = slow(&server);
    let mut second = pin!(second);
    assert!(second.as_mut().now_or_never().is_none());
    tokio::time::advance(Duration::from_secs(5)).await;
    finish(first_body).await;
    assert_eq!(first.await.status(), 201);
    finish(second_body).await;
    assert_eq!(second.await.status(), 201);
    let labels = "group=\"authorization.k8s.io\",resource=\"selfsubjectaccessreviews\",\
                  scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"}";
    // The first took five seconds itself, the second waited for as long.
    let whole = "apiserver_request_duration_seconds_sum{component=\"apiserver\",dry_run=\"\"";
    assert_eq!(metric(&server, &format!("{whole},{labels}")).await, "10");
    let own = "apiserver_request_sli_duration_seconds_sum{component=\"apiserver\"";
    assert_eq!(metric(&server, &format!("{own},{labels}")).await, "5");
}

#[tokio::test(start_paused = true)]
async fn seats_of_levels_are_those_of_a_cluster() {
    let server = server();
    for (level, nominal, lower, upper) in [
        ("catch-all", "13", "13", "613"),
        ("exempt", "0", "0", "600"),
        ("global-default", "49", "24", "649"),
        ("leader-election", "25", "25", "625"),
        ("node-high", "98", "73", "698"),
        ("system", "74", "50", "674"),
        ("workload-high", "98", "49", "698"),
        ("workload-low", "245", "24", "845"),
    ] {
        for (bound, seats) in [("nominal", nominal), ("lower", lower), ("upper", upper)] {
            let name = format!("apiserver_flowcontrol_{bound}_limit_seats");
            let line = format!("{name}{{priority_level=\"{level}\"}}");
            assert_eq!(metric(&server, &line).await, seats, "{line}");
        }
    }
}

//! Faults at the wire, in process: what lists and watches deliver while rules are in force, and the
//! control endpoint that injects them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conversion;
mod leaders;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::fault::Fault;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock, Dropped, ResponseBody, Webhook};

use crate::support::requests::{answer, server};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn request(request: &str, body: &Value) -> Request<Full<Bytes>> {
    let (method, path) = request.split_once(' ').unwrap();
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("user-agent", "tester/1")
        .body(Full::new(Bytes::from(body)))
        .unwrap()
}

async fn send(server: &ApiServer, line: &str, body: Value) -> (u16, Value) {
    let answer = answer(server.handle(request(line, &body)).await).await;
    (answer.code, answer.body)
}

async fn create(server: &ApiServer, name: &str) -> String {
    let body = json!({"metadata": {"name": name}});
    let (code, created) = send(server, &format!("POST {CONFIGMAPS}"), body).await;
    assert_eq!(code, 201, "{created}");
    created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn inject(server: &ApiServer, fault: Value) {
    server.inject(serde_json::from_value::<Fault>(fault.into()).unwrap());
}

async fn watch(server: &ApiServer, query: &str) -> ResponseBody {
    let response = server
        .handle(request(
            &format!("GET {CONFIGMAPS}?watch=true{query}"),
            &Value::Null,
        ))
        .await;
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// The type and name of the next event, `BROKEN` for a connection that broke, `END` at the end.
async fn next(watch: &mut ResponseBody) -> String {
    match watch.frame().await {
        None => "END".to_owned(),
        Some(Err(Dropped)) => "BROKEN".to_owned(),
        Some(Ok(frame)) => {
            let event: Value = serde_json::from_slice(&frame.into_data().unwrap()).unwrap();
            let of = match event["type"].as_str() {
                Some("ERROR") => event["object"]["code"].to_string(),
                _ => event["object"]["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            };
            format!("{} {of}", event["type"].as_str().unwrap())
        }
    }
}

/// Whether nothing arrives within this time.
async fn is_silent(watch: &mut ResponseBody, seconds: u64) -> bool {
    tokio::time::timeout(Duration::from_secs(seconds), next(watch))
        .await
        .is_err()
}

#[tokio::test(start_paused = true)]
async fn a_watch_breaks_off_or_expires_in_the_place_of_an_event() {
    let server = server();
    let on = json!({"verb": "watch", "resource": "configmaps", "name": "b", "from": "tester"});
    inject(
        &server,
        json!({"name": "1", "on": on, "times": 1, "break": true}),
    );
    let rv = create(&server, "before").await;
    let query = format!("&resourceVersion={rv}");
    let mut broken = watch(&server, &query).await;
    create(&server, "a").await;
    create(&server, "b").await;
    create(&server, "c").await;
    assert_eq!(next(&mut broken).await, "ADDED a");
    assert_eq!(next(&mut broken).await, "BROKEN");
    assert_eq!(next(&mut broken).await, "END");
    inject(
        &server,
        json!({"name": "2", "on": on, "times": 1, "expire": true}),
    );
    let mut expired = watch(&server, &query).await;
    assert_eq!(next(&mut expired).await, "ADDED a");
    assert_eq!(next(&mut expired).await, "ERROR 410");
    assert_eq!(next(&mut expired).await, "END");
    let mut whole = watch(&server, &query).await;
    for name in ["a", "b", "c"] {
        assert_eq!(next(&mut whole).await, format!("ADDED {name}"));
    }
    let met: Vec<u32> = server.faults_met().iter().map(|(_, met)| *met).collect();
    assert_eq!(met, [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_misses_it_never_delivers() {
    let server = server();
    let mut missing = watch(&server, "&resourceVersion=0").await;
    while !is_silent(&mut missing, 1).await {}
    inject(&server, json!({"name": "m", "times": 1, "miss": "30s"}));
    create(&server, "a").await;
    assert!(is_silent(&mut missing, 29).await);
    create(&server, "b").await;
    assert_eq!(next(&mut missing).await, "ERROR 410");
    assert_eq!(next(&mut missing).await, "END");
}

#[tokio::test(start_paused = true)]
async fn late_events_come_all_and_once() {
    let server = server();
    // A watch with a selector reads from a subscription.
    for (name, selector) in [("b", ""), ("bb", "&labelSelector=!other")] {
        let mut late = watch(&server, &format!("&resourceVersion=0{selector}")).await;
        while !is_silent(&mut late, 1).await {}
        let on = json!({"verb": "watch", "name": name});
        inject(
            &server,
            json!({"name": "l", "on": on, "times": 1, "late": "3m"}),
        );
        create(&server, &format!("a{name}")).await;
        assert_eq!(next(&mut late).await, format!("ADDED a{name}"));
        assert_eq!(server.withheld_until(), None);
        create(&server, name).await;
        assert!(is_silent(&mut late, 60).await);
        assert!(server.withheld_until().is_some());
        create(&server, &format!("c{name}")).await;
        assert!(is_silent(&mut late, 110).await);
        assert_eq!(next(&mut late).await, format!("ADDED {name}"));
        assert_eq!(next(&mut late).await, format!("ADDED c{name}"));
        assert!(is_silent(&mut late, 10).await);
        assert_eq!(server.withheld_until(), None);
    }
    let met: Vec<u32> = server.faults_met().iter().map(|(_, met)| *met).collect();
    assert_eq!(met, [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_breaks_watches_off_and_forgets_the_past() {
    let server = server();
    let rv = create(&server, "before").await;
    create(&server, "since").await;
    let mut broken = watch(&server, &format!("&resourceVersion={rv}")).await;
    let on = json!({"verb": "create"});
    inject(
        &server,
        json!({"name": "r", "on": on, "times": 1, "restart": true}),
    );
    let body = json!({"metadata": {"name": "lost"}});
    let sent = server
        .handle(request(&format!("POST {CONFIGMAPS}"), &body))
        .await;
    assert!(
        sent.into_body().frame().await.unwrap().is_err(),
        "there is no answer"
    );
    let (code, _) = send(&server, &format!("GET {CONFIGMAPS}/lost"), Value::Null).await;
    assert_eq!(code, 404);
    assert_eq!(next(&mut broken).await, "BROKEN");
    create(&server, "after").await;
    let mut old = watch(&server, &format!("&resourceVersion={rv}")).await;
    assert_eq!(next(&mut old).await, "ERROR 410");
}

#[tokio::test(start_paused = true)]
async fn all_watches_expire_at_a_request() {
    let server = server();
    let rv = create(&server, "a").await;
    let mut plain = watch(&server, &format!("&resourceVersion={rv}")).await;
    let selecting = format!("&resourceVersion={rv}&labelSelector=!other");
    let mut selecting = watch(&server, &selecting).await;
    assert!(is_silent(&mut plain, 1).await && is_silent(&mut selecting, 1).await);
    let on = json!({"verb": "create"});
    inject(
        &server,
        json!({"name": "r", "on": on, "times": 1, "relist": true}),
    );
    // The request itself is carried out.
    let later = create(&server, "b").await;
    for open in [&mut plain, &mut selecting] {
        assert_eq!(next(open).await, "ERROR 410");
        assert_eq!(next(open).await, "END");
    }
    let mut again = watch(&server, &format!("&resourceVersion={later}")).await;
    create(&server, "c").await;
    assert_eq!(next(&mut again).await, "ADDED c");
    let (_, answer) = send(
        &server,
        "POST /kubeproof/v1/watches/expire?resource=pods",
        json!(null),
    )
    .await;
    assert_eq!(answer["status"], "Success");
    assert!(is_silent(&mut again, 1).await);
    send(
        &server,
        "POST /kubeproof/v1/watches/expire?resource=configmaps",
        json!(null),
    )
    .await;
    assert_eq!(next(&mut again).await, "ERROR 410");
}

/// A webhook that sets a label.
#[derive(Debug)]
struct Labels;

impl Webhook for Labels {
    fn answer(&self, _: ApiServer, _: &str, document: Value) -> BoxFuture<'static, Value> {
        // [{"op":"add","path":"/metadata/labels","value":{"seen":"yes"}}]
        let patch =
            "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7InNlZW4iOiJ5ZXMifX1d";
        let uid = document["request"]["uid"].clone();
        let response =
            json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        Box::pin(async { review })
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_fail_as_their_policy_says() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    let server = builder
        .answer_service("default", "hook", 443, Arc::new(Labels))
        .build();
    server.record_points();
    let attempt = async |name: &str| {
        let body = json!({"metadata": {"name": name}});
        let began = tokio::time::Instant::now();
        let (code, created) = send(&server, &format!("POST {CONFIGMAPS}"), body).await;
        let seen = created["metadata"]["labels"]["seen"].clone();
        let message = created["message"].as_str().unwrap_or_default().to_owned();
        (code, seen, message, began.elapsed().as_secs())
    };
    let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let hook = |policy: &str| {
        json!({"metadata": {"name": "hook"}, "webhooks": [{
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": policy, "timeoutSeconds": 7,
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
        }]})
    };
    let (code, _) = send(&server, &format!("POST {hooks}"), hook("Fail")).await;
    assert_eq!(code, 201);
    assert_eq!(attempt("a").await, (201, json!("yes"), String::new(), 0));
    let on = json!({"verb": "create", "resource": "configmaps"});
    let failing =
        |failure: &str| json!({"name": failure, "on": on, "times": 1, "webhooks": failure});
    let refused = |why: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \
             \"https://hook.default.svc:443/?timeout=7s\": {why}"
        )
    };
    inject(&server, failing("refuse"));
    let down = refused("connect: connection refused");
    assert_eq!(attempt("b").await, (500, Value::Null, down, 0));
    assert_eq!(attempt("b").await, (201, json!("yes"), String::new(), 0));
    inject(&server, failing("timeout"));
    let late = refused("context deadline exceeded");
    assert_eq!(attempt("c").await, (500, Value::Null, late, 7));
    send(&server, &format!("DELETE {hooks}/hook"), Value::Null).await;
    send(&server, &format!("POST {hooks}"), hook("Ignore")).await;
    inject(&server, failing("refuse"));
    assert_eq!(attempt("d").await, (201, Value::Null, String::new(), 0));
    assert_eq!(attempt("e").await, (201, json!("yes"), String::new(), 0));
    // An exploration tries the fault at requests that call webhooks.
    let points = server.points();
    let calling = points.iter().filter(|point| point.calls_webhooks);
    let calling: Vec<&str> = calling.filter_map(|point| point.name.as_deref()).collect();
    assert_eq!(calling, ["a", "b", "b", "c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn the_clock_jumps_at_a_request() {
    let server = server();
    let created = async |name: &str| {
        let body = json!({"metadata": {"name": name}});
        let (_, created) = send(&server, &format!("POST {CONFIGMAPS}"), body).await;
        let time = created["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .to_owned();
        time.parse::<jiff::Timestamp>().unwrap()
    };
    let before = created("a").await;
    let on = json!({"verb": "create"});
    inject(
        &server,
        json!({"name": "j", "on": on, "times": 1, "jump": "-10m"}),
    );
    let after = created("b").await;
    assert_eq!(before.duration_since(after).as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn a_stale_replica_answers_lists_and_watches_from_the_past() {
    let server = server();
    for name in ["a", "b", "c"] {
        create(&server, name).await;
    }
    inject(
        &server,
        json!({"name": "old", "on": {"from": "tester"}, "stale": 2, "for": "1m"}),
    );
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let list = |query: &str| format!("GET {CONFIGMAPS}{query}");
    let (_, cached) = send(&server, &list("?resourceVersion=0"), Value::Null).await;
    assert_eq!(names(&cached), ["a"], "two writes behind");
    let (_, latest) = send(&server, &list(""), Value::Null).await;
    assert_eq!(names(&latest), ["a", "b", "c"], "who asks for the latest");
    let mut behind = watch(&server, "&resourceVersion=0").await;
    assert_eq!(next(&mut behind).await, "ADDED a");
    assert!(is_silent(&mut behind, 30).await);
    create(&server, "d").await;
    assert_eq!(next(&mut behind).await, "ADDED b");
    assert!(is_silent(&mut behind, 20).await);
    assert_eq!(next(&mut behind).await, "ADDED c", "the fault is over");
    assert_eq!(next(&mut behind).await, "ADDED d");
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_batches_delivers_once_in_a_while() {
    let server = server();
    let rv = create(&server, "before").await;
    inject(&server, json!({"name": "b", "batch": "10s"}));
    let mut batched = watch(&server, &format!("&resourceVersion={rv}")).await;
    assert!(is_silent(&mut batched, 1).await, "the first batch is empty");
    create(&server, "a").await;
    create(&server, "b").await;
    assert!(is_silent(&mut batched, 8).await);
    assert_eq!(next(&mut batched).await, "ADDED a");
    assert_eq!(next(&mut batched).await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_resumes_repeats_events() {
    let server = server();
    create(&server, "a").await;
    create(&server, "b").await;
    let rv = create(&server, "c").await;
    inject(&server, json!({"name": "r", "times": 1, "repeat": 2}));
    let mut resumed = watch(&server, &format!("&resourceVersion={rv}")).await;
    assert_eq!(next(&mut resumed).await, "ADDED b");
    assert_eq!(next(&mut resumed).await, "ADDED c");
    assert!(is_silent(&mut resumed, 1).await);
    let mut other = watch(&server, &format!("&resourceVersion={rv}")).await;
    assert!(is_silent(&mut other, 1).await, "once only");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_withheld_until_the_fault_is_lifted() {
    let server = server();
    let rv = create(&server, "a").await;
    inject(&server, json!({"name": "w", "withholdBookmarks": true}));
    let query = format!("&resourceVersion={rv}&allowWatchBookmarks=true");
    let mut watched = watch(&server, &query).await;
    assert!(is_silent(&mut watched, 200).await);
    assert!(server.lift("w"));
    assert_eq!(next(&mut watched).await, "BOOKMARK ");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_crashes_is_never_answered() {
    let server = server();
    let crash = |name: &str, when: &str| json!({"name": name, "on": {"verb": "create", "name": name}, "crash": when});
    inject(&server, crash("before", "before"));
    inject(&server, crash("after", "after"));
    let crashes = server.crashes();
    for name in ["before", "after"] {
        let body = json!({"metadata": {"name": name}});
        let line = format!("POST {CONFIGMAPS}");
        let answer = send(&server, &line, body);
        let waited = tokio::time::timeout(Duration::from_secs(3600), answer).await;
        assert!(waited.is_err(), "{name}");
    }
    assert_eq!(*crashes.borrow(), 2);
    let code = async |name: &str| {
        send(&server, &format!("GET {CONFIGMAPS}/{name}"), Value::Null)
            .await
            .0
    };
    assert_eq!((code("before").await, code("after").await), (404, 200));
}

#[tokio::test(start_paused = true)]
async fn faults_are_injected_and_lifted_over_the_wire() {
    let server = server();
    let path = "/kubeproof/v1/faults";
    let fault = json!({
        "name": "full", "on": {"verb": "create", "resource": "configmaps"}, "times": 2,
        "refuse": {"code": 429, "reason": "TooManyRequests", "retryAfterSeconds": 3},
    });
    let (code, _) = send(&server, &format!("POST {path}"), fault).await;
    assert_eq!(code, 200);
    let body = json!({"metadata": {"name": "a"}});
    let refused = server
        .handle(request(&format!("POST {CONFIGMAPS}"), &body))
        .await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "3");
    let (_, list) = send(&server, &format!("GET {path}"), Value::Null).await;
    assert_eq!(list["items"], json!([{"name": "full", "met": 1}]));
    let lift = format!("DELETE {path}/full");
    assert_eq!(send(&server, &lift, Value::Null).await.0, 200);
    create(&server, "a").await;
    let (code, status) = send(&server, &lift, Value::Null).await;
    assert_eq!(
        (code, &status["message"]),
        (400, &json!("no active fault is named \"full\""))
    );
    let (code, status) = send(&server, &format!("POST {path}"), json!({"name": "x"})).await;
    assert_eq!(code, 400, "{status}");
    let (code, _) = send(&server, &format!("PUT {path}"), Value::Null).await;
    assert_eq!(code, 405);
}

#[tokio::test(start_paused = true)]
async fn what_can_be_asked_of_the_server_is_listed() {
    let server = server();
    for path in ["/kubeproof/v1", "/kubeproof/v1/"] {
        let (code, list) = send(&server, &format!("GET {path}"), Value::Null).await;
        assert_eq!((code, &list["kind"]), (200, &json!("EndpointList")));
        let items = list["items"].as_array().unwrap();
        let clock = items
            .iter()
            .find(|item| item["path"] == "/kubeproof/v1/clock");
        let clock = clock.unwrap();
        assert_eq!(clock["methods"], json!(["POST"]));
        assert_eq!(clock["parameters"], json!(["jump", "advance"]));
        assert!(clock["description"].as_str().unwrap().contains("forward"));
    }
    let (code, _) = send(&server, "DELETE /kubeproof/v1", Value::Null).await;
    assert_eq!(code, 405);
}

#[tokio::test(start_paused = true)]
async fn clocks_jump_and_servers_restart() {
    let server = server();
    let before = server.clock().now();
    let jump = "POST /kubeproof/v1/clock?jump=";
    assert_eq!(
        send(&server, &format!("{jump}10m"), Value::Null).await.0,
        200
    );
    assert_eq!(server.clock().now().duration_since(before).as_mins(), 10);
    assert_eq!(
        send(&server, &format!("{jump}-1h"), Value::Null).await.0,
        200
    );
    assert_eq!(server.clock().now().duration_since(before).as_mins(), -50);
    assert_eq!(
        send(&server, &format!("{jump}soon"), Value::Null).await.0,
        400
    );
    let rv = create(&server, "a").await;
    create(&server, "b").await;
    let mut watched = watch(&server, "&resourceVersion=0").await;
    assert_eq!(
        send(&server, "POST /kubeproof/v1/restart", Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(next(&mut watched).await, "BROKEN");
    let mut resumed = watch(&server, &format!("&resourceVersion={rv}")).await;
    assert_eq!(next(&mut resumed).await, "ERROR 410");
    let (_, list) = send(&server, &format!("GET {CONFIGMAPS}"), Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
}

//! Audit events: what a request leaves in them, and when. Expectations follow the sources of v1.36.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;

use std::pin::pin;
use std::task::{Context, Waker};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, StreamBody};
use kubeproof_apiserver::audit::{Audit, Event, Sink, SinkError, Stage};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock};

use crate::support::audit::{Events, policy};
use crate::support::requests::{Answer, answer, read, respond, send, send_as};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Everything at one stage: after the response, or at the end of a long one.
const COMPLETE: &str = "{level: RequestResponse, omitStages: [RequestReceived, ResponseStarted]}";

/// A server with simulated time, from 2026 on, and its events.
fn audited(rules: &str) -> (ApiServer, Events) {
    let events = Events::default();
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::builder()
        .clock(Clock::simulated(epoch))
        .audit(events.audit(rules))
        .build();
    (server, events)
}

/// The fields of an event without those of every event.
fn rest(mut event: Value) -> Value {
    let fields = event.as_object_mut().unwrap();
    for field in [
        "kind",
        "apiVersion",
        "auditID",
        "requestURI",
        "user",
        "requestReceivedTimestamp",
        "stageTimestamp",
    ] {
        assert!(fields.remove(field).is_some(), "{field}");
    }
    event
}

fn stages(events: &[Value]) -> Vec<&str> {
    let stages = events.iter().map(|event| event["stage"].as_str().unwrap());
    stages.collect()
}

async fn send_with(
    server: &ApiServer,
    request: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    answer(respond(server, request, headers, body).await).await
}

#[tokio::test(start_paused = true)]
async fn a_request_makes_an_event_before_and_one_after_its_work() {
    let (server, events) = audited("{level: Metadata}");
    let headers = [
        ("audit-id", "1"),
        ("user-agent", "test"),
        ("content-type", "application/json"),
    ];
    let request = format!("POST {CONFIGMAPS}?fieldManager=a&pretty=1");
    let created = send_with(&server, &request, &headers, r#"{"metadata":{"name":"a"}}"#).await;
    assert_eq!(created.code, 201);
    let start = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"#;
    let request = concat!(
        r#","requestURI":"/api/v1/namespaces/default/configmaps?fieldManager=a\u0026pretty=1","verb":"create","#,
        r#""user":{"username":"kubernetes-admin","groups":["system:masters","system:authenticated"]},"userAgent":"test","#,
        r#""objectRef":{"resource":"configmaps","namespace":"default","#,
    );
    let times = r#""requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","stageTimestamp":"2026-01-01T00:00:00.000000Z""#;
    let decision = r#""annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}"#;
    let status = r#""responseStatus":{"metadata":{},"code":201}"#;
    let want = [
        format!(r#"{start}"RequestReceived"{request}"apiVersion":"v1"}},{times}}}"#),
        format!(
            r#"{start}"ResponseComplete"{request}"name":"a","apiVersion":"v1"}},{status},{times},{decision}}}"#
        ),
    ];
    assert_eq!(events.lines(), want);
}

#[tokio::test(start_paused = true)]
async fn the_audit_id_of_an_event_is_that_of_the_response() {
    let (server, events) = audited(COMPLETE);
    let none: [(&str, &str); 0] = [];
    let response = respond(&server, "GET /version", &none, "").await;
    assert_eq!(
        events.only()["auditID"],
        response.headers()["audit-id"].to_str().unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn objects_are_recorded_as_they_were_sent_and_answered() {
    let (server, events) = audited(COMPLETE);
    let secrets = "/api/v1/namespaces/default/secrets";
    let post = format!("POST {secrets}");
    let object = json!({"metadata": {"name": "s", "labels": {"z": "1"}, "annotations": {"a": "<b>"}}, "stringData": {"a": "b"}});
    let created = send(&server, &post, object).await.body;
    let line = events.lines().remove(0);
    // The decoder sets the default type and moves texts to the data; Go escapes what could be HTML.
    let metadata = r#""labels":{"z":"1"},"annotations":{"a":"\u003cb\u003e"}}"#;
    let sent = format!(
        r#""requestObject":{{"kind":"Secret","apiVersion":"v1","metadata":{{"name":"s",{metadata},"data":{{"a":"Yg=="}},"type":"Opaque"}},"responseObject":{{"kind":"Secret","apiVersion":"v1","metadata":{{"name":"s","#
    );
    let sent = &sent;
    assert!(line.contains(sent.as_str()), "{line}");
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["responseObject"], created);

    let mut changed = created.clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    let updated = send(&server, &format!("PUT {secrets}/s"), changed)
        .await
        .body;
    let event = events.only();
    let metadata = &created["metadata"];
    let want = json!({
        "resource": "secrets", "namespace": "default", "name": "s", "apiVersion": "v1",
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    });
    assert_eq!(
        (&event["verb"], &event["objectRef"]),
        (&json!("update"), &want)
    );
    assert_eq!(
        event["requestObject"]["metadata"]["labels"],
        json!({"a": "b"})
    );
    assert_eq!(event["responseObject"], updated);

    let got = send(&server, &format!("GET {secrets}/s"), Value::Null)
        .await
        .body;
    let event = events.only();
    assert_eq!(
        (&event["verb"], &event["responseObject"]),
        (&json!("get"), &got)
    );
    assert!(event.get("requestObject").is_none());

    let listed = send(&server, "GET /api/v1/secrets", Value::Null).await.body;
    let event = events.only();
    assert_eq!(
        event["objectRef"],
        json!({"resource": "secrets", "apiVersion": "v1"})
    );
    assert_eq!(
        (&event["verb"], &event["responseObject"]),
        (&json!("list"), &listed)
    );
    assert_eq!(event["responseObject"]["kind"], "SecretList");
}

#[tokio::test(start_paused = true)]
async fn responses_in_other_forms_are_recorded_as_json() {
    let (server, events) = audited(COMPLETE);
    send(
        &server,
        &format!("POST {CONFIGMAPS}"),
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    let plain = events.only()["responseObject"].clone();
    let get = format!("GET {CONFIGMAPS}/a");
    let protobuf = "application/vnd.kubernetes.protobuf";
    for accept in ["application/yaml", protobuf, "application/json;pretty=1"] {
        let (code, _) = read(respond(&server, &get, &[("accept", accept)], "").await).await;
        assert_eq!(code, 200);
        assert_eq!(events.only()["responseObject"], plain, "{accept}");
    }
    let list = format!("GET {CONFIGMAPS}");
    let listed = send(&server, &list, Value::Null).await.body;
    let missing = format!("GET {CONFIGMAPS}/none");
    let refused = send(&server, &missing, Value::Null).await.body;
    events.all();
    for (request, want) in [(&list, listed), (&missing, refused)] {
        read(respond(&server, request, &[("accept", protobuf)], "").await).await;
        let event = events.only();
        assert_eq!(event["responseObject"], want, "{request}");
        assert_eq!(
            event["responseStatus"]["reason"], want["reason"],
            "{request}"
        );
    }
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let shown = send_with(&server, &get, &[("accept", table)], "").await;
    let event = events.only();
    assert_eq!(event["responseObject"], shown.body);
    assert_eq!(event["responseObject"]["kind"], "Table");
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_recorded_as_it_was_sent() {
    let (server, events) = audited(COMPLETE);
    send(
        &server,
        &format!("POST {CONFIGMAPS}"),
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    events.all();
    let rows = [
        (
            "application/merge-patch+json",
            "{ \"data\": {\"b\": \"1\", \"a\": null} }",
            r#"{"data":{"b":"1","a":null}}"#,
        ),
        (
            "application/json-patch+json",
            r#"[{"op": "add", "path": "/data/c", "value": "&"}]"#,
            r#"[{"op":"add","path":"/data/c","value":"\u0026"}]"#,
        ),
        (
            "application/apply-patch+yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#,
        ),
    ];
    for (media, patch, want) in rows {
        let request = format!("PATCH {CONFIGMAPS}/a?fieldManager=m");
        let patched = send_with(&server, &request, &[("content-type", media)], patch).await;
        assert_eq!(patched.code, 200, "{}", patched.body);
        let line = events.lines().remove(0);
        let want = format!("\"requestObject\":{want},\"responseObject\":");
        assert!(line.contains(&want), "{line}");
        assert!(line.contains("\"verb\":\"patch\""), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_recorded_with_its_options_and_its_status() {
    let (server, events) = audited(COMPLETE);
    for name in ["a", "b"] {
        send(
            &server,
            &format!("POST {CONFIGMAPS}"),
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let created = events.all().remove(0)["responseObject"]["metadata"].clone();
    let options =
        json!({"propagationPolicy": "Background", "kind": "DeleteOptions", "apiVersion": "v1"});
    send(&server, &format!("DELETE {CONFIGMAPS}/a"), options).await;
    let line = events.lines().remove(0);
    let details = json!({"name": "a", "kind": "configmaps", "uid": created["uid"]});
    let status = format!(
        r#""responseStatus":{{"metadata":{{}},"status":"Success","details":{{"name":"a","kind":"configmaps","uid":{}}},"code":200}},"#,
        details["uid"]
    );
    let sent = r#""requestObject":{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"},"#;
    assert!(line.contains(&format!("{status}{sent}")), "{line}");

    send(&server, &format!("DELETE {CONFIGMAPS}"), json!({})).await;
    let event = events.only();
    assert_eq!(event["verb"], "deletecollection");
    let want = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    assert_eq!(event["requestObject"], want);
    assert_eq!(event["responseObject"]["kind"], "ConfigMapList");
}

#[tokio::test(start_paused = true)]
async fn managed_fields_can_be_left_out() {
    let (server, events) = audited("{level: RequestResponse, omitManagedFields: true}");
    let post = format!("POST {CONFIGMAPS}");
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let created = send(&server, &post, object).await.body;
    assert!(created["metadata"]["managedFields"].is_array());
    send(&server, &format!("PUT {CONFIGMAPS}/a"), created).await;
    send(&server, &format!("GET {CONFIGMAPS}"), Value::Null).await;
    let lines = events.lines();
    assert_eq!(lines.len(), 6);
    assert!(
        lines.iter().all(|line| !line.contains("managedFields")),
        "{lines:#?}"
    );
    assert!(
        lines[3].contains("\"responseObject\":{\"kind\":\"ConfigMap\""),
        "{}",
        lines[3]
    );
}

#[tokio::test(start_paused = true)]
async fn another_user_and_the_refusal_of_what_it_may_not_do() {
    let (server, events) = audited("{level: Metadata, omitStages: [RequestReceived]}");
    let refused = send_as(&server, "jane", "GET /api/v1/nodes/n", Value::Null).await;
    assert_eq!(refused.code, 403);
    let event = events.only();
    assert_eq!(event["user"]["username"], "kubernetes-admin");
    let want = json!({
        "level": "Metadata", "stage": "ResponseComplete", "verb": "get",
        "impersonatedUser": {"username": "jane", "groups": ["system:authenticated"]},
        "authenticationMetadata": {"impersonationConstraint": "impersonate:user-info"},
        "objectRef": {"resource": "nodes", "name": "n", "apiVersion": "v1"},
        "responseStatus": {
            "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "nodes \"n\" is forbidden: User \"jane\" cannot get resource \"nodes\" in API group \"\" at the cluster scope",
            "details": {"name": "n", "kind": "nodes"},
        },
        "annotations": {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""},
    });
    assert_eq!(rest(event), want);

    let binding = json!({
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    send(&server, &format!("POST {bindings}"), binding).await;
    events.all();
    send_as(&server, "jane", &format!("GET {CONFIGMAPS}"), Value::Null).await;
    let reason =
        "RBAC: allowed by ClusterRoleBinding \"jane\" of ClusterRole \"view\" to User \"jane\"";
    let want =
        json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": reason});
    assert_eq!(events.only()["annotations"], want);

    // A user who may not be another one is refused before authorization.
    let headers = [("impersonate-user", "jane"), ("impersonate-uid", "")];
    let token = events_of_token(&server, &events, &headers).await;
    assert_eq!(token["responseStatus"]["code"], 403);
    assert!(token.get("impersonatedUser").is_none() && token.get("annotations").is_none());
}

/// The event of a list by a service account with these headers.
async fn events_of_token(server: &ApiServer, events: &Events, headers: &[(&str, &str)]) -> Value {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    send(
        server,
        &format!("POST {accounts}"),
        json!({"metadata": {"name": "own"}}),
    )
    .await;
    let issued = send(server, &format!("POST {accounts}/own/token"), json!({})).await;
    let issuing = events.all().pop().unwrap();
    let annotations = &issuing["annotations"];
    let id = annotations["authentication.kubernetes.io/issued-credential-id"].as_str();
    let bearer = format!(
        "Bearer {}",
        issued.body["status"]["token"].as_str().unwrap()
    );
    let headers: Vec<(&str, &str)> = [("authorization", bearer.as_str())]
        .into_iter()
        .chain(headers.iter().copied())
        .collect();
    send_with(server, &format!("GET {CONFIGMAPS}"), &headers, "").await;
    let event = events.only();
    assert_eq!(
        event["user"]["username"],
        "system:serviceaccount:default:own"
    );
    let credential = &event["user"]["extra"]["authentication.kubernetes.io/credential-id"];
    assert_eq!(*credential, json!([id.unwrap()]));
    event
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_known_user_makes_one_event() {
    let (server, events) = audited("{level: Metadata}");
    let headers = [("authorization", "Bearer unknown")];
    let refused = send_with(&server, &format!("GET {CONFIGMAPS}"), &headers, "").await;
    assert_eq!(refused.code, 401);
    let event = events.only();
    assert_eq!(event["user"], json!({}));
    let want = json!({
        "level": "Metadata", "stage": "ResponseStarted", "verb": "list",
        "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
        "responseStatus": {
            "metadata": {}, "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized",
            "code": 401,
        },
    });
    assert_eq!(rest(event), want);

    let refused = send(
        &server,
        &format!("GET {CONFIGMAPS}?timeout=soon"),
        Value::Null,
    )
    .await;
    assert_eq!(refused.code, 400);
    let event = events.only();
    assert_eq!(
        (&event["user"], &event["stage"]),
        (&json!({}), &json!("ResponseStarted"))
    );
    assert_eq!(event["responseStatus"]["message"], refused.body["message"]);

    // Rules about users do not match before there is one.
    let (server, events) = audited("{level: None, userGroups: [a]}, {level: None, users: [b]}");
    send_with(&server, &format!("GET {CONFIGMAPS}"), &headers, "").await;
    assert!(events.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_makes_an_event_when_it_starts_and_one_when_it_ends() {
    let (server, events) = audited("{level: RequestResponse}");
    let get = format!("GET {CONFIGMAPS}?watch=1&timeoutSeconds=5");
    let none: [(&str, &str); 0] = [];
    let response = respond(&server, &get, &none, "").await;
    let begun = events.all();
    assert_eq!(stages(&begun), ["RequestReceived", "ResponseStarted"]);
    assert_eq!(begun[1]["verb"], "watch");
    assert_eq!(
        begun[1]["responseStatus"],
        json!({"metadata": {}, "code": 200})
    );
    let mut body = response.into_body();
    while body.frame().await.is_some() {}
    let ended = events.only();
    assert_eq!(ended["stage"], "ResponseComplete");
    assert_eq!(
        ended["requestReceivedTimestamp"],
        "2026-01-01T00:00:00.000000Z"
    );
    assert_eq!(ended["stageTimestamp"], "2026-01-01T00:00:05.000000Z");
    assert!(ended.get("responseObject").is_none());

    let response = respond(&server, &get, &none, "").await;
    assert_eq!(events.all().len(), 2);
    drop(response);
    assert_eq!(events.only()["stage"], "ResponseComplete");

    let refused = send(&server, &format!("{get}&resourceVersion=x"), Value::Null).await;
    assert!(refused.code >= 400);
    let all = events.all();
    assert_eq!(
        stages(&all),
        ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    );
    assert_eq!(all[1]["responseObject"], refused.body);
}

#[tokio::test(start_paused = true)]
async fn paths_that_name_no_resource_are_audited_by_their_method() {
    let (server, events) = audited(COMPLETE);
    let rows = [
        ("GET /healthz", "get", 200, Value::Null),
        ("GET /version", "get", 200, Value::Null),
        ("GET /apis", "get", 200, json!("APIGroupList")),
        ("POST /nowhere", "post", 404, Value::Null),
    ];
    for (request, verb, code, kind) in rows {
        send(&server, request, Value::Null).await;
        let event = events.only();
        assert!(event.get("objectRef").is_none(), "{request}");
        assert_eq!(event["verb"], verb, "{request}");
        assert_eq!(
            event["responseStatus"],
            json!({"metadata": {}, "code": code}),
            "{request}"
        );
        assert_eq!(event["responseObject"]["kind"], kind, "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_a_rule_wants_is_audited() {
    let rules = "{level: None, resources: [{resources: [configmaps]}]}, \
                 {level: Metadata, verbs: [get], omitStages: [ResponseComplete]}";
    let (server, events) = audited(rules);
    send(&server, &format!("GET {CONFIGMAPS}/a"), Value::Null).await;
    send(&server, "GET /api/v1/nodes", Value::Null).await;
    assert!(events.all().is_empty());
    send(&server, "GET /api/v1/nodes/a", Value::Null).await;
    assert_eq!(events.only()["stage"], "RequestReceived");
}

#[tokio::test(start_paused = true)]
async fn addresses_in_headers_come_before_that_of_the_connection() {
    let (server, events) = audited(COMPLETE);
    let headers = [
        ("x-forwarded-for", "10.0.0.1, nowhere,::1"),
        ("x-real-ip", "10.0.0.2"),
    ];
    send_with(&server, "GET /version", &headers, "").await;
    assert_eq!(
        events.only()["sourceIPs"],
        json!(["10.0.0.1", "::1", "10.0.0.2"])
    );
    let headers = [("x-forwarded-for", "10.0.0.1"), ("x-real-ip", "10.0.0.1")];
    send_with(&server, "GET /version", &headers, "").await;
    assert_eq!(events.only()["sourceIPs"], json!(["10.0.0.1"]));
    let long = "x".repeat(2000);
    send_with(&server, "GET /version", &[("user-agent", &long)], "").await;
    let want = format!("{}...TRUNCATED", "x".repeat(1024));
    assert_eq!(events.only()["userAgent"], *want);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_the_answer_is_recorded() {
    let (server, events) = audited("{level: Metadata}");
    let body = StreamBody::new(futures::stream::pending::<
        Result<http_body::Frame<Bytes>, ()>,
    >());
    let request = Request::post(CONFIGMAPS).body(body).unwrap();
    {
        let mut answer = pin!(server.handle(request));
        let mut context = Context::from_waker(Waker::noop());
        assert!(answer.as_mut().poll(&mut context).is_pending());
        assert_eq!(events.only()["stage"], "RequestReceived");
    }
    let event = events.only();
    assert_eq!(event["stage"], "ResponseComplete");
    let want = json!({
        "metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200,
    });
    assert_eq!(event["responseStatus"], want);
}

/// A sink that fails at one stage.
struct Failing(Stage);

impl Sink for Failing {
    fn take(&self, event: &Event) -> Result<(), SinkError> {
        match event.stage == self.0 {
            true => Err(SinkError("no space".to_owned())),
            false => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_first_event_is_lost_is_refused() {
    let create = || {
        let body = json!({"metadata": {"name": "a"}}).to_string();
        let request = Request::post(format!("{CONFIGMAPS}?a=b&c"));
        let request = request.header("content-type", "application/json");
        request.body(Full::new(Bytes::from(body))).unwrap()
    };
    let failing = |stage| Audit::new(policy("{level: Metadata}")).sink(Failing(stage));
    let server = ApiServer::builder()
        .audit(failing(Stage::RequestReceived))
        .build();
    let (code, body) = read(server.handle(create()).await).await;
    let want =
        format!("Internal Server Error: \"{CONFIGMAPS}?a=b&amp;c\": failed to store audit event\n");
    assert_eq!((code, body), (500, Bytes::from(want)));
    let server = ApiServer::builder()
        .audit(failing(Stage::ResponseComplete))
        .build();
    assert_eq!(read(server.handle(create()).await).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_fork_is_not_audited() {
    let (server, events) = audited(COMPLETE);
    send(&server.fork(), "GET /version", Value::Null).await;
    assert!(events.all().is_empty());
}

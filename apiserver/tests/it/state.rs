//! The state of a server, moved to another server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, ServerState};

use crate::support::requests::{send, send_as};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const VIEW: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view";

fn definition() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

async fn done(server: &ApiServer, request: &str, body: Value) -> Value {
    let answer = send(server, request, body).await;
    let (code, message) = (answer.code, answer.message().to_owned());
    assert!((200..300).contains(&code), "{request}: {code} {message}");
    assert_eq!(answer.warnings, [""; 0]);
    answer.body
}

/// A server with a definition and its object, a Service, and initial objects changed and deleted.
async fn lived_in() -> ApiServer {
    let server = ApiServer::builder().seed(7).build();
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    for (request, body) in [
        (format!("POST {DEFINITIONS}"), definition()),
        (
            format!("POST {WIDGETS}"),
            json!({"apiVersion": "example.com/v1", "kind": "Widget",
                "metadata": {"name": "w"}, "spec": {"size": 1}}),
        ),
        (
            format!("POST {CONFIGMAPS}"),
            json!({"metadata": {"name": "a"}, "data": {"k": "Zeile\nzwei"}}),
        ),
        (
            format!("POST {CONFIGMAPS}"),
            json!({"metadata": {"name": "gone"}}),
        ),
        (format!("DELETE {CONFIGMAPS}/gone"), Value::Null),
        (format!("DELETE {VIEW}"), Value::Null),
        ("POST /api/v1/namespaces/default/services".into(), service),
        (
            "PATCH /api/v1/namespaces/kube-public".into(),
            json!({"metadata": {"labels": {"changed": "yes"}}}),
        ),
    ] {
        done(&server, &request, body).await;
    }
    server
}

fn begun(text: &str) -> ApiServer {
    let (state, rest) = ServerState::read(text).unwrap();
    assert_eq!(rest, "");
    ApiServer::builder().random().holding(state).build()
}

/// The lines of a server's state after the first, which has the time.
fn objects(server: &ApiServer) -> Vec<String> {
    let text = server.state().to_text();
    text.lines().skip(1).map(str::to_owned).collect()
}

#[tokio::test]
async fn another_server_begins_with_what_one_stored_and_goes_on_from_there() {
    let server = lived_in().await;
    let state = server.state();
    let text = state.to_text();
    let other = begun(&text);
    assert_eq!(other.resource_version(), server.resource_version());
    assert_eq!(objects(&other), objects(&server));
    for path in [
        CONFIGMAPS,
        WIDGETS,
        "/api/v1/namespaces",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ] {
        let request = format!("GET {path}");
        let there = done(&other, &request, Value::Null).await;
        assert_eq!(there, done(&server, &request, Value::Null).await);
    }
    let view = send(&other, &format!("GET {VIEW}"), Value::Null).await;
    assert_eq!(view.code, 404, "what was deleted does not come back");

    let created = json!({"metadata": {"name": "b"}});
    let created = done(&other, &format!("POST {CONFIGMAPS}"), created).await;
    let rv = state.resource_version().after(1).to_string();
    assert_eq!(created["metadata"]["resourceVersion"], rv);
    let service = json!({"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    let service = done(&other, &format!("POST {services}"), service).await;
    let before = done(&other, &format!("GET {services}/s"), Value::Null).await;
    let address = |service: &Value| service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert_ne!(address(&service), address(&before));
    assert!(!objects(&server).iter().any(|line| line.contains("\"b\"")));
}

#[tokio::test]
async fn the_past_of_another_server_is_expired() {
    let server = lived_in().await;
    let (from, past) = (
        server.resource_version(),
        server.resource_version().before(1),
    );
    let other = begun(&server.state().to_text());
    let exact = |path: &str, rv: ResourceVersion| {
        format!("GET {path}?resourceVersion={rv}&resourceVersionMatch=Exact")
    };
    for path in [CONFIGMAPS, WIDGETS, "/api/v1/secrets"] {
        let code = async |rv| send(&other, &exact(path, rv), Value::Null).await.code;
        assert_eq!((code(past).await, code(from).await), (410, 200), "{path}");
    }
}

#[tokio::test]
async fn objects_of_a_definition_that_goes_do_not_come_back_with_it() {
    let other = begun(&lived_in().await.state().to_text());
    done(&other, &format!("DELETE {WIDGETS}/w"), Value::Null).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    done(&other, &format!("DELETE {path}"), Value::Null).await;
    assert_eq!(
        send(&other, &format!("GET {WIDGETS}"), Value::Null)
            .await
            .code,
        404
    );
    done(&other, &format!("POST {DEFINITIONS}"), definition()).await;
    let list = done(&other, &format!("GET {WIDGETS}"), Value::Null).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn deeply_nested_objects_are_taken_along() {
    let server = ApiServer::builder().build();
    done(&server, &format!("POST {DEFINITIONS}"), definition()).await;
    let depth = 2000;
    let body = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"deep"}},"x":{}1{}}}"#,
        "[".repeat(depth),
        "]".repeat(depth)
    );
    let request = Request::post(WIDGETS).header("content-type", "application/json");
    let request = request.body(http_body_util::Full::new(Bytes::from(body)));
    assert_eq!(server.handle(request.unwrap()).await.status(), 201);
    let other = begun(&server.state().to_text());
    assert_eq!(objects(&other), objects(&server));
}

#[tokio::test]
async fn the_administrator_is_given_the_state_over_the_wire() {
    let server = lived_in().await;
    let request = Request::get("/kubeproof/v1/snapshot");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let response = server.handle(request).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&text).unwrap();
    assert_eq!(objects(&begun(text)), objects(&server));

    let path = "/kubeproof/v1/snapshot";
    let refused = send(&server, &format!("POST {path}"), Value::Null).await;
    assert_eq!(refused.code, 405);
    let refused = send_as(&server, "someone", &format!("GET {path}"), Value::Null).await;
    assert_eq!(refused.code, 403, "it holds Secrets");
}

#[tokio::test]
async fn texts_that_are_no_state_are_refused_with_the_line() {
    let text = lived_in().await.state().to_text();
    let (first, objects) = text.split_once('\n').unwrap();
    let (object, _) = objects.split_once('\n').unwrap();
    let later = object.replace("\"resourceVersion\":\"", "\"resourceVersion\":\"9999");
    for (text, message) in [
        (String::new(), "line 1: "),
        ("{}".to_owned(), "line 1: "),
        (
            first.replace("kubeproof/v1", "kubeproof/v9"),
            "line 1: the form is \"kubeproof/v9\"",
        ),
        (first.replace("\"time\":\"", "\"time\":\"x"), "line 1: "),
        (
            format!(
                "{first}\n{}",
                object.replace("\"resource\":\"", "\"resource\":\"a/b/c/")
            ),
            "no resource",
        ),
        (format!("{first}\n{object}\n{later}"), "line 3: "),
        (format!("{first}\n{object}\n{}", &object[..80]), "line 3: "),
    ] {
        let error = ServerState::read(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{text:.80}: {error}");
    }
    // Faults in an object have the position that serde_json states.
    let data = |data: &str| {
        let object = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","resourceVersion":"1"}},"data":{data}}}"#
        );
        format!(
            "{first}\n{{\"object\":{{\"resource\":\"api/v1/configmaps\",\"object\":{object}}}}}\n"
        )
    };
    let (state, _) = ServerState::read(&data(r#"{"k":"1","k":"2"}"#)).unwrap();
    let text = state.to_text();
    assert!(text.contains(r#""data":{"k":"2"}"#), "{text}");
    let error = ServerState::read(&data(r#"{"k":"\ud800"}"#)).unwrap_err();
    let why = "line 2: unexpected end of hex escape at line 1 column 104";
    assert_eq!(error.to_string(), why);
    // A log goes on from a state.
    let text = format!("{first}\n{object}\nmore\n");
    let (_, rest) = ServerState::read(&text).unwrap();
    assert_eq!(rest, "more\n");
}

#[tokio::test]
async fn the_journal_is_taken_piece_by_piece() {
    let server = ApiServer::builder().journal().build();
    let mut seen = BTreeMap::new();
    for name in ["a", "b"] {
        let body = json!({"metadata": {"name": name}});
        done(&server, &format!("POST {CONFIGMAPS}"), body).await;
        for entry in server.take_journal() {
            seen.insert(entry.rv, entry.object["metadata"]["name"].clone());
        }
    }
    assert!(server.take_journal().is_empty() && server.journal().is_empty());
    let names: Vec<Value> = seen.into_values().collect();
    assert_eq!(names, ["a", "b"]);
}

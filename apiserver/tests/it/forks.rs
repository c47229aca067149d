//! Servers that begin where another one is, or was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, ForkError};

use crate::support::requests::send;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(server: &ApiServer, name: &str) -> Value {
    let body = json!({"metadata": {"name": name}});
    let created = send(server, &format!("POST {CONFIGMAPS}"), body).await;
    let (code, warnings) = (created.code, created.warnings.len());
    assert_eq!((code, warnings), (201, 0), "{}", created.message());
    created.body
}

async fn names(server: &ApiServer, query: &str) -> Vec<String> {
    let list = send(server, &format!("GET {CONFIGMAPS}{query}"), Value::Null).await;
    let items = list.body["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_fork_begins_with_everything_and_goes_its_own_way() {
    let server = ApiServer::builder().build();
    create(&server, "a").await;
    let rv = server.resource_version();
    let fork = server.fork();
    assert_eq!(fork.resource_version(), rv);
    let (ours, theirs) = (create(&server, "ours").await, create(&fork, "theirs").await);
    assert_eq!(names(&server, "").await, ["a", "ours"]);
    assert_eq!(names(&fork, "").await, ["a", "theirs"]);
    assert_eq!(
        ours["metadata"]["resourceVersion"],
        theirs["metadata"]["resourceVersion"]
    );
    assert_eq!(
        ours["metadata"]["uid"], theirs["metadata"]["uid"],
        "both draw what comes next"
    );
    // The past is shared as well.
    let then = format!(
        "?resourceVersion={}&resourceVersionMatch=Exact",
        rv.before(1)
    );
    assert_eq!(names(&fork, &then).await, [""; 0]);
    let now = format!("?resourceVersion={rv}&resourceVersionMatch=Exact");
    assert_eq!(names(&fork, &now).await, ["a"]);
}

#[tokio::test]
async fn a_past_version_is_opened_as_it_was() {
    let server = ApiServer::builder().build();
    for name in ["a", "b"] {
        create(&server, name).await;
    }
    let rv = server.resource_version();
    let deleted = send(&server, &format!("DELETE {CONFIGMAPS}/a"), Value::Null).await;
    assert_eq!(deleted.code, 200);
    create(&server, "c").await;
    let then = server.fork_at(rv).unwrap();
    assert_eq!(names(&then, "").await, ["a", "b"]);
    assert_eq!(then.resource_version(), rv);
    create(&then, "d").await;
    assert_eq!(names(&then, "").await, ["a", "b", "d"]);
    assert_eq!(names(&server, "").await, ["b", "c"]);
    let latest = server.resource_version();
    assert_eq!(
        server.fork_at(latest.after(1)).unwrap_err(),
        ForkError::Future {
            resource_version: latest.after(1),
            latest
        }
    );
    server.compact();
    create(&server, "e").await;
    let forgotten = server.fork_at(rv).unwrap_err();
    assert_eq!(
        forgotten.to_string(),
        format!("resourceVersion {rv} is no longer available: the oldest is {latest}")
    );
}

#[tokio::test]
async fn a_fork_serves_the_definitions_of_its_time() {
    let server = ApiServer::builder().build();
    let before = server.resource_version();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true
                }},
            }],
        },
    });
    let path = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&server, path, definition).await.code, 201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
    });
    let post = format!("POST {widgets}");
    assert_eq!(send(&server, &post, widget.clone()).await.code, 201);
    let fork = server.fork();
    assert_eq!(
        send(&fork, &post, widget.clone()).await.code,
        409,
        "it is there"
    );
    let get = format!("GET {widgets}/w");
    assert_eq!(send(&fork, &get, Value::Null).await.code, 200);
    let past = server.fork_at(before).unwrap();
    assert_eq!(send(&past, &get, Value::Null).await.code, 404);
    assert_eq!(
        send(&past, "GET /apis/example.com/v1", Value::Null)
            .await
            .code,
        404
    );
}

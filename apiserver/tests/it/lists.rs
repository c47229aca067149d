//! Lists: pages, versions, selectors and the options that exclude one another.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock};

use crate::support::requests::outcome;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn get(server: &ApiServer, query: &str) -> (u16, Value) {
    outcome(server, &format!("GET {CONFIGMAPS}?{query}"), Value::Null).await
}

/// A server with ConfigMaps of these names, of which `x…` have the label `k=v`.
async fn with(names: &[&str]) -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::builder().clock(Clock::simulated(epoch)).build();
    for name in names {
        let labels = match name.starts_with('x') {
            true => json!({ "k": "v" }),
            false => json!({}),
        };
        let body = json!({ "metadata": { "name": name, "labels": labels } });
        outcome(&server, &format!("POST {CONFIGMAPS}"), body).await;
    }
    server
}

#[tokio::test(start_paused = true)]
async fn a_page_goes_on_while_anything_is_behind_it_selected_or_not() {
    let server = with(&["a", "x", "y"]).await;
    let (_, page) = get(&server, "limit=1&labelSelector=k%3Dv").await;
    assert_eq!(page["items"][0]["metadata"]["name"], "x");
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(page["metadata"]["remainingItemCount"], Value::Null);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let query = format!("limit=1&labelSelector=k%3Dv&continue={token}");
    let (_, last) = get(&server, &query).await;
    assert_eq!(last["items"], json!([]));
    assert_eq!(last["metadata"]["continue"], Value::Null);

    let (_, page) = get(&server, "limit=1").await;
    assert_eq!(page["metadata"]["remainingItemCount"], 2);
    let (_, whole) = get(&server, "limit=1&resourceVersion=0").await;
    assert_eq!(whole["items"].as_array().unwrap().len(), 3);
    assert_eq!(whole["metadata"]["continue"], Value::Null);
    let (_, whole) = get(&server, "limit=3").await;
    assert_eq!(whole["metadata"]["continue"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_name_looks_at_nothing_else() {
    let server = with(&["a", "b"]).await;
    let rv = server.resource_version().before(1);
    let by_name = "limit=1&fieldSelector=metadata.name%3Da";
    let (_, list) = get(&server, by_name).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert_eq!(list["metadata"].as_object().unwrap().len(), 1);
    // A limit makes the version of a list exact, but there are no pages of one name.
    let (_, list) = get(&server, &format!("{by_name}&resourceVersion={rv}")).await;
    assert_ne!(list["metadata"]["resourceVersion"], rv.to_string());
    let query = format!("limit=1&resourceVersion={rv}");
    let (_, list) = get(&server, &query).await;
    assert_eq!(list["metadata"]["resourceVersion"], rv.to_string());
}

#[tokio::test(start_paused = true)]
async fn the_first_fault_of_a_query_is_reported() {
    let server = with(&["a"]).await;
    let table: &[(&str, u16, &str)] = &[
        (
            "limit=&fieldSelector=data%3Dx",
            400,
            "strconv.ParseInt: parsing \"\": invalid syntax",
        ),
        (
            "timeoutSeconds=x",
            400,
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "resourceVersionMatch=Exact&sendInitialEvents=&fieldSelector=data%3Dx",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]",
        ),
        (
            "continue=x&fieldSelector=data%3Dx",
            400,
            "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "continue=YQ&resourceVersion=abc",
            400,
            "invalid continue token: continue key is not valid: invalid character 'a' looking for beginning of value",
        ),
    ];
    for (query, code, message) in table {
        let (answered, body) = get(&server, query).await;
        assert_eq!(
            (answered, &body["message"]),
            (*code, &json!(message)),
            "{query}"
        );
    }
    // A deletion of the collection checks the list options before its own.
    let request = format!("DELETE {CONFIGMAPS}?resourceVersionMatch=Exact&propagationPolicy=x");
    let (code, body) = outcome(&server, &request, Value::Null).await;
    assert_eq!(
        (code, &body["details"]["kind"]),
        (422, &json!("ListOptions"))
    );
}

#[tokio::test(start_paused = true)]
async fn pods_are_selected_by_the_host_that_old_clients_call_their_node() {
    let server = with(&[]).await;
    let pods = "/api/v1/namespaces/default/pods";
    for (name, node) in [("a", "near"), ("b", "far")] {
        let pod = json!({
            "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
        });
        let (code, _) = outcome(&server, &format!("POST {pods}"), pod).await;
        assert_eq!(code, 201);
    }
    let request = format!("GET {pods}?fieldSelector=spec.host%3Dfar");
    let (_, list) = outcome(&server, &request, Value::Null).await;
    let items = list["items"].as_array().unwrap();
    let names: Vec<&Value> = items.iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["b"]);
}

//! Subresources of pods at the wire: evictions under a budget, ephemeral containers, resizing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::send_typed;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// Sends `METHOD PATH`, a PATCH as a strategic merge patch, and answers the code and the body.
async fn send(server: &ApiServer, request: &str, body: Value) -> (u16, Value) {
    let content_type = match request.starts_with("PATCH ") {
        true => "application/strategic-merge-patch+json",
        false => "application/json",
    };
    let answer = send_typed(server, request, content_type, body.to_string()).await;
    (answer.code, answer.body)
}

async fn with_pod(phase: &str) -> ApiServer {
    let server = ApiServer::builder().build();
    let pod = json!({
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}},
        ]},
    });
    let (code, _) = send(&server, &format!("POST {PODS}"), pod).await;
    assert_eq!(code, 201);
    let status = json!({"status": {
        "phase": phase, "conditions": [{"type": "Ready", "status": "True"}],
    }});
    send(&server, &format!("PATCH {PODS}/p/status"), status).await;
    server
}

/// Source: `ValidateObjectMetaAccessorUpdate`; asked of a kube-apiserver v1.36.2.
#[tokio::test]
async fn a_status_patch_for_another_pod_of_the_name_is_invalid() {
    let server = with_pod("Running").await;
    for (uid, expected) in [(json!("other"), 422), (Value::Null, 200)] {
        let patch = json!({"metadata": {"uid": uid}, "status": {"message": "m"}});
        let (code, body) = send(&server, &format!("PATCH {PODS}/p/status"), patch).await;
        assert_eq!(code, expected, "{body}");
        if code == 422 {
            let message = "Pod \"p\" is invalid: metadata.uid: Invalid value: \"other\": field is \
                immutable";
            assert_eq!(body["message"], message);
        }
    }
}

#[tokio::test]
async fn a_budget_decides_over_an_eviction() {
    let rows = [
        (
            "Running",
            json!({"observedGeneration": 1, "disruptionsAllowed": 1}),
            201,
            "",
        ),
        (
            "Running",
            json!({"observedGeneration": 1, "desiredHealthy": 2, "currentHealthy": 2}),
            429,
            "The disruption budget b needs 2 healthy pods and has 2 currently",
        ),
        (
            "Running",
            json!({"disruptionsAllowed": 1}),
            429,
            "The disruption budget b is still being processed by the server.",
        ),
        ("Pending", json!({}), 201, ""),
    ];
    for (phase, status, want, why) in rows {
        let server = with_pod(phase).await;
        let selector = json!({"matchLabels": {"a": "b"}});
        let budget = json!({"metadata": {"name": "b"}, "spec": {"selector": selector}});
        send(&server, &format!("POST {BUDGETS}"), budget).await;
        let patch = json!({"status": status});
        send(&server, &format!("PATCH {BUDGETS}/b/status"), patch).await;
        let eviction = json!({"metadata": {"name": "p"}});
        let (code, answer) = send(&server, &format!("POST {PODS}/p/eviction"), eviction).await;
        assert_eq!(code, want, "{phase} {status}");
        let (left, _) = send(&server, &format!("GET {PODS}/p"), Value::Null).await;
        assert_eq!(
            left,
            if want == 201 { 404 } else { 200 },
            "{phase} {status}"
        );
        if !why.is_empty() {
            assert_eq!(answer["details"]["causes"][0]["message"], why);
        }
    }
}

#[tokio::test]
async fn a_part_of_a_pod_changes_by_its_own_subresource_alone() {
    let debug =
        |image: &str| json!({"spec": {"ephemeralContainers": [{"name": "d", "image": image}]}});
    let resize = |half: &str, cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {half: {"cpu": cpu}}}]}});
    let server = with_pod("Running").await;
    let rows = [
        ("ephemeralcontainers", debug("x"), 200, 2),
        ("ephemeralcontainers", debug("y"), 422, 2),
        ("resize", resize("requests", "2"), 200, 3),
        ("resize", debug("z"), 200, 3),
        ("ephemeralcontainers", resize("requests", "3"), 200, 3),
        ("", resize("requests", "3"), 422, 3),
    ];
    for (subresource, patch, want, generation) in rows {
        let path = format!("{PODS}/p/{subresource}");
        let request = format!("PATCH {}", path.trim_end_matches('/'));
        let (code, _) = send(&server, &request, patch.clone()).await;
        assert_eq!(code, want, "{subresource} {patch}");
        let (_, pod) = send(&server, &format!("GET {PODS}/p"), Value::Null).await;
        assert_eq!(
            pod["metadata"]["generation"], generation,
            "{subresource} {patch}"
        );
    }
}

#[tokio::test]
async fn an_evicted_pod_shows_why_it_goes() {
    let server = with_pod("Running").await;
    let node = json!({ "metadata": { "name": "p" }, "target": { "name": "n" } });
    let binding = format!("POST {PODS}/p/binding");
    assert_eq!(send(&server, &binding, node).await.0, 201);
    let eviction = json!({"metadata": {"name": "p"}});
    let evict = format!("POST {PODS}/p/eviction");
    assert_eq!(send(&server, &evict, eviction).await.0, 201);
    let (_, pod) = send(&server, &format!("GET {PODS}/p"), Value::Null).await;
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let why = conditions.last().unwrap();
    assert_eq!(why["type"], "DisruptionTarget");
    assert_eq!(why["reason"], "EvictionByEvictionAPI");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test]
async fn two_budgets_make_a_failure_of_an_eviction() {
    let server = with_pod("Running").await;
    for name in ["b", "c"] {
        let selector = json!({"matchLabels": {"a": "b"}});
        let budget = json!({"metadata": {"name": name}, "spec": {"selector": selector}});
        send(&server, &format!("POST {BUDGETS}"), budget).await;
    }
    let eviction = json!({"metadata": {"name": "p"}});
    let evict = format!("POST {PODS}/p/eviction");
    let (code, answer) = send(&server, &evict, eviction).await;
    assert_eq!((code, &answer["code"]), (500, &json!(500)));
    let (left, _) = send(&server, &format!("GET {PODS}/p"), Value::Null).await;
    assert_eq!(left, 200);
}

#[tokio::test]
async fn a_binding_is_of_the_version_it_says_and_ends_the_nomination() {
    let server = with_pod("Pending").await;
    let nominated = json!({ "status": { "nominatedNodeName": "m" } });
    send(&server, &format!("PATCH {PODS}/p/status"), nominated).await;
    let binding = |metadata: Value| json!({ "metadata": metadata, "target": { "name": "n" } });
    let bind = format!("POST {PODS}/p/binding");
    let old = binding(json!({ "name": "p", "resourceVersion": "1" }));
    let (code, answer) = send(&server, &bind, old).await;
    assert_eq!(code, 409);
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("ResourceVersion in precondition: 1,"));
    let (code, _) = send(&server, &bind, binding(json!({ "name": "p" }))).await;
    assert_eq!(code, 201);
    let (_, pod) = send(&server, &format!("GET {PODS}/p"), Value::Null).await;
    assert_eq!(pod["status"]["nominatedNodeName"], Value::Null);
}

#[tokio::test]
async fn what_no_kubelet_answers_is_refused_before_it_would_be_asked() {
    let server = with_pod("Running").await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    send(&server, &format!("POST {services}"), service).await;
    let rows = [
        (
            "pods/p/log?tailLines=-1&limitBytes=0",
            422,
            "PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0]",
        ),
        (
            "pods/p/log?tailLines=x",
            400,
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        ("pods/p/proxy", 400, "address not allowed"),
        ("pods/none/proxy/path/of/it", 404, "pods \"none\" not found"),
        ("pods/ftp:p:1/proxy", 400, "invalid pod request \"ftp:p:1\""),
        ("services/s/proxy/", 404, "services \"s\" not found"),
        (
            "services/s:81/proxy/",
            503,
            "no service port 81 found for service \"s\"",
        ),
    ];
    for (path, code, message) in rows {
        let request = format!("GET /api/v1/namespaces/default/{path}");
        let (answered, body) = send(&server, &request, Value::Null).await;
        assert_eq!((answered, &body["message"]), (code, &json!(message)));
    }
    let slices = "POST /apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let empty = json!({
        "metadata": {"name": "s-0", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "endpoints": [],
    });
    send(&server, slices, empty).await;
    let request = "GET /api/v1/namespaces/default/services/s/proxy/";
    let (code, body) = send(&server, request, Value::Null).await;
    let message = "no endpoints available for service \"s\"";
    assert_eq!((code, &body["message"]), (503, &json!(message)));
    let slice = json!({
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"name": "other", "port": 1}, {"name": "", "port": 8080}],
    });
    let (code, body) = send(&server, slices, slice).await;
    assert_eq!(code, 201, "{body}");
    for path in ["services/s/proxy/", "services/s:80/proxy/"] {
        let request = format!("GET /api/v1/namespaces/default/{path}");
        let (code, body) = send(&server, &request, Value::Null).await;
        let message =
            "error trying to reach service: dial tcp 10.1.2.3:8080: connect: no route to host";
        assert_eq!((code, &body["message"]), (503, &json!(message)));
    }
}

#[tokio::test]
async fn nothing_is_created_below_what_is_in_a_namespace_that_goes() {
    let server = with_pod("Running").await;
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    let named = |name: &str| json!({"metadata": {"name": name}});
    send(&server, "POST /api/v1/namespaces", named("n")).await;
    send(&server, &format!("POST {accounts}"), named("a")).await;
    let token = format!("POST {accounts}/a/token");
    let (code, answer) = send(&server, &token, named("other")).await;
    let message = "TokenRequest.authentication.k8s.io \"a\" is invalid: metadata.name: Invalid value: \"other\": must match the service account name if specified";
    assert_eq!((code, &answer["message"]), (422, &json!(message)));
    assert_eq!(send(&server, &token, json!({})).await.0, 201);
    send(&server, "DELETE /api/v1/namespaces/n", json!({})).await;
    let (code, answer) = send(&server, &token, json!({})).await;
    let cause = &answer["details"]["causes"][0]["reason"];
    assert_eq!((code, cause), (403, &json!("NamespaceTerminating")));
    let eviction = "POST /api/v1/namespaces/none/pods/p/eviction";
    let (code, answer) = send(&server, eviction, named("p")).await;
    let message = "namespaces \"none\" not found";
    assert_eq!((code, &answer["message"]), (404, &json!(message)));
}

#[tokio::test]
async fn a_binding_brings_labels_and_those_of_the_nodes_place() {
    let server = with_pod("Pending").await;
    let zone = "topology.kubernetes.io/zone";
    let node = json!({"metadata": {"name": "n", "labels": {zone: "z", "other": "x"}}});
    send(&server, "POST /api/v1/nodes", node).await;
    let binding = |metadata: Value| json!({"metadata": metadata, "target": {"name": "n"}});
    let bind = format!("POST {PODS}/p/binding");
    let (code, status) = send(
        &server,
        &bind,
        binding(json!({"name": "p", "namespace": "x"})),
    )
    .await;
    assert_eq!(code, 400, "{status}");
    let bindings = "POST /api/v1/namespaces/default/bindings";
    let (code, status) = send(&server, bindings, binding(json!({}))).await;
    let message = &status["message"];
    assert_eq!((code, message), (400, &json!("Name parameter required.")));
    let labelled = binding(json!({"name": "p", "labels": {"l": "m"}}));
    assert_eq!(send(&server, &bind, labelled).await.0, 201);
    let (_, pod) = send(&server, &format!("GET {PODS}/p"), Value::Null).await;
    let labels = json!({"a": "b", "l": "m", zone: "z"});
    assert_eq!(pod["metadata"]["labels"], labels);
    let placed = json!({
        "metadata": {"name": "q"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    let (_, pod) = send(&server, &format!("POST {PODS}"), placed).await;
    assert_eq!(pod["metadata"]["labels"], json!({zone: "z"}));
}

//! Answers to writes other than faults of fields.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::causes;
use crate::support::requests::send;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(spec: Value) -> Value {
    let mut service = json!({
        "metadata": { "name": "x" },
        "spec": { "ports": [{ "port": 80 }] },
    });
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

#[tokio::test]
async fn a_port_of_health_checks_out_of_range_is_the_server_s_failure() {
    let server = ApiServer::builder().build();
    let object = service(json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 80,
    }));
    let answer = send(&server, &format!("POST {SERVICES}"), object).await;
    assert_eq!(answer.code, 500);
    assert_eq!(
        answer.message(),
        "Internal error occurred: failed to allocate requested HealthCheck NodePort 80: provided \
         port is not in the valid range. The range of valid ports is 30000-32767"
    );
}

#[tokio::test]
async fn an_update_that_names_a_node_port_twice_fails_without_a_reason() {
    let server = ApiServer::builder().build();
    let port = |port: i64, node_port: i64| json!({ "name": format!("p{port}"), "port": port, "nodePort": node_port });
    let spec = |ports: Value| service(json!({ "type": "NodePort", "ports": ports }));
    let first = spec(json!([port(80, 30_001), port(81, 30_002)]));
    let created = send(&server, &format!("POST {SERVICES}"), first).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let twice = spec(json!([port(80, 30_002), port(81, 30_002)]));
    let answer = send(&server, &format!("PUT {SERVICES}/x"), twice).await;
    assert_eq!(answer.code, 500);
    assert_eq!(answer.message(), "duplicate nodePort: {TCP 30002}");
}

#[tokio::test]
async fn a_dry_run_takes_ports_of_any_range_and_addresses_of_the_network() {
    let server = ApiServer::builder().build();
    let post = format!("POST {SERVICES}?dryRun=All");
    let ported = service(json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": 80 }] }));
    let answer = send(&server, &post, ported).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    assert_eq!(answer.body["spec"]["ports"][0]["nodePort"], 80);
    let foreign = service(json!({ "clusterIP": "1.2.3.4" }));
    assert_eq!(
        causes(&send(&server, &post, foreign).await),
        [
            "spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP 1.2.3.4: the \
             provided IP (1.2.3.4) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
        ]
    );
}

#[tokio::test]
async fn a_balancer_s_address_of_another_type_is_looked_at_no_further() {
    let server = ApiServer::builder().build();
    let created = send(&server, &format!("POST {SERVICES}"), service(json!({}))).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "bad" }] } } });
    let answer = send(&server, &format!("PATCH {SERVICES}/x/status"), status).await;
    assert_eq!(
        causes(&answer),
        [
            "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is \
             'LoadBalancer'"
        ]
    );
}

#[tokio::test]
async fn a_limit_range_without_a_name_is_given_one() {
    let server = ApiServer::builder().build();
    let ranges = "POST /api/v1/namespaces/default/limitranges";
    let object = json!({ "metadata": { "generateName": "x-" }, "spec": { "limits": [] } });
    let drawn = send(&server, ranges, object).await;
    assert_eq!(drawn.code, 201, "{}", drawn.message());
    let name = drawn.body["metadata"]["name"].as_str().unwrap();
    assert_eq!((&name[..2], name.len()), ("x-", 7));
    let object = json!({ "metadata": {}, "spec": { "limits": [] } });
    let answer = send(&server, ranges, object).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
    let name = answer.body["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), name.matches('-').count()), (36, 4));
    assert_ne!(answer.body["metadata"]["uid"], name);
}

#[tokio::test]
async fn a_slice_s_ports_that_become_an_empty_list_are_no_change() {
    let server = ApiServer::builder().build();
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({ "metadata": { "name": "x" }, "addressType": "IPv4", "endpoints": [] });
    let mut created = send(&server, &format!("POST {slices}"), slice).await.body;
    created["ports"] = json!([]);
    let answer = send(&server, &format!("PUT {slices}/x"), created).await;
    assert_eq!(answer.code, 200, "{}", answer.message());
    assert_eq!(answer.body["metadata"]["generation"], 1);
}

#[tokio::test]
async fn deleting_a_job_warns_of_its_pods_unless_the_request_names_a_policy() {
    let server = ApiServer::builder().build();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    for (query, want) in [("", 1), ("?propagationPolicy=Background", 0)] {
        let job = json!({ "metadata": { "name": "x" }, "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
        } } } });
        send(&server, &format!("POST {jobs}"), job).await;
        let answer = send(&server, &format!("DELETE {jobs}/x{query}"), Value::Null).await;
        assert_eq!(answer.code, 200, "{}", answer.message());
        assert_eq!(answer.warnings.len(), want, "{query}");
    }
}

#[tokio::test]
async fn a_pod_of_two_budgets_is_not_evicted() {
    let server = ApiServer::builder().build();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "metadata": { "name": "x", "labels": { "a": "b" } }, "spec": {
        "nodeName": "n", "containers": [{ "name": "c", "image": "i" }],
    } });
    send(&server, &format!("POST {pods}"), pod).await;
    let running = json!({ "status": { "phase": "Running" } });
    send(&server, &format!("PATCH {pods}/x/status"), running).await;
    // An empty selector is one of all pods.
    for (name, selector) in [
        ("own", json!({ "matchLabels": { "a": "b" } })),
        ("all", json!({})),
    ] {
        let budget = json!({
            "metadata": { "name": name }, "spec": { "minAvailable": 1, "selector": selector },
        });
        let budgets = "POST /apis/policy/v1/namespaces/default/poddisruptionbudgets";
        let created = send(&server, budgets, budget).await;
        assert_eq!(created.code, 201, "{}", created.message());
    }
    let eviction = json!({ "metadata": { "name": "x" } });
    let answer = send(&server, &format!("POST {pods}/x/eviction"), eviction).await;
    assert_eq!(answer.code, 500);
    assert_eq!(
        answer.message(),
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
         support."
    );
}

#[tokio::test]
async fn a_pod_names_one_of_its_containers_however_they_start() {
    let server = ApiServer::builder().build();
    let pods = "/api/v1/namespaces/default/pods";
    let container = |name: &str| json!({ "name": name, "image": "i" });
    let pod = json!({ "metadata": { "name": "x" }, "spec": {
        "containers": [container("a"), container("b")], "initContainers": [container("i")],
    } });
    send(&server, &format!("POST {pods}"), pod).await;
    let answer = send(&server, &format!("GET {pods}/x/log"), Value::Null).await;
    assert_eq!(
        answer.message(),
        "a container name must be specified for pod x, choose one of: [i a b]"
    );
}

#[tokio::test]
async fn an_event_written_through_one_group_loses_the_owners_of_the_other() {
    let server = ApiServer::builder().build();
    let event = json!({
        "metadata": { "name": "x" }, "action": "A", "reason": "R", "type": "Normal",
        "eventTime": "2024-01-01T00:00:00.000001Z", "regarding": { "namespace": "default" },
        "reportingController": "c.io/x", "reportingInstance": "i",
    });
    let path = "namespaces/default/events";
    let created = send(
        &server,
        &format!("POST /apis/events.k8s.io/v1/{path}"),
        event,
    )
    .await;
    assert_eq!(created.code, 201, "{}", created.message());
    let change = json!({ "metadata": { "labels": { "a": "b" } } });
    let answer = send(&server, &format!("PATCH /api/v1/{path}/x"), change).await;
    let owners = answer.body["metadata"]["managedFields"].as_array().unwrap();
    let versions: Vec<_> = owners.iter().map(|owner| &owner["apiVersion"]).collect();
    assert_eq!(versions, ["v1"]);
}

#[tokio::test]
async fn a_list_is_none_of_its_items() {
    let server = ApiServer::builder().build();
    let list = json!({ "apiVersion": "v1", "kind": "ConfigMapList" });
    let maps = "POST /api/v1/namespaces/default/configmaps";
    assert_eq!(
        send(&server, maps, list).await.message(),
        "ConfigMapList in version \"v1\" cannot be handled as a ConfigMap: converting \
         (v1.ConfigMapList) to (core.ConfigMap): unknown conversion"
    );
}

#[tokio::test]
async fn a_resize_keeps_to_the_limit_range() {
    let server = ApiServer::builder().build();
    let namespace = "/api/v1/namespaces/default";
    let limit = json!({ "type": "Container", "max": { "cpu": "1" } });
    let range = json!({ "metadata": { "name": "l" }, "spec": { "limits": [limit] } });
    send(&server, &format!("POST {namespace}/limitranges"), range).await;
    let pod = |cpu: &str| {
        json!({ "metadata": { "name": "x" }, "spec": { "containers": [
            { "name": "c", "image": "i", "resources": { "limits": { "cpu": cpu } } },
        ] } })
    };
    let mut created = send(&server, &format!("POST {namespace}/pods"), pod("1")).await;
    assert_eq!(created.code, 201, "{}", created.message());
    created.body["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "3" },
        "requests": { "cpu": "1" } });
    let answer = send(
        &server,
        &format!("PUT {namespace}/pods/x/resize"),
        created.body,
    )
    .await;
    assert_eq!(
        answer.message(),
        "pods \"x\" is forbidden: maximum cpu usage per Container is 1, but limit is 3"
    );
}

#[tokio::test]
async fn who_is_impersonated_has_a_name() {
    let server = ApiServer::builder().token(Some("t".to_owned())).build();
    let request = http::Request::get("/version")
        .header("authorization", "Bearer t")
        .header("impersonate-group", "devs");
    let request = request.body(String::new()).unwrap();
    let response = server.handle(request).await;
    assert_eq!(response.status(), 400);
}

#[tokio::test]
async fn the_log_of_a_pod_without_a_node_is_no_content() {
    let server = ApiServer::builder().build();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "metadata": { "name": "x" }, "spec": { "containers": [
        { "name": "c", "image": "i" },
    ] } });
    send(&server, &format!("POST {pods}"), pod).await;
    let log = send(&server, &format!("GET {pods}/x/log"), Value::Null).await;
    assert_eq!(log.code, 204);
    let streamed = send(
        &server,
        &format!("GET {pods}/x/log?stream=Stdout"),
        Value::Null,
    )
    .await;
    assert_eq!(
        causes(&streamed),
        ["stream: Forbidden: may not be specified"]
    );
    let since = "sinceSeconds=1&sinceTime=2024-01-01T00:00:00Z";
    let both = send(&server, &format!("GET {pods}/x/log?{since}"), Value::Null).await;
    assert_eq!(
        causes(&both),
        ["[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"]
    );
}

#[tokio::test]
async fn a_patch_may_not_carry_what_is_no_number() {
    let server = ApiServer::builder().build();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({ "metadata": { "name": "x" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        },
    } });
    send(&server, &format!("POST {deployments}"), deployment).await;
    let carried = json!({ "deprecated.deployment.rollback.to": "y" });
    let patch = json!({ "metadata": { "annotations": carried } });
    let answer = send(&server, &format!("PATCH {deployments}/x"), patch).await;
    assert_eq!(answer.code, 422);
    let why = "failed to parse annotation[deprecated.deployment.rollback.to]=y as int64: \
               strconv.ParseInt: parsing \"y\": invalid syntax";
    assert!(answer.message().ends_with(why), "{}", answer.message());
}

#[tokio::test]
async fn a_patch_that_takes_the_version_leaves_nothing_known_but_the_type() {
    let server = ApiServer::builder().build();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({ "metadata": { "name": "x" } });
    send(&server, &format!("POST {maps}"), map).await;
    let patch = json!({ "apiVersion": "" });
    let answer = send(&server, &format!("PATCH {maps}/x"), patch).await;
    assert_eq!(answer.code, 400);
    assert_eq!(
        answer.warnings,
        ["299 - \"unknown field \\\"metadata\\\"\""]
    );
}

#[tokio::test]
async fn a_missing_component_is_named_by_one() {
    let server = ApiServer::builder().build();
    let get = "GET /api/v1/componentstatuses/none";
    let answer = send(&server, get, Value::Null).await;
    assert_eq!(answer.message(), "componentstatus \"none\" not found");
}

#[tokio::test]
async fn a_pod_that_contradicts_the_nodes_of_its_runtime_class_is_refused() {
    let server = ApiServer::builder().build();
    let class = json!({ "metadata": { "name": "r" }, "handler": "h",
        "scheduling": { "nodeSelector": { "a": "b" } } });
    send(&server, "POST /apis/node.k8s.io/v1/runtimeclasses", class).await;
    let pod = json!({ "metadata": { "name": "x" }, "spec": {
        "runtimeClassName": "r", "nodeSelector": { "a": "c" },
        "containers": [{ "name": "c", "image": "i" }],
    } });
    let answer = send(&server, "POST /api/v1/namespaces/default/pods", pod).await;
    assert_eq!(
        answer.message(),
        "pods \"x\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
    );
}

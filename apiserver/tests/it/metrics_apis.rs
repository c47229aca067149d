//! The metrics APIs: what simulated containers use, and values that tests put.
//!
//! Source: kubernetes-sigs/metrics-server, `pkg/api` and `pkg/storage`; kubernetes-sigs/custom-metrics-apiserver.

use std::time::Duration;

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock, MetricError, MetricValue};

use crate::support::requests::{answer, respond, send};

const USAGES: &str = "/apis/metrics.k8s.io/v1beta1";
const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default";

fn server() -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    builder.metrics_apis().build()
}

async fn get(server: &ApiServer, path: &str) -> Value {
    let answer = send(server, &format!("GET {path}"), Value::Null).await;
    assert_eq!(answer.code, 200, "{}", answer.message());
    assert_eq!(answer.warnings, [""; 0]);
    answer.body
}

async fn create(server: &ApiServer, path: &str, object: Value) -> Value {
    let created = send(server, &format!("POST {path}"), object).await;
    assert_eq!(created.code, 201, "{}", created.message());
    created.body
}

/// Creates a pod whose containers, given with their requests, run from now on.
async fn run(server: &ApiServer, metadata: Value, containers: &[(&str, Value)]) {
    let name = metadata["name"].as_str().unwrap().to_owned();
    let specs = containers.iter().map(
        |(name, requests)| json!({"name": name, "image": "i", "resources": {"requests": requests}}),
    );
    let spec = json!({"nodeName": "node-1", "containers": specs.collect::<Value>()});
    let pods = "/api/v1/namespaces/default/pods";
    create(server, pods, json!({"metadata": metadata, "spec": spec})).await;
    let now = server
        .clock()
        .now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let statuses = containers.iter().map(|(name, _)| {
        json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": now}}})
    });
    let status = json!({"status": {"phase": "Running", "startTime": now,
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": statuses.collect::<Value>()}});
    let patch = format!("PATCH {pods}/{name}/status");
    let patched = send(server, &patch, status).await;
    assert_eq!(patched.code, 200, "{}", patched.message());
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

/// The usages of the containers of each pod, as `POD/CONTAINER: CPU MEMORY`.
async fn usages(server: &ApiServer) -> Vec<String> {
    let list = get(server, &format!("{USAGES}/pods")).await;
    let pods = list["items"].as_array().unwrap().iter();
    pods.flat_map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let containers = pod["containers"].as_array().unwrap().iter();
        containers.map(move |own| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (cpu, memory) = (&own["usage"]["cpu"], &own["usage"]["memory"]);
            format!(
                "{name}/{}: {} {}",
                text(&own["name"]),
                text(cpu),
                text(memory)
            )
        })
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_measured_from_the_first_sample_ten_seconds_after_its_start() {
    let server = server();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let metadata = json!({"name": "web", "labels": {"app": "web"}});
    run(&server, metadata, &[("app", requests("200m", "64Mi"))]).await;
    let list = |selector: &str| format!("{USAGES}/namespaces/default/pods?{selector}");
    // The sample of 00:00:15 is twelve seconds after the start.
    for (second, is_there) in [(14, false), (15, true), (29, true)] {
        let now = server.clock().now().as_second().rem_euclid(60);
        tokio::time::sleep(Duration::from_secs(second - now.unsigned_abs())).await;
        let items = get(&server, &list("labelSelector=app%3Dweb")).await["items"].clone();
        assert_eq!(
            items.as_array().unwrap().len(),
            usize::from(is_there),
            "{second}"
        );
    }
    let metrics = get(&server, &format!("{USAGES}/namespaces/default/pods/web")).await;
    let expected = json!({
        "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"},
            "creationTimestamp": "2026-01-01T00:00:29Z"},
        "timestamp": "2026-01-01T00:00:15Z", "window": "12s",
        "containers": [{"name": "app", "usage": {"cpu": "100m", "memory": "32Mi"}}],
    });
    assert_eq!(metrics, expected);
    for none in ["labelSelector=app%3Ddb", "fieldSelector=metadata.name%3Ddb"] {
        assert_eq!(get(&server, &list(none)).await["items"], json!([]));
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_say_what_a_pod_uses_and_its_containers_share_it() {
    let server = server();
    let both = [("app", requests("200m", "64Mi")), ("proxy", json!({}))];
    let with = |name: &str, annotations: Value| json!({"name": name, "annotations": annotations});
    for (name, annotations) in [
        ("a", json!({})),
        (
            "b",
            json!({"kubeproof.dev/cpu": "300m", "kubeproof.dev/memory": "96Mi"}),
        ),
        (
            "c",
            json!({"kubeproof.dev/cpu": "300m", "kubeproof.dev/cpu.proxy": "20m"}),
        ),
        ("d", json!({"kubeproof.dev/cpu.app": "80%"})),
        (
            "e",
            json!({"kubeproof.dev/cpu.app": "100m for 1m, 200m..300m over 1m, 10m"}),
        ),
    ] {
        run(&server, with(name, annotations), &both).await;
    }
    let none = json!({"kubeproof.dev/memory": "none"});
    run(&server, with("f", none), &both).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let expected = [
        "a/app: 100m 32Mi",
        "a/proxy: 1m 1Mi",
        "b/app: 150m 48Mi",
        "b/proxy: 150m 48Mi",
        "c/app: 300m 32Mi",
        "c/proxy: 20m 1Mi",
        "d/app: 160m 32Mi",
        "d/proxy: 1m 1Mi",
        "e/app: 100m 32Mi",
        "e/proxy: 1m 1Mi",
    ];
    assert_eq!(usages(&server).await, expected);
    tokio::time::sleep(Duration::from_secs(75)).await;
    assert_eq!(usages(&server).await[8], "e/app: 250m 32Mi");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(usages(&server).await[8], "e/app: 10m 32Mi");
}

#[tokio::test(start_paused = true)]
async fn the_load_of_a_workload_is_shared_by_its_ready_pods() {
    let server = server();
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let load = json!({"kubeproof.dev/cpu": "900m"});
    let deployment = json!({"metadata": {"name": "web", "annotations": load}, "spec": spec});
    let created = create(
        &server,
        "/apis/apps/v1/namespaces/default/deployments",
        deployment,
    )
    .await;
    let owner = |kind: &str, of: &Value| {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": of["metadata"]["name"],
            "uid": of["metadata"]["uid"], "controller": true}])
    };
    // The ReplicaSet has a copy of the annotation, as the Deployment controller makes it.
    let metadata = json!({"name": "web-1", "annotations": load, "labels": {"app": "web"},
        "ownerReferences": owner("Deployment", &created)});
    let set = json!({"metadata": metadata, "spec": spec});
    let set = create(&server, "/apis/apps/v1/namespaces/default/replicasets", set).await;
    for name in ["a", "b", "c"] {
        let metadata = json!({"name": name, "ownerReferences": owner("ReplicaSet", &set)});
        run(&server, metadata, &[("app", requests("200m", "64Mi"))]).await;
    }
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    send(
        &server,
        "PATCH /api/v1/namespaces/default/pods/c/status",
        unready,
    )
    .await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let expected = ["a/app: 450m 32Mi", "b/app: 450m 32Mi", "c/app: 0 32Mi"];
    assert_eq!(usages(&server).await, expected);
    let more = json!({"metadata": {"annotations": {"kubeproof.dev/cpu": "1"}}});
    send(
        &server,
        "PATCH /apis/apps/v1/namespaces/default/deployments/web",
        more,
    )
    .await;
    assert_eq!(usages(&server).await[0], "a/app: 500m 32Mi");
}

#[tokio::test(start_paused = true)]
async fn a_node_uses_what_its_pods_use_while_it_is_ready() {
    let server = server();
    let node = json!({"metadata": {"name": "node-1", "labels": {"zone": "a"}}});
    create(&server, "/api/v1/nodes", node).await;
    for name in ["a", "b"] {
        run(
            &server,
            json!({"name": name}),
            &[("app", requests("200m", "64Mi"))],
        )
        .await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let nodes = format!("{USAGES}/nodes");
    assert_eq!(get(&server, &nodes).await["items"], json!([]));
    let missing = send(&server, &format!("GET {nodes}/node-1"), Value::Null).await;
    let message = "nodemetrics.metrics.k8s.io \"node-1\" not found";
    assert_eq!((missing.code, missing.message()), (404, message));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    send(&server, "PATCH /api/v1/nodes/node-1/status", ready).await;
    let metrics = get(&server, &format!("{nodes}/node-1")).await;
    assert_eq!(metrics["usage"], json!({"cpu": "200m", "memory": "64Mi"}));
    assert_eq!(metrics["window"], "15s");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = respond(&server, &format!("GET {nodes}"), &[("accept", table)], "").await;
    let table = answer(table).await.body;
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns: Vec<&Value> = columns.map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "cpu", "memory", "Window"]);
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["node-1", "200m", "64Mi", "15s"])
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_metrics_is_not_found_and_a_fault_in_an_annotation_is_a_warning() {
    let server = server();
    let annotations = json!({"kubeproof.dev/cpu": "much"});
    let metadata = json!({"name": "web", "annotations": annotations});
    run(&server, metadata, &[("app", json!({}))]).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let pods = format!("GET {USAGES}/namespaces/default/pods");
    let list = send(&server, &pods, Value::Null).await;
    assert_eq!((list.code, &list.body["items"]), (200, &json!([])));
    let warning = &list.warnings[0];
    let fault = "pod default/web: annotation kubeproof.dev/cpu: \\\"much\\\" is no amount";
    assert!(warning.contains(fault), "{warning}");
    for (name, message) in [
        ("web", "podmetrics.metrics.k8s.io \"default/web\" not found"),
        ("db", "pods \"db\" not found"),
    ] {
        let missing = send(&server, &format!("{pods}/{name}"), Value::Null).await;
        assert_eq!((missing.code, missing.message()), (404, message));
    }
    let created = send(&server, &pods.replace("GET", "POST"), json!({})).await;
    assert_eq!(created.code, 405);
}

#[tokio::test]
async fn the_apis_are_in_discovery_and_have_api_services() {
    let server = server();
    let groups = get(&server, "/apis").await;
    let groups = groups["groups"].as_array().unwrap().iter();
    let groups: Vec<&Value> = groups.map(|group| &group["name"]).collect();
    let own = [
        "metrics.k8s.io",
        "custom.metrics.k8s.io",
        "external.metrics.k8s.io",
    ];
    assert_eq!(groups[groups.len() - 3..], own);
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let service = get(&server, &format!("{services}/v1beta1.metrics.k8s.io")).await;
    assert_eq!(service["status"]["conditions"][0]["status"], "True");
    // All other objects are as on a server without metrics.
    let plain = ApiServer::builder().clock(server.clock().clone()).build();
    let others = get(&plain, services).await;
    let names = |list: &Value| list["items"].as_array().unwrap().len();
    assert_eq!(names(&get(&server, services).await), names(&others) + 3);
    let uid = |service: &Value| service["metadata"]["uid"].clone();
    let of_apps = format!("{services}/v1.apps");
    let same = uid(&get(&plain, &of_apps).await) == uid(&get(&server, &of_apps).await);
    assert!(same && server.resource_version() == plain.resource_version());
}

fn value(name: &str, value: &str) -> MetricValue {
    MetricValue {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..MetricValue::default()
    }
}

#[tokio::test(start_paused = true)]
async fn external_metrics_are_the_values_that_were_put() {
    let server = server();
    let path = format!("{EXTERNAL}/queue_length");
    assert_eq!(get(&server, &path).await["items"], json!([]));
    for (queue, length) in [("mail", "30"), ("jobs", "1500m")] {
        let labels = [("queue".to_owned(), queue.to_owned())].into();
        let put = MetricValue {
            labels,
            ..value("queue_length", length)
        };
        server.put_metric(&put).unwrap();
    }
    let listed = get(&server, &path).await;
    assert_eq!(listed["kind"], "ExternalMetricValueList");
    let expected = json!({"metricName": "queue_length", "metricLabels": {"queue": "jobs"},
        "timestamp": "2026-01-01T00:00:00Z", "value": "1500m"});
    assert_eq!(listed["items"][0], expected);
    let mail = get(&server, &format!("{path}?labelSelector=queue%3Dmail")).await;
    assert_eq!(mail["items"].as_array().unwrap().len(), 1);
    assert_eq!(mail["items"][0]["value"], "30");
    let elsewhere = path.replace("default", "other");
    assert_eq!(get(&server, &elsewhere).await["items"], json!([]));
    let resources = get(&server, "/apis/external.metrics.k8s.io/v1beta1").await;
    let expected = json!([{"name": "queue_length", "singularName": "", "namespaced": true,
        "kind": "ExternalMetricValueList", "verbs": ["get"]}]);
    assert_eq!(resources["resources"], expected);
}

#[tokio::test(start_paused = true)]
async fn custom_metrics_are_of_objects_and_of_selected_pods() {
    let server = server();
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    create(&server, "/api/v1/namespaces/default/services", service).await;
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let metadata = json!({"name": name, "labels": {"app": app}});
        run(&server, metadata, &[("app", json!({}))]).await;
    }
    let of = |object: &str, selector: Option<&str>, text: &str| MetricValue {
        object: Some(object.to_owned()),
        selector: selector.map(str::to_owned),
        ..value("requests", text)
    };
    server.put_metric(&of("services/web", None, "100")).unwrap();
    server
        .put_metric(&of("pods", Some("app=web"), "50"))
        .unwrap();
    server.put_metric(&of("pods/b", None, "70")).unwrap();
    let web = get(&server, &format!("{CUSTOM}/services/web/requests")).await;
    let expected = json!({
        "kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {},
        "items": [{
            "describedObject": {"kind": "Service", "namespace": "default", "name": "web",
                "apiVersion": "v1"},
            "metric": {"name": "requests"}, "timestamp": "2026-01-01T00:00:00Z", "value": "100",
        }],
    });
    assert_eq!(web, expected);
    let pods = get(&server, &format!("{CUSTOM}/pods/*/requests")).await;
    let pods = pods["items"].as_array().unwrap().iter();
    let pods = pods.map(|item| {
        (
            item["describedObject"]["name"].clone(),
            item["value"].clone(),
        )
    });
    let expected = [("a", "50"), ("b", "70")].map(|(name, value)| (json!(name), json!(value)));
    assert_eq!(pods.collect::<Vec<_>>(), expected);
    for (path, message) in [
        (
            "pods/*/errors",
            "the server could not find the metric errors for pods",
        ),
        (
            "services/db/requests",
            "the server could not find the metric requests for services db",
        ),
        (
            "cats/*/requests",
            "the server could not find the metric requests for cats",
        ),
    ] {
        let missing = send(&server, &format!("GET {CUSTOM}/{path}"), Value::Null).await;
        assert_eq!((missing.code, missing.message()), (404, message));
    }
    let resources = get(&server, "/apis/custom.metrics.k8s.io/v1beta2").await;
    let names = resources["resources"].as_array().unwrap().iter();
    let names: Vec<&Value> = names.map(|resource| &resource["name"]).collect();
    assert_eq!(names, ["pods/requests", "services/requests"]);
}

#[tokio::test]
async fn values_are_put_listed_and_taken_away_over_http() {
    let server = server();
    let path = "/kubeproof/v1/metrics";
    let put = json!({"name": "queue_length", "value": "1.5k"});
    assert_eq!(send(&server, &format!("POST {path}"), &put).await.code, 200);
    let listed = get(&server, path).await;
    let expected = json!([{"name": "queue_length", "namespace": "default", "value": "1500"}]);
    assert_eq!(listed["items"], expected);
    let away = json!({"name": "queue_length"});
    assert_eq!(
        send(&server, &format!("POST {path}"), &away).await.code,
        200
    );
    assert_eq!(get(&server, path).await["items"], json!([]));
    for (body, message) in [
        (away, "the metric \"queue_length\" has no such value"),
        (
            json!({"name": "a/b", "value": "1"}),
            "\"a/b\" is no name of a metric",
        ),
        (
            json!({"name": "a", "value": "x"}),
            "value \"x\": quantities must match",
        ),
        (
            json!({"name": "a", "object": "web", "value": "1"}),
            "object \"web\" is not RESOURCE/NAME",
        ),
        (
            json!({"name": "a", "object": "servces/web", "value": "1"}),
            "no resource \"servces\"",
        ),
        (
            json!({"metric": "a"}),
            "the metric value cannot be read: unknown field `metric`",
        ),
    ] {
        let refused = send(&server, &format!("POST {path}"), &body).await;
        assert_eq!(refused.code, 400, "{body}");
        assert!(refused.message().contains(message), "{}", refused.message());
    }
    let without = ApiServer::builder().build();
    assert_eq!(
        without.put_metric(&value("a", "1")),
        Err(MetricError::NotServed)
    );
    let absent = send(&without, &format!("GET {USAGES}/pods"), Value::Null).await;
    assert_eq!(absent.code, 404);
}

#[tokio::test]
async fn a_fork_has_the_values_and_puts_its_own() {
    let server = server();
    server.put_metric(&value("queue_length", "1")).unwrap();
    let fork = server.fork();
    fork.put_metric(&value("queue_length", "2")).unwrap();
    let path = format!("{EXTERNAL}/queue_length");
    assert_eq!(get(&server, &path).await["items"][0]["value"], "1");
    assert_eq!(get(&fork, &path).await["items"][0]["value"], "2");
}

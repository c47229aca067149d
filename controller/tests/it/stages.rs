//! Objects moved on by stages, under virtual time.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only #[test] functions as tests"
)]

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::{Manager, Options};
use kubeproof_machinery::json::{Value, json};
use kubeproof_node::Stage;
use kubeproof_runtime::decode::from_value;

use crate::support::options;

fn start(stages: &[Value]) -> (Client, Manager) {
    let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
    let server = ApiServer::builder().clock(clock.clone()).build();
    let client = Client::new(server, "default");
    let options = Options {
        controllers: vec!["serviceaccount".to_owned()],
        stages: stages
            .iter()
            .map(|stage| Stage::parse(stage).unwrap())
            .collect(),
        ..options(&clock)
    };
    let manager = Manager::start(client.clone(), options).unwrap();
    (client, manager)
}

fn stage(name: &str, kind: &str, spec: Value) -> Value {
    let mut stage = json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": { "name": name },
        "spec": { "resourceRef": { "apiGroup": "v1", "kind": kind } },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        stage["spec"][key] = value.clone();
    }
    stage
}

fn absent(key: &str) -> Value {
    json!({ "key": key, "operator": "DoesNotExist" })
}

fn present(key: &str) -> Value {
    json!({ "key": key, "operator": "Exists" })
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

const READY: &str = r#"
{{ $now := Now }}
conditions:
- lastTransitionTime: {{ $now | Quote }}
  status: "True"
  type: Ready
{{ range .spec.readinessGates }}
- lastTransitionTime: {{ $now | Quote }}
  status: "True"
  type: {{ .conditionType | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- image: {{ .image | Quote }}
  imageID: ""
  name: {{ .name | Quote }}
  ready: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) | Quote }}
phase: Running
startTime: {{ $now | Quote }}
"#;

#[tokio::test(start_paused = true)]
async fn stages_of_pods_take_the_place_of_the_kubelet() {
    let (client, manager) = start(&[
        stage(
            "pod-ready",
            "Pod",
            json!({
                "selector": { "matchExpressions": [
                    absent(".metadata.deletionTimestamp"), absent(".status.podIP"),
                ] },
                "delay": { "durationMilliseconds": 5000 },
                "next": {
                    "statusTemplate": READY,
                    "finalizers": { "add": [{ "value": "kwok.x-k8s.io/fake" }] },
                    "event": { "type": "Normal", "reason": "Created", "message": "Created it" },
                },
            }),
        ),
        stage(
            "pod-unhold",
            "Pod",
            json!({
                "selector": { "matchExpressions": [
                    present(".metadata.deletionTimestamp"), present(".metadata.finalizers.[]"),
                ] },
                "next": { "finalizers": { "remove": [{ "value": "kwok.x-k8s.io/fake" }] } },
            }),
        ),
        stage(
            "pod-delete",
            "Pod",
            json!({
                "selector": { "matchExpressions": [
                    present(".metadata.deletionTimestamp"), absent(".metadata.finalizers.[]"),
                ] },
                "delay": { "durationMilliseconds": 2000 },
                "next": { "delete": true },
            }),
        ),
    ]);
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = json!({
        "metadata": { "name": "web" },
        "spec": {
            "containers": [{ "name": "main", "image": "nginx:1.27" }],
            "readinessGates": [{ "conditionType": "example.io/in" }],
        },
    });
    let pod: Pod = from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    pass(4).await;
    let waiting = pods.get("web").await.unwrap().status.unwrap();
    assert_eq!(
        (waiting.phase.as_deref(), waiting.pod_ip),
        (Some("Pending"), None)
    );
    pass(2).await;
    let running = pods.get("web").await.unwrap();
    assert_eq!(running.metadata.finalizers.unwrap(), ["kwok.x-k8s.io/fake"]);
    let status = running.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip.as_deref(), Some("10.244.1.2"));
    let conditions: Vec<String> = status
        .conditions
        .unwrap()
        .into_iter()
        .map(|condition| format!("{}={}", condition.type_, condition.status))
        .collect();
    assert_eq!(
        conditions,
        ["Ready=True", "example.io/in=True", "PodScheduled=True"]
    );
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let mut reasons = events
        .items
        .iter()
        .filter_map(|event| event.reason.as_deref());
    assert!(reasons.any(|reason| reason == "Created"));

    pods.delete("web", &DeleteParams::default()).await.unwrap();
    pass(1).await;
    let terminating = pods.get("web").await.unwrap();
    assert_eq!(terminating.metadata.finalizers, None);
    pass(2).await;
    assert!(pods.get_opt("web").await.unwrap().is_none());
    manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn stages_of_any_kind_follow_labels_annotations_and_weights() {
    let marked = |name: &str, weight: u64, value: &str| {
        stage(
            name,
            "ConfigMap",
            json!({
                "selector": {
                    "matchLabels": { "staged": "yes" },
                    "matchExpressions": [absent(".data.stage")],
                },
                "weight": weight,
                "delay": {
                    "durationMilliseconds": 1000,
                    "durationFrom": { "expressionFrom": ".metadata.annotations[\"delay\"]" },
                    "jitterDurationMilliseconds": 3000,
                    "jitterDurationFrom": { "expressionFrom": ".metadata.annotations[\"delay\"]" },
                },
                "next": { "patches": [{ "template": format!("data: {{ stage: {value} }}") }] },
            }),
        )
    };
    let (client, manager) = start(&[marked("often", 3, "a"), marked("seldom", 1, "b")]);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut counts = std::collections::BTreeMap::new();
    for index in 0..80 {
        let map =
            json!({ "metadata": { "name": format!("m{index}"), "labels": { "staged": "yes" } } });
        let map: ConfigMap = from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let late = json!({ "metadata": {
        "name": "late", "labels": { "staged": "yes" }, "annotations": { "delay": "1m30s" },
    } });
    let late: ConfigMap = from_value(late).unwrap();
    maps.create(&PostParams::default(), &late).await.unwrap();
    let other: ConfigMap = from_value(json!({ "metadata": { "name": "other" } })).unwrap();
    maps.create(&PostParams::default(), &other).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let staged = |map: &ConfigMap| {
        map.data
            .as_ref()
            .and_then(|data| data.get("stage").cloned())
    };
    let list = maps.list(&ListParams::default()).await.unwrap();
    let early = list
        .items
        .iter()
        .filter(|map| staged(map).is_some())
        .count();
    assert!((20..60).contains(&early), "{early}");
    pass(2).await;
    for map in maps.list(&ListParams::default()).await.unwrap() {
        if map
            .metadata
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with('m'))
        {
            *counts.entry(staged(&map).unwrap()).or_insert(0) += 1;
        }
    }
    assert!(counts["a"] > counts["b"] && counts["b"] > 5, "{counts:?}");
    assert_eq!(staged(&maps.get("late").await.unwrap()), None);
    assert_eq!(staged(&maps.get("other").await.unwrap()), None);
    pass(90).await;
    assert!(staged(&maps.get("late").await.unwrap()).is_some());
    manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_of_nodes_follows_its_label() {
    let template = "conditions:\n{{ range .status.conditions }}{{ if eq .type \"Ready\" }}\n\
        - { type: Ready, status: \"False\", reason: Staged, lastTransitionTime: {{ Now | Quote }} }\n\
        {{ end }}{{ end }}";
    let (client, manager) = start(&[stage(
        "node-not-ready",
        "Node",
        json!({
            "selector": { "matchExpressions": [
                { "key": ".metadata.labels[\"broken\"]", "operator": "In", "values": ["true"] },
                {
                    "key": ".status.conditions.[] | select( .type == \"Ready\" ) | .status",
                    "operator": "NotIn", "values": ["False"],
                },
            ] },
            "next": { "statusTemplate": template },
        }),
    )]);
    let nodes: Api<Node> = Api::all(client.clone());
    pass(1).await;
    let reason = |node: Node| {
        let conditions = node.status.unwrap().conditions.unwrap().into_iter();
        let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
        ready.next().unwrap().reason.unwrap()
    };
    assert_eq!(reason(nodes.get("node-1").await.unwrap()), "KubeletReady");
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "broken": "true" } } }));
    let params = PatchParams::default();
    nodes.patch("node-1", &params, &patch).await.unwrap();
    pass(1).await;
    assert_eq!(reason(nodes.get("node-1").await.unwrap()), "Staged");
    manager.shutdown().await;
}

#[test]
fn what_is_no_stage_is_refused() {
    let selector = json!({ "matchExpressions": [absent("not a path")] });
    for (object, expected) in [
        (
            json!({ "kind": "Pod" }),
            "stage \"\": not a Stage of kwok.x-k8s.io/v1alpha1",
        ),
        (
            stage("s", "Pod", json!({ "selector": selector, "next": {} })),
            "stage \"s\": cannot parse \"not a path\" at \"not a path\"",
        ),
        (
            stage(
                "s",
                "Pod",
                json!({ "selector": {}, "next": { "statusTemplate": "{{ if" } }),
            ),
            "stage \"s\": an action that does not end",
        ),
        (
            stage("s", "Pod", json!({ "next": {} })),
            "stage \"s\": it selects nothing",
        ),
    ] {
        let refused = Stage::parse(&object).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
}

//! OpenKruise's daemon on simulated nodes, driven by the objects of its manager.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only #[test] functions as tests"
)]

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::{Manager, Options};
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use crate::support::options;

struct Nodes {
    client: Client,
    _manager: Manager,
}

impl Nodes {
    /// Starts one node with a daemon, before OpenKruise's resources are defined.
    fn start() -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let server = ApiServer::builder().clock(clock.clone()).build();
        let client = Client::new(server, "default");
        let options = Options {
            kruise_daemon: true,
            ..options(&clock)
        };
        let manager = Manager::start(client.clone(), options).unwrap();
        Self {
            client,
            _manager: manager,
        }
    }

    /// Defines a resource of OpenKruise with the schema of its first version.
    async fn define(&self, kind: &str, scope: &str) {
        let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.apps.kruise.io")},
            "spec": {"group": "apps.kruise.io", "scope": scope,
                "names": {"kind": kind, "singular": singular, "plural": plural, "listKind": format!("{kind}List")},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}]}});
        let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk));
        let definition = from_value(definition).unwrap();
        api.create(&PostParams::default(), &definition)
            .await
            .unwrap();
    }

    fn of(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", kind);
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk))
    }

    fn of_default(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", kind);
        Api::default_namespaced_with(self.client.clone(), &ApiResource::from_gvk(&gvk))
    }

    async fn pod(&self, containers: Value) -> Pod {
        self.pod_of(json!({"containers": containers})).await
    }

    async fn pod_of(&self, spec: Value) -> Pod {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let pod = from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        advance(5).await;
        pods.get("p").await.unwrap()
    }

    /// Returns the messages of the events with this reason.
    async fn event_messages(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::all(self.client.clone());
        let listed = events.list(&ListParams::default()).await.unwrap().items;
        let own = listed
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        own.map(|event| event.message.unwrap_or_default()).collect()
    }
}

async fn advance(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn create(api: &Api<DynamicObject>, kind: &str, mut object: Value) {
    object["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    object["kind"] = json!(kind);
    let object = from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn status(api: &Api<DynamicObject>, name: &str) -> Value {
    api.get(name).await.unwrap().data["status"].clone()
}

async fn merge(api: &Api<DynamicObject>, name: &str, patch: Value) {
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(patch))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn images_are_pulled_once_they_can_be_asked_for() {
    let nodes = Nodes::start();
    advance(60).await;
    nodes.define("NodeImage", "Cluster").await;
    let api = nodes.of("NodeImage");
    let spec = json!({"images": {
        "nginx": {"tags": [{"tag": "b", "version": 1}, {"tag": "a", "version": 1}]},
        "invalid.registry.k8s.io/a": {"tags": [{"tag": "1", "version": 1,
            "pullPolicy": {"backoffLimit": 1},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob",
                "namespace": "default", "name": "job", "uid": "u"}]}]}}});
    for name in ["node-1", "node-9"] {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        create(&api, "NodeImage", object).await;
    }
    advance(2).await;
    let first = status(&api, "node-1").await;
    assert_eq!(
        (&first["desired"], &first["pulling"]),
        (&json!(3), &json!(3))
    );
    advance(10).await;
    let last = status(&api, "node-1").await;
    assert_eq!(
        (&last["succeeded"], &last["failed"]),
        (&json!(2), &json!(1))
    );
    let tags = last["imageStatuses"]["nginx"]["tags"].as_array().unwrap();
    assert_eq!(
        (&tags[0]["tag"], &tags[1]["tag"]),
        (&json!("a"), &json!("b"))
    );
    assert_eq!(
        (&tags[0]["phase"], &tags[0]["progress"]),
        (&json!("Succeeded"), &json!(100))
    );
    let failed = &last["imageStatuses"]["invalid.registry.k8s.io/a"]["tags"][0];
    assert_eq!(failed["phase"], "Failed");
    let message = failed["message"].as_str().unwrap();
    assert!(message.ends_with("no such host"), "{message}");
    assert!(failed["completionTime"].is_string());
    assert!(status(&api, "node-9").await.is_null(), "no node of ours");

    let failures = nodes.event_messages("PullImageFailed").await;
    assert_eq!(
        failures.len(),
        2,
        "of the job and of the node: {failures:?}"
    );
    let successes = nodes.event_messages("PullImageSucceed").await;
    assert!(
        successes.contains(&"Image nginx:a, ecalpsedTime 0s".to_owned()),
        "{successes:?}"
    );

    // A new version is pulled again; an image removed from the spec is no longer reported.
    let images =
        json!({"nginx": {"tags": [{"tag": "a", "version": 2}]}, "invalid.registry.k8s.io/a": null});
    merge(&api, "node-1", json!({"spec": {"images": images}})).await;
    advance(10).await;
    let again = status(&api, "node-1").await;
    assert_eq!(
        (&again["desired"], &again["succeeded"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(again["imageStatuses"]["nginx"]["tags"][0]["version"], 2);
}

#[tokio::test(start_paused = true)]
async fn probes_are_run_in_containers_and_reported() {
    let nodes = Nodes::start();
    nodes.define("NodePodProbe", "Cluster").await;
    let script = "echo all is well > /state; sleep 100000";
    let pod = nodes
        .pod(json!([
            {"name": "c", "image": "busybox:1", "command": ["sh", "-c", script]},
            {"name": "w", "image": "nginx:1"},
        ]))
        .await;
    let (uid, ip) = (
        pod.metadata.uid.unwrap(),
        pod.status.unwrap().pod_ip.unwrap(),
    );
    let exec =
        |command: &str| json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 5});
    let spec = |healthy: Value| {
        json!({"podProbes": [{"name": "p", "namespace": "default", "uid": uid, "IP": ip, "probes": [
            {"name": "m#healthy", "containerName": "c", "probe": healthy},
            {"name": "m#port", "containerName": "w", "probe": {"tcpSocket": {"port": 80}}},
            {"name": "m#wrong-port", "containerName": "w", "probe": {"tcpSocket": {"port": 8081}}},
            {"name": "m#absent", "containerName": "d", "probe": {"tcpSocket": {"port": 80}}}]}]})
    };
    let api = nodes.of("NodePodProbe");
    let object = json!({"metadata": {"name": "node-1"}, "spec": spec(exec("cat /state"))});
    create(&api, "NodePodProbe", object).await;
    let states = async || {
        let status = status(&api, "node-1").await;
        let pod = &status["podProbeStatuses"][0];
        assert_eq!((&pod["name"], &pod["uid"]), (&json!("p"), &json!(uid)));
        let states = pod["probeStates"].as_array().unwrap().clone();
        let shown = states.iter().map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            format!("{} {} {:?}", text("name"), text("state"), text("message"))
        });
        shown.collect::<Vec<_>>()
    };
    advance(10).await;
    let well = "m#healthy Succeeded \"all is well\\n\"".to_owned();
    assert_eq!(
        states().await,
        [
            well.clone(),
            "m#port Succeeded \"\"".to_owned(),
            "m#wrong-port Failed \"connect: connection refused\"".to_owned(),
        ]
    );
    assert_eq!(nodes.event_messages("KruiseProbeSucceeded").await.len(), 2);

    // The changed probe is Unknown until it has failed three times in a row.
    let mut failing = exec("echo lost >&2; exit 3");
    failing["failureThreshold"] = json!(3);
    merge(&api, "node-1", json!({"spec": spec(failing)})).await;
    advance(2).await;
    assert_eq!(states().await[0], "m#healthy Unknown \"\"");
    advance(15).await;
    assert_eq!(states().await[0], "m#healthy Failed \"lost\\n\"");

    merge(&api, "node-1", json!({"spec": {"podProbes": []}})).await;
    advance(10).await;
    assert_eq!(
        status(&api, "node-1").await["podProbeStatuses"],
        Value::Null
    );
}

/// Acts as the manager: copies the state of the pod's containers to the request.
async fn sync_statuses(nodes: &Nodes, name: &str) {
    let pods: Api<Pod> = Api::default_namespaced(nodes.client.clone());
    let pod = pods.get("p").await.unwrap();
    let statuses = pod.status.unwrap().container_statuses.unwrap();
    let synced: Vec<Value> = statuses
        .iter()
        .map(|one| {
            json!({"name": one.name, "ready": one.ready, "restartCount": one.restart_count,
            "containerID": one.container_id})
        })
        .collect();
    let synced = serde_json::to_string(&synced).unwrap();
    let annotations = json!({"crr.apps.kruise.io/sync-container-statuses": synced});
    let api = nodes.of_default("ContainerRecreateRequest");
    merge(
        &api,
        name,
        json!({"metadata": {"annotations": annotations}}),
    )
    .await;
}

fn request(pod: &Pod, name: &str, containers: &[&str], strategy: Value) -> Value {
    let status = pod.status.as_ref().unwrap();
    let statuses = status.container_statuses.as_ref().unwrap();
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| {
            let own = statuses.iter().find(|own| own.name == *name).unwrap();
            json!({"name": name, "statusContext": {
                "containerID": own.container_id, "restartCount": own.restart_count}})
        })
        .collect();
    json!({"metadata": {"name": name, "labels": {
            "crr.apps.kruise.io/pod-uid": pod.metadata.uid, "crr.apps.kruise.io/node-name": "node-1",
            "crr.apps.kruise.io/active": "true"}},
        "spec": {"podName": "p", "containers": containers, "strategy": strategy}})
}

#[tokio::test(start_paused = true)]
async fn containers_are_recreated_in_order() {
    let nodes = Nodes::start();
    nodes.define("ContainerRecreateRequest", "Namespaced").await;
    let container = |name: &str| json!({"name": name, "image": "nginx:1.25"});
    let pod = nodes
        .pod(json!([container("a"), container("b"), container("c")]))
        .await;
    let api = nodes.of_default("ContainerRecreateRequest");
    let strategy = json!({"orderedRecreate": true, "minStartedSeconds": 4});
    let first = request(&pod, "first", &["b", "a"], strategy);
    create(&api, "ContainerRecreateRequest", first).await;
    advance(1).await;
    let second = request(&pod, "second", &["c"], json!({}));
    create(&api, "ContainerRecreateRequest", second).await;
    advance(5).await;
    let restarts = async || {
        let pods: Api<Pod> = Api::default_namespaced(nodes.client.clone());
        let statuses = pods.get("p").await.unwrap().status.unwrap();
        let statuses = statuses.container_statuses.unwrap();
        statuses
            .iter()
            .map(|one| one.restart_count)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        restarts().await,
        [0, 1, 0],
        "the other waits until this one is reported ready"
    );
    let reported = status(&api, "first").await;
    assert_eq!(reported["phase"], "Recreating");
    let expected = json!([{"name": "b", "phase": "Recreating", "isKilled": true},
        {"name": "a", "phase": "Pending"}]);
    assert_eq!(reported["containerRecreateStates"], expected);
    assert_eq!(
        status(&api, "second").await["phase"],
        "Pending",
        "one request a pod"
    );

    for _ in 0..3 {
        sync_statuses(&nodes, "first").await;
        advance(10).await;
    }
    assert_eq!(restarts().await, [1, 1, 1]);
    let reported = status(&api, "first").await;
    assert_eq!(reported["phase"], "Completed");
    assert!(reported["completionTime"].is_string());
    let expected = json!([{"name": "b", "phase": "Succeeded", "isKilled": true},
        {"name": "a", "phase": "Succeeded", "isKilled": true}]);
    assert_eq!(reported["containerRecreateStates"], expected);
    let events = nodes.event_messages("Killing").await;
    let expected = "Stopping container b by ContainerRecreateRequest first".to_owned();
    assert!(events.contains(&expected), "{events:?}");
    assert_eq!(
        status(&api, "second").await["phase"],
        "Recreating",
        "its turn has come"
    );
}

#[tokio::test(start_paused = true)]
async fn a_container_stops_behind_its_hook_and_the_grace_of_the_request() {
    let nodes = Nodes::start();
    nodes.define("ContainerRecreateRequest", "Namespaced").await;
    let hook = json!({"preStop": {"exec": {"command": ["sleep", "8"]}}});
    let pod = nodes
        .pod(json!([{"name": "a", "image": "nginx:1.25", "lifecycle": hook}]))
        .await;
    let api = nodes.of_default("ContainerRecreateRequest");
    let strategy = json!({"unreadyGracePeriodSeconds": 3});
    create(
        &api,
        "ContainerRecreateRequest",
        request(&pod, "r", &["a"], strategy),
    )
    .await;
    advance(20).await;
    let reported = status(&api, "r").await;
    assert_eq!(
        reported["containerRecreateStates"],
        Value::Null,
        "nobody has made the pod unready"
    );
    let now = Timestamp::from_second(1_767_225_600 + 25).unwrap();
    let annotations = json!({"crr.apps.kruise.io/unready-acquired": now});
    merge(&api, "r", json!({"metadata": {"annotations": annotations}})).await;
    advance(8).await;
    let states = status(&api, "r").await["containerRecreateStates"].clone();
    assert_eq!(
        states,
        json!([{"name": "a", "phase": "Pending"}]),
        "the hook runs"
    );
    advance(6).await;
    let states = status(&api, "r").await["containerRecreateStates"].clone();
    assert_eq!(
        states,
        json!([{"name": "a", "phase": "Recreating", "isKilled": true}])
    );
    merge(
        &api,
        "r",
        json!({"metadata": {"labels": {"crr.apps.kruise.io/active": null}}}),
    )
    .await;

    let pods: Api<Pod> = Api::default_namespaced(nodes.client.clone());
    advance(10).await;
    let pod = pods.get("p").await.unwrap();
    let brief = json!({"terminationGracePeriodSeconds": 1});
    create(
        &api,
        "ContainerRecreateRequest",
        request(&pod, "s", &["a"], brief),
    )
    .await;
    advance(5).await;
    let states = status(&api, "s").await["containerRecreateStates"].clone();
    assert_eq!(
        states[0]["phase"], "Recreating",
        "it does not wait for the hook: {states}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_well_is_not_started_again_on_failure() {
    let nodes = Nodes::start();
    nodes.define("ContainerRecreateRequest", "Namespaced").await;
    let pod = nodes
        .pod_of(json!({"restartPolicy": "OnFailure", "containers": [
            {"name": "main", "image": "busybox:1", "command": ["sh", "-c", "sleep 2"]},
            {"name": "sidecar", "image": "nginx:1.25"}]}))
        .await;
    let api = nodes.of_default("ContainerRecreateRequest");
    let asked = request(&pod, "r", &["sidecar"], json!({"forceRecreate": true}));
    create(&api, "ContainerRecreateRequest", asked).await;
    advance(20).await;
    let pods: Api<Pod> = Api::default_namespaced(nodes.client.clone());
    let status = pods.get("p").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Succeeded"));
}

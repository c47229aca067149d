//! Containers that can't be created or started: missing references, images that cannot be pulled,
//! and programs that an image lacks.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kubeproof_runtime::decode::from_value;
use serde_json::json;

use kubeproof_node::{Pace, Timings};

use super::{MISSING, Node, condition, pass, shell, with};

#[tokio::test(start_paused = true)]
async fn a_container_waits_for_what_its_environment_names() {
    let node = Node::start();
    let source = json!({ "configMapKeyRef": { "name": "settings", "key": "a" } });
    let env = json!([{ "name": "A", "valueFrom": source }]);
    let main = with(shell("main", "sleep 1h"), "env", env);
    node.run("web", json!({ "containers": [main] })).await;
    pass(2).await;
    assert_eq!(node.line("web").await, "Pending CreateContainerConfigError");
    let status = node.status("web").await;
    let message = "configmap \"settings\" not found";
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["message"],
        message
    );
    let failed = format!("spec.containers{{main}}: Error: {message}");
    assert_eq!(node.events("Failed").await, [failed]);
    let settings = json!({ "metadata": { "name": "settings" }, "data": { "a": "1" } });
    let maps: Api<ConfigMap> = Api::default_namespaced(node.client.clone());
    let settings: ConfigMap = from_value(settings).unwrap();
    maps.create(&PostParams::default(), &settings)
        .await
        .unwrap();
    pass(30).await;
    assert_eq!(node.line("web").await, "Running running+");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn containers_start_each_by_itself() {
    let node = Node::start();
    let source = json!({ "configMapKeyRef": { "name": "settings", "key": "a" } });
    let env = json!([{ "name": "A", "valueFrom": source }]);
    let first = with(shell("first", "sleep 1h"), "env", env);
    let second = shell("second", "sleep 1h");
    let third =
        json!({ "name": "third", "image": "foo.invalid/third", "imagePullPolicy": "Never" });
    let containers = json!([first, second, third]);
    node.run("web", json!({ "containers": containers })).await;
    pass(2).await;
    let line = "Pending CreateContainerConfigError running+ ErrImageNeverPull";
    assert_eq!(node.line("web").await, line);
    let status = node.status("web").await;
    let unready = "containers with unready status: [first third]";
    assert_eq!(
        condition(&status, "Ready"),
        format!("False ContainersNotReady {unready}")
    );
    let settings = json!({ "metadata": { "name": "settings" }, "data": { "a": "1" } });
    let maps: Api<ConfigMap> = Api::default_namespaced(node.client.clone());
    let settings: ConfigMap = from_value(settings).unwrap();
    maps.create(&PostParams::default(), &settings)
        .await
        .unwrap();
    pass(10).await;
    let line = "Pending running+ running+ ErrImageNeverPull";
    assert_eq!(node.line("web").await, line);
    // A container that never ran does not delay the end.
    let params = DeleteParams::default();
    node.pods().delete("web", &params).await.unwrap();
    pass(1).await;
    assert!(node.pods().get_opt("web").await.unwrap().is_none());
    node.manager.shutdown().await;
}

const UNRESOLVED: &str = "rpc error: code = Unknown desc = failed to pull and unpack image \
    \"invalid.registry.k8s.io/invalid/alpine:3.1\": failed to resolve reference \
    \"invalid.registry.k8s.io/invalid/alpine:3.1\": failed to do request: Head \
    \"https://invalid.registry.k8s.io/v2/invalid/alpine/manifests/3.1\": dial tcp: lookup \
    invalid.registry.k8s.io: no such host";

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_is_tried_later_and_later() {
    let node = Node::start();
    let image = "invalid.registry.k8s.io/invalid/alpine:3.1";
    let main = with(shell("main", "sleep 1h"), "image", json!(image));
    node.run("web", json!({ "containers": [main] })).await;
    let mut seen = Vec::new();
    tokio::time::sleep(Duration::from_millis(500)).await;
    for second in 0..120 {
        let line = node.line("web").await;
        if seen.last().is_none_or(|(_, last)| *last != line) {
            seen.push((second, line));
        }
        pass(1).await;
    }
    let (failed, waits) = ("Pending ErrImagePull", "Pending ImagePullBackOff");
    let seen: Vec<(i32, &str)> = seen.iter().map(|(at, line)| (*at, line.as_str())).collect();
    let expected = [
        (0, failed),
        (1, waits),
        (10, failed),
        (20, waits),
        (30, failed),
        (40, waits),
        (70, failed),
        (80, waits),
    ];
    assert_eq!(seen, expected);
    let status = node.status("web").await;
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let back_off = format!("Back-off pulling image \"{image}\"");
    let message = format!("{back_off}: ErrImagePull: {UNRESOLVED}");
    assert_eq!(waiting["message"], message);
    let path = "spec.containers{main}";
    let events = [
        format!("Pulling {path} Pulling image \"{image}\""),
        format!("Failed {path} Failed to pull image \"{image}\": {UNRESOLVED}"),
        format!("Failed {path} Error: ErrImagePull"),
        format!("BackOff {path} {back_off}"),
        format!("Failed {path} Error: ImagePullBackOff"),
    ];
    assert_eq!(node.course("web").await, events);
    let patch = json!({ "spec": { "containers": [{ "name": "main", "image": "busybox" }] } });
    let params = PatchParams::default();
    let pods = node.pods();
    pods.patch("web", &params, &Patch::Strategic(patch))
        .await
        .unwrap();
    pass(1).await;
    assert_eq!(node.line("web").await, "Running running+");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_no_registry_has_is_not_found() {
    let node = Node::start();
    let main = with(shell("main", "sleep 1h"), "image", json!(MISSING));
    let never = with(main.clone(), "imagePullPolicy", json!("Never"));
    let never = with(never, "name", json!("never"));
    node.run("web", json!({ "containers": [main, never] }))
        .await;
    pass(2).await;
    let line = "Pending ImagePullBackOff ErrImageNeverPull";
    assert_eq!(node.line("web").await, line);
    let status = node.status("web").await;
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let message = "Back-off pulling image \"web:404\": ErrImagePull: rpc error: code = NotFound desc = failed to pull \
        and unpack image \"docker.io/library/web:404\": failed to resolve reference \"docker.io/library/web:404\": \
        docker.io/library/web:404: not found";
    assert_eq!(waiting["message"], message);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_stops_for_an_image_that_cannot_be_pulled() {
    let node = Node::start();
    let containers = json!([shell("main", "sleep 1h"), shell("side", "sleep 1h")]);
    node.run("web", json!({ "containers": containers })).await;
    pass(5).await;
    for (image, line) in [
        ("foo.invalid/a", "Running ErrImagePull running+"),
        ("Foo", "Running InvalidImageName running+"),
        ("busybox", "Running running+(1) running+"),
    ] {
        let patch = json!({ "spec": { "containers": [{ "name": "main", "image": image }] } });
        let params = PatchParams::default();
        let pods = node.pods();
        pods.patch("web", &params, &Patch::Strategic(patch))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(node.line("web").await, line, "{image}");
    }
    let status = node.status("web").await;
    let last = &status["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(last["exitCode"], 0);
    let inspected = [
        "spec.containers{main}: Failed to apply default image tag \"Foo\": couldn't parse image name \
         \"Foo\": invalid reference format: repository name (Foo) must be lowercase",
    ];
    assert_eq!(node.events("InspectFailed").await, inspected);
    node.manager.shutdown().await;
}

const LACKING: &str = "failed to create containerd task: failed to create shim task: OCI runtime create \
    failed: runc create failed: unable to start container process: error during container init: exec: \
    \"sdkfjk\": executable file not found in $PATH";

#[tokio::test(start_paused = true)]
async fn a_program_that_the_image_lacks_cannot_be_started() {
    let node = Node::start();
    let image = "busybox:1.36";
    let main = json!({ "name": "main", "image": image, "command": ["sdkfjk"] });
    let spec = json!({ "containers": [main], "restartPolicy": "Never" });
    node.run("once", spec).await;
    pass(1).await;
    assert_eq!(node.line("once").await, "Failed exit128");
    let status = node.status("once").await;
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["reason"], "StartError");
    assert_eq!(ended["message"], LACKING);
    assert_eq!(ended["startedAt"], "1970-01-01T00:00:00Z");
    assert_eq!(ended["finishedAt"], status["startTime"]);
    let path = "spec.containers{main}";
    let events = [
        format!(
            "Pulled {path} Container image \"{image}\" already present on machine and can be accessed by \
             the pod"
        ),
        format!("Created {path} Container created"),
        format!("Failed {path} Error: {LACKING}"),
    ];
    assert_eq!(node.course("once").await, events);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_started_is_tried_later_and_later() {
    let node = Node::with(Timings {
        pace: Some(Pace::NODE),
        ..Timings::default()
    });
    let main = json!({ "name": "main", "image": "busybox:1.36", "command": ["sdkfjk"] });
    let containers = json!([main, shell("side", "sleep 1h")]);
    node.run("web", json!({ "containers": containers })).await;
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..200 {
        let line = node.line("web").await;
        if seen.last() != Some(&line) {
            seen.push(line);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let waits = [
        "Pending ContainerCreating ContainerCreating",
        "Pending RunContainerError ContainerCreating",
        "Pending CrashLoopBackOff(1) ContainerCreating",
        "Running CrashLoopBackOff(1) running+",
        "Running CrashLoopBackOff(2) running+",
    ];
    assert_eq!(seen, waits);
    let status = node.status("web").await;
    let last = &status["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(last["reason"], "StartError");
    assert_eq!(last["message"], LACKING);
    node.manager.shutdown().await;
}

//! The durations of a node with a machine's pace: starts, the notice of exits, stops, cleanup.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kubeproof_node::{Pace, Timings};
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::{Node, ends, pass, shell, with};

fn paced() -> Node {
    Node::with(Timings {
        pace: Some(Pace::NODE),
        ..Timings::default()
    })
}

/// Returns the changes of a pod's line within `seconds`, each with the time since the start in
/// tenths of a second. The line is `gone` once the pod is deleted.
async fn watch(node: &Node, name: &str, seconds: u32) -> Vec<(u32, String)> {
    let mut seen: Vec<(u32, String)> = Vec::new();
    for tenth in 0..seconds * 10 {
        let line = match node.pods().get_opt(name).await.unwrap() {
            Some(_) => node.line(name).await,
            None => "gone".to_owned(),
        };
        if seen.last().is_none_or(|(_, last)| *last != line) {
            seen.push((tenth, line));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen
}

fn owned(lines: &[(u32, &str)]) -> Vec<(u32, String)> {
    let lines = lines.iter();
    lines.map(|(at, line)| (*at, (*line).to_owned())).collect()
}

/// Returns a container that sleeps for an hour.
fn idle(name: &str) -> Value {
    json!({ "name": name, "image": "busybox", "command": ["sleep", "1h"], "imagePullPolicy": "IfNotPresent" })
}

#[tokio::test(start_paused = true)]
async fn containers_are_created_one_by_one_and_reported_at_the_next_relist() {
    let node = paced();
    pass(1).await;
    let pulled = with(idle("b"), "imagePullPolicy", json!("Always"));
    node.run("web", json!({ "containers": [idle("a"), pulled] }))
        .await;
    // The sandbox takes 0.4 s, the first container 0.2 s, and the second 0.7 s with its pull.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        watch(&node, "web", 4).await,
        owned(&[
            (0, "Pending ContainerCreating ContainerCreating"),
            (10, "Pending running+ ContainerCreating"),
            (20, "Running running+ running+"),
        ])
    );
    let status = node.status("web").await;
    let started = |index: usize| {
        let state = &status["containerStatuses"][index]["state"];
        let time = |value: &Value| -> Timestamp { value.as_str().unwrap().parse().unwrap() };
        let since = time(&state["running"]["startedAt"]).duration_since(time(&status["startTime"]));
        since.as_secs()
    };
    assert_eq!((started(0), started(1)), (0, 1));
    let pulls = node.events("Pulled").await;
    let pull = "spec.containers{b}: Successfully pulled image \"busybox\" in 500ms (500ms including \
                waiting). Image size: 0 bytes.";
    assert!(pulls.iter().any(|event| event == pull), "{pulls:?}");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_end_is_noticed_at_the_next_relist_and_so_is_the_next_run() {
    let node = paced();
    pass(1).await;
    let main = shell("main", "sleep 2.1; exit 3");
    let main = with(main, "imagePullPolicy", json!("IfNotPresent"));
    node.run("web", json!({ "containers": [main] })).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    // The container runs from 0.6 s to 2.7 s, then from 3.2 s to 5.3 s.
    assert_eq!(
        watch(&node, "web", 8).await,
        owned(&[
            (0, "Pending ContainerCreating"),
            (10, "Running running+"),
            (30, "Running exit3"),
            (40, "Running running+(1)"),
            (60, "Running CrashLoopBackOff(1)"),
        ])
    );
    node.manager.shutdown().await;
}

/// Returns how long a container with a grace period of 8 s takes to stop, and its exit code.
async fn stop(node: &Node, name: &str, container: Value) -> (i64, i64) {
    let spec = json!({ "containers": [container], "terminationGracePeriodSeconds": 8 });
    let metadata = json!({ "name": name, "finalizers": ["example.com/look"] });
    node.create(json!({ "metadata": metadata, "spec": spec }))
        .await;
    pass(4).await;
    let begin = node.pods().get(name).await.unwrap();
    assert!(begin.status.unwrap().phase.as_deref() == Some("Running"));
    let deleted = node.pods().delete(name, &DeleteParams::default()).await;
    let deleted = deleted.unwrap().left().unwrap();
    // The deletion ends with the grace period.
    let due = deleted.metadata.deletion_timestamp.unwrap().0;
    pass(12).await;
    let status = node.status(name).await;
    let time = |value: &Value| -> Timestamp { value.as_str().unwrap().parse().unwrap() };
    let state = &status["containerStatuses"][0]["state"]["terminated"];
    let took = time(&state["finishedAt"]).duration_since(due).as_secs() + 8;
    let patch = json!({ "metadata": { "finalizers": [] } });
    let (pods, params) = (node.pods(), PatchParams::default());
    let freed = pods.patch(name, &params, &Patch::Merge(patch)).await;
    freed.unwrap();
    (took, state["exitCode"].as_i64().unwrap())
}

#[tokio::test(start_paused = true)]
async fn who_has_no_handler_for_sigterm_has_the_whole_grace_period_and_is_killed() {
    let node = paced();
    pass(1).await;
    let program = |argv: &[&str]| json!({ "name": "main", "image": "busybox", "command": argv });
    let image = json!({ "name": "main", "image": "nginx" });
    let busy = "while true; do sleep 1; done";
    for (name, container, expected) in [
        ("sleep", program(&["sleep", "1h"]), (8, 137)),
        ("tail", program(&["tail", "-f", "/dev/null"]), (8, 137)),
        ("shell", shell("main", "sleep 1h"), (8, 137)),
        ("loop", shell("main", busy), (8, 137)),
        (
            "ignored",
            shell("main", &format!("trap '' TERM; {busy}")),
            (8, 137),
        ),
        (
            "taken-back",
            shell("main", &format!("trap 'exit 5' TERM; trap - TERM; {busy}")),
            (8, 137),
        ),
        // A shell runs its traps only after the command that it waits for.
        (
            "deaf",
            shell("main", "trap 'exit 5' TERM; sleep 1h"),
            (8, 137),
        ),
        (
            "handed-on",
            shell("main", "trap 'exit 5' TERM; exec sleep 1h"),
            (8, 137),
        ),
        (
            "child",
            shell(
                "main",
                &format!("sh -c \"trap 'exit 5' TERM; {busy}\"; true"),
            ),
            (8, 137),
        ),
        (
            "heeds",
            shell("main", &format!("trap 'exit 5' SIGTERM; {busy}")),
            (0, 5),
        ),
        (
            "waits",
            shell("main", "trap 'exit 6' 15; sleep 1h & wait"),
            (0, 6),
        ),
        ("image", image, (0, 0)),
        ("program", shell("main", "exec serve"), (0, 0)),
    ] {
        assert_eq!(stop(&node, name, container).await, expected, "{name}");
    }
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sidecars_hear_of_the_end_after_the_others() {
    let node = paced();
    pass(1).await;
    let sidecar = json!({ "name": "proxy", "image": "envoy", "restartPolicy": "Always" });
    let spec = json!({
        "initContainers": [sidecar],
        "containers": [idle("main")],
        "terminationGracePeriodSeconds": 3,
    });
    let metadata = json!({ "name": "web", "finalizers": ["example.com/look"] });
    node.create(json!({ "metadata": metadata, "spec": spec }))
        .await;
    pass(6).await;
    assert_eq!(node.line("web").await, "Running running+ running+");
    let params = DeleteParams::default();
    node.pods().delete("web", &params).await.unwrap();
    pass(8).await;
    let status = node.status("web").await;
    let ended = [("proxy 0".to_owned(), 9), ("main 137".to_owned(), 9)];
    assert_eq!(ends(&status), ended);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_given_up_at_the_end_of_the_grace_period_and_the_container_stopped() {
    let node = paced();
    pass(1).await;
    let hook = json!({ "preStop": { "exec": { "command": ["sleep", "1h"] } } });
    let heeds = json!({ "name": "main", "image": "nginx", "lifecycle": hook });
    let deaf = with(idle("main"), "lifecycle", hook);
    assert_eq!(stop(&node, "heeds", heeds).await, (8, 0));
    // The container has at least two seconds to stop after its hook.
    assert_eq!(stop(&node, "deaf", deaf).await, (10, 137));
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_cleaned_up_until_the_next_relist_after_its_end() {
    let node = paced();
    pass(1).await;
    let image = json!({ "name": "main", "image": "nginx", "imagePullPolicy": "IfNotPresent" });
    node.run("web", json!({ "containers": [image] })).await;
    pass(2).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    let params = DeleteParams::default();
    node.pods().delete("web", &params).await.unwrap();
    let seen = watch(&node, "web", 2).await;
    assert_eq!(
        seen,
        owned(&[(0, "Running running+"), (2, "Succeeded exit0"), (9, "gone"),])
    );
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn another_image_waits_for_the_end_of_the_one_before() {
    let node = paced();
    pass(1).await;
    let spec = json!({ "containers": [idle("main")], "terminationGracePeriodSeconds": 5 });
    node.run("web", spec).await;
    pass(3).await;
    let before = node.status("web").await;
    let patch = json!({ "spec": { "containers": [{ "name": "main", "image": "busybox:2" }] } });
    let (pods, params) = (node.pods(), PatchParams::default());
    let patched = pods.patch("web", &params, &Patch::Strategic(patch)).await;
    patched.unwrap();
    pass(4).await;
    let killing = node.events("Killing").await;
    let notice = "spec.containers{main}: Container main definition changed, will be restarted";
    assert_eq!(killing, [notice]);
    // The kubelet waits for the old container's end, and reports nothing until then.
    let status = node.status("web").await;
    assert_eq!(status["containerStatuses"], before["containerStatuses"]);
    pass(3).await;
    assert_eq!(node.line("web").await, "Running running+(1)");
    let status = node.status("web").await;
    let own = &status["containerStatuses"][0];
    assert_eq!(own["image"], "busybox:2");
    assert_eq!(own["lastState"]["terminated"]["exitCode"], 137);
    assert_eq!(node.events("Killing").await.len(), 1);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_a_probe_ends_is_killed_after_its_grace_period_and_started_at_once() {
    let node = paced();
    pass(1).await;
    let probe = json!({
        "exec": { "command": ["false"] }, "periodSeconds": 2, "failureThreshold": 1,
        "initialDelaySeconds": 2,
    });
    let main = with(idle("main"), "livenessProbe", probe);
    let spec = json!({ "containers": [main], "terminationGracePeriodSeconds": 3 });
    node.run("web", spec).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    // The container is noticed at 1 s, probed at 3 s, killed at 6 s, and created again at 6.2 s.
    let seen = watch(&node, "web", 8).await;
    assert_eq!(
        seen,
        owned(&[
            (0, "Pending ContainerCreating"),
            (10, "Running running+"),
            (60, "Running exit137"),
            (70, "Running running+(1)"),
        ])
    );
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_made_is_tried_again_when_something_happens_to_its_pod() {
    let node = paced();
    pass(1).await;
    let variable = json!([{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "late", "key": "a" } } }]);
    let short = shell("short", "sleep 4; exit 1");
    let late = with(idle("late"), "env", variable);
    node.run("web", json!({ "containers": [late, short] }))
        .await;
    pass(3).await;
    let held = "Pending CreateContainerConfigError running+";
    assert_eq!(node.line("web").await, held);
    let map: ConfigMap = from_value(json!({
        "metadata": { "name": "late" }, "data": { "a": "1" },
    }))
    .unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(node.client.clone());
    maps.create(&PostParams::default(), &map).await.unwrap();
    pass(1).await;
    assert_eq!(node.line("web").await, held);
    // The exit of the other container triggers a sync of the whole pod, long before the back-off of
    // ten seconds.
    pass(4).await;
    assert!(node.line("web").await.starts_with("Running running+"));
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_annotation_says_of_a_stop_counts_more_than_the_pace() {
    let node = paced();
    pass(1).await;
    let annotations = json!({ "kubeproof.dev/stop-seconds": "2" });
    let metadata = json!({
        "name": "web", "annotations": annotations, "finalizers": ["example.com/look"],
    });
    let spec = json!({ "containers": [idle("main")] });
    node.create(json!({ "metadata": metadata, "spec": spec }))
        .await;
    pass(3).await;
    let params = DeleteParams::default();
    node.pods().delete("web", &params).await.unwrap();
    pass(4).await;
    let status = node.status("web").await;
    assert_eq!(ends(&status), [("main 0".to_owned(), 5)]);
    node.manager.shutdown().await;
}

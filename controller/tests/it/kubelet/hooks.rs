//! Lifecycle hooks of containers, and the pod's status while they run.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{Node, condition, pass, shell, with};

#[tokio::test(start_paused = true)]
async fn hooks_hold_back_the_start_and_the_end() {
    let node = Node::start();
    let lifecycle = json!({
        "postStart": { "exec": { "command": ["sh", "-c", "sleep 3; touch /hooked"] } },
        "preStop": { "exec": { "command": ["sleep", "7"] } },
    });
    let main = with(shell("main", "sleep 1h"), "lifecycle", lifecycle);
    node.run("web", json!({ "containers": [main] })).await;
    pass(2).await;
    assert_eq!(node.line("web").await, "Pending ContainerCreating");
    pass(2).await;
    assert_eq!(node.line("web").await, "Running running+");
    let params = DeleteParams::default();
    node.pods().delete("web", &params).await.unwrap();
    pass(6).await;
    assert!(node.pods().get_opt("web").await.unwrap().is_some());
    pass(2).await;
    assert!(node.pods().get_opt("web").await.unwrap().is_none());

    let lifecycle = json!({ "postStart": { "exec": { "command": ["false"] } } });
    let main = with(shell("main", "sleep 1h"), "lifecycle", lifecycle);
    node.run("bad", json!({ "containers": [main] })).await;
    pass(5).await;
    let failed = node.events("FailedPostStartHook").await;
    assert_eq!(failed, ["spec.containers{main}: PostStartHook failed"]);
    assert_eq!(node.line("bad").await, "Running CrashLoopBackOff(1)");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_stays_while_the_next_run_waits_for_its_hook() {
    let node = Node::start();
    let hook = json!({ "postStart": { "exec": { "command": ["sleep", "10"] } } });
    let main = with(shell("main", "sleep 1h"), "lifecycle", hook.clone());
    node.run("web", json!({ "containers": [main] })).await;
    pass(11).await;
    assert_eq!(node.line("web").await, "Running running+");
    let before = node.status("web").await;
    let patch = json!({ "spec": { "containers": [{ "name": "main", "image": "busybox:2" }] } });
    let (pods, params) = (node.pods(), PatchParams::default());
    pods.patch("web", &params, &Patch::Strategic(patch))
        .await
        .unwrap();
    pass(8).await;
    let status = node.status("web").await;
    assert_eq!(status["containerStatuses"], before["containerStatuses"]);
    assert_eq!(condition(&status, "Ready").trim(), "True");
    assert_ne!(status["observedGeneration"], before["observedGeneration"]);
    pass(3).await;
    assert_eq!(node.line("web").await, "Running running+(1)");
    let status = node.status("web").await;
    assert_eq!(status["containerStatuses"][0]["image"], "busybox:2");

    let main = with(shell("main", "sleep 20; exit 3"), "lifecycle", hook);
    node.run("crash", json!({ "containers": [main] })).await;
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..34 {
        pass(1).await;
        let line = node.line("crash").await;
        if seen.last() != Some(&line) {
            seen.push(line);
        }
    }
    let expected = [
        "Pending ContainerCreating",
        "Running running+",
        "Running exit3",
        "Running running+(1)",
    ];
    assert_eq!(seen, expected);
    node.manager.shutdown().await;
}

//! Ephemeral containers.

use std::time::Duration;

use futures::StreamExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use kubeproof_node::{ExecOptions, LogOptions, PodReference};
use serde_json::{Value, json};

use super::{Node, condition, pass, shell, with, word};

#[tokio::test(start_paused = true)]
async fn ephemeral_containers_run_once_in_a_pod_that_is_there() {
    let node = Node::start();
    node.run("web", json!({ "containers": [shell("main", "sleep 1h")] }))
        .await;
    pass(1).await;
    let script = "echo hi; sleep 5; exit 2";
    let debug = with(shell("debug", script), "targetContainerName", json!("main"));
    let idle = with(shell("idle", "sleep 1h"), "stdin", json!(true));
    let bad = json!({ "name": "bad", "image": "foo.invalid/a" });
    let patch = json!({ "spec": { "ephemeralContainers": [debug, idle, bad] } });
    let (pods, params) = (node.pods(), PatchParams::default());
    pods.patch_ephemeral_containers("web", &params, &Patch::Strategic(patch))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let words = |status: &Value| -> Vec<String> {
        let statuses = status["ephemeralContainerStatuses"].as_array().unwrap();
        statuses.iter().map(word).collect()
    };
    let status = node.status("web").await;
    assert_eq!(words(&status), ["running", "running", "ErrImagePull"]);
    assert_eq!(
        status["ephemeralContainerStatuses"][0]["started"],
        Value::Null
    );
    let uid = pods.get("web").await.unwrap().metadata.uid.unwrap();
    let reference = PodReference {
        name: "web",
        uid: &uid,
        node: "node-1",
    };
    let containers = node.manager.containers();
    let log = containers.logs(reference, "debug", LogOptions::default());
    assert_eq!(log.unwrap().collect::<Vec<_>>().await.concat(), b"hi\n");
    let command = vec!["hostname".to_owned()];
    let session = containers.exec(reference, "idle", command, ExecOptions::default());
    assert_eq!(session.ok().unwrap().ended.await, Ok(0));
    pass(10).await;
    let status = node.status("web").await;
    assert_eq!(words(&status)[..2], ["exit2", "running"]);
    assert_eq!(node.line("web").await, "Running running+");
    assert_eq!(condition(&status, "Ready").trim(), "True");
    let started: Vec<String> = node.events("Started").await;
    let path = "spec.ephemeralContainers{debug}: Container started".to_owned();
    assert!(started.contains(&path), "{started:?}");
    let params = DeleteParams::default();
    pods.delete("web", &params).await.unwrap();
    pass(1).await;
    assert!(pods.get_opt("web").await.unwrap().is_none());
    node.manager.shutdown().await;
}

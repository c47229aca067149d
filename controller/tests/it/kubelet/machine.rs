//! The machine below a node: extended resources that a client adds, and directories of the host.

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Node, pass, shell, with};

/// Writes into the status of the node, and returns its allocatable amount of the resource `example.com/seat`.
async fn allocatable(node: &Node, status: Value) -> Option<String> {
    let nodes: Api<NodeObject> = Api::all(node.client.clone());
    let patch = Patch::Merge(json!({ "status": status }));
    nodes
        .patch_status("node-1", &PatchParams::default(), &patch)
        .await
        .unwrap();
    pass(1).await;
    let status = nodes.get("node-1").await.unwrap().status.unwrap();
    let seats = status.allocatable.unwrap().remove("example.com/seat");
    seats.map(|amount| amount.0)
}

#[tokio::test(start_paused = true)]
async fn extended_resources_of_the_capacity_are_allocatable() {
    let node = Node::start();
    pass(1).await;
    let seats = |amount: Value| json!({ "capacity": { "example.com/seat": amount } });
    let amount = allocatable(&node, seats(json!("2"))).await;
    assert_eq!(amount.as_deref(), Some("2"));
    let seated = json!({ "limits": { "example.com/seat": "2" } });
    let seated = with(shell("main", "sleep 1h"), "resources", seated);
    node.run("first", json!({ "containers": [seated] })).await;
    node.run("second", json!({ "containers": [seated] })).await;
    pass(1).await;
    assert_eq!(node.line("first").await, "Running running+");
    assert_eq!(node.line("second").await, "Pending");
    let only = json!({ "allocatable": { "example.com/seat": "9" } });
    assert_eq!(allocatable(&node, only).await.as_deref(), Some("2"));
    assert_eq!(allocatable(&node, seats(Value::Null)).await, None);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_of_the_host_outlives_the_pod() {
    let node = Node::start();
    let script = "if [[ -r /data/foo ]]; then exit 0; else touch /data/foo; exit 42; fi";
    let mounts = json!([{ "name": "data", "mountPath": "/data" }]);
    let main = with(shell("main", script), "volumeMounts", mounts);
    let host = |path: &str, type_: &str| json!({ "hostPath": { "path": path, "type": type_ } });
    for (name, source, line) in [
        (
            "first",
            host("/tmp/job", "DirectoryOrCreate"),
            "Failed exit42",
        ),
        ("second", host("/tmp/job", ""), "Succeeded exit0"),
        ("other", host("/tmp/other", "Directory"), "Failed exit42"),
        ("parent", host("/tmp", ""), "Failed exit42"),
        ("empty", json!({ "emptyDir": {} }), "Failed exit42"),
    ] {
        let mut volume = source;
        volume["name"] = json!("data");
        let spec = json!({ "containers": [main], "volumes": [volume], "restartPolicy": "Never" });
        node.run(name, spec).await;
        pass(1).await;
        assert_eq!(node.line(name).await, line, "{name}");
        node.pods()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    let look = with(
        shell("main", "ls /data/job/foo /data/foo"),
        "volumeMounts",
        json!([{ "name": "data", "mountPath": "/data" }]),
    );
    let mut volume = host("/tmp", "");
    volume["name"] = json!("data");
    node.run(
        "look",
        json!({ "containers": [look], "volumes": [volume], "restartPolicy": "Never" }),
    )
    .await;
    pass(1).await;
    assert_eq!(node.line("look").await, "Succeeded exit0");
    node.manager.shutdown().await;
}

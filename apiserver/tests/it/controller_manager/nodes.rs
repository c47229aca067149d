//! Node lifecycle, taint eviction, time to live, addresses of nodes, attached volumes.

use kubeproof_apiserver::json::{Value, json};

use super::client::{Answer, Client, MERGE, STRATEGIC, containers, options};

const NODES: &str = "/api/v1/nodes";
const NODE: &str = "/api/v1/nodes/n";

async fn with_node() -> (Client, Answer) {
    let client = Client::new();
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let node = json!({
        "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n", "beta.kubernetes.io/os": "linux"}},
        "status": {"capacity": {"cpu": "4"}, "conditions": [ready]},
    });
    let made = client.made(NODES, node.clone()).await;
    client
        .patch(
            STRATEGIC,
            &format!("{NODE}/status"),
            &json!({"status": node["status"]}),
        )
        .await
        .expect(200);
    let node = client.get(NODE).await.expect(200);
    assert_eq!(node.uid(), made.uid());
    (client, node)
}

#[tokio::test]
async fn the_lifecycle_controller_replaces_taints_of_the_version_that_it_has_read() {
    let (client, node) = with_node().await;
    let patch = |version: &str| {
        let taints = json!([
            {"effect": "NoSchedule", "key": "node.kubernetes.io/unreachable", "timeAdded": "2026-01-01T00:00:40Z"},
            {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "timeAdded": "2026-01-01T00:00:40Z"},
        ]);
        json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}})
    };
    let stale = client.patch(STRATEGIC, NODE, &patch("1")).await;
    assert_eq!(stale.expect(409).at("/reason"), "Conflict");
    let tainted = client
        .patch(STRATEGIC, NODE, &patch(&node.version()))
        .await
        .expect(200);
    assert_eq!(
        tainted.at("/spec/taints"),
        patch("")["spec"].get("taints").unwrap()
    );
    let healthy =
        json!({"metadata": {"resourceVersion": tainted.version()}, "spec": {"taints": null}});
    let healthy = client.patch(STRATEGIC, NODE, &healthy).await.expect(200);
    assert_eq!(healthy.at("/spec/taints"), &Value::Null);
}

#[tokio::test]
async fn the_lifecycle_controller_marks_a_silent_node_and_its_pods() {
    let (client, node) = with_node().await;
    let mut silent = node.body.clone();
    for condition in silent["status"]["conditions"].as_array_mut().unwrap() {
        condition["status"] = json!("Unknown");
        condition["reason"] = json!("NodeStatusUnknown");
        condition["message"] = json!("Kubelet stopped posting node status.");
    }
    let marked = client
        .put(&format!("{NODE}/status"), &silent)
        .await
        .expect(200);
    assert_eq!(marked.at("/status/conditions/0/status"), "Unknown");
    assert_eq!(marked.at("/status/capacity/cpu"), "4");

    let pods = "/api/v1/namespaces/default/pods";
    let mut spec = containers();
    spec["nodeName"] = json!("n");
    let pod = client
        .made(pods, json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;
    let conditions = json!([
        {"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"},
        {"type": "PodScheduled", "status": "True"},
    ]);
    let status = format!("{pods}/p/status");
    client
        .patch(
            STRATEGIC,
            &status,
            &json!({"status": {"conditions": conditions, "phase": "Running"}}),
        )
        .await
        .expect(200);
    let selector = "fieldSelector=spec.nodeName%3Dn&resourceVersion=0";
    let listed = client
        .get(&format!("/api/v1/pods?{selector}"))
        .await
        .expect(200);
    assert_eq!(listed.at("/items").as_array().unwrap().len(), 1);
    let patch = json!({
        "metadata": {"uid": pod.uid()},
        "status": {
            "$setElementOrder/conditions": [{"type": "Initialized"}, {"type": "Ready"}, {"type": "PodScheduled"}],
            "conditions": [{"lastTransitionTime": "2026-01-01T00:00:40Z", "status": "False", "type": "Ready"}],
        },
    });
    let unready = client.patch(STRATEGIC, &status, &patch).await.expect(200);
    let conditions = unready.at("/status/conditions").as_array().unwrap().iter();
    let conditions: Vec<_> = conditions
        .map(|one| {
            (
                one["type"].as_str().unwrap(),
                one["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        conditions,
        [
            ("Initialized", "True"),
            ("Ready", "False"),
            ("PodScheduled", "True")
        ]
    );
}

#[tokio::test]
async fn taint_eviction_says_why_before_it_deletes() {
    let (client, _) = with_node().await;
    let pods = "/api/v1/namespaces/default/pods";
    let mut spec = containers();
    spec["nodeName"] = json!("n");
    let pod = client
        .made(pods, json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {
        "$setElementOrder/conditions": [{"type": "DisruptionTarget"}],
        "conditions": [{
            "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:05:40Z", "observedGeneration": 1,
            "message": "Taint manager: deleting due to NoExecute taint", "reason": "DeletionByTaintManager",
            "status": "True", "type": "DisruptionTarget",
        }],
    }});
    let marked = client
        .patch(STRATEGIC, &format!("{pods}/p/status"), &patch)
        .await
        .expect(200);
    assert_eq!(marked.at("/status/conditions/0/type"), "DisruptionTarget");
    let deleted = client
        .delete(&format!("{pods}/p"), &options("v1", json!({})))
        .await
        .expect(200);
    assert_eq!(
        deleted.at("/metadata/deletionGracePeriodSeconds"),
        30,
        "the kubelet ends it"
    );
}

#[tokio::test]
async fn labels_annotations_and_addresses_of_a_node_are_patched_in() {
    let (client, _) = with_node().await;
    // Node lifecycle reconciles labels, the TTL controller its annotation, IPAM the range of pods.
    let rows = [
        (
            json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}}),
            "/metadata/labels/kubernetes.io~1os",
            json!("linux"),
        ),
        (
            json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "0"}}}),
            "/metadata/annotations/node.alpha.kubernetes.io~1ttl",
            json!("0"),
        ),
        (
            json!({"spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}}),
            "/spec/podCIDRs",
            json!(["10.244.0.0/24"]),
        ),
    ];
    for (patch, pointer, want) in rows {
        let patched = client.patch(STRATEGIC, NODE, &patch).await.expect(200);
        assert_eq!(patched.at(pointer), &want, "{patch}");
    }
    let other = json!({"spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}});
    client.patch(STRATEGIC, NODE, &other).await.expect(422);
}

#[tokio::test]
async fn heartbeats_are_followed_in_their_namespace() {
    let client = Client::new();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = json!({
        "metadata": {"name": "n"},
        "spec": {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    client.made(leases, lease).await;
    let (events, _) = client.watch_list("application/json, */*", leases).await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0]["object"]["spec"]["renewTime"],
        "2026-01-01T00:00:00.000000Z"
    );
}

#[tokio::test]
async fn the_attach_detach_controller_attaches_a_volume_and_notes_it_on_the_node() {
    let (client, _) = with_node().await;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachment = json!({
        "kind": "VolumeAttachment", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "csi-1"},
        "spec": {"attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": false},
    });
    client.post(attachments, &attachment).await.expect(201);
    let name = "kubernetes.io/csi/csi.example.com^1";
    let attached = json!([{"name": name, "devicePath": ""}]);
    let patch = json!({"status": {"volumesAttached": attached}});
    let noted = client
        .patch(STRATEGIC, &format!("{NODE}/status"), &patch)
        .await
        .expect(200);
    assert_eq!(noted.at("/status/volumesAttached/0/name"), name);
    let attached = json!({"status": {"attached": true}});
    client
        .patch(MERGE, &format!("{attachments}/csi-1/status"), &attached)
        .await
        .expect(200);
    client
        .delete(
            &format!("{attachments}/csi-1"),
            &options("storage.k8s.io/v1", json!({})),
        )
        .await
        .expect(200);
}

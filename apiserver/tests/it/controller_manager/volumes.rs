//! Binding, protecting and resizing volumes; claims of ephemeral volumes and of devices.

use kubeproof_apiserver::json::{Value, json};

use super::client::{Client, STRATEGIC, containers, controller_ref, options};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn claim(name: &str) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {},
    })
}

#[tokio::test]
async fn the_binder_binds_both_sides_in_four_writes() {
    let client = Client::new();
    let volume = json!({
        "metadata": {"name": "pv"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"}, "persistentVolumeReclaimPolicy": "Retain",
        },
    });
    let mut volume = client.made(VOLUMES, volume).await.body;
    let mut claim = client.made(CLAIMS, claim("data")).await.body;
    volume["spec"]["claimRef"] = json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "data",
        "uid": claim["metadata"]["uid"], "resourceVersion": claim["metadata"]["resourceVersion"],
    });
    volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    volume = client
        .put(&format!("{VOLUMES}/pv"), &volume)
        .await
        .expect(200)
        .body;
    volume["status"]["phase"] = json!("Bound");
    let bound = client
        .put(&format!("{VOLUMES}/pv/status"), &volume)
        .await
        .expect(200);
    assert_eq!(bound.at("/status/phase"), "Bound");
    claim["spec"]["volumeName"] = json!("pv");
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim = client
        .put(&format!("{CLAIMS}/data"), &claim)
        .await
        .expect(200)
        .body;
    claim["status"] =
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
    let bound = client
        .put(&format!("{CLAIMS}/data/status"), &claim)
        .await
        .expect(200);
    assert_eq!(bound.at("/status"), &claim["status"]);
    let mut released = client.get(&format!("{VOLUMES}/pv")).await.expect(200).body;
    released["status"]["phase"] = json!("Released");
    client
        .put(&format!("{VOLUMES}/pv/status"), &released)
        .await
        .expect(200);
}

#[tokio::test]
async fn protection_holds_a_claim_or_a_volume_by_a_finalizer_until_it_is_free() {
    let client = Client::new();
    let claim = client.made(CLAIMS, claim("data")).await;
    let finalizers = claim.at("/metadata/finalizers");
    assert_eq!(
        finalizers,
        &json!(["kubernetes.io/pvc-protection"]),
        "set on admission"
    );
    let uri = format!("{CLAIMS}/data");
    client
        .delete(&uri, &options("v1", json!({})))
        .await
        .expect(200);
    let mut held = client.get(&uri).await.expect(200).body;
    held["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("finalizers");
    client.put(&uri, &held).await.expect(200);
    client.get(&uri).await.expect(404);
}

#[tokio::test]
async fn the_expand_controller_notes_a_resize_in_the_status() {
    let client = Client::new();
    let claim = client.made(CLAIMS, claim("data")).await;
    let condition = json!({
        "type": "Resizing", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let patch = json!({
        "metadata": {"resourceVersion": claim.version()},
        "status": {
            "conditions": [condition], "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
        },
    });
    let noted = client
        .patch(STRATEGIC, &format!("{CLAIMS}/data/status"), &patch)
        .await
        .expect(200);
    assert_eq!(noted.at("/status/conditions/0/type"), "Resizing");
    let stale = client
        .patch(STRATEGIC, &format!("{CLAIMS}/data/status"), &patch)
        .await;
    assert_eq!(stale.expect(409).at("/reason"), "Conflict");
}

#[tokio::test]
async fn ephemeral_volumes_get_a_claim_that_their_pod_owns() {
    let client = Client::new();
    let mut spec = containers();
    let template = json!({"spec": claim("x")["spec"]});
    spec["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
    let pod = client
        .made(PODS, json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;
    let mut claim = claim("p-scratch");
    claim["metadata"]["ownerReferences"] = json!([controller_ref("v1", "Pod", &pod)]);
    let claim = client.post(CLAIMS, &claim).await.expect(201);
    assert_eq!(
        claim.at("/metadata/ownerReferences/0/uid"),
        &json!(pod.uid())
    );
}

#[tokio::test]
async fn claims_of_devices_are_generated_noted_on_the_pod_and_released() {
    let client = Client::new();
    let templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
    let devices = json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}});
    client
        .made(
            templates,
            json!({"metadata": {"name": "gpu"}, "spec": {"spec": devices}}),
        )
        .await;
    let mut spec = containers();
    spec["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
    let pod = client
        .made(PODS, json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let claim = json!({
        "kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "spec": devices, "status": {},
        "metadata": {
            "generateName": "p-gpu-", "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [controller_ref("v1", "Pod", &pod)],
        },
    });
    let claim = client.post(claims, &claim).await.expect(201);
    let name = claim.text("/metadata/name");
    let noted = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "default"},
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]},
    });
    let noted = client
        .apply(
            &format!("{PODS}/p/status"),
            "ResourceClaimController",
            &noted,
        )
        .await
        .expect(200);
    assert_eq!(
        noted.at("/status/resourceClaimStatuses/0/resourceClaimName"),
        &json!(name)
    );
    let result =
        json!({"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"});
    let mut held = claim.body.clone();
    held["status"] = json!({
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": pod.uid()}],
    });
    let status = format!("{claims}/{name}/status");
    let held = client.put(&status, &held).await.expect(200);
    let mut free = held.body.clone();
    free["status"] = json!({});
    let free = client.put(&status, &free).await.expect(200);
    assert_eq!(free.at("/status"), &json!({}));
    client.put(&status, &held.body).await.expect(409);
    client
        .delete(
            &format!("{claims}/{name}"),
            &options("resource.k8s.io/v1", json!({})),
        )
        .await
        .expect(200);
}

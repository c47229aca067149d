//! Nodes whose volumes another program binds: the provisioner creates and deletes volumes on
//! request of kube-controller-manager's volume controller.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::{Manager, Options};
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use crate::support::options;

#[tokio::test(start_paused = true)]
async fn a_claim_handed_over_gets_a_volume_that_goes_when_it_is_released() {
    let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
    let server = ApiServer::builder().clock(clock.clone()).build();
    let client = Client::new(server.clone(), "default");
    let options = options(&clock);
    let manager = Manager::start(client.clone(), options).unwrap();
    let settle = || tokio::time::sleep(Duration::from_mins(1));
    settle().await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    let class = classes.get("standard").await.unwrap();
    assert_eq!(class.provisioner, "rancher.io/local-path");
    assert_eq!(
        class.volume_binding_mode.as_deref(),
        Some("WaitForFirstConsumer")
    );

    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claim = from_value(claim).unwrap();
    let claim = claims.create(&PostParams::default(), &claim).await.unwrap();
    let spec = claim.spec.as_ref().unwrap();
    assert_eq!(spec.storage_class_name.as_deref(), Some("standard"));
    settle().await;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let name = format!("pvc-{}", claim.uid().unwrap());
    assert!(
        volumes.get_opt(&name).await.unwrap().is_none(),
        "nobody has asked"
    );

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = pod_with_claim("main", &json!({}));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    settle().await;
    let selected = claims.get("data").await.unwrap();
    let selected = &selected.annotations()["volume.kubernetes.io/selected-node"];
    assert_eq!(selected, "node-1", "by the scheduler");
    let waiting = pods.get("main").await.unwrap().spec.unwrap();
    assert_eq!(waiting.node_name, None, "its volume is still to be made");

    let params = PatchParams::default();
    let merge = |patch: Value| Patch::Merge(patch);
    let annotation = json!({"volume.kubernetes.io/storage-provisioner": class.provisioner});
    let handed_over = merge(json!({"metadata": {"annotations": annotation}}));
    claims.patch("data", &params, &handed_over).await.unwrap();
    settle().await;
    let volume = volumes.get(&name).await.unwrap().spec.unwrap();
    assert_eq!(volume.storage_class_name.as_deref(), Some("standard"));
    assert_eq!(volume.claim_ref.unwrap().uid, claim.uid());

    let released = merge(json!({"status": {"phase": "Released"}}));
    volumes
        .patch_status(&name, &params, &released)
        .await
        .unwrap();
    settle().await;
    let left = volumes.get_opt(&name).await.unwrap();
    let is_going = left.is_none_or(|volume| volume.metadata.deletion_timestamp.is_some());
    assert!(
        is_going,
        "its protection is the volume controller's to take off"
    );
    manager.shutdown().await;
}

/// Returns a pod that uses the claim `data`.
fn pod_with_claim(name: &str, node_selector: &Value) -> Pod {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "nginx:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "nodeSelector": node_selector,
        },
    });
    from_value(pod).expect("it is a pod")
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_the_default_class_gets_a_volume_on_the_node_of_its_pod() {
    let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
    let server = ApiServer::builder().clock(clock.clone()).build();
    let client = Client::new(server.clone(), "default");
    let options = Options {
        controllers: vec!["persistent-volume".to_owned()],
        nodes: 3,
        default_storage_class: true,
        ..options(&clock)
    };
    let manager = Manager::start(client.clone(), options).unwrap();
    let settle = || tokio::time::sleep(Duration::from_mins(1));
    settle().await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let params = PostParams::default();
    let claim = from_value(claim).unwrap();
    claims.create(&params, &claim).await.unwrap();
    settle().await;
    let phase = async || {
        claims
            .get("data")
            .await
            .unwrap()
            .status
            .unwrap()
            .phase
            .unwrap()
    };
    assert_eq!(phase().await, "Pending", "nobody uses it");
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let reasons = async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_claim = all
            .items
            .into_iter()
            .filter(|event| event.involved_object.kind.as_deref() == Some("PersistentVolumeClaim"));
        of_claim
            .filter_map(|event| event.reason)
            .collect::<Vec<_>>()
    };
    assert_eq!(reasons().await, ["WaitForFirstConsumer"]);

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let hostname = json!({"kubernetes.io/hostname": "node-2"});
    let pod = pod_with_claim("user", &hostname);
    pods.create(&params, &pod).await.unwrap();
    settle().await;
    assert_eq!(phase().await, "Bound");
    let status = pods.get("user").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let claim = claims.get("data").await.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = claim.spec.unwrap().volume_name.unwrap();
    let spec = serde_json::to_value(volumes.get(&volume).await.unwrap().spec).unwrap();
    let term = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
    assert_eq!(term["matchExpressions"][0]["values"], json!(["node-2"]));
    assert_eq!(spec["persistentVolumeReclaimPolicy"], "Delete");

    let again = pod_with_claim("next", &json!({}));
    pods.create(&params, &again).await.unwrap();
    settle().await;
    let next = pods.get("next").await.unwrap().spec.unwrap();
    assert_eq!(
        next.node_name.as_deref(),
        Some("node-2"),
        "where its volume is"
    );

    for name in ["user", "next"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    claims
        .delete("data", &DeleteParams::default())
        .await
        .unwrap();
    settle().await;
    assert!(volumes.get_opt(&volume).await.unwrap().is_none());
    manager.shutdown().await;
}

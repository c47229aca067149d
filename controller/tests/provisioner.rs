//! Nodes whose volumes somebody else binds: the provisioner makes and deletes what the volume controller
//! of kube-controller-manager asks for.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::node::{LEASE_RENEWAL, Timings};
use kubeproof_controller::statefulset::Settings;
use kubeproof_controller::{Manager, Options};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_claim_handed_over_gets_a_volume_that_goes_when_it_is_released() {
    let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
    let server = ApiServer::builder().clock(clock.clone()).build();
    let client = Client::new(server.clone(), "default");
    let options = Options {
        controllers: Vec::new(),
        nodes: 1,
        timings: Timings::default(),
        lease_renewal: LEASE_RENEWAL,
        stages: Vec::new(),
        root_ca: String::new(),
        credentials: None,
        statefulset: Settings::default(),
        kruise: kubeproof_controller::kruise::Gates::default(),
        check_types: |_| Vec::new(),
        count_usage: |_, _, _| std::collections::BTreeMap::new(),
        now: Arc::new(move || clock.now()),
    };
    let manager = Manager::start(client.clone(), options).unwrap();
    let settle = || tokio::time::sleep(Duration::from_mins(1));
    settle().await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    let class = classes.get("standard").await.unwrap();
    assert_eq!(class.provisioner, "kubeproof.dev/volumes");

    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claim = serde_json::from_value(claim).unwrap();
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

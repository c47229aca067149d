//! The usage of a quota, and its decrease when objects are deleted.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota, Service};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::support::Cluster;

async fn used(cluster: &Cluster) -> Value {
    let quota = cluster.get::<ResourceQuota>("q").await;
    serde_json::to_value(quota.status.unwrap().used.unwrap()).unwrap()
}

fn pod(name: &str) -> Value {
    let amounts = json!({"cpu": "500m", "memory": "64Mi"});
    let resources = json!({"requests": amounts, "limits": amounts});
    let container = json!({"name": "main", "image": "nginx:1", "resources": resources});
    json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
}

#[tokio::test(start_paused = true)]
async fn a_quota_reports_what_is_used_and_what_is_free_again() {
    let cluster = Cluster::start(&["resourcequota", "serviceaccount"]);
    cluster
        .create::<ConfigMap>(json!({"metadata": {"name": "before"}}))
        .await;
    let hard = json!({
        "pods": "3", "requests.cpu": "1", "limits.memory": "1Gi", "services": "2",
        "count/configmaps": "5", "count/deployments.apps": "1",
    });
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    cluster.create::<ResourceQuota>(quota).await;
    cluster.settle().await;
    // The server's own service is in this namespace.
    let mut expected = json!({
        "pods": "0", "requests.cpu": "0", "limits.memory": "0", "services": "1",
        "count/configmaps": "1", "count/deployments.apps": "0",
    });
    assert_eq!(used(&cluster).await, expected);

    cluster.create::<Pod>(pod("a")).await;
    cluster.create::<Pod>(pod("b")).await;
    let ports = json!([{"port": 80}]);
    cluster
        .create::<Service>(json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}))
        .await;
    cluster.settle().await;
    expected["pods"] = json!("2");
    expected["requests.cpu"] = json!("1");
    expected["limits.memory"] = json!("128Mi");
    expected["services"] = json!("2");
    assert_eq!(used(&cluster).await, expected);

    // The server rejects requests over the quota until an object is deleted.
    let refused = cluster.try_create::<Pod>(pod("c")).await.unwrap_err();
    let message = "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=1, \
                   limited: requests.cpu=1";
    assert!(refused.to_string().contains(message), "{refused}");
    cluster.delete::<Pod>("a", DeleteParams::default()).await;
    cluster
        .delete::<ConfigMap>("before", DeleteParams::default())
        .await;
    cluster.settle().await;
    cluster.create::<Pod>(pod("c")).await;
    cluster.settle().await;
    expected["count/configmaps"] = json!("0");
    assert_eq!(used(&cluster).await, expected);

    cluster
        .patch::<ResourceQuota>(
            "q",
            json!({"spec": {"hard": {"pods": "9", "services": null}}}),
        )
        .await;
    cluster.settle().await;
    expected.as_object_mut().unwrap().remove("services");
    assert_eq!(used(&cluster).await, expected);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_controller_counts_claims_and_devices_as_admission_does() {
    let cluster = Cluster::start(&["resourcequota"]);
    let scope = json!({
        "scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"],
    });
    let quotas = [
        (
            "claims",
            json!({
                "hard": { "persistentvolumeclaims": "1" },
                "scopeSelector": { "matchExpressions": [scope] },
            }),
        ),
        (
            "devices",
            json!({ "hard": {
            "count/resourceclaims.resource.k8s.io": "2",
            "gold.deviceclass.resource.k8s.io/devices": "1",
        } }),
        ),
    ];
    for (name, spec) in quotas {
        let quota = json!({ "metadata": { "name": name }, "spec": spec });
        cluster.create::<ResourceQuota>(quota).await;
    }
    cluster.settle().await;
    let used = async |name: &str| {
        let quota = cluster.get::<ResourceQuota>(name).await;
        serde_json::to_value(quota.status.unwrap().used.unwrap()).unwrap()
    };
    let claim = |name: &str, class: &str| {
        let resources = json!({ "requests": { "storage": "1Gi" } });
        json!({ "metadata": { "name": name }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": resources,
            "volumeAttributesClassName": class,
        } })
    };
    cluster
        .create::<PersistentVolumeClaim>(claim("a", "gold"))
        .await;
    cluster
        .create::<PersistentVolumeClaim>(claim("b", "silver"))
        .await;
    let devices = |name: &str| {
        let exactly = json!({ "deviceClassName": "gold" });
        let requests = json!([{ "name": "one", "exactly": exactly }]);
        json!({ "metadata": { "name": name }, "spec": { "devices": { "requests": requests } } })
    };
    cluster.create::<ResourceClaim>(devices("a")).await;
    let counts = json!({
        "count/resourceclaims.resource.k8s.io": "1",
        "gold.deviceclass.resource.k8s.io/devices": "1",
    });
    for _ in 0..2 {
        assert_eq!(
            used("claims").await,
            json!({ "persistentvolumeclaims": "1" })
        );
        assert_eq!(used("devices").await, counts);
        // The controller counts the same usage.
        cluster.settle().await;
    }
    let refused = cluster
        .try_create::<PersistentVolumeClaim>(claim("c", "gold"))
        .await;
    let message = "exceeded quota: claims, requested: persistentvolumeclaims=1";
    assert!(refused.unwrap_err().to_string().contains(message));
    let refused = cluster.try_create::<ResourceClaim>(devices("b")).await;
    let message = "exceeded quota: devices, requested: gold.deviceclass.resource.k8s.io/devices=1";
    assert!(refused.unwrap_err().to_string().contains(message));
    cluster
        .delete::<ResourceClaim>("a", DeleteParams::default())
        .await;
    cluster.settle().await;
    assert_eq!(
        used("devices").await["gold.deviceclass.resource.k8s.io/devices"],
        "0"
    );
    cluster.stop().await;
}

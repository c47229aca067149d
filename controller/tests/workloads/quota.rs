//! What is used of a quota, and what becomes free again.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Service};
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
async fn a_quota_tells_what_is_used_and_what_is_free_again() {
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

    // The server refuses what is beyond it until something has gone.
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

//! By what pods find each other and their server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use super::deployment;
use super::support::Cluster;

const CONTROLLERS: &[&str] = &[
    "deployment",
    "endpoints",
    "endpointslice",
    "garbage-collector",
    "replicaset",
    "root-ca-certificate-publisher",
];

/// Ready and unready addresses of each subset, and its ports.
async fn subsets(cluster: &Cluster) -> Vec<(usize, usize, Vec<i32>)> {
    let endpoints = cluster.get::<Endpoints>("web").await;
    let subsets = endpoints.subsets.unwrap_or_default().into_iter();
    subsets
        .map(|subset| {
            let ports = subset.ports.unwrap_or_default().into_iter();
            (
                subset.addresses.unwrap_or_default().len(),
                subset.not_ready_addresses.unwrap_or_default().len(),
                ports.map(|port| port.port).collect(),
            )
        })
        .collect()
}

/// The slices of the service `web`.
async fn slices(cluster: &Cluster) -> Vec<EndpointSlice> {
    let mut slices = cluster.list::<EndpointSlice>().await;
    let name = "kubernetes.io/service-name";
    slices.retain(|slice| slice.labels().get(name).map(String::as_str) == Some("web"));
    slices
}

#[tokio::test(start_paused = true)]
async fn a_service_is_known_by_the_addresses_of_its_pods() {
    let cluster = Cluster::start(CONTROLLERS);
    let service = json!({
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    cluster.create::<Service>(service).await;
    cluster.settle().await;
    assert_eq!(subsets(&cluster).await, []);
    let placeholder = slices(&cluster).await;
    assert_eq!(placeholder.len(), 1);
    let strategy = json!({"type": "RollingUpdate"});
    cluster.create::<Deployment>(deployment(3, &strategy)).await;
    cluster.settle().await;
    assert_eq!(subsets(&cluster).await, [(3, 0, vec![8080])]);
    let endpoints = cluster.get::<Endpoints>("web").await;
    assert_eq!(endpoints.labels()["team"], "a");
    let manager = &endpoints.labels()["endpoints.kubernetes.io/managed-by"];
    assert_eq!(manager, "endpoint-controller");
    let filled = slices(&cluster).await;
    assert_eq!(filled.len(), 1);
    assert_eq!(filled[0].name_any(), placeholder[0].name_any());
    let listed = filled[0].endpoints.clone().unwrap_or_default();
    assert_eq!(listed.len(), 3);
    let pods = cluster.list::<Pod>().await;
    let unready = pods[0].name_any();
    let annotation = json!({"metadata": {"annotations": {"kubeproof.dev/ready": "false"}}});
    cluster.patch::<Pod>(&unready, annotation).await;
    cluster.settle().await;
    assert_eq!(subsets(&cluster).await, [(2, 1, vec![8080])]);
    let listed = slices(&cluster).await[0].endpoints.clone().unwrap();
    let not_ready = listed.iter().filter(|endpoint| {
        let conditions = endpoint.conditions.as_ref().unwrap();
        conditions.ready == Some(false) && conditions.serving == Some(false)
    });
    let names: Vec<_> = not_ready
        .map(|endpoint| endpoint.target_ref.clone().unwrap().name.unwrap())
        .collect();
    assert_eq!(names, [unready]);
    cluster
        .delete::<Service>("web", DeleteParams::default())
        .await;
    cluster.settle().await;
    let left = cluster.list::<Endpoints>().await;
    assert!(left.iter().all(|endpoints| endpoints.name_any() != "web"));
    assert_eq!(slices(&cluster).await.len(), 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_certificate_of_the_server_comes_back_and_is_put_right() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster.settle().await;
    let name = "kube-root-ca.crt";
    let published = cluster.get::<ConfigMap>(name).await.data.unwrap();
    assert_eq!(published["ca.crt"], "the certificate\n");
    let other = json!({"data": {"ca.crt": "another", "more": "data"}});
    cluster.patch::<ConfigMap>(name, other).await;
    cluster.settle().await;
    assert_eq!(
        cluster.get::<ConfigMap>(name).await.data.unwrap(),
        published
    );
    cluster
        .delete::<ConfigMap>(name, DeleteParams::default())
        .await;
    cluster.settle().await;
    assert_eq!(
        cluster.get::<ConfigMap>(name).await.data.unwrap(),
        published
    );
    cluster.stop().await;
}

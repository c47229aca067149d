//! Endpoints, slices and certificates by which pods find each other and the server.

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

/// Returns the ready and unready addresses of each subset, and its ports.
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

/// Returns the slices of the service `web`.
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

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_without_a_selector_are_mirrored() {
    let cluster = Cluster::start(&["endpointslicemirroring", "garbage-collector"]);
    let service = json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } });
    cluster.create::<Service>(service).await;
    let addresses = |ip: &str| json!([{ "addresses": [{ "ip": ip }], "ports": [{ "port": 80 }] }]);
    let endpoints = |name: &str, labels: serde_json::Value| {
        let metadata = json!({ "name": name, "labels": labels });
        json!({ "metadata": metadata, "subsets": addresses("10.1.2.3") })
    };
    let skipped = json!({ "endpointslice.kubernetes.io/skip-mirror": "true" });
    cluster
        .create::<Endpoints>(endpoints("web", json!({ "a": "b" })))
        .await;
    cluster
        .create::<Endpoints>(endpoints("nobody", json!({})))
        .await;
    cluster.settle().await;
    let mirrored = cluster.list::<EndpointSlice>().await;
    let mirrored: Vec<_> = mirrored
        .iter()
        .filter(|own| own.name_any() != "kubernetes")
        .collect();
    assert_eq!(mirrored.len(), 1, "{mirrored:?}");
    assert_eq!(mirrored[0].labels()["a"], "b");
    assert_eq!(mirrored[0].owner_references()[0].kind, "Endpoints");
    let name = mirrored[0].name_any();
    let listed = async || {
        let slices = slices(&cluster).await;
        let addresses = slices.into_iter().map(|slice| {
            let endpoints = slice.endpoints.clone().unwrap_or_default();
            (slice.name_any(), endpoints[0].addresses.clone())
        });
        addresses.collect::<Vec<_>>()
    };

    cluster
        .patch::<Endpoints>("web", json!({ "subsets": addresses("10.2.3.4") }))
        .await;
    cluster.settle().await;
    assert_eq!(
        listed().await,
        [(name.clone(), vec!["10.2.3.4".to_owned()])]
    );

    cluster
        .patch::<Endpoints>("web", json!({ "metadata": { "labels": skipped } }))
        .await;
    cluster.settle().await;
    assert_eq!(listed().await, []);
    let back =
        json!({ "metadata": { "labels": { "endpointslice.kubernetes.io/skip-mirror": null } } });
    cluster.patch::<Endpoints>("web", back).await;
    cluster.settle().await;
    assert_eq!(listed().await.len(), 1);

    let selected = json!({ "spec": { "selector": { "app": "web" } } });
    cluster.patch::<Service>("web", selected).await;
    cluster.settle().await;
    assert_eq!(
        listed().await,
        [],
        "those of a service with a selector are another's"
    );
    cluster
        .patch::<Service>("web", json!({ "spec": { "selector": null } }))
        .await;
    cluster.settle().await;
    assert_eq!(listed().await.len(), 1);
    cluster
        .delete::<Endpoints>("web", DeleteParams::default())
        .await;
    cluster.settle().await;
    assert_eq!(listed().await, []);
    cluster.stop().await;
}

//! A kind that its group serves, but not in the group's preferred version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::support::Cluster;

fn definition(plural: &str, kind: &str, version: &str) -> CustomResourceDefinition {
    let definition = json!({
        "metadata": { "name": format!("{plural}.fruit.example") },
        "spec": {
            "group": "fruit.example",
            "scope": "Namespaced",
            "names": { "plural": plural, "kind": kind },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    from_value(definition).unwrap()
}

fn pears(cluster: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "fruit.example".to_owned(),
        version: "v1".to_owned(),
        api_version: "fruit.example/v1".to_owned(),
        kind: "Pear".to_owned(),
        plural: "pears".to_owned(),
    };
    Api::namespaced_with(cluster.client(), namespace, &resource)
}

fn pear(name: &str, metadata: Value) -> DynamicObject {
    let mut pear = json!({ "apiVersion": "fruit.example/v1", "kind": "Pear" });
    pear["metadata"] = metadata;
    pear["metadata"]["name"] = json!(name);
    from_value(pear).unwrap()
}

/// Starts a cluster with pears in v1, and apples in v2, which the group prefers.
async fn orchard(controllers: &[&str]) -> Cluster {
    let cluster = Cluster::start(controllers);
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    for (plural, kind, version) in [("apples", "Apple", "v2"), ("pears", "Pear", "v1")] {
        let definition = definition(plural, kind, version);
        let params = PostParams::default();
        definitions.create(&params, &definition).await.unwrap();
    }
    cluster.settle().await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn its_garbage_is_collected() {
    let cluster = orchard(&["garbage-collector"]).await;
    let pears = pears(&cluster, "default");
    let owner = |kind: &str, uid: &str| json!([{ "apiVersion": "fruit.example/v1", "kind": kind, "name": "owner", "uid": uid }]);
    let lost = json!({ "ownerReferences": owner("Pear", "00000000-0000-0000-0000-000000000001") });
    let created = pears
        .create(&PostParams::default(), &pear("owner", json!({})))
        .await
        .unwrap();
    let owned = json!({
        "name": "owned", "ownerReferences": owner("Pear", &created.uid().unwrap()),
    });
    cluster
        .create::<ConfigMap>(json!({ "metadata": owned }))
        .await;
    let params = PostParams::default();
    pears.create(&params, &pear("lost", lost)).await.unwrap();
    cluster.settle().await;
    assert!(pears.get_opt("lost").await.unwrap().is_none());
    assert_eq!(cluster.list::<ConfigMap>().await.len(), 1);
    pears
        .delete("owner", &DeleteParams::background())
        .await
        .unwrap();
    cluster.settle().await;
    assert_eq!(cluster.list::<ConfigMap>().await, []);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn its_objects_go_with_their_namespace() {
    let cluster = orchard(&["namespace"]).await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let team = from_value(json!({ "metadata": { "name": "team" } })).unwrap();
    let params = PostParams::default();
    namespaces.create(&params, &team).await.unwrap();
    let pears = pears(&cluster, "team");
    let held = pear("held", json!({ "finalizers": ["example.com/hold"] }));
    pears.create(&params, &held).await.unwrap();
    pears
        .create(&params, &pear("free", json!({})))
        .await
        .unwrap();
    namespaces
        .delete("team", &DeleteParams::default())
        .await
        .unwrap();
    cluster.settle().await;
    assert!(pears.get_opt("free").await.unwrap().is_none());
    let namespace_status = namespaces.get("team").await.unwrap().status.unwrap();
    let conditions = namespace_status.conditions.unwrap().into_iter();
    let conditions: BTreeMap<String, String> = conditions
        .filter(|condition| condition.status == "True")
        .map(|condition| (condition.type_, condition.message.unwrap_or_default()))
        .collect();
    let expected = json!({
        "NamespaceContentRemaining":
            "Some resources are remaining: pears.fruit.example has 1 resource instances",
        "NamespaceFinalizersRemaining":
            "Some content in the namespace has finalizers remaining: \
             example.com/hold in 1 resource instances",
    });
    assert_eq!(json!(conditions), expected);
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    pears
        .patch("held", &PatchParams::default(), &release)
        .await
        .unwrap();
    cluster.settle().await;
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn its_objects_count_in_quotas() {
    let cluster = orchard(&["resourcequota"]).await;
    let hard = json!({ "count/pears.fruit.example": "2" });
    cluster
        .create::<ResourceQuota>(json!({ "metadata": { "name": "q" }, "spec": { "hard": hard } }))
        .await;
    let pears = pears(&cluster, "default");
    for name in ["a", "b"] {
        let pear = pear(name, json!({}));
        pears.create(&PostParams::default(), &pear).await.unwrap();
        cluster.settle().await;
    }
    let used = async || {
        let quota = cluster.get::<ResourceQuota>("q").await;
        quota.status.unwrap().used.unwrap()["count/pears.fruit.example"]
            .0
            .clone()
    };
    assert_eq!(used().await, "2");
    pears.delete("a", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert_eq!(used().await, "1");
    cluster.stop().await;
}

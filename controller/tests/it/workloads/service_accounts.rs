//! Tokens of service accounts in Secrets.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kubeproof_apiserver::ApiServer;
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::pod::Pod;
use serde_json::{Value, json};

use super::support::Cluster;

const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

fn secret(name: &str, account: &str) -> Value {
    json!({
        "metadata": { "name": name, "annotations": { NAME: account } },
        "type": "kubernetes.io/service-account-token",
    })
}

async fn review(cluster: &Cluster, token: &str) -> Value {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": token },
    });
    let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let mut reviewed: Value = cluster.client().request(request).await.unwrap();
    reviewed["status"].take()
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_node_share_their_spec_with_volumes_of_tokens_of_their_own() {
    let server = ApiServer::builder().service_account_admission().build();
    let client = Client::new(server, "default");
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    let account = from_value(json!({ "metadata": { "name": "default" } })).unwrap();
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let pods = Api::<Pod>::default_namespaced(client);
    for name in ["one", "other"] {
        let container = json!({ "name": "main", "image": "nginx" });
        let spec = json!({ "nodeName": "node", "containers": [container] });
        let pod = from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let volume = |pod: &Pod| {
        let volume = serde_json::to_value(pod).unwrap()["spec"]["volumes"][0].take();
        volume["name"].as_str().unwrap().to_owned()
    };
    let names: Vec<String> = pods.iter().map(volume).collect();
    assert!(names[0].starts_with("kube-api-access-"), "{names:?}");
    assert_ne!(names[0], names[1]);
    let specs: Vec<_> = pods.iter().map(|pod| pod.spec.as_deref()).collect();
    assert!(std::ptr::eq(specs[0].unwrap(), specs[1].unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_asks_for_a_token_gets_one_for_as_long_as_its_account_lives() {
    let cluster = Cluster::start(&["serviceaccount-token"]);
    let account = json!({
        "metadata": { "name": "robot" },
        "secrets": [{ "name": "robot-token" }, { "name": "another" }],
    });
    cluster.create::<ServiceAccount>(account).await;
    cluster
        .create::<Secret>(secret("robot-token", "robot"))
        .await;
    cluster.create::<Secret>(secret("second", "robot")).await;
    cluster.create::<Secret>(secret("lost", "nobody")).await;
    cluster.settle().await;
    let robot = cluster.get::<ServiceAccount>("robot").await;
    let filled = cluster.get::<Secret>("robot-token").await;
    assert_eq!(filled.annotations()[UID], robot.uid().unwrap());
    let data = filled.data.unwrap();
    assert_eq!(data["namespace"].0, b"default");
    assert_eq!(data["ca.crt"].0, b"the certificate\n");
    let token = String::from_utf8(data["token"].0.clone()).unwrap();
    let reviewed = review(&cluster, &token).await;
    assert_eq!(reviewed["authenticated"], true, "{reviewed}");
    let user = &reviewed["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"], json!(robot.uid()));
    let names = async || {
        let secrets = cluster.list::<Secret>().await;
        secrets
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names().await,
        ["robot-token", "second"],
        "nobody has no account"
    );

    cluster
        .delete::<Secret>("robot-token", DeleteParams::default())
        .await;
    cluster.settle().await;
    let refused = review(&cluster, &token).await;
    assert_eq!(
        refused["error"],
        "[invalid bearer token, Token has been invalidated]"
    );
    let robot = cluster.get::<ServiceAccount>("robot").await;
    let listed = robot.secrets.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0].name.as_deref(), Some("another"));

    let second = cluster.get::<Secret>("second").await.data.unwrap();
    let token = String::from_utf8(second["token"].0.clone()).unwrap();
    cluster
        .patch::<Secret>("second", json!({ "data": { "token": "b3RoZXI=" } }))
        .await;
    let refused = review(&cluster, &token).await;
    assert_eq!(
        refused["error"],
        "[invalid bearer token, Token does not match server's copy]"
    );
    cluster
        .delete::<ServiceAccount>("robot", DeleteParams::default())
        .await;
    cluster.settle().await;
    assert_eq!(names().await, [""; 0]);
    cluster.stop().await;
}

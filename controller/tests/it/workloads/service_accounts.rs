//! Tokens of service accounts in Secrets.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt;
use kube::api::DeleteParams;
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

//! The namespace controller and the controllers that fill a new namespace.

use kubeproof_apiserver::json::{Value, json};

use super::client::{Client, METADATA_LIST, options};

const NAMESPACES: &str = "/api/v1/namespaces";

async fn terminating(client: &Client) -> Value {
    client
        .made(NAMESPACES, json!({"metadata": {"name": "old"}}))
        .await;
    let maps = format!("{NAMESPACES}/old/configmaps");
    for name in ["a", "b"] {
        client
            .made(&maps, json!({"metadata": {"name": name}}))
            .await;
    }
    client
        .made(
            &maps,
            json!({"metadata": {"name": "held", "finalizers": ["example.io/hold"]}}),
        )
        .await;
    client
        .delete(&format!("{NAMESPACES}/old"), &options("v1", json!({})))
        .await
        .expect(200);
    client
        .get(&format!("{NAMESPACES}/old"))
        .await
        .expect(200)
        .body
}

#[tokio::test]
async fn a_namespace_is_emptied_resource_by_resource_and_what_remains_is_listed() {
    let client = Client::new();
    terminating(&client).await;
    let groups = client.get("/apis").await.expect(200);
    let versions = groups.at("/groups").as_array().unwrap().iter();
    let versions =
        versions.map(|group| group["preferredVersion"]["groupVersion"].as_str().unwrap());
    let mut roots = vec!["/api/v1".to_owned()];
    roots.extend(versions.map(|version| format!("/apis/{version}")));
    let (mut emptied, mut remaining) = (0, Vec::new());
    for root in roots {
        for resource in client
            .get(&root)
            .await
            .expect(200)
            .at("/resources")
            .as_array()
            .unwrap()
        {
            let verbs = resource["verbs"].as_array().unwrap();
            let can = |verb: &str| verbs.contains(&json!(verb));
            if resource["namespaced"] != true || !can("delete") || !can("list") {
                continue;
            }
            let uri = format!(
                "{root}/namespaces/old/{}",
                resource["name"].as_str().unwrap()
            );
            assert!(can("deletecollection"), "{uri}");
            let background = options("v1", json!({"propagationPolicy": "Background"}));
            client.delete(&uri, &background).await.expect(200);
            let left = client.get_as(METADATA_LIST, &uri).await.expect(200);
            assert_eq!(left.at("/kind"), "PartialObjectMetadataList", "{uri}");
            remaining.extend(left.items().to_vec());
            emptied += 1;
        }
    }
    assert!(emptied > 30, "{emptied}");
    assert_eq!(remaining.len(), 1);
    assert_eq!(
        remaining[0]["metadata"]["finalizers"],
        json!(["example.io/hold"])
    );
}

#[tokio::test]
async fn why_a_namespace_stays_is_written_into_its_status() {
    let client = Client::new();
    let mut namespace = terminating(&client).await;
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = json!([
        condition(
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered"
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions"
        ),
        condition("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
        condition("NamespaceContentRemaining", "True", "SomeResourcesRemain"),
        condition(
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain"
        ),
    ]);
    namespace["status"] = json!({"phase": "Terminating", "conditions": conditions});
    let written = client
        .put(&format!("{NAMESPACES}/old/status"), &namespace)
        .await
        .expect(200);
    assert_eq!(written.at("/status/conditions"), &conditions);
    client
        .put(&format!("{NAMESPACES}/old/status"), &namespace)
        .await
        .expect(409);
}

#[tokio::test]
async fn an_empty_namespace_goes_when_its_last_finalizer_is_taken_off() {
    let client = Client::new();
    client
        .made(NAMESPACES, json!({"metadata": {"name": "old"}}))
        .await;
    let uri = format!("{NAMESPACES}/old");
    client
        .delete(&uri, &options("v1", json!({})))
        .await
        .expect(200);
    let read = client.get(&uri).await.expect(200);
    assert_eq!(read.at("/spec/finalizers"), &json!(["kubernetes"]));
    // The controller sends the metadata and the spec, and no status.
    let finalized = json!({
        "kind": "Namespace", "apiVersion": "v1", "metadata": read.at("/metadata"), "spec": {}, "status": {},
    });
    client
        .put(&format!("{uri}/finalize"), &finalized)
        .await
        .expect(200);
    let at_last = json!({"preconditions": {"uid": read.uid()}});
    let gone = client.delete(&uri, &options("v1", at_last)).await;
    assert_eq!(gone.expect(404).at("/reason"), "NotFound");
}

#[tokio::test]
async fn a_new_namespace_gets_its_account_and_the_root_certificate() {
    let client = Client::new();
    client
        .made(NAMESPACES, json!({"metadata": {"name": "new"}}))
        .await;
    let account = json!({
        "kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": "new"},
    });
    let accounts = format!("{NAMESPACES}/new/serviceaccounts");
    client.post(&accounts, &account).await.expect(201);
    // The controllers read this reason as proof that another writer was faster.
    assert_eq!(
        client
            .post(&accounts, &account)
            .await
            .expect(409)
            .at("/reason"),
        "AlreadyExists"
    );
    let mut map = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "kube-root-ca.crt", "namespace": "new"}, "data": {"ca.crt": "old"},
    });
    let maps = format!("{NAMESPACES}/new/configmaps");
    map = client.post(&maps, &map).await.expect(201).body;
    map["data"]["ca.crt"] = json!("new");
    client
        .put(&format!("{maps}/kube-root-ca.crt"), &map)
        .await
        .expect(200);
    // A namespace that goes takes nothing new, which ends the controllers' tries.
    client
        .made(
            &maps,
            json!({"metadata": {"name": "held", "finalizers": ["example.io/hold"]}}),
        )
        .await;
    client
        .delete(&format!("{NAMESPACES}/new"), &options("v1", json!({})))
        .await
        .expect(200);
    let mut late = account.clone();
    late["metadata"]["name"] = json!("late");
    let refused = client.post(&accounts, &late).await.expect(403);
    let causes = refused.at("/details/causes").as_array().unwrap();
    assert!(
        causes
            .iter()
            .any(|cause| cause["reason"] == "NamespaceTerminating"),
        "{causes:?}"
    );
}

//! Garbage collector, pod garbage collector and resource quota.

use kubeproof_apiserver::json::{Value, json};

use super::client::{Answer, Client, MERGE, METADATA, STRATEGIC, containers, options};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn owned(name: &str, owners: &[&Answer]) -> Value {
    let owners: Vec<_> = owners
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner.text("/metadata/name"),
                "uid": owner.uid(), "blockOwnerDeletion": true,
            })
        })
        .collect();
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

#[tokio::test]
async fn the_collector_reads_owners_and_dependents_as_metadata() {
    let client = Client::new();
    let owner = client
        .made(MAPS, json!({"metadata": {"name": "owner"}}))
        .await;
    client.made(MAPS, owned("dependent", &[&owner])).await;
    let read = client
        .get_as(METADATA, &format!("{MAPS}/dependent"))
        .await
        .expect(200);
    assert_eq!(read.at("/kind"), "PartialObjectMetadata");
    assert_eq!(
        read.at("/metadata/ownerReferences/0/uid"),
        &json!(owner.uid())
    );
    let absent = client
        .get_as(METADATA, &format!("{MAPS}/absent"))
        .await
        .expect(404);
    assert_eq!(absent.at("/kind"), "Status");
    assert_eq!(absent.at("/reason"), "NotFound");
}

#[tokio::test]
async fn the_collector_deletes_only_the_object_and_version_that_it_decided_about() {
    let client = Client::new();
    let uri = format!("{MAPS}/dependent");
    let owner = client
        .made(MAPS, json!({"metadata": {"name": "owner"}}))
        .await;
    let read = client.made(MAPS, owned("dependent", &[&owner])).await;
    let delete = |uid: &str, version: &str| {
        let preconditions = json!({"uid": uid, "resourceVersion": version});
        options(
            "v1",
            json!({"preconditions": preconditions, "propagationPolicy": "Background"}),
        )
    };
    let other = client
        .delete(
            &uri,
            &delete("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", &read.version()),
        )
        .await;
    assert_eq!(other.expect(409).at("/reason"), "Conflict");
    let stale = client
        .delete(&uri, &delete(&read.uid(), &owner.version()))
        .await;
    assert_eq!(stale.expect(409).at("/reason"), "Conflict");
    client
        .delete(&uri, &delete(&read.uid(), &read.version()))
        .await
        .expect(200);
    client
        .delete(&uri, &delete(&read.uid(), &read.version()))
        .await
        .expect(404);
}

#[tokio::test]
async fn owners_that_are_gone_are_taken_off_a_dependent_that_has_others() {
    let client = Client::new();
    let one = client
        .made(MAPS, json!({"metadata": {"name": "one"}}))
        .await;
    let two = client
        .made(MAPS, json!({"metadata": {"name": "two"}}))
        .await;
    let both = client.made(MAPS, owned("both", &[&one, &two])).await;
    let uri = format!("{MAPS}/both");
    let patch = |uid: &str| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": one.uid()}], "uid": uid}});
    let other = client
        .patch_metadata(
            STRATEGIC,
            &uri,
            &patch("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
        )
        .await;
    assert_eq!(other.expect(422).at("/reason"), "Invalid");
    let left = client
        .patch_metadata(STRATEGIC, &uri, &patch(&both.uid()))
        .await
        .expect(200);
    assert_eq!(left.at("/kind"), "PartialObjectMetadata");
    assert_eq!(
        left.at("/metadata/ownerReferences")
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        left.at("/metadata/ownerReferences/0/uid"),
        &json!(two.uid())
    );
}

#[tokio::test]
async fn a_circle_is_broken_by_references_that_block_no_longer() {
    let client = Client::new();
    let one = client
        .made(MAPS, json!({"metadata": {"name": "one"}}))
        .await;
    let two = client.made(MAPS, owned("two", &[&one])).await;
    let mut reference = two.at("/metadata/ownerReferences/0").clone();
    reference["blockOwnerDeletion"] = json!(false);
    // The collector marshals a whole ObjectMeta, of which these two fields are set.
    let patch = json!({"metadata": {"uid": two.uid(), "ownerReferences": [reference]}});
    let unblocked = client
        .patch_metadata(STRATEGIC, &format!("{MAPS}/two"), &patch)
        .await
        .expect(200);
    assert_eq!(
        unblocked.at("/metadata/ownerReferences"),
        &json!([reference])
    );
}

#[tokio::test]
async fn foreground_and_orphan_deletions_wait_for_their_finalizers_to_be_taken_off() {
    let client = Client::new();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let uri = format!("{MAPS}/owner");
        client
            .made(MAPS, json!({"metadata": {"name": "owner"}}))
            .await;
        client
            .delete(&uri, &options("v1", json!({"propagationPolicy": policy})))
            .await
            .expect(200);
        let waiting = client.get_as(METADATA, &uri).await.expect(200);
        assert_eq!(waiting.at("/metadata/finalizers"), &json!([finalizer]));
        assert!(waiting.at("/metadata/deletionTimestamp").is_string());
        let patch =
            |version: &str| json!({"metadata": {"resourceVersion": version, "finalizers": []}});
        let stale = client.patch_metadata(MERGE, &uri, &patch("1")).await;
        assert_eq!(stale.expect(409).at("/reason"), "Conflict");
        client
            .patch_metadata(MERGE, &uri, &patch(&waiting.version()))
            .await
            .expect(200);
        client.get_as(METADATA, &uri).await.expect(404);
    }
}

#[tokio::test]
async fn custom_resources_refuse_a_strategic_patch_so_that_the_collector_merges() {
    let client = Client::new();
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    client
        .made(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
        )
        .await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let owner = client
        .made(MAPS, json!({"metadata": {"name": "owner"}}))
        .await;
    let mut thing = owned("a", &[&owner]);
    thing["apiVersion"] = json!("example.com/v1");
    thing["kind"] = json!("Thing");
    let thing = client.made(things, thing).await;
    let uri = format!("{things}/a");
    let strategic = json!({"metadata": {
        "ownerReferences": [{"$patch": "delete", "uid": owner.uid()}], "uid": thing.uid(),
    }});
    let refused = client
        .patch_metadata(STRATEGIC, &uri, &strategic)
        .await
        .expect(415);
    assert_eq!(refused.at("/reason"), "UnsupportedMediaType");
    let merged = json!({"metadata": {"resourceVersion": thing.version(), "ownerReferences": null}});
    let orphan = client
        .patch_metadata(MERGE, &uri, &merged)
        .await
        .expect(200);
    assert_eq!(orphan.at("/metadata/ownerReferences"), &Value::Null);
    let (events, _) = client
        .watch_list(METADATA, "/apis/example.com/v1/things")
        .await;
    assert_eq!(events.len(), 1, "the collector's informer of a new kind");
    let gone = options(
        "v1",
        json!({"preconditions": {"uid": thing.uid()}, "propagationPolicy": "Background"}),
    );
    client.delete(&uri, &gone).await.expect(200);
}

#[tokio::test]
async fn the_pod_collector_fails_a_pod_of_a_lost_node_and_deletes_it_at_once() {
    let client = Client::new();
    let pod = client
        .made(
            PODS,
            json!({"metadata": {"name": "p"}, "spec": containers()}),
        )
        .await;
    client.get("/api/v1/nodes/lost").await.expect(404);
    let uri = format!("{PODS}/p");
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "observedGeneration": 1,
        "message": "PodGC: node no longer exists", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let patch = json!({
        "metadata": {"uid": pod.uid()},
        "status": {
            "$setElementOrder/conditions": [{"type": "DisruptionTarget"}],
            "conditions": [condition], "phase": "Failed",
        },
    });
    let failed = client
        .patch(STRATEGIC, &format!("{uri}/status"), &patch)
        .await
        .expect(200);
    assert_eq!(failed.at("/status/phase"), "Failed");
    assert_eq!(failed.at("/status/conditions/0/reason"), "DeletionByPodGC");
    let at_once = options("v1", json!({"gracePeriodSeconds": 0}));
    client.delete(&uri, &at_once).await.expect(200);
    client.get(&uri).await.expect(404);
}

#[tokio::test]
async fn the_quota_controller_writes_what_is_used() {
    let client = Client::new();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota =
        json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2", "requests.cpu": "1"}}});
    let mut quota = client.made(quotas, quota).await.body;
    let status = json!({"hard": {"pods": "2", "requests.cpu": "1"}, "used": {"pods": "1", "requests.cpu": "500m"}});
    quota["status"] = status.clone();
    let written = client
        .put(&format!("{quotas}/few/status"), &quota)
        .await
        .expect(200);
    assert_eq!(written.at("/status"), &status);
}

//! From the first request to caches that are in sync.

use kubeproof_apiserver::json::json;

use super::client::{Client, METADATA, METADATA_LIST, STRATEGIC};

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const OBJECTS: &str = "application/json, */*";

/// A resource of aggregated discovery that informers can follow.
struct Watched {
    uri: String,
    kind: String,
}

/// What discovery lists with these verbs.
async fn with_verbs(client: &Client, verbs: &[&str]) -> Vec<Watched> {
    let mut found = Vec::new();
    for root in ["/api", "/apis"] {
        let answer = client
            .get_as(DISCOVERY, &format!("{root}?timeout=32s"))
            .await
            .expect(200);
        assert_eq!(
            answer.content_type,
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        for group in answer.at("/items").as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let base = format!("{root}/{name}/{}", version["version"].as_str().unwrap());
                for resource in version["resources"].as_array().unwrap() {
                    let offered = resource["verbs"].as_array().unwrap();
                    if verbs.iter().all(|verb| offered.contains(&json!(verb))) {
                        let plural = resource["resource"].as_str().unwrap();
                        found.push(Watched {
                            uri: format!("{}/{plural}", base.replace("//", "/")),
                            kind: resource["responseKind"]["kind"]
                                .as_str()
                                .unwrap()
                                .to_owned(),
                        });
                    }
                }
            }
        }
    }
    found
}

#[tokio::test]
async fn the_process_waits_until_the_server_is_healthy() {
    let healthy = Client::with_token().get("/healthz").await.expect(200);
    assert_eq!(healthy.body, "ok");
}

#[tokio::test]
async fn the_rest_mapper_of_the_garbage_collector_learns_every_kind_from_two_documents() {
    let client = Client::new();
    let deletable = with_verbs(&client, &["delete", "list", "watch"]).await;
    assert!(deletable.len() > 55, "{} resources", deletable.len());
    let kinds: Vec<_> = deletable.iter().map(|found| found.kind.as_str()).collect();
    for kind in [
        "Pod",
        "StatefulSet",
        "ControllerRevision",
        "Lease",
        "ResourceClaim",
        "APIService",
    ] {
        assert!(kinds.contains(&kind), "{kind}");
    }
    // A group without a served version would make each sync log a failed discovery.
    let groups = client.get_as(DISCOVERY, "/apis").await;
    for group in groups.at("/items").as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            assert_eq!(version["freshness"], "Current", "{group}");
        }
    }
}

#[tokio::test]
async fn metadata_informers_of_garbage_collector_and_quota_sync_for_every_resource() {
    let client = Client::new();
    for Watched { uri, .. } in with_verbs(&client, &["list", "watch"]).await {
        let listed = client
            .get_as(METADATA_LIST, &format!("{uri}?limit=500&resourceVersion=0"))
            .await
            .expect(200);
        assert_eq!(listed.at("/kind"), "PartialObjectMetadataList", "{uri}");
        assert_eq!(listed.at("/apiVersion"), "meta.k8s.io/v1", "{uri}");
        let (events, version) = client.watch_list(METADATA, &uri).await;
        assert_eq!(events.len(), listed.items().len(), "{uri}");
        assert!(version.parse::<u64>().unwrap() > 0, "{uri}");
        for event in events {
            let object = &event["object"];
            assert_eq!(event["type"], "ADDED");
            assert_eq!(object["kind"], "PartialObjectMetadata", "{uri}");
            assert!(object.get("spec").is_none() && object["metadata"]["uid"].is_string());
        }
    }
}

#[tokio::test]
async fn shared_informers_sync_for_every_resource() {
    let client = Client::new();
    for Watched { uri, kind } in with_verbs(&client, &["list", "watch"]).await {
        let (events, _) = client.watch_list(OBJECTS, &uri).await;
        for event in events {
            assert_eq!(event["object"]["kind"], json!(kind), "{uri}");
            assert!(event["object"]["apiVersion"].is_string(), "{uri}");
        }
    }
}

#[tokio::test]
async fn leader_election_takes_renews_and_loses_its_lease() {
    let client = Client::new();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let lease = format!("{leases}/kube-controller-manager?timeout=5s");
    let absent = client.get(&lease).await.expect(404);
    assert_eq!(absent.at("/reason"), "NotFound");
    let spec = |holder: &str, transitions: u8| {
        json!({
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
            "acquireTime": "2026-01-01T00:00:00.123456Z", "renewTime": "2026-01-01T00:00:02.000001Z",
        })
    };
    let mut object = json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": spec("a_1", 0),
    });
    let taken = client
        .post(&format!("{leases}?timeout=5s"), &object)
        .await
        .expect(201);
    assert_eq!(taken.at("/spec"), &spec("a_1", 0), "microseconds are kept");
    object["metadata"] = taken.at("/metadata").clone();
    object["spec"] = spec("a_1", 1);
    client.put(&lease, &object).await.expect(200);
    object["spec"] = spec("b_2", 2);
    let lost = client.put(&lease, &object).await.expect(409);
    assert_eq!(lost.at("/reason"), "Conflict");
}

#[tokio::test]
async fn the_event_broadcaster_writes_and_counts_up_its_events() {
    let client = Client::new();
    let events = "/api/v1/namespaces/kube-system/events";
    let event = json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {"name": "kube-controller-manager.18a1b2c3d4e5f607", "namespace": "kube-system"},
        "involvedObject": {
            "kind": "Lease", "namespace": "kube-system", "name": "kube-controller-manager",
            "uid": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "apiVersion": "coordination.k8s.io/v1",
            "resourceVersion": "233",
        },
        "reason": "LeaderElection", "message": "a_1 became leader",
        "source": {"component": "kube-controller-manager"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1, "type": "Normal", "eventTime": null,
        "reportingComponent": "kube-controller-manager", "reportingInstance": "",
    });
    client.post(events, &event).await.expect(201);
    let uri = format!("{events}/kube-controller-manager.18a1b2c3d4e5f607");
    let again = json!({"count": 2, "lastTimestamp": "2026-01-01T00:05:00Z"});
    let counted = client.patch(STRATEGIC, &uri, &again).await.expect(200);
    assert_eq!(counted.at("/count"), 2);
    assert_eq!(counted.at("/reason"), "LeaderElection");
    // One that has expired meanwhile is written anew, which only a 404 makes it do.
    let gone = client
        .patch(STRATEGIC, &format!("{events}/gone.1"), &again)
        .await;
    assert_eq!(gone.expect(404).at("/reason"), "NotFound");
}

#[tokio::test]
async fn the_cleaner_of_legacy_tokens_learns_since_when_they_are_tracked() {
    let client = Client::new();
    let uri = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    let since = client.get(uri).await.expect(200).text("/data/since");
    assert_eq!(since.len(), "2006-01-02".len(), "{since}");
    assert_eq!(since.split('-').count(), 3, "{since}");
}

#[tokio::test]
async fn a_watch_goes_on_from_the_version_of_the_initial_events() {
    let client = Client::new();
    let uri = "/api/v1/configmaps";
    let (_, version) = client.watch_list(METADATA, uri).await;
    client
        .made(
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "later"}}),
        )
        .await;
    let query = format!(
        "allowWatchBookmarks=true&resourceVersion={version}&timeout=1s&timeoutSeconds=1&watch=true"
    );
    let answer = client
        .get_as(METADATA, &format!("{uri}?{query}"))
        .await
        .expect(200);
    let first = answer.body.as_str().map_or(answer.body.clone(), |text| {
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    });
    assert_eq!(first["object"]["metadata"]["name"], "later");
    assert_eq!(first["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn metrics_clients_of_the_autoscaler_find_their_groups_absent() {
    let client = Client::new();
    let groups = client.get("/apis").await.expect(200);
    let names = groups.at("/groups").as_array().unwrap().iter();
    let mut names = names.map(|group| group["name"].as_str().unwrap());
    assert!(!names.any(|name| name.ends_with("metrics.k8s.io")));
    let absent = client
        .get("/apis/metrics.k8s.io/v1beta1/pods")
        .await
        .expect(404);
    assert!(absent.body == "404 page not found\n", "{absent:?}");
}

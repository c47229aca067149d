//! End-to-end tests of the StatefulSet controller against the in-process server, under virtual
//! time.

#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]

use std::future::Future;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::apps::statefulset;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

/// A server and the controller, with pods that start and stop at once.
struct Cluster {
    server: ApiServer,
    client: Client,
}

/// Runs `scenario` together with the controller and the stand-in for a kubelet, then stops both.
async fn with_cluster<F>(scenario: impl FnOnce(Cluster) -> F)
where
    F: Future<Output = ()>,
{
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::builder()
        .clock(Clock::simulated(epoch))
        .journal()
        .build();
    let client = Client::new(server.clone(), "default");
    let clock = server.clock().clone();
    let ctx = Context {
        client: client.clone(),
        now: std::sync::Arc::new(move || clock.now()),
    };
    let kubelet = kubelet(client.clone());
    tokio::select! {
        biased;
        () = scenario(Cluster { server, client }) => {}
        () = statefulset::run(ctx, statefulset::Settings::default()) => unreachable!("the controller runs until it is dropped"),
        () = kubelet => unreachable!("the kubelet runs until it is dropped"),
    }
}

async fn kubelet(client: Client) {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let events = watcher(pods.clone(), watcher::Config::default());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let watcher::Event::Apply(pod) = event.unwrap() else {
            continue;
        };
        let name = pod.name_any();
        // The final delete is a change to a grace period of zero before the pod is gone.
        if pod.metadata.deletion_grace_period_seconds == Some(0) {
            continue;
        }
        if pod.metadata.deletion_timestamp.is_some() {
            let now = DeleteParams {
                grace_period_seconds: Some(0),
                ..DeleteParams::default()
            };
            pods.delete(&name, &now).await.unwrap();
        } else if pod
            .status
            .is_some_and(|status| status.phase.as_deref() == Some("Pending"))
        {
            let ready = json!({"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
            let patch = Patch::Strategic(status);
            pods.patch_status(&name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }
}

fn web(image: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {
            "serviceName": "nginx", "replicas": replicas,
            "selector": {"matchLabels": {"app": "nginx"}},
            "template": {
                "metadata": {"labels": {"app": "nginx"}},
                "spec": {
                    "terminationGracePeriodSeconds": 10,
                    "containers": [{"name": "nginx", "image": image,
                        "ports": [{"containerPort": 80, "name": "web"}]}]
                }
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}]
        }
    })
}

impl Cluster {
    async fn create(&self, set: Value) {
        let sets: Api<StatefulSet> = Api::default_namespaced(self.client.clone());
        let set = from_value(set).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
    }

    async fn patch(&self, patch: Value) {
        let sets: Api<StatefulSet> = Api::default_namespaced(self.client.clone());
        let patch = Patch::Strategic(patch);
        sets.patch("web", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until the rollout of the latest spec is complete.
    async fn settled(&self) {
        let sets: Api<StatefulSet> = Api::default_namespaced(self.client.clone());
        let is_settled = |set: Option<&StatefulSet>| {
            set.is_some_and(|set| {
                let status = set.status.clone().unwrap_or_default();
                let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
                status.observed_generation == set.metadata.generation
                    && status.current_revision == status.update_revision
                    && Some(status.replicas) == replicas
                    && status.ready_replicas == replicas
            })
        };
        await_condition(sets, "web", is_settled).await.unwrap();
    }

    /// Returns the pods, each with its revision.
    async fn pods(&self) -> Vec<String> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let described = |pod: &Pod| {
            format!(
                "{} {}",
                pod.name_any(),
                pod.labels()["controller-revision-hash"]
            )
        };
        pods.iter().map(described).collect()
    }

    /// Returns the writes to pods, claims, revisions and sets, in order.
    fn written(&self) -> Vec<String> {
        let described = |entry: &kubeproof_apiserver::JournalEntry| {
            let name = entry.object["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            format!(
                "{:?} {} {name} {}",
                entry.event, entry.gvr.resource, entry.user_agent
            )
        };
        self.server.journal().iter().map(described).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_is_created_updated_rolled_back_and_scaled_in_order() {
    with_cluster(async |cluster| {
        cluster.create(web("nginx:1.25", 3)).await;
        cluster.settled().await;
        let at = |revision: &str, ordinals: &[u32]| -> Vec<String> {
            ordinals
                .iter()
                .map(|ordinal| format!("web-{ordinal} {revision}"))
                .collect()
        };
        assert_eq!(cluster.pods().await, at("web-f4b769f5f", &[0, 1, 2]));

        let image = json!({"spec": {"template": {"spec": {
            "containers": [{"name": "nginx", "image": "nginx:1.16"}]}}}});
        cluster.patch(image).await;
        cluster.settled().await;
        assert_eq!(cluster.pods().await, at("web-f7546877", &[0, 1, 2]));

        let back = json!({"spec": {"replicas": 1, "template": {"spec": {
            "containers": [{"name": "nginx", "image": "nginx:1.25"}]}}}});
        cluster.patch(back).await;
        cluster.settled().await;
        assert_eq!(cluster.pods().await, at("web-f4b769f5f", &[0]));

        let api: Api<ControllerRevision> = Api::default_namespaced(cluster.client.clone());
        let revisions = api.list(&ListParams::default()).await.unwrap();
        let numbers = revisions
            .iter()
            .map(|revision| (revision.name_any(), revision.revision));
        let expected = [
            ("web-f4b769f5f".to_owned(), 3),
            ("web-f7546877".to_owned(), 2),
        ];
        assert_eq!(numbers.collect::<Vec<_>>(), expected);

        let api: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client.clone());
        let claims = api.list(&ListParams::default()).await.unwrap();
        let names: Vec<_> = claims.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["data-web-0", "data-web-1", "data-web-2"]);

        let api: Api<Event> = Api::default_namespaced(cluster.client.clone());
        let events = api.list(&ListParams::default()).await.unwrap();
        let described = |event: &Event| {
            let count = event.count.unwrap_or_default();
            format!("{count} {}", event.message.clone().unwrap_or_default())
        };
        let mut messages: Vec<_> = events.iter().map(described).collect();
        messages.sort();
        let expected = [
            "1 Create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "1 Create Claim data-web-1 Pod web-1 in StatefulSet web success",
            "1 Create Claim data-web-2 Pod web-2 in StatefulSet web success",
            "2 Create Pod web-1 in StatefulSet web successful",
            "2 Create Pod web-2 in StatefulSet web successful",
            "2 Delete Pod web-0 in StatefulSet web successful",
            "2 Delete Pod web-1 in StatefulSet web successful",
            "2 Delete Pod web-2 in StatefulSet web successful",
            "3 Create Pod web-0 in StatefulSet web successful",
        ];
        assert_eq!(messages, expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_runs_write_the_same_in_the_same_order() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut written = Vec::new();
        with_cluster(async |cluster| {
            for name in ["a", "b", "web"] {
                let mut set = web("nginx:1.25", 3);
                set["metadata"]["name"] = json!(name);
                set["spec"]["podManagementPolicy"] = json!("Parallel");
                let app = json!({"app": name});
                set["spec"]["selector"]["matchLabels"] = app.clone();
                set["spec"]["template"]["metadata"]["labels"] = app;
                cluster.create(set).await;
            }
            cluster.settled().await;
            written = cluster.written();
        })
        .await;
        runs.push(written);
    }
    assert!(
        runs[0]
            .iter()
            .any(|line| line == "Added pods a-2 statefulset-controller")
    );
    assert_eq!(runs[0], runs[1]);
}

//! End-to-end tests of workloads: their controllers and two nodes against the in-process server,
//! under virtual time.

#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod certificates;
mod events;
mod network;
mod preferred_versions;
mod quota;
mod service_accounts;
mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use self::support::Cluster;

const CONTROLLERS: &[&str] = &[
    "daemonset",
    "deployment",
    "disruption",
    "garbage-collector",
    "replicaset",
    "serviceaccount",
];

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

fn replica_set(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": template("nginx:1")},
    })
}

fn deployment(replicas: u32, strategy: &Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "strategy": strategy, "template": template("nginx:1")},
    })
}

/// Returns `replicas/ready/available` of each ReplicaSet with replicas, with its image and
/// revision.
async fn sets(cluster: &Cluster) -> Vec<String> {
    let sets = cluster.list::<ReplicaSet>().await;
    let described = |set: &ReplicaSet| {
        let status = set.status.clone().unwrap_or_default();
        let spec = set.spec.as_ref().unwrap();
        let template = spec.template.as_ref().unwrap();
        let image = template.spec.as_ref().unwrap().containers[0].image.clone();
        format!(
            "{} r{} {}/{}/{}/{}",
            image.unwrap(),
            set.annotations()["deployment.kubernetes.io/revision"],
            spec.replicas.unwrap(),
            status.replicas,
            status.ready_replicas.unwrap_or(0),
            status.available_replicas.unwrap_or(0)
        )
    };
    let mut lines: Vec<String> = sets.iter().map(described).collect();
    lines.sort();
    lines
}

async fn conditions(cluster: &Cluster) -> Vec<String> {
    let deployment = cluster.get::<Deployment>("web").await;
    let conditions = deployment.status.unwrap().conditions.unwrap_or_default();
    let mut lines: Vec<String> = conditions
        .iter()
        .map(|one| {
            format!(
                "{}={} {}",
                one.type_,
                one.status,
                one.reason.clone().unwrap()
            )
        })
        .collect();
    lines.sort();
    lines
}

async fn set_image(cluster: &Cluster, image: &str) {
    let containers = json!([{"name": "main", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    cluster.patch::<Deployment>("web", patch).await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_keeps_its_number_of_pods() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster.create::<ReplicaSet>(replica_set(3)).await;
    cluster.settle().await;
    let pods = cluster.list::<Pod>().await;
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        let suffix = pod.name_any().strip_prefix("web-").unwrap().to_owned();
        assert_eq!(suffix.len(), 5, "the server's choice");
        assert_eq!(pod.owner_references()[0].kind, "ReplicaSet");
    }
    let status = cluster.get::<ReplicaSet>("web").await.status.unwrap();
    let expected = json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3, "terminatingReplicas": 0, "observedGeneration": 1});
    assert_eq!(serde_json::to_value(status).unwrap(), expected);

    cluster
        .delete::<Pod>(&pods[0].name_any(), DeleteParams::default())
        .await;
    cluster.settle().await;
    let renewed = cluster.list::<Pod>().await;
    assert_eq!(renewed.len(), 3);
    assert!(renewed.iter().all(|pod| pod.uid() != pods[0].uid()));

    cluster
        .patch::<ReplicaSet>("web", json!({"spec": {"replicas": 1}}))
        .await;
    cluster.settle().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 1);
    let events = cluster.events("replicaset-controller").await;
    assert_eq!(
        events
            .iter()
            .filter(|one| one.starts_with("SuccessfulCreate Created pod: web-"))
            .count(),
        4
    );
    assert_eq!(
        events
            .iter()
            .filter(|one| one.starts_with("SuccessfulDelete Deleted pod: web-"))
            .count(),
        2
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_of_very_many_pods_waits_before_its_status_and_not_before_a_pod() {
    let cluster = Cluster::start(&["replicaset"]);
    let mut set = replica_set(1_000);
    set["spec"]["template"]["metadata"]["labels"]["tier"] = json!("front");
    cluster.create::<ReplicaSet>(set).await;
    cluster.settle().await;
    let mut pods = cluster.list::<Pod>().await;
    pods.retain(|pod| pod.spec.as_ref().unwrap().node_name.is_none());
    let tier = |tier: &str| json!({"metadata": {"labels": {"tier": tier}}});
    let labeled = async || {
        let set = cluster.get::<ReplicaSet>("web").await;
        set.status.unwrap().fully_labeled_replicas
    };
    // Only the status shows it. For 1,000 pods a sync waits 50 ms.
    let first = pods[0].name_any();
    cluster.patch::<Pod>(&first, tier("back")).await;
    tokio::time::sleep(Duration::from_millis(40)).await;
    assert_eq!(labeled().await, Some(1_000));
    tokio::time::sleep(Duration::from_millis(40)).await;
    assert_eq!(labeled().await, Some(999));

    cluster.patch::<Pod>(&first, tier("front")).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    cluster
        .delete::<Pod>(&pods[1].name_any(), DeleteParams::default())
        .await;
    assert_eq!(cluster.list::<Pod>().await.len(), 999);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(cluster.list::<Pod>().await.len(), 1_000);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_adopts_and_releases_by_label() {
    let cluster = Cluster::start(CONTROLLERS);
    let orphan = json!({"metadata": {"name": "stray", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}});
    cluster.create::<Pod>(orphan).await;
    cluster.settle().await;
    cluster.create::<ReplicaSet>(replica_set(2)).await;
    cluster.settle().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 2);
    assert_eq!(
        cluster.get::<Pod>("stray").await.owner_references()[0].name,
        "web"
    );
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    cluster.patch::<Pod>("stray", other).await;
    cluster.settle().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 3);
    assert_eq!(cluster.get::<Pod>("stray").await.owner_references(), []);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_within_surge_and_unavailability_and_can_be_undone() {
    let cluster = Cluster::start(CONTROLLERS);
    let strategy = json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    cluster.create::<Deployment>(deployment(4, &strategy)).await;
    cluster.settle().await;
    assert_eq!(sets(&cluster).await, ["nginx:1 r1 4/4/4/4"]);
    let done = [
        "Available=True MinimumReplicasAvailable",
        "Progressing=True NewReplicaSetAvailable",
    ];
    assert_eq!(conditions(&cluster).await, done);

    set_image(&cluster, "nginx:2").await;
    cluster.settle().await;
    assert_eq!(
        sets(&cluster).await,
        ["nginx:1 r1 0/0/0/0", "nginx:2 r2 4/4/4/4"]
    );
    let wanted = cluster.most("replicasets", |sets| {
        sets.values()
            .map(|set| set["spec"]["replicas"].as_i64().unwrap())
            .sum()
    });
    assert_eq!(wanted, 5, "replicas and surge");

    set_image(&cluster, "nginx:1").await;
    cluster.settle().await;
    assert_eq!(
        sets(&cluster).await,
        ["nginx:1 r3 4/4/4/4", "nginx:2 r2 0/0/0/0"]
    );
    let deployment = cluster.get::<Deployment>("web").await;
    assert_eq!(
        deployment.annotations()["deployment.kubernetes.io/revision"],
        "3"
    );
    let history = cluster.list::<ReplicaSet>().await.into_iter().find(|set| {
        set.annotations()
            .contains_key("deployment.kubernetes.io/revision-history")
    });
    assert_eq!(
        history.unwrap().annotations()["deployment.kubernetes.io/revision-history"],
        "1"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreation_waits_for_old_pods_to_go() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster
        .create::<Deployment>(deployment(2, &json!({"type": "Recreate"})))
        .await;
    cluster.settle().await;
    set_image(&cluster, "nginx:2").await;
    cluster.settle().await;
    assert_eq!(
        sets(&cluster).await,
        ["nginx:1 r1 0/0/0/0", "nginx:2 r2 2/2/2/2"]
    );
    let images = cluster.most("pods", |pods| {
        let image = |pod: &std::sync::Arc<Value>| pod["spec"]["containers"][0]["image"].to_string();
        let images: BTreeSet<String> = pods.values().map(image).collect();
        images.len() as i64
    });
    assert_eq!(images, 1, "never pods of both");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster
        .create::<Deployment>(deployment(2, &json!({})))
        .await;
    cluster.settle().await;
    cluster
        .patch::<Deployment>("web", json!({"spec": {"paused": true}}))
        .await;
    set_image(&cluster, "nginx:2").await;
    cluster
        .patch::<Deployment>("web", json!({"spec": {"replicas": 3}}))
        .await;
    cluster.settle().await;
    assert_eq!(sets(&cluster).await, ["nginx:1 r1 3/3/3/3"]);
    let paused = [
        "Available=True MinimumReplicasAvailable",
        "Progressing=Unknown DeploymentPaused",
    ];
    assert_eq!(conditions(&cluster).await, paused);
    cluster
        .patch::<Deployment>("web", json!({"spec": {"paused": false}}))
        .await;
    cluster.settle().await;
    assert_eq!(
        sets(&cluster).await,
        ["nginx:1 r1 0/0/0/0", "nginx:2 r2 3/3/3/3"]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_without_progress_misses_its_deadline() {
    let cluster = Cluster::start(CONTROLLERS);
    let mut stuck = deployment(1, &json!({}));
    stuck["spec"]["progressDeadlineSeconds"] = json!(30);
    stuck["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "none"});
    cluster.create::<Deployment>(stuck).await;
    cluster.settle().await;
    let expected = [
        "Available=False MinimumReplicasUnavailable",
        "Progressing=False ProgressDeadlineExceeded",
    ];
    assert_eq!(conditions(&cluster).await, expected);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_complete_rollout_that_lacks_a_pod_is_synced_at_the_rate_of_the_queue() {
    let cluster = Cluster::start(&["deployment", "replicaset", "serviceaccount"]);
    let mut web = deployment(2, &json!({}));
    web["spec"]["progressDeadlineSeconds"] = json!(5);
    let port = json!([{"containerPort": 80, "hostPort": 80}]);
    web["spec"]["template"]["spec"]["containers"][0]["ports"] = port;
    cluster.create::<Deployment>(web).await;
    cluster.settle().await;
    // There is no node for a third pod.
    let more = json!({"spec": {"replicas": 3}});
    cluster.patch::<Deployment>("web", more).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = cluster.syncs("deployment");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let syncs = cluster.syncs("deployment") - before;
    assert!((190..=210).contains(&syncs), "{syncs}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn history_beyond_its_limit_is_dropped() {
    let cluster = Cluster::start(CONTROLLERS);
    let mut limited = deployment(1, &json!({}));
    limited["spec"]["revisionHistoryLimit"] = json!(1);
    cluster.create::<Deployment>(limited).await;
    for image in ["nginx:2", "nginx:3", "nginx:4"] {
        cluster.settle().await;
        set_image(&cluster, image).await;
    }
    cluster.settle().await;
    assert_eq!(
        sets(&cluster).await,
        ["nginx:3 r3 0/0/0/0", "nginx:4 r4 1/1/1/1"]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_takes_its_sets_and_pods_along() {
    let cluster = Cluster::start(CONTROLLERS);
    for params in [DeleteParams::background(), DeleteParams::foreground()] {
        cluster
            .create::<Deployment>(deployment(2, &json!({})))
            .await;
        cluster.settle().await;
        assert_eq!(cluster.list::<Pod>().await.len(), 2);
        cluster.delete::<Deployment>("web", params).await;
        cluster.settle().await;
        assert_eq!(cluster.list::<Deployment>().await.len(), 0);
        assert_eq!(cluster.list::<ReplicaSet>().await.len(), 0);
        assert_eq!(cluster.list::<Pod>().await.len(), 0);
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn equal_runs_write_equal_journals() {
    let mut journals = Vec::new();
    for _ in 0..2 {
        let cluster = Cluster::start(CONTROLLERS);
        // The start is awaited: tokio may poll this task at any point of it.
        cluster.settle().await;
        cluster
            .create::<Deployment>(deployment(5, &json!({})))
            .await;
        cluster.settle().await;
        set_image(&cluster, "nginx:2").await;
        cluster.settle().await;
        journals.push(cluster.lines());
        cluster.stop().await;
    }
    for (one, other) in journals[0].iter().zip(&journals[1]) {
        assert_eq!(one, other);
    }
    assert_eq!(journals[0].len(), journals[1].len());
}

/// Returns `node image` of every ready pod.
async fn daemons(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list::<Pod>().await;
    let described = |pod: &Pod| {
        let spec = pod.spec.as_ref().unwrap();
        let image = spec.containers[0].image.clone();
        format!(
            "{} {}",
            spec.node_name.clone().unwrap_or_default(),
            image.unwrap()
        )
    };
    let mut lines: Vec<String> = pods.iter().map(described).collect();
    lines.sort();
    lines
}

fn daemon_set(strategy: &Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "updateStrategy": strategy,
            "template": template("agent:1")},
    })
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_runs_on_every_node_and_rolls_one_by_one() {
    let surge = json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    for (strategy, most_pods) in [(json!({}), 2), (surge, 3)] {
        let cluster = Cluster::start(CONTROLLERS);
        cluster.create::<DaemonSet>(daemon_set(&strategy)).await;
        cluster.settle().await;
        assert_eq!(
            daemons(&cluster).await,
            ["node-1 agent:1", "node-2 agent:1"]
        );
        let containers = json!([{"name": "main", "image": "agent:2"}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        cluster.patch::<DaemonSet>("web", patch).await;
        cluster.settle().await;
        assert_eq!(
            daemons(&cluster).await,
            ["node-1 agent:2", "node-2 agent:2"]
        );
        let most = cluster.most("pods", |pods| {
            let is_living =
                |pod: &&std::sync::Arc<Value>| pod["metadata"]["deletionTimestamp"].is_null();
            pods.values().filter(is_living).count() as i64
        });
        assert_eq!(most, most_pods, "{strategy}");
        let status = cluster.get::<DaemonSet>("web").await.status.unwrap();
        let expected = json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2,
            "numberAvailable": 2, "numberMisscheduled": 0, "numberReady": 2,
            "observedGeneration": 2, "updatedNumberScheduled": 2});
        assert_eq!(serde_json::to_value(status).unwrap(), expected);
        let revisions = cluster.list::<ControllerRevision>().await;
        let mut numbers: Vec<i64> = revisions.iter().map(|one| one.revision).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn on_delete_a_daemon_set_waits_for_its_pods_to_be_deleted() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster
        .create::<DaemonSet>(daemon_set(&json!({"type": "OnDelete"})))
        .await;
    cluster.settle().await;
    let containers = json!([{"name": "main", "image": "agent:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    cluster.patch::<DaemonSet>("web", patch).await;
    cluster.settle().await;
    assert_eq!(
        daemons(&cluster).await,
        ["node-1 agent:1", "node-2 agent:1"]
    );
    for pod in cluster.list::<Pod>().await {
        cluster
            .delete::<Pod>(&pod.name_any(), DeleteParams::default())
            .await;
    }
    cluster.settle().await;
    assert_eq!(
        daemons(&cluster).await,
        ["node-1 agent:2", "node-2 agent:2"]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_the_replicas_of_the_deployment_above() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster
        .create::<Deployment>(deployment(4, &json!({})))
        .await;
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": "50%",
        "selector": {"matchLabels": {"app": "web"}}}});
    cluster.create::<PodDisruptionBudget>(budget).await;
    cluster.settle().await;
    let status = cluster
        .get::<PodDisruptionBudget>("web")
        .await
        .status
        .unwrap();
    let counts = [
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
    ];
    assert_eq!(counts, [4, 2, 4, 2].map(Some));
    assert_eq!(status.conditions.unwrap()[0].status, "True");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_default_service_account_comes_back() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster.settle().await;
    let first = cluster.get::<ServiceAccount>("default").await;
    cluster
        .delete::<ServiceAccount>("default", DeleteParams::default())
        .await;
    cluster.settle().await;
    assert_ne!(
        cluster.get::<ServiceAccount>("default").await.uid(),
        first.uid()
    );
    cluster.stop().await;
}

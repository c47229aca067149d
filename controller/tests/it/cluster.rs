//! All controllers and two nodes against the in-memory server, under virtual time.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only #[test] functions as tests"
)]

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kubeproof_apiserver::{ApiServer, Clock, JournalEntry};
use kubeproof_controller::{CONTROLLERS, Manager, Options};
use kubeproof_node::Timings;
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use crate::support::options;

struct Cluster {
    server: ApiServer,
    client: Client,
    manager: Manager,
}

impl Cluster {
    fn start(timings: Timings) -> Self {
        let epoch = Timestamp::from_second(1_767_225_600).unwrap();
        let clock = Clock::simulated(epoch);
        let server = ApiServer::builder().clock(clock.clone()).journal().build();
        let client = Client::new(server.clone(), "default");
        let options = Options {
            controllers: CONTROLLERS.iter().map(|name| (*name).to_owned()).collect(),
            nodes: 2,
            timings,
            ..options(&clock)
        };
        let manager = Manager::start(client.clone(), options).unwrap();
        Self {
            server,
            client,
            manager,
        }
    }

    /// Advances virtual time until only Leases were written for a minute.
    async fn settle(&self) {
        let writes = || {
            let journal = self.server.journal();
            let writes = journal
                .iter()
                .filter(|entry| entry.object["kind"] != "Lease");
            writes.count()
        };
        let mut before = None;
        while before != Some(writes()) {
            before = Some(writes());
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn create_set(&self, namespace: &str, extra: Value) {
        let mut set = json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 2,
                "serviceName": "web",
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] },
                },
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data" },
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": { "requests": { "storage": "1Gi" } },
                    },
                }],
            },
        });
        for (key, value) in extra.as_object().unwrap() {
            set["spec"][key] = value.clone();
        }
        let set: StatefulSet = from_value(set).unwrap();
        let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &set).await.unwrap();
    }

    /// Returns the name, phase and readiness of every pod.
    async fn pod_lines(&self, namespace: &str) -> Vec<String> {
        let pods = self
            .pods(namespace)
            .list(&ListParams::default())
            .await
            .unwrap();
        let line = |pod: &Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            let mut ready = conditions
                .iter()
                .filter(|condition| condition.type_ == "Ready");
            format!(
                "{} {} ready={} node={}",
                pod.name_any(),
                status.phase.unwrap_or_default(),
                ready.next().map_or("-", |condition| &condition.status),
                pod.spec
                    .as_ref()
                    .unwrap()
                    .node_name
                    .as_deref()
                    .unwrap_or("-"),
            )
        };
        pods.iter().map(line).collect()
    }

    fn sets(&self, namespace: &str) -> Api<StatefulSet> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Returns the numbers of claims, volumes and controller revisions.
    async fn counts(&self) -> [usize; 3] {
        let all = ListParams::default();
        let claims: Api<PersistentVolumeClaim> = Api::all(self.client.clone());
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let revisions: Api<ControllerRevision> = Api::all(self.client.clone());
        [
            claims.list(&all).await.unwrap().items.len(),
            volumes.list(&all).await.unwrap().items.len(),
            revisions.list(&all).await.unwrap().items.len(),
        ]
    }

    async fn annotate_namespace(&self, annotations: Value) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        api.patch("default", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn annotate_pod(&self, name: &str, annotations: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        let pods = self.pods("default");
        pods.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn create_pod(&self, name: &str, extra: Value) {
        let mut pod = json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] },
        });
        for (section, fields) in extra.as_object().unwrap() {
            for (key, value) in fields.as_object().unwrap() {
                pod[section][key] = value.clone();
            }
        }
        let pod: Pod = from_value(pod).unwrap();
        self.pods("default")
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
    }

    /// Returns the seconds since the start, the phase and the readiness after each write to the
    /// pod.
    fn history(&self, pod: &str) -> Vec<String> {
        let journal = self.server.journal();
        let start = journal[0].time;
        let writes = journal.iter().filter(|entry| {
            entry.object["kind"] == "Pod" && entry.object["metadata"]["name"] == pod
        });
        let mut lines: Vec<String> = Vec::new();
        for entry in writes {
            let status = &entry.object["status"];
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions
                .iter()
                .find(|condition| condition["type"] == "Ready");
            let ready = ready.map_or("-", |ready| ready["status"].as_str().unwrap());
            let phase = status["phase"].as_str().unwrap_or("-");
            let seconds = entry.time.duration_since(start).as_secs();
            lines.push(format!("{seconds} {:?} {phase} {ready}", entry.event));
        }
        lines
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_gets_volumes_and_runs_on_both_nodes() {
    let cluster = Cluster::start(Timings::default());
    cluster.create_set("default", json!({})).await;
    cluster.settle().await;
    let expected = [
        "web-0 Running ready=True node=node-1",
        "web-1 Running ready=True node=node-2",
    ];
    assert_eq!(cluster.pod_lines("default").await, expected);
    assert_eq!(cluster.counts().await, [2, 2, 1]);
    cluster.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn equal_runs_write_equal_journals() {
    let mut journals = Vec::new();
    for _ in 0..2 {
        let cluster = Cluster::start(Timings::default());
        // The start is awaited: tokio may poll this task at any point of it.
        cluster.settle().await;
        cluster
            .create_set("default", json!({ "podManagementPolicy": "Parallel" }))
            .await;
        cluster.settle().await;
        let journal = cluster.server.journal();
        let line = |entry: &JournalEntry| {
            let object = &*entry.object;
            let meta = &object["metadata"];
            format!(
                "{} {:?} {} {object}",
                entry.user_agent, entry.event, meta["name"]
            )
        };
        journals.push(journal.iter().map(line).collect::<Vec<_>>());
        cluster.manager.shutdown().await;
    }
    // The first difference is shown, not both journals in full.
    for (one, other) in journals[0].iter().zip(&journals[1]) {
        assert_eq!(one, other);
    }
    assert_eq!(journals[0].len(), journals[1].len());
}

#[tokio::test(start_paused = true)]
async fn what_a_deleted_set_leaves_behind() {
    let foreground = DeleteParams::foreground();
    let retention = json!({
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" },
    });
    for (params, extra, pods, counts) in [
        (DeleteParams::background(), json!({}), 0, [2, 2, 0]),
        (foreground.clone(), json!({}), 0, [2, 2, 0]),
        (DeleteParams::orphan(), json!({}), 2, [2, 2, 1]),
        (DeleteParams::background(), retention.clone(), 0, [0, 0, 0]),
        (foreground, retention, 0, [0, 0, 0]),
    ] {
        let cluster = Cluster::start(Timings::default());
        cluster.create_set("default", extra.clone()).await;
        cluster.settle().await;
        cluster
            .sets("default")
            .delete("web", &params)
            .await
            .unwrap();
        cluster.settle().await;
        let set = cluster.sets("default").get_opt("web").await.unwrap();
        assert!(set.is_none(), "{params:?}");
        let left = cluster
            .pods("default")
            .list(&ListParams::default())
            .await
            .unwrap();
        assert_eq!(left.items.len(), pods, "{params:?} {extra}");
        let references = left.iter().flat_map(|pod| pod.owner_references());
        assert_eq!(references.count(), 0, "{params:?}");
        assert_eq!(cluster.counts().await, counts, "{params:?} {extra}");
        cluster.manager.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied() {
    let cluster = Cluster::start(Timings::default());
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let wanted = from_value(json!({ "metadata": { "name": "team" } })).unwrap();
    namespaces
        .create(&PostParams::default(), &wanted)
        .await
        .unwrap();
    cluster.create_set("team", json!({})).await;
    cluster.settle().await;
    assert_eq!(cluster.counts().await, [2, 2, 1]);
    namespaces
        .delete("team", &DeleteParams::default())
        .await
        .unwrap();
    cluster.settle().await;
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
    assert_eq!(cluster.counts().await, [0, 0, 0]);
    cluster.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_takes_its_time_from_start_to_stop() {
    let cluster = Cluster::start(Timings {
        start: Duration::from_secs(2),
        ready: Duration::from_secs(3),
        stop: Duration::from_secs(4),
        pace: None,
    });
    cluster.settle().await;
    cluster.create_pod("one", json!({})).await;
    cluster.settle().await;
    cluster
        .pods("default")
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    cluster.settle().await;
    let expected = [
        "120 Added Pending -",
        "120 Modified Pending -",
        "120 Modified Pending False",
        "122 Modified Running False",
        "125 Modified Running True",
        "240 Modified Running True",
        "244 Modified Succeeded False",
        // The grace period is set to zero before the pod is gone.
        "244 Modified Succeeded False",
        "244 Deleted Succeeded False",
    ];
    assert_eq!(cluster.history("one"), expected);
    cluster.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn annotations_drive_pods() {
    let cluster = Cluster::start(Timings::default());
    cluster
        .annotate_namespace(json!({ "one.pods.kubeproof.dev/ready": "false" }))
        .await;
    cluster.create_pod("one", json!({})).await;
    cluster.settle().await;
    let line = |state: &str| vec![format!("one {state} node=node-1")];
    assert_eq!(
        cluster.pod_lines("default").await,
        line("Running ready=False")
    );
    cluster
        .annotate_pod("one", json!({ "kubeproof.dev/ready": "true" }))
        .await;
    cluster.settle().await;
    assert_eq!(
        cluster.pod_lines("default").await,
        line("Running ready=True")
    );
    cluster
        .annotate_pod("one", json!({ "kubeproof.dev/phase": "Failed" }))
        .await;
    cluster.settle().await;
    assert_eq!(
        cluster.pod_lines("default").await,
        line("Failed ready=False")
    );
    cluster
        .pods("default")
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    cluster.settle().await;
    assert!(cluster.pod_lines("default").await.is_empty());

    cluster.create_pod("two", json!({})).await;
    cluster
        .annotate_pod("two", json!({ "kubeproof.dev/stop-seconds": "never" }))
        .await;
    cluster.settle().await;
    cluster
        .pods("default")
        .delete("two", &DeleteParams::default())
        .await
        .unwrap();
    cluster.settle().await;
    let running = ["two Running ready=True node=node-1"];
    assert_eq!(cluster.pod_lines("default").await, running);
    let force = DeleteParams::default().grace_period(0);
    cluster.pods("default").delete("two", &force).await.unwrap();
    cluster.settle().await;
    assert!(cluster.pod_lines("default").await.is_empty());
    cluster.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_a_node_suits_it() {
    let cluster = Cluster::start(Timings::default());
    cluster.settle().await;
    cluster
        .create_pod(
            "one",
            json!({ "spec": { "nodeSelector": { "disk": "fast" } } }),
        )
        .await;
    cluster.settle().await;
    assert_eq!(
        cluster.pod_lines("default").await,
        ["one Pending ready=- node=-"]
    );
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let messages: Vec<_> = events
        .iter()
        .filter(|event| event.involved_object.kind.as_deref() == Some("Pod"))
        .filter_map(|event| event.message.as_deref())
        .collect();
    let expected = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
         no new claims to deallocate, preemption: \
         0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(messages, [expected]);
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "disk": "fast" } } }));
    nodes
        .patch("node-2", &PatchParams::default(), &patch)
        .await
        .unwrap();
    cluster.settle().await;
    let running = ["one Running ready=True node=node-2"];
    assert_eq!(cluster.pod_lines("default").await, running);
    cluster.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dependents_of_absent_owners_are_collected() {
    let cluster = Cluster::start(Timings::default());
    cluster.settle().await;
    let reference = json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "nobody",
        "uid": "00000000-0000-0000-0000-000000000001",
    }]);
    let unknown = json!([{
        "apiVersion": "example.io/v1",
        "kind": "Thing",
        "name": "nobody",
        "uid": "00000000-0000-0000-0000-000000000002",
    }]);
    for (name, references) in [("lost", reference), ("undecided", unknown)] {
        let metadata = json!({ "metadata": { "ownerReferences": references } });
        cluster.create_pod(name, metadata).await;
    }
    cluster.settle().await;
    let lines = cluster.pod_lines("default").await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("undecided Running"), "{lines:?}");
    cluster.manager.shutdown().await;
}

impl Cluster {
    /// Creates an object from JSON.
    async fn post(&self, path: &str, object: Value) {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        let created: Value = self.client.request(request).await.unwrap();
        assert!(created["metadata"]["uid"].is_string(), "{created}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_with_extreme_times_end_no_controller() {
    let cluster = Cluster::start(Timings::default());
    cluster.settle().await;
    let longest = i64::MAX;
    let template = json!({"spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": longest,
        "containers": [{"name": "c", "image": "busybox:1", "command": ["sleep", "1"]}],
    }});
    let job = |name: &str, deadline: Value| {
        json!({"metadata": {"name": name}, "spec": {
            "template": template, "activeDeadlineSeconds": deadline,
            "ttlSecondsAfterFinished": i32::MAX,
        }})
    };
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    cluster.post(jobs, job("wraps", longest.into())).await;
    cluster
        .post(jobs, job("lasts", 9_223_372_036_i64.into()))
        .await;
    let cron = json!({"metadata": {"name": "late"}, "spec": {
        "schedule": "* * * * *", "startingDeadlineSeconds": longest,
        "jobTemplate": {"spec": {"template": template}},
    }});
    cluster
        .post("/apis/batch/v1/namespaces/default/cronjobs", cron)
        .await;
    for time in [
        "9999-12-31T23:59:59.000000Z",
        "0000-01-01T00:00:00.000000+01:00",
    ] {
        let lease = json!({"metadata": {"generateName": "l-"}, "spec": {"renewTime": time}});
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        cluster.post(leases, lease).await;
    }
    for name in ["gone", "empty"] {
        cluster
            .post("/api/v1/namespaces", json!({"metadata": {"name": name}}))
            .await;
    }
    let mut pod = template.clone();
    pod["metadata"] = json!({"name": "p"});
    pod["spec"]["tolerations"] = json!([{"operator": "Exists", "tolerationSeconds": longest,
        "effect": "NoExecute"}]);
    cluster.post("/api/v1/namespaces/gone/pods", pod).await;
    cluster.settle().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    for name in ["gone", "empty"] {
        namespaces
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    cluster.settle().await;
    assert_eq!(cluster.manager.ended(), []);
    assert_eq!(cluster.server.panics(), [""; 0]);
    let left = namespaces.list(&ListParams::default()).await.unwrap();
    let left: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
    assert!(!left.contains(&"empty".to_owned()), "{left:?}");
    // Upstream's deadline overflows to a negative one; the next longest does not.
    let all: Api<Job> = Api::namespaced(cluster.client.clone(), "default");
    let ended = async |name: &str| {
        let status = all.get(name).await.unwrap().status.unwrap();
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        conditions.find_map(|one| {
            ["Complete", "Failed"]
                .contains(&&*one.type_)
                .then_some(one.type_)
        })
    };
    assert_eq!(ended("wraps").await.as_deref(), Some("Failed"));
    assert_eq!(ended("lasts").await.as_deref(), Some("Complete"));
    cluster.manager.shutdown().await;
}

//! ReplicaSets, Deployments, StatefulSets, DaemonSets, Jobs and CronJobs.

use kubeproof_apiserver::json::{Value, json};

use super::client::{Answer, Client, MERGE, STRATEGIC, containers, controller_ref, options};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn workload(kind: &str, rest: &Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": containers()},
    });
    spec.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    json!({"kind": kind, "apiVersion": "apps/v1", "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

/// Writes the status as `UpdateStatus` does: the whole object as it was read, with another status.
async fn update_status(client: &Client, uri: &str, read: &Answer, status: Value) -> Answer {
    let mut object = read.body.clone();
    object["status"] = status;
    client.put(&format!("{uri}/status"), &object).await
}

#[tokio::test]
async fn the_replicaset_controller_creates_adopts_and_releases_pods() {
    let client = Client::new();
    let set = client
        .made(SETS, workload("ReplicaSet", &json!({"replicas": 1})))
        .await;
    let owner = controller_ref("apps/v1", "ReplicaSet", &set);
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"generateName": "web-", "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": containers(), "status": {},
    });
    let created = client.post(PODS, &pod).await.expect(201);
    assert!(created.text("/metadata/name").starts_with("web-"));

    let orphan =
        json!({"metadata": {"name": "orphan", "labels": {"app": "web"}}, "spec": containers()});
    let orphan = client.made(PODS, orphan).await;
    let uri = format!("{PODS}/orphan");
    let adopt = |uid: &str| json!({"metadata": {"uid": uid, "ownerReferences": [owner]}});
    let adopted = client
        .patch(STRATEGIC, &uri, &adopt(&orphan.uid()))
        .await
        .expect(200);
    assert_eq!(
        adopted.at("/metadata/ownerReferences/0/uid"),
        &json!(set.uid())
    );
    // A pod of that name which is another one is not taken.
    let other = client
        .patch(
            STRATEGIC,
            &uri,
            &adopt("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
        )
        .await;
    assert_eq!(other.expect(422).at("/reason"), "Invalid");

    let release = |uid: &str| json!({"metadata": {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": set.uid()}]}});
    let released = client
        .patch(STRATEGIC, &uri, &release(&orphan.uid()))
        .await
        .expect(200);
    assert_eq!(released.at("/metadata/ownerReferences"), &Value::Null);
    client
        .patch(STRATEGIC, &uri, &release(&orphan.uid()))
        .await
        .expect(200);
    client
        .delete(&uri, &options("v1", json!({})))
        .await
        .expect(200);
    client
        .patch(STRATEGIC, &uri, &release(&orphan.uid()))
        .await
        .expect(404);
}

#[tokio::test]
async fn replicasets_report_status_and_nothing_else_by_the_subresource() {
    let client = Client::new();
    let set = client
        .made(SETS, workload("ReplicaSet", &json!({"replicas": 2})))
        .await;
    let uri = format!("{SETS}/web");
    let status = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "observedGeneration": 1});
    let mut changed = set.body.clone();
    changed["spec"]["replicas"] = json!(9);
    changed["status"] = status.clone();
    let written = client
        .put(&format!("{uri}/status"), &changed)
        .await
        .expect(200);
    assert_eq!(written.at("/spec/replicas"), 2);
    assert_eq!(written.at("/metadata/generation"), 1);
    assert_eq!(written.at("/status"), &status);
    // From a cache that is behind.
    let stale = update_status(&client, &uri, &set, json!({"replicas": 1})).await;
    assert_eq!(stale.expect(409).at("/reason"), "Conflict");
}

#[tokio::test]
async fn the_deployment_controller_scales_its_replicasets_and_cleans_up() {
    let client = Client::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = client
        .made(deployments, workload("Deployment", &json!({"replicas": 3})))
        .await;
    let mut set = workload("ReplicaSet", &json!({"replicas": 3}));
    set["metadata"] = json!({
        "name": "web-7c5ddbdf54", "namespace": "default",
        "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54"},
        "annotations": {
            "deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
        },
        "ownerReferences": [controller_ref("apps/v1", "Deployment", &deployment)],
    });
    let created = client.post(SETS, &set).await.expect(201);
    // The hash is taken: the controller looks whose it is and goes on.
    let taken = client.post(SETS, &set).await.expect(409);
    assert_eq!(taken.at("/reason"), "AlreadyExists");
    let mut scaled = created.body.clone();
    scaled["spec"]["replicas"] = json!(1);
    let uri = format!("{SETS}/web-7c5ddbdf54");
    let scaled = client.put(&uri, &scaled).await.expect(200);
    assert_eq!(scaled.at("/metadata/generation"), 2);
    let status = json!({
        "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "unavailableReplicas": 3,
        "conditions": [{
            "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "message": "ReplicaSet \"web-7c5ddbdf54\" is progressing.",
            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let uri_of = format!("{deployments}/web");
    let written = update_status(&client, &uri_of, &deployment, status.clone())
        .await
        .expect(200);
    assert_eq!(written.at("/status"), &status);
    client
        .delete(&uri, &options("apps/v1", json!({})))
        .await
        .expect(200);
}

#[tokio::test]
async fn the_statefulset_controller_keeps_revisions_claims_and_pods() {
    let client = Client::new();
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let set = client
        .made(
            sets,
            workload("StatefulSet", &json!({"serviceName": "web"})),
        )
        .await;
    let owner = controller_ref("apps/v1", "StatefulSet", &set);
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let template = json!({"spec": {"template": {"$patch": "replace", "spec": containers()}}});
    let revision = json!({
        "kind": "ControllerRevision", "apiVersion": "apps/v1",
        "metadata": {
            "name": "web-5b9b5f9b5f", "namespace": "default", "ownerReferences": [owner],
            "labels": {"app": "web", "controller.kubernetes.io/hash": "5b9b5f9b5f"},
        },
        "data": template, "revision": 1,
    });
    let mut revision = client.post(revisions, &revision).await.expect(201).body;
    assert_eq!(
        revision["data"], template,
        "the data is kept as it was sent"
    );
    revision["revision"] = json!(2);
    client
        .put(&format!("{revisions}/web-5b9b5f9b5f"), &revision)
        .await
        .expect(200);

    let claim = json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1",
        "metadata": {"name": "data-web-0", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"},
    });
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let mut claim = client.post(claims, &claim).await.expect(201).body;
    claim["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set.uid(), "controller": true,
    }]);
    client
        .put(&format!("{claims}/data-web-0"), &claim)
        .await
        .expect(200);

    let mut spec = containers();
    spec["hostname"] = json!("web-0");
    spec["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]);
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "spec": spec, "status": {},
        "metadata": {
            "name": "web-0", "generateName": "web-", "namespace": "default", "ownerReferences": [owner],
            "labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0"},
        },
    });
    let pod = client.post(PODS, &pod).await.expect(201);
    assert_eq!(pod.text("/metadata/name"), "web-0");
    let mut relabelled = pod.body.clone();
    relabelled["metadata"]["labels"]["controller-revision-hash"] = json!("web-5b9b5f9b5f");
    client
        .put(&format!("{PODS}/web-0"), &relabelled)
        .await
        .expect(200);
    let status = json!({
        "observedGeneration": 1, "replicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "availableReplicas": 0,
        "currentRevision": "web-5b9b5f9b5f", "updateRevision": "web-5b9b5f9b5f", "collisionCount": 0,
    });
    let uri = format!("{sets}/web");
    let written = update_status(&client, &uri, &set, status.clone())
        .await
        .expect(200);
    assert_eq!(written.at("/status"), &status);
    let same_uid = options("v1", json!({"preconditions": {"uid": pod.uid()}}));
    client
        .delete(&format!("{PODS}/web-0"), &same_uid)
        .await
        .expect(200);
    let history = format!("{revisions}/web-5b9b5f9b5f");
    client
        .delete(&history, &options("apps/v1", json!({})))
        .await
        .expect(200);
}

#[tokio::test]
async fn the_daemonset_controller_binds_its_pods_by_affinity_and_reports_counts() {
    let client = Client::new();
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let set = client.made(sets, workload("DaemonSet", &json!({}))).await;
    let mut spec = containers();
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}],
    }}});
    spec["tolerations"] = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]);
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "spec": spec, "status": {},
        "metadata": {
            "generateName": "web-", "labels": {"app": "web", "pod-template-generation": "1"},
            "ownerReferences": [controller_ref("apps/v1", "DaemonSet", &set)],
        },
    });
    client.post(PODS, &pod).await.expect(201);
    let status = json!({
        "currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 0,
        "observedGeneration": 1, "updatedNumberScheduled": 1, "numberUnavailable": 1,
    });
    let uri = format!("{sets}/web");
    let written = update_status(&client, &uri, &set, status.clone())
        .await
        .expect(200);
    assert_eq!(written.at("/status"), &status);
}

#[tokio::test]
async fn the_job_controller_tracks_pods_by_a_finalizer_that_it_takes_off() {
    let client = Client::new();
    let mut template = containers();
    template["restartPolicy"] = json!("Never");
    let job = json!({"metadata": {"name": "once"}, "spec": {"template": {"spec": template}, "ttlSecondsAfterFinished": 0}});
    let job = client.made(JOBS, job).await;
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "spec": template, "status": {},
        "metadata": {
            "generateName": "once-", "finalizers": ["batch.kubernetes.io/job-tracking"],
            "labels": job.at("/spec/template/metadata/labels"),
            "ownerReferences": [controller_ref("batch/v1", "Job", &job)],
        },
    });
    let pod = client.post(PODS, &pod).await.expect(201);
    let uri = format!("{PODS}/{}", pod.text("/metadata/name"));
    let tracked = json!({"metadata": {
        "uid": pod.uid(), "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"],
    }});
    let untracked = client.patch(STRATEGIC, &uri, &tracked).await.expect(200);
    assert_eq!(untracked.at("/metadata/finalizers"), &Value::Null);
    let running = json!({"active": 1, "startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {}, "ready": 0, "terminating": 0});
    let uri = format!("{JOBS}/once");
    let running = update_status(&client, &uri, &job, running)
        .await
        .expect(200);
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "lastProbeTime": "2026-01-01T00:00:05Z",
            "lastTransitionTime": "2026-01-01T00:00:05Z", "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
        })
    };
    let finished = json!({
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:05Z", "succeeded": 1,
        "uncountedTerminatedPods": {}, "ready": 0, "terminating": 0,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    let finished = update_status(&client, &uri, &running, finished)
        .await
        .expect(200);
    // The controller of finished jobs' time to live deletes the one it has read, with its pods.
    let preconditions = json!({"uid": finished.uid(), "resourceVersion": finished.version()});
    let stale = json!({"uid": finished.uid(), "resourceVersion": "1"});
    for (preconditions, code) in [(stale, 409), (preconditions, 200)] {
        let foreground = json!({"propagationPolicy": "Foreground", "preconditions": preconditions});
        client
            .delete(&uri, &options("batch/v1", foreground))
            .await
            .expect(code);
    }
}

#[tokio::test]
async fn the_cronjob_controller_creates_jobs_and_notes_them() {
    let client = Client::new();
    let crons = "/apis/batch/v1/namespaces/default/cronjobs";
    let mut template = containers();
    template["restartPolicy"] = json!("OnFailure");
    let jobs = json!({"spec": {"template": {"spec": template}}});
    let cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": jobs}});
    let cron = client.made(crons, cron).await;
    let job = json!({
        "kind": "Job", "apiVersion": "batch/v1", "spec": jobs["spec"], "status": {},
        "metadata": {
            "name": "tick-29455200", "namespace": "default",
            "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:00:00Z"},
            "ownerReferences": [controller_ref("batch/v1", "CronJob", &cron)],
        },
    });
    let job = client.post(JOBS, &job).await.expect(201);
    let reference = json!({
        "kind": "Job", "namespace": "default", "name": "tick-29455200", "uid": job.uid(),
        "apiVersion": "batch/v1", "resourceVersion": job.version(),
    });
    let status = json!({"active": [reference], "lastScheduleTime": "2026-01-01T00:00:00Z"});
    let uri = format!("{crons}/tick");
    let written = update_status(&client, &uri, &cron, status.clone())
        .await
        .expect(200);
    assert_eq!(written.at("/status"), &status);
    let background = json!({"propagationPolicy": "Background"});
    client
        .delete(
            &format!("{JOBS}/tick-29455200"),
            &options("batch/v1", background),
        )
        .await
        .expect(200);
}

#[tokio::test]
async fn the_replication_controller_reports_status() {
    let client = Client::new();
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": containers()});
    let object =
        json!({"metadata": {"name": "old"}, "spec": {"replicas": 1, "template": template}});
    let made = client.made(controllers, object).await;
    let status = json!({"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1});
    let uri = format!("{controllers}/old");
    let written = update_status(&client, &uri, &made, status.clone())
        .await
        .expect(200);
    assert_eq!(written.at("/status"), &status);
    let patch = json!({"metadata": {"annotations": {"a": "b"}}});
    client.patch(MERGE, &uri, &patch).await.expect(200);
}

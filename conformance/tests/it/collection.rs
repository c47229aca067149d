//! Garbage collection of owned objects and of namespaces, at sizes that scenarios do not have.

use kubeproof::api::Api;
use kubeproof::json::{Value, json};
use kubeproof::testbed::{QUIET, Testbed, TestbedOptions};

const NAMESPACE: &str = "crowded";
const OBJECTS_PER_KIND: usize = 50;
const CHAIN: usize = 10;

async fn testbed() -> Testbed {
    let options = TestbedOptions {
        nodes: 0,
        ..TestbedOptions::default()
    };
    Testbed::start(options).await.expect("it starts")
}

/// Twenty namespaced kinds, each with what an object of it needs.
fn kinds() -> Vec<Value> {
    let container = json!({ "name": "main", "image": "busybox:1.36" });
    let template = json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": { "containers": [container] },
    });
    let job_template = json!({ "spec": { "restartPolicy": "Never", "containers": [container] } });
    let labels = json!({ "matchLabels": { "app": "a" } });
    let workload = json!({ "replicas": 0, "selector": labels, "template": template });
    let hpa_target = json!({ "kind": "Deployment", "name": "a", "apiVersion": "apps/v1" });
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a" });
    let of = |api_version: &str, kind: &str, content: Value| {
        let mut object = json!({ "apiVersion": api_version, "kind": kind });
        for (key, value) in content.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    };
    let spec = |spec: Value| json!({ "spec": spec });
    let claim = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
    });
    let cron_job = json!({
        "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": job_template } },
    });
    vec![
        of("v1", "ConfigMap", json!({})),
        of("v1", "Secret", json!({})),
        of("v1", "ServiceAccount", json!({})),
        of(
            "v1",
            "Service",
            spec(json!({ "clusterIP": "None", "ports": [{ "port": 80 }] })),
        ),
        of("v1", "Endpoints", json!({})),
        of("v1", "Pod", template.clone()),
        of("v1", "PodTemplate", json!({ "template": template })),
        of("v1", "PersistentVolumeClaim", spec(claim)),
        of("v1", "LimitRange", spec(json!({ "limits": [] }))),
        of("apps/v1", "Deployment", spec(workload.clone())),
        of("apps/v1", "ReplicaSet", spec(workload.clone())),
        of("apps/v1", "StatefulSet", spec(workload)),
        of(
            "apps/v1",
            "DaemonSet",
            spec(json!({ "selector": labels, "template": template })),
        ),
        of(
            "batch/v1",
            "Job",
            spec(json!({ "parallelism": 0, "template": job_template })),
        ),
        of("batch/v1", "CronJob", spec(cron_job)),
        of(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec(json!({ "podSelector": {} })),
        ),
        of(
            "policy/v1",
            "PodDisruptionBudget",
            spec(json!({ "selector": labels })),
        ),
        of(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            spec(json!({ "maxReplicas": 2, "scaleTargetRef": hpa_target })),
        ),
        of(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({ "roleRef": role }),
        ),
        of("coordination.k8s.io/v1", "Lease", json!({})),
    ]
}

fn named(object: &Value, name: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!(NAMESPACE);
    object
}

/// Returns the objects left in the namespace, by resource.
fn left(testbed: &Testbed) -> Vec<String> {
    let mut left = std::collections::BTreeSet::new();
    for entry in testbed.journal() {
        let metadata = &entry.object["metadata"];
        if metadata["namespace"] != NAMESPACE {
            continue;
        }
        let name = format!("{}/{}", entry.gvr.resource, metadata["name"]);
        match entry.event {
            kubeproof_apiserver::EventType::Deleted => left.remove(&name),
            _ => left.insert(name),
        };
    }
    left.into_iter().collect()
}

async fn is_there(api: &Api, target: (&str, &str)) -> bool {
    api.get(target, None).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_a_thousand_objects_of_twenty_kinds_goes_completely() {
    let testbed = testbed().await;
    let api = testbed.api();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
    });
    api.create(&namespace).await.unwrap();
    testbed.settle(QUIET).await.unwrap();
    let kinds = kinds();
    assert_eq!(kinds.len(), 20);
    for kind in &kinds {
        for index in 0..OBJECTS_PER_KIND {
            let object = named(kind, &format!("a-{index}"));
            api.create(&object).await.unwrap();
        }
    }
    testbed.settle(QUIET).await.unwrap();
    assert!(left(&testbed).len() >= kinds.len() * OBJECTS_PER_KIND);
    api.delete(("namespaces", NAMESPACE), &json!({}))
        .await
        .unwrap();
    testbed.settle(QUIET).await.unwrap();
    assert_eq!(left(&testbed), Vec::<String>::new());
    assert!(!is_there(api, ("namespaces", NAMESPACE)).await);
    testbed.shutdown().await;
}

/// A chain of owners, each with the next as its dependent; returns the names from the first on.
async fn chain(api: &Api) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut owner: Option<Value> = None;
    for index in 0..=CHAIN {
        let name = format!("link-{index}");
        let mut link = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        });
        if let Some(owner) = owner {
            link["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": true,
            }]);
        }
        owner = Some(api.create(&link).await.expect("the link is valid"));
        names.push(name);
    }
    names
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_ten_owners_is_collected_in_the_background_and_in_the_foreground() {
    for policy in ["Background", "Foreground"] {
        let testbed = testbed().await;
        let api = testbed.api();
        let names = chain(api).await;
        testbed.settle(QUIET).await.unwrap();
        let options = json!({ "propagationPolicy": policy });
        api.delete(("configmaps", &names[0]), &options)
            .await
            .unwrap();
        testbed.settle(QUIET).await.unwrap();
        for name in &names {
            assert!(
                !is_there(api, ("configmaps", name)).await,
                "{policy}: {name}"
            );
        }
        let gone = testbed.journal();
        let gone = gone.iter().filter(|entry| {
            entry.gvr.resource == "configmaps"
                && entry.event == kubeproof_apiserver::EventType::Deleted
        });
        let mut gone: Vec<&str> = gone
            .filter_map(|entry| entry.object["metadata"]["name"].as_str())
            .collect();
        // In the foreground an owner waits for its dependents, in the background they for it.
        if policy == "Foreground" {
            gone.reverse();
        }
        assert_eq!(gone, names, "{policy}");
        testbed.shutdown().await;
    }
}

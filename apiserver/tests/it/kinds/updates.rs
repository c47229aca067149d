//! Fields that an update of a stored object may change.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::{causes, refused};
use crate::support::requests::send;

#[tokio::test]
async fn the_address_of_a_service_may_not_change() {
    let server = ApiServer::builder().build();
    let services = "/api/v1/namespaces/default/services";
    let service = json!({
        "metadata": { "name": "x" },
        "spec": { "clusterIP": "10.0.0.7", "ports": [{ "port": 80 }] },
    });
    let created = send(&server, &format!("POST {services}"), service).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let put = format!("PUT {services}/x");
    // Clients of old know one address alone, and send all others as they were.
    let mut changed = created.body.clone();
    changed["spec"]["clusterIP"] = "10.0.0.8".into();
    assert_eq!(
        causes(&send(&server, &put, changed).await),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.8\"]: may not change once set"]
    );
    let mut changed = created.body.clone();
    changed["spec"]["clusterIPs"] = json!(["10.0.0.8"]);
    assert_eq!(
        causes(&send(&server, &put, changed).await),
        ["spec.clusterIPs: Invalid value: [\"10.0.0.8\"]: first value must match `clusterIP`"]
    );
    let mut cleared = created.body.clone();
    let spec = cleared["spec"].as_object_mut().unwrap();
    spec.remove("clusterIP");
    spec.remove("clusterIPs");
    let kept = send(&server, &put, cleared).await;
    assert_eq!(kept.body["spec"], created.body["spec"]);
}

/// Creates an object `x` and updates it in vain.
async fn unchangeable(path: &str, object: Value, change: Value) -> Vec<String> {
    let server = ApiServer::builder().build();
    let mut object = object;
    object["metadata"] = json!({ "name": "x" });
    let created = send(&server, &format!("POST {path}"), object).await;
    assert_eq!(created.code, 201, "{}", created.message());
    causes(&send(&server, &format!("PATCH {path}/x"), change).await)
}

#[tokio::test]
async fn what_may_not_change_is_shown_as_upstream_s_structs() {
    let volume = json!({ "spec": {
        "capacity": { "storage": "1" }, "accessModes": ["ReadWriteOnce"],
        "hostPath": { "path": "/x" },
    } });
    let change = json!({ "spec": { "hostPath": { "path": "/y" } } });
    assert_eq!(
        unchangeable("/api/v1/persistentvolumes", volume, change).await,
        [concat!(
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after \
             creation\n@@ -2,7 +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \
             \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n",
            "-  \"Path\": \"/x\",\n+  \"Path\": \"/y\",\n",
            "   \"Type\": \"\"\n  },\n  \"Glusterfs\": null,\n"
        )]
    );
    let container = json!({ "name": "c", "image": "i" });
    let job = json!({ "spec": {
        "template": { "spec": { "restartPolicy": "Never", "containers": [container] } },
    } });
    let change = json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "c", "image": "j" }],
    } } } });
    let faults = unchangeable("/apis/batch/v1/namespaces/default/jobs", job, change).await;
    let begin =
        "spec.template: Invalid value: {\"labels\":{\"batch.kubernetes.io/controller-uid\":";
    assert!(faults[0].starts_with(begin), "{}", faults[0]);
    assert!(
        faults[0].contains("},\"Spec\":{\"Volumes\":null,\"InitContainers\":null,\"Containers\":[{\"Name\":\"c\",\"Image\":\"j\",")
    );
}

#[tokio::test]
async fn claims_of_a_stored_statefulset_are_not_looked_at_again() {
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let server = ApiServer::builder().build();
    let set = |modes: Value, label: &str| {
        let template = json!({
            "metadata": { "labels": { "a": "b", "c": label } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        });
        let claim = json!({
            "apiVersion": "odd", "kind": "Odd", "metadata": { "name": "v" },
            "spec": { "accessModes": modes, "resources": { "requests": { "storage": "1Gi" } } },
        });
        json!({ "metadata": { "name": "x" }, "spec": {
            "selector": { "matchLabels": { "a": "b" } }, "template": template,
            "volumeClaimTemplates": [claim],
        } })
    };
    let made = send(
        &server,
        &format!("POST {sets}"),
        set(json!(["ReadWriteOnce"]), "d"),
    )
    .await;
    assert_eq!(made.code, 201, "{}", made.message());
    let claim = &made.body["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["kind"], "PersistentVolumeClaim");
    assert_eq!(claim["apiVersion"], "v1");
    let put = send(&server, &format!("PUT {sets}/x"), set(json!([]), "d ")).await;
    let causes = causes(&put);
    let fields: Vec<&str> = causes
        .iter()
        .filter_map(|cause| cause.split(':').next())
        .collect();
    assert_eq!(
        fields,
        ["spec.template.labels", "spec.template.labels", "spec"]
    );
}

#[tokio::test]
async fn a_text_that_is_there_is_no_default_even_if_it_is_empty() {
    let class = json!({
        "provisioner": "a.io/b", "reclaimPolicy": "", "volumeBindingMode": "",
    });
    assert_eq!(
        refused("/apis/storage.k8s.io/v1/storageclasses", class).await,
        [
            "volumeBindingMode: Unsupported value: \"\": supported values: \"Immediate\", \
          \"WaitForFirstConsumer\""
        ]
    );
    let parameters = json!({ "kind": "K", "name": "n", "scope": "" });
    let class = json!({ "spec": { "controller": "a.io/b", "parameters": parameters } });
    assert_eq!(
        refused("/apis/networking.k8s.io/v1/ingressclasses", class).await,
        [
            "spec.parameters.scope: Unsupported value: \"\": supported values: \"Cluster\", \
          \"Namespace\""
        ]
    );
}

#[tokio::test]
async fn a_storage_class_keeps_what_its_volumes_were_made_by() {
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let server = ApiServer::builder().build();
    let class = |provisioner: &str, policy: &str| {
        let parameters = json!({ "a": policy });
        json!({ "metadata": { "name": "x" }, "provisioner": provisioner,
            "reclaimPolicy": policy, "parameters": parameters })
    };
    let made = send(&server, &format!("POST {classes}"), class("a.io", "Delete")).await;
    assert_eq!(made.code, 201, "{}", made.message());
    let put = send(
        &server,
        &format!("PUT {classes}/x"),
        class("b.io", "Retain"),
    )
    .await;
    assert_eq!(
        causes(&put),
        [
            "parameters: Invalid value: {\"a\":\"Retain\"}: field is immutable",
            "provisioner: Invalid value: \"b.io\": field is immutable",
            "reclaimPolicy: Invalid value: \"Retain\": field is immutable",
        ]
    );
}

#[tokio::test]
async fn tolerations_of_a_stored_pod_are_looked_at_twice() {
    let server = ApiServer::builder().build();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "metadata": { "name": "x" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let mut created = send(&server, &format!("POST {pods}"), pod).await.body;
    let tolerations = created["spec"]["tolerations"].as_array_mut().unwrap();
    tolerations.push(json!({ "key": "k", "effect": "NoSchedule", "tolerationSeconds": 1 }));
    let at = format!("spec.tolerations[{}]", tolerations.len() - 1);
    let fault = format!(
        "{at}.effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when \
         `tolerationSeconds` is set"
    );
    let updated = send(&server, &format!("PUT {pods}/x"), created).await;
    assert_eq!(causes(&updated), [fault.clone(), fault]);
}

#[tokio::test]
async fn a_daemon_set_that_changes_its_selector_hears_of_that_first() {
    let server = ApiServer::builder().build();
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let set = json!({ "metadata": { "name": "x" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        },
    } });
    let created = send(&server, &format!("POST {sets}"), set).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let mut changed = created.body.clone();
    changed["spec"]["selector"]["matchLabels"]["a"] = "c".into();
    assert_eq!(
        causes(&send(&server, &format!("PUT {sets}/x"), changed).await),
        [
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
        ]
    );
}

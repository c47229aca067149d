//! Volumes, and the classes that they are of.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::refused;
use crate::support::requests::send;

const VOLUMES: &str = "/api/v1/persistentvolumes";

/// A volume with these fields in addition to its capacity and access modes.
fn volume(fields: Value) -> Value {
    let mut spec = json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] });
    let all = spec.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    json!({ "metadata": { "name": "x" }, "spec": spec })
}

#[tokio::test]
async fn each_source_of_a_volume_has_rules_of_its_own() {
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
         '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
         '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let table = [
        (
            json!({ "local": { "path": "/x" } }),
            vec![
                "spec.nodeAffinity: Required value: Local volume requires node affinity".to_owned(),
            ],
        ),
        (
            json!({ "local": { "path": "/x" }, "nodeAffinity": {} }),
            vec![
                "spec.nodeAffinity.required: Required value: must specify required node constraints"
                    .to_owned(),
            ],
        ),
        (
            json!({ "awsElasticBlockStore": { "volumeID": "v", "partition": -1 } }),
            vec![
                "spec.awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and \
                 255, inclusive"
                    .to_owned(),
            ],
        ),
        (
            json!({ "flexVolume": { "driver": "d", "options": { "a.K8s.io/x": "y", "b/c": "" } } }),
            vec![
                "spec.flexVolume.options[a.K8s.io/x]: Invalid value: \"a.K8s.io/x\": kubernetes.io \
                 and k8s.io namespaces are reserved"
                    .to_owned(),
            ],
        ),
        (
            json!({ "storageos": { "volumeName": "A", "volumeNamespace": "B" } }),
            vec![
                format!("spec.storageos.volumeName: Invalid value: \"A\": {label}"),
                format!("spec.storageos.volumeNamespace: Invalid value: \"B\": {label}"),
            ],
        ),
    ];
    for (fields, want) in table {
        assert_eq!(refused(VOLUMES, volume(fields)).await, want);
    }
}

#[tokio::test]
async fn options_of_mounts_are_for_sources_that_are_mounted_with_options() {
    let options = "volume.beta.kubernetes.io/mount-options";
    let mut own = volume(json!({ "hostPath": { "path": "/x" } }));
    own["metadata"]["annotations"] = json!({ options: "ro" });
    assert_eq!(
        refused(VOLUMES, own).await,
        [format!(
            "metadata.annotations.{options}: Forbidden: may not specify mount options for this \
             volume type"
        )]
    );
    let mut own = volume(json!({ "nfs": { "server": "s", "path": "/x" } }));
    own["metadata"]["annotations"] = json!({ options: "ro" });
    let server = ApiServer::builder().build();
    let created = send(&server, &format!("POST {VOLUMES}"), own).await;
    assert_eq!(created.code, 201, "{}", created.message());
}

#[tokio::test]
async fn a_provisioner_is_shown_in_small_letters() {
    let faults = refused(
        "/apis/storage.k8s.io/v1/storageclasses",
        json!({ "provisioner": "Bad/_X" }),
    )
    .await;
    assert!(
        faults[0].starts_with("provisioner: Invalid value: \"bad/_x\": name part must consist of"),
        "{faults:?}"
    );
}

#[tokio::test]
async fn a_valid_object_is_warned_of_though_its_name_is_taken() {
    let server = ApiServer::builder().build();
    let claims = "POST /api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({
        "metadata": { "name": "x" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1.5" } },
        },
    });
    for code in [201, 409] {
        let answer = send(&server, claims, claim.clone()).await;
        assert_eq!(answer.code, code, "{}", answer.message());
        assert_eq!(
            answer.warnings,
            [
                "299 - \"spec.resources.requests[storage]: fractional byte value \\\"1500m\\\" is \
              invalid, must be an integer\""
            ]
        );
    }
}

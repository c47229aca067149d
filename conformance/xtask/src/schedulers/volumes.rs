//! Generated claims of a pod, and their volumes.

use serde_json::{Value, json};

use super::draw::Draw;
use super::names::{HOSTNAME, ZONE};
use super::nodes::Node;
use super::server::Stored;

/// The storage classes of every case: name, provisioner, binding mode, zones.
const CLASSES: &[(&str, &str, &str, &[&str])] = &[
    ("now", "example.com/disk", "Immediate", &[]),
    ("wait", "example.com/disk", "WaitForFirstConsumer", &[]),
    (
        "wait-zone",
        "example.com/disk",
        "WaitForFirstConsumer",
        &["a", "b"],
    ),
    (
        "local",
        "kubernetes.io/no-provisioner",
        "WaitForFirstConsumer",
        &[],
    ),
];

pub(super) fn classes() -> Vec<Value> {
    let classes = CLASSES.iter().map(|(name, provisioner, mode, zones)| {
        let mut class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": name },
            "provisioner": provisioner,
            "volumeBindingMode": mode,
        });
        if !zones.is_empty() {
            let rule = json!({ "key": ZONE, "values": zones });
            class["allowedTopologies"] = json!([{ "matchLabelExpressions": [rule] }]);
        }
        class
    });
    classes.collect()
}

/// The volumes of a pod, and the stored objects that they need.
#[derive(Default)]
pub(super) struct Volumes {
    pub(super) stored: Vec<Stored>,
    pub(super) of_pod: Vec<Value>,
}

/// Draws one or two claims of a pod in `namespace`.
pub(super) fn volumes(draw: &Draw, (case, namespace): (u64, &str), nodes: &[Node]) -> Volumes {
    let mut volumes = Volumes::default();
    for number in 0..draw.between(1, 2) {
        let name = format!("claim-{case}-{number}");
        let kind = draw.below(12);
        let claim_volume =
            json!({ "name": format!("v{number}"), "persistentVolumeClaim": { "claimName": name } });
        match kind {
            // The claim does not exist.
            0 => {}
            1 => {
                let claim = claim(&name, namespace, draw.pick(&["now", "now", "gone"]));
                volumes.stored.push(Stored::new(claim));
            }
            2 | 3 => {
                let class = draw.pick(&["wait", "wait-zone"]);
                volumes
                    .stored
                    .push(Stored::new(claim(&name, namespace, class)));
            }
            4..=6 => {
                let mut local = claim(&name, namespace, "local");
                local["spec"]["resources"]["requests"]["storage"] =
                    json!(draw.pick(&["1Gi", "5Gi"]));
                volumes.stored.push(Stored::new(local));
                for index in 0..draw.below(4) {
                    let name = format!("local-{case}-{number}-{index}");
                    volumes
                        .stored
                        .push(Stored::new(available(draw, &name, nodes)));
                }
            }
            7 => {
                let template = json!({ "spec": claim_spec("wait") });
                let ephemeral = json!({ "name": format!("v{number}"), "ephemeral": { "volumeClaimTemplate": template } });
                volumes.of_pod.push(ephemeral);
                continue;
            }
            _ => volumes
                .stored
                .extend(bound(draw, (&name, namespace), nodes)),
        }
        volumes.of_pod.push(claim_volume);
    }
    if draw.chance(15) {
        volumes.of_pod.push(super::terms::disk(draw));
    }
    volumes
}

fn claim_spec(class: &str) -> Value {
    json!({
        "storageClassName": class,
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
    })
}

fn claim(name: &str, namespace: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": namespace },
        "spec": claim_spec(class),
    })
}

fn volume(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name, "labels": {} },
        "spec": {
            "capacity": { "storage": size },
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "csi": { "driver": "example.com", "volumeHandle": name },
        },
    })
}

fn node_affinity(draw: &Draw, nodes: &[Node]) -> Value {
    let rule = match draw.below(3) {
        0 => json!({ "key": ZONE, "operator": "In", "values": [draw.pick(&["a", "b"])] }),
        1 => json!({ "key": "disk", "operator": "Exists" }),
        _ => {
            let name = &nodes[draw.below(nodes.len())].name;
            json!({ "key": HOSTNAME, "operator": "In", "values": [name] })
        }
    };
    json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [rule] }] } })
}

/// Draws a local volume that no claim has.
fn available(draw: &Draw, name: &str, nodes: &[Node]) -> Value {
    let mut volume = volume(name, "local", draw.pick(&["1Gi", "2Gi", "10Gi"]));
    volume["spec"]["nodeAffinity"] = node_affinity(draw, nodes);
    volume
}

/// Draws a claim that is bound, and its volume, which may be gone.
fn bound(draw: &Draw, (name, namespace): (&str, &str), nodes: &[Node]) -> Vec<Stored> {
    let mut claim = claim(name, namespace, "now");
    let volume_name = format!("volume-of-{name}");
    claim["spec"]["volumeName"] = json!(volume_name);
    if !draw.chance(10) {
        claim["metadata"]["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
    }
    if draw.chance(10) {
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    }
    let phase = if draw.chance(8) { "Lost" } else { "Bound" };
    let claim = Stored::new(claim).status(json!({ "status": { "phase": phase } }));
    if draw.chance(10) {
        return vec![claim];
    }
    let mut volume = volume(&volume_name, "now", "1Gi");
    volume["spec"]["claimRef"] = json!({ "namespace": namespace, "name": name });
    if draw.chance(60) {
        volume["spec"]["nodeAffinity"] = node_affinity(draw, nodes);
    }
    if draw.chance(30) {
        volume["metadata"]["labels"] = json!({ ZONE: draw.pick(&["a", "b", "a__c"]) });
    }
    let volume = Stored::new(volume).status(json!({ "status": { "phase": "Bound" } }));
    vec![claim, volume]
}

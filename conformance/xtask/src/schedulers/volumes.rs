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
    ("room", CSI_DRIVER, "WaitForFirstConsumer", &[]),
];
/// The driver of bound volumes, which has limits on some nodes.
const DRIVER: &str = "example.com";
/// The driver that says how much room it has.
const CSI_DRIVER: &str = "csi.example.com";

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
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": { "name": CSI_DRIVER },
        "spec": { "storageCapacity": true },
    });
    classes.chain([driver]).collect()
}

/// Draws how many volumes the nodes can have, which they have already, and where there is room.
pub(super) fn limits(draw: &Draw, case: u64, nodes: &[Node]) -> Vec<Value> {
    let mut objects = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        if draw.chance(60) {
            let driver = |name: &str| {
                let count = draw.below(3);
                json!({ "name": name, "nodeID": "n", "allocatable": { "count": count } })
            };
            objects.push(json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": { "name": node.name },
                "spec": { "drivers": [driver(DRIVER), driver(CSI_DRIVER)] },
            }));
        }
        if draw.chance(30) {
            let name = format!("attached-{case}-{number}");
            objects.push(volume(&name, "now", "1Gi"));
            objects.push(json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": { "name": name },
                "spec": {
                    "attacher": DRIVER, "nodeName": node.name,
                    "source": { "persistentVolumeName": name },
                },
            }));
        }
    }
    for number in 0..draw.below(4) {
        let mut capacity = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": { "name": format!("room-{case}-{number}"), "namespace": "default" },
            "storageClassName": draw.pick(&["room", "room", "wait"]),
            "capacity": draw.pick(&["512Mi", "1Gi", "10Gi"]),
        });
        if draw.chance(30) {
            capacity["maximumVolumeSize"] = json!(draw.pick(&["512Mi", "1Gi"]));
        }
        if !draw.chance(15) {
            capacity["nodeTopology"] = match draw.below(3) {
                0 => json!({}),
                1 => json!({ "matchLabels": { ZONE: draw.pick(&["a", "b"]) } }),
                _ => json!({ "matchExpressions": [{ "key": "disk", "operator": "Exists" }] }),
            };
        }
        objects.push(capacity);
    }
    objects
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
                let class = draw.pick(&["wait", "wait-zone", "room", "room"]);
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
            "csi": { "driver": DRIVER, "volumeHandle": name },
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

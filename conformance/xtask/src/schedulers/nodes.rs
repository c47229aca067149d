//! Generated nodes and the pods on them.

use serde_json::{Value, json};

use super::draw::Draw;
use super::feature::Features;
use super::names::{APPS, HOSTNAME, NAMESPACES, ZONE};
use super::terms;

/// A generated node.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) object: Value,
    /// The taints that it gets after its creation, which adds the taint of nodes that are not ready.
    pub(super) taints: Value,
}

/// Draws the nodes of the case `case`.
pub(super) fn nodes(draw: &Draw, case: u64, features: Features) -> Vec<Node> {
    let count = match draw.below(10) {
        0 => draw.between(31, 49),
        1..=3 => draw.between(13, 30),
        _ => draw.between(1, 12),
    };
    // The image has the same size on all nodes.
    let image_size = draw.between(1, 40) * 50_000_000;
    (0..count)
        .map(|index| {
            let mut node = node(draw, &format!("node-{case}-{index}"), features);
            if draw.chance(25) {
                let images = json!([{ "names": ["app:latest"], "sizeBytes": image_size }]);
                node.object["status"]["images"] = images;
            }
            node
        })
        .collect()
}

fn node(draw: &Draw, name: &str, features: Features) -> Node {
    let mut labels = json!({});
    if !draw.chance(5) {
        labels[HOSTNAME] = json!(name);
    }
    if !draw.chance(10) {
        labels[ZONE] = json!(draw.pick(&["a", "b", "c"]));
    }
    if draw.chance(60) {
        labels["disk"] = json!(draw.pick(&["ssd", "hdd"]));
    }
    if draw.chance(70) {
        labels["cores"] = json!(draw.pick(&["2", "4", "8", "many"]));
    }
    let mut allocatable = json!({
        "cpu": draw.pick(&["500m", "1", "2", "4", "8"]),
        "memory": draw.pick(&["512Mi", "1Gi", "4Gi", "16Gi"]),
    });
    if !draw.chance(4) {
        let places = [
            "2",
            "4",
            "110",
            if features.preemption { "6" } else { "110" },
        ];
        allocatable["pods"] = json!(draw.pick(&places));
    }
    if draw.chance(70) {
        allocatable["ephemeral-storage"] = json!(draw.pick(&["1Gi", "20Gi"]));
    }
    if draw.chance(40) {
        allocatable["example.com/gpu"] = json!(draw.pick(&["0", "1", "4"]));
    }
    if draw.chance(30) {
        allocatable["hugepages-2Mi"] = json!(draw.pick(&["4Mi", "64Mi"]));
    }
    let mut taints = Vec::new();
    let mut spec = json!({});
    if features.taints {
        if draw.chance(30) {
            taints.push(taint(draw));
        }
        if draw.chance(10) {
            let second = taint(draw);
            if !taints.iter().any(|first: &Value| {
                (&first["key"], &first["effect"]) == (&second["key"], &second["effect"])
            }) {
                taints.push(second);
            }
        }
        if draw.chance(8) {
            spec["unschedulable"] = json!(true);
        }
    }
    Node {
        name: name.to_owned(),
        object: json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": labels },
            "spec": spec,
            "status": { "allocatable": allocatable, "capacity": allocatable },
        }),
        taints: json!(taints),
    }
}

fn taint(draw: &Draw) -> Value {
    json!({
        "key": draw.pick(&["dedicated", "spot"]),
        "value": draw.pick(&["gpu", "db", ""]),
        "effect": draw.pick(&["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    })
}

/// A pod that has a node already.
pub(super) struct Placed {
    pub(super) object: Value,
    pub(super) status: Value,
    /// Whether it is being deleted.
    pub(super) is_terminating: bool,
}

/// Draws the pods on the nodes.
pub(super) fn placed(draw: &Draw, nodes: &[Node], features: Features) -> Vec<Placed> {
    let mut pods = Vec::new();
    for node in nodes {
        // Preemption needs nodes without room.
        let most = if features.preemption { 9 } else { 5 };
        for index in 0..draw.below(most) {
            let number = pods.len();
            // Pods of one node have no host port in common: a kubelet refuses the second.
            pods.push(placed_pod(draw, &node.name, (number, index == 0), features));
        }
    }
    pods
}

/// Takes the room for more pods from every node, so that a pod gets a node by preemption only.
pub(super) fn fill(nodes: &mut [Node], placed: &[Placed]) {
    for node in nodes {
        let here = placed.iter().filter(|pod| {
            pod.object["spec"]["nodeName"] == node.name
                && pod.status["status"]["phase"] != "Succeeded"
        });
        node.object["status"]["allocatable"]["pods"] = json!(here.count().to_string());
    }
}

fn placed_pod(
    draw: &Draw,
    node: &str,
    (number, is_first): (usize, bool),
    features: Features,
) -> Placed {
    let (namespace, _, _) = NAMESPACES[draw.below(NAMESPACES.len())];
    let mut container = json!({ "name": "main", "image": "app" });
    container["resources"] = json!({ "requests": terms::requests(draw, features) });
    if features.ports && is_first && draw.chance(50) {
        container["ports"] = json!([terms::host_port(draw)]);
    }
    let mut spec = json!({
        "nodeName": node,
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "priorityClassName": draw.pick(&["p10", "p10", "p100", "p1000"]),
    });
    if features.pod_affinity && draw.chance(15) {
        let mut affinity = json!({});
        affinity["podAntiAffinity"] = terms::pod_terms(draw, 1);
        spec["affinity"] = affinity;
    }
    if features.volumes && draw.chance(10) {
        spec["volumes"] = json!([terms::disk(draw)]);
    }
    let phase = match draw.below(20) {
        0 => "Succeeded",
        1 => "Pending",
        _ => "Running",
    };
    // Each pod starts at another time, so that the order of victims is certain.
    let start = format!("2026-01-01T{:02}:{:02}:00Z", number / 60, number % 60);
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("placed-{number}"), "namespace": namespace,
            "labels": terms::pod_labels(draw),
        },
        "spec": spec,
    });
    if draw.chance(30) {
        terms::join_set(draw, &mut object);
    }
    Placed {
        object,
        status: json!({ "status": { "phase": phase, "startTime": start } }),
        is_terminating: draw.chance(5),
    }
}

/// Draws disruption budgets, with the number of disruptions that they allow.
pub(super) fn budgets(draw: &Draw) -> Vec<(Value, Value)> {
    (0..draw.below(4))
        .map(|number| {
            let (namespace, _, _) = NAMESPACES[draw.below(NAMESPACES.len())];
            let mut spec = json!({ "minAvailable": 1 });
            match draw.below(8) {
                0 => {}
                1 => spec["selector"] = json!({}),
                _ => spec["selector"] = json!({ "matchLabels": { "app": draw.pick(APPS) } }),
            }
            let budget = json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": { "name": format!("budget-{number}"), "namespace": namespace },
                "spec": spec,
            });
            let allowed = draw.below(2);
            let status = json!({ "status": {
                "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 1,
                "expectedPods": 3, "observedGeneration": 1,
            } });
            (budget, status)
        })
        .collect()
}

//! A generated cluster with a pod that waits for a node.

use serde_json::{Value, json};

use super::draw::Draw;
use super::feature::Features;
use super::names::{NAMESPACES, ZONE};
use super::nodes::{self, Node, Placed};
use super::profiles;
use super::server::Stored;
use super::terms;
use super::volumes::{self, Volumes};

/// The priorities of every case's PriorityClasses.
const PRIORITIES: &[i32] = &[10, 100, 1000, 2000];

/// A cluster and a pod, which follow from the number of the case.
pub(super) struct Case {
    pub(super) number: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) placed: Vec<Placed>,
    pub(super) budgets: Vec<(Value, Value)>,
    pub(super) volumes: Vec<Stored>,
    /// The limits of volumes and the room for them.
    pub(super) limits: Vec<Value>,
    /// The pod that waits.
    pub(super) pod: Value,
    /// Whether the pod has a scheduling gate at first.
    pub(super) is_gated: bool,
    /// The features that occur.
    pub(super) features: Features,
}

/// Returns the objects that all cases share.
pub(super) fn shared() -> Vec<Value> {
    let namespaces = NAMESPACES.iter().filter(|(name, _, _)| *name != "default");
    let namespaces = namespaces.map(|(name, key, value)| {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { *key: value } },
        })
    });
    let classes = PRIORITIES.iter().flat_map(|priority| {
        ["", "-never"].map(|suffix| {
            json!({
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": { "name": format!("p{priority}{suffix}") },
                "value": priority,
                "preemptionPolicy": if suffix.is_empty() { "PreemptLowerPriority" } else { "Never" },
            })
        })
    });
    let sets = NAMESPACES.iter().flat_map(|(namespace, _, _)| {
        let set = |version: &str, kind: &str| {
            let labels = json!({ "set": kind });
            let selector = match kind {
                "ReplicationController" => labels.clone(),
                _ => json!({ "matchLabels": labels }),
            };
            json!({
                "apiVersion": version, "kind": kind,
                "metadata": { "name": "one", "namespace": namespace },
                "spec": {
                    "selector": selector,
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": { "containers": [{ "name": "main", "image": "app" }] },
                    },
                },
            })
        };
        let sets = terms::SETS.map(|(version, kind)| set(version, kind));
        // Pods of the other applications have no Service.
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "namespace": namespace },
            "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
        });
        sets.into_iter().chain([service])
    });
    let objects = namespaces.chain(classes).chain(sets);
    objects.chain(volumes::classes()).collect()
}

impl Case {
    /// Draws the case with this number out of the wanted features.
    pub(super) fn draw(number: u64, wanted: Features) -> Self {
        let draw = Draw::of(number);
        let features = wanted.and(Features {
            resources: draw.chance(70),
            taints: draw.chance(50),
            ports: draw.chance(25),
            node_affinity: draw.chance(40),
            pod_affinity: draw.chance(40),
            spread: draw.chance(40),
            volumes: draw.chance(25),
            preemption: draw.chance(50),
            profiles: draw.chance(60),
        });
        let mut nodes = nodes::nodes(&draw, number, features);
        if features.volumes {
            // A scheduler takes seconds to give up the volumes of a pod.
            nodes.truncate(12);
        }
        let placed = nodes::placed(&draw, &nodes, features);
        if features.preemption && draw.chance(60) {
            nodes::fill(&mut nodes, &placed);
        }
        let budgets = match features.preemption {
            true => nodes::budgets(&draw),
            false => Vec::new(),
        };
        let (namespace, _, _) = NAMESPACES[draw.below(NAMESPACES.len())];
        let Volumes { stored, of_pod } = match features.volumes {
            true => volumes::volumes(&draw, (number, namespace), &nodes),
            false => Volumes::default(),
        };
        let limits = match features.volumes {
            true => volumes::limits(&draw, number, &nodes),
            false => Vec::new(),
        };
        let mut spec = spec(&draw, features, &nodes);
        spec["volumes"] = json!(of_pod);
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "namespace": namespace, "labels": terms::pod_labels(&draw) },
            "spec": spec,
        });
        if draw.chance(40) {
            terms::join_set(&draw, &mut pod);
        }
        if features.profiles {
            pod["spec"]["schedulerName"] = json!(profiles::name(draw.below(profiles::COUNT)));
        }
        Self {
            number,
            nodes,
            placed,
            budgets,
            volumes: stored,
            limits,
            pod,
            is_gated: draw.chance(5),
            features,
        }
    }
}

/// Draws the specification of the pod that waits.
fn spec(draw: &Draw, features: Features, nodes: &[Node]) -> Value {
    let mut container = json!({ "name": "main", "image": "app" });
    container["resources"] = terms::resources(draw, features);
    if features.ports {
        container["ports"] = json!([terms::host_port(draw)]);
    }
    let mut spec = json!({ "containers": [container], "terminationGracePeriodSeconds": 30 });
    if features.resources {
        add_resources(draw, features, &mut spec);
    }
    if features.taints && draw.chance(60) {
        spec["tolerations"] = terms::tolerations(draw);
    }
    if features.preemption {
        spec["priorityClassName"] = json!(draw.pick(&["p100", "p1000", "p2000", "p2000-never"]));
    }
    if features.spread {
        spec["topologySpreadConstraints"] = terms::spread(draw);
    }
    let mut affinity = json!({});
    if features.node_affinity {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        affinity["nodeAffinity"] = node_affinity(draw, &names);
        if draw.chance(30) {
            spec["nodeSelector"] = match draw.below(2) {
                0 => json!({ ZONE: draw.pick(&["a", "b"]) }),
                _ => json!({ "disk": draw.pick(&["ssd", "hdd"]) }),
            };
        }
    }
    if features.pod_affinity {
        for kind in ["podAffinity", "podAntiAffinity"] {
            if draw.chance(55) {
                affinity[kind] = terms::pod_terms(draw, 2);
            }
            if draw.chance(40) {
                affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"] =
                    terms::preferred_pod_terms(draw);
            }
        }
    }
    spec["affinity"] = affinity;
    spec
}

fn add_resources(draw: &Draw, features: Features, spec: &mut Value) {
    if draw.chance(30) {
        let mut init = json!({ "name": "init", "image": "app" });
        init["resources"] = json!({ "requests": terms::requests(draw, features) });
        let mut all = vec![init];
        if draw.chance(50) {
            let mut sidecar =
                json!({ "name": "sidecar", "image": "app", "restartPolicy": "Always" });
            sidecar["resources"] = json!({ "requests": terms::requests(draw, features) });
            all.insert(draw.below(2), sidecar);
        }
        spec["initContainers"] = json!(all);
    }
    if draw.chance(10) {
        let total = json!({ "requests": { "cpu": "4", "memory": "6Gi" } });
        spec["resources"] = total;
    }
}

fn node_affinity(draw: &Draw, names: &[&str]) -> Value {
    let mut affinity = json!({});
    if draw.chance(80) {
        let terms = draw.between(1, 2);
        let terms: Vec<Value> = (0..terms).map(|_| terms::node_term(draw, names)).collect();
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": terms });
    }
    if draw.chance(50) {
        let preference = terms::node_term(draw, &names[..1]);
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([{ "weight": draw.between(1, 100), "preference": preference }]);
    }
    affinity
}

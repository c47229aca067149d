//! Gives a case to a server and observes what its scheduler does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::ensure;
use serde_json::{Value, json};

use super::case::Case;
use super::server::{Server, name_of, path_of};

/// The collections that a case fills.
const COLLECTIONS: &[&str] = &[
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/volumeattachments",
];
/// The seconds after which a pod counts as ignored.
const LIMIT: u32 = 20;
/// The seconds in which a scheduler gives up the volumes of a pod that is gone, or ends a preemption.
const SETTLING: u32 = 2;

/// The answer of a scheduler about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The pod has this node, or gets it once its volumes are bound.
    Placed(String),
    Refused {
        reason: String,
        message: String,
    },
    /// Nothing.
    Ignored,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed(node) => write!(f, "on {node}"),
            Self::Refused { reason, message } => write!(f, "{reason}: {message}"),
            Self::Ignored => write!(f, "nothing"),
        }
    }
}

/// The answers of a scheduler to a case.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The outcomes of copies of the pod that want one node, by node.
    pub(super) by_node: BTreeMap<String, Outcome>,
    /// The outcome of the pod.
    pub(super) pod: Outcome,
    /// The node on which the pod waits for victims to end.
    pub(super) nominated: Option<String>,
    /// The victims of its preemption.
    pub(super) victims: BTreeSet<String>,
}

/// Gives the case to the server and observes its scheduler. `attempt` numbers the runs of a case.
pub(super) fn observe(server: &Server, case: &Case, attempt: usize) -> anyhow::Result<Observed> {
    server.clear(COLLECTIONS)?;
    await_nodes(server, 0)?;
    set_up(server, case)?;
    let mut by_node = BTreeMap::new();
    for (index, node) in case.nodes.iter().enumerate() {
        let mut pod = pinned(&case.pod, &node.name);
        pod["metadata"]["name"] = json!(format!("probe-{}-{attempt}-{index}", case.number));
        let outcome = try_pod(server, &pod)?;
        server.delete(&path_of(&pod)?, 0)?;
        if matches!(outcome, Outcome::Placed(_)) {
            restore_volumes(server, case)?;
        }
        by_node.insert(node.name.clone(), outcome);
    }
    let mut pod = case.pod.clone();
    pod["metadata"]["name"] = json!(format!("pod-{}-{attempt}", case.number));
    if case.is_gated {
        pod["spec"]["schedulingGates"] = json!([{ "name": "example.com/wait" }]);
    }
    let outcome = try_pod(server, &pod)?;
    let mut victims = BTreeSet::new();
    let mut nominated = None;
    if matches!(&outcome, Outcome::Refused { message, .. } if !message.contains("preemption: ")) {
        server.watch::<()>(
            "/api/v1/nodes?fieldSelector=metadata.name=none",
            SETTLING,
            |_| None,
        )?;
        for other in server.list("/api/v1/pods")? {
            if !other["metadata"]["deletionTimestamp"].is_null() {
                victims.insert(name_of(&other).to_owned());
            }
            if name_of(&other) == name_of(&pod) {
                let node = other["status"]["nominatedNodeName"].as_str();
                nominated = node.map(str::to_owned);
            }
        }
        let placed = case.placed.iter().filter(|placed| placed.is_terminating);
        placed.for_each(|placed| _ = victims.remove(name_of(&placed.object)));
    }
    Ok(Observed {
        by_node,
        pod: outcome,
        nominated,
        victims,
    })
}

/// Creates the objects of the case, and waits until the scheduler knows them.
fn set_up(server: &Server, case: &Case) -> anyhow::Result<()> {
    for (budget, status) in &case.budgets {
        server.create(budget)?;
        server.patch(&format!("{}/status", path_of(budget)?), status)?;
    }
    for stored in &case.volumes {
        server.store(stored)?;
    }
    for object in &case.limits {
        server.create(object)?;
    }
    for node in &case.nodes {
        server.create(&node.object)?;
        let taints = json!({ "spec": { "taints": node.taints } });
        server.patch(&path_of(&node.object)?, &taints)?;
    }
    for placed in &case.placed {
        server.create(&placed.object)?;
        let path = path_of(&placed.object)?;
        server.patch(&format!("{path}/status"), &placed.status)?;
        if placed.is_terminating {
            server.delete(&path, 30)?;
        }
    }
    // The last node stays as a new node is: not ready.
    let last = format!("node-{}-last", case.number);
    server.create(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": last },
    }))?;
    await_nodes(server, case.nodes.len() + 1)
}

/// Returns when the scheduler has seen the nodes, all of which refuse the pod that asks for them.
fn await_nodes(server: &Server, count: usize) -> anyhow::Result<()> {
    let expected = match count {
        0 => "no nodes available".to_owned(),
        _ => format!("0/{count} nodes are available"),
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "canary", "namespace": "default" },
        "spec": {
            "containers": [{ "name": "main", "image": "app" }],
            "nodeSelector": { "example.com/none": "true" },
        },
    });
    for _ in 0..1000 {
        let outcome = try_pod(server, &pod)?;
        server.delete(&path_of(&pod)?, 0)?;
        match outcome {
            Outcome::Refused { message, .. } if message.starts_with(&expected) => return Ok(()),
            _ => {}
        }
    }
    anyhow::bail!("the scheduler does not see {count} nodes")
}

/// Stores the volumes and claims of the case anew, unless all of them were bound from the beginning.
fn restore_volumes(server: &Server, case: &Case) -> anyhow::Result<()> {
    let is_bound = |stored: &super::server::Stored| stored.status.is_some();
    if case.volumes.iter().all(is_bound) {
        return Ok(());
    }
    server.clear(&COLLECTIONS[2..4])?;
    let attached = case.limits.iter();
    for volume in attached.filter(|own| own["kind"] == "PersistentVolume") {
        server.create(volume)?;
    }
    server.watch::<()>(
        "/api/v1/nodes?fieldSelector=metadata.name=none",
        SETTLING,
        |_| None,
    )?;
    case.volumes
        .iter()
        .try_for_each(|stored| server.store(stored))?;
    server.watch::<()>("/api/v1/nodes?fieldSelector=metadata.name=none", 1, |_| {
        None
    })?;
    Ok(())
}

/// Creates a pod and returns the first thing that the scheduler says about it. A gated pod is let go first.
fn try_pod(server: &Server, pod: &Value) -> anyhow::Result<Outcome> {
    let created = server.create(pod)?;
    if !pod["spec"]["schedulingGates"].is_null() {
        ensure!(
            created["status"]["conditions"][0]["reason"] == "SchedulingGated",
            "a gated pod is not said to be gated: {created}"
        );
        let open = json!({ "spec": { "schedulingGates": null } });
        server.patch(&path_of(pod)?, &open)?;
    }
    let namespace = created["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default();
    let query = format!(
        "/api/v1/namespaces/{namespace}/pods?fieldSelector=metadata.name={}",
        name_of(pod)
    );
    let outcome = server.watch(&query, LIMIT, outcome_of)?;
    Ok(outcome.unwrap_or(Outcome::Ignored))
}

fn outcome_of(pod: &Value) -> Option<Outcome> {
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        return Some(Outcome::Placed(node.to_owned()));
    }
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let refusal = conditions.find(|condition| {
        condition["type"] == "PodScheduled"
            && condition["status"] == "False"
            && condition["reason"] != "SchedulingGated"
    });
    if let Some(refusal) = refusal {
        let text = |field: &str| refusal[field].as_str().unwrap_or_default().to_owned();
        return Some(Outcome::Refused {
            reason: text("reason"),
            message: text("message"),
        });
    }
    let nominated = pod["status"]["nominatedNodeName"].as_str();
    nominated.map(|node| Outcome::Placed(node.to_owned()))
}

/// Returns a copy of the pod that wants this node only, and never preempts.
fn pinned(pod: &Value, node: &str) -> Value {
    let mut pod = pod.clone();
    let spec = &mut pod["spec"];
    let class = spec["priorityClassName"].as_str().map(str::to_owned);
    if let Some(class) = class.filter(|class| !class.ends_with("-never")) {
        spec["priorityClassName"] = json!(format!("{class}-never"));
    }
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    let required =
        &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required["nodeSelectorTerms"].as_array_mut() {
        None => *required = json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] }),
        Some(terms) => {
            for term in terms {
                let has_rules = !term["matchExpressions"].is_null();
                match term["matchFields"].as_array_mut() {
                    Some(fields) => fields.push(field.clone()),
                    // A term without rules matches no node, and stays so.
                    None if !has_rules => {
                        term["matchFields"] = json!([
                            field,
                            { "key": "metadata.name", "operator": "NotIn", "values": [node] },
                        ]);
                    }
                    None => term["matchFields"] = json!([field]),
                }
            }
        }
    }
    pod
}

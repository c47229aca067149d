//! The node lifecycle controller: detects silent nodes, updates their conditions and those of their
//! pods, and taints them.

mod health;
mod pods;
mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join4;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::taints::{
    self, NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE,
};
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use self::health::Health;
use self::zones::{Turn, Zones, zone_of};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "node-controller";

/// The period of the health checks.
const PERIOD: Duration = Duration::from_secs(5);
/// The namespace in which kubelets renew their leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The most attempts of a status update in one check, ...
const WRITES_MAX: usize = 5;
/// ... and after which pause.
const WRITE_PAUSE: Duration = Duration::from_millis(20);
/// The number of objects synced at once.
const WORKERS: usize = 8;
/// Nodes with this label say nothing about how their zone is doing.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// The taints that follow from conditions: the condition's type, its status, the taint.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
/// Labels that are kept under their old name as well.
const MIRRORED_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

struct Controller {
    ctx: Context,
    recorder: Recorder,
    nodes: Informer<Node>,
    leases: Informer<Lease>,
    pods: Informer<Pod>,
    /// Nodes, by name, whose taints may have to follow their conditions.
    queue: WorkQueue<ObjectKey>,
    /// Pods that were bound.
    bound: WorkQueue<ObjectKey>,
    state: Mutex<State>,
    /// A zone has a node to be emptied, or another pace.
    zones_changed: Notify,
}

#[derive(Default)]
struct State {
    /// The uids by name of the nodes that an event reported as registered.
    known: BTreeMap<String, String>,
    health: BTreeMap<String, Health>,
    zones: Zones,
    /// Nodes some of whose pods could not be marked.
    unmarked: BTreeMap<String, ()>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        nodes: Informer::new(),
        leases: Informer::new(),
        pods: Informer::new(),
        queue: WorkQueue::new(),
        bound: WorkQueue::new(),
        state: Mutex::default(),
        zones_changed: Notify::new(),
    };
    let leases = Api::namespaced(controller.ctx.client.clone(), LEASE_NAMESPACE);
    Informers::new(&controller.ctx.client)
        .add(&controller.nodes, |change| controller.take_in_node(change))
        .add_with(
            &controller.leases,
            leases,
            watcher::Config::default(),
            |_| {},
        )
        .add(&controller.pods, |change| controller.take_in_pod(change))
        .run(controller.work())
        .await;
}

impl Controller {
    fn take_in_node(&self, change: &Change<Node>) {
        match change {
            Change::Added(node) | Change::Updated { new: node, .. } => {
                self.queue.add(ObjectKey::of(&**node));
            }
            Change::Deleted { last: node, .. } => {
                self.state.lock().unmarked.remove(&node.name_any());
            }
        }
    }

    fn take_in_pod(&self, change: &Change<Pod>) {
        let pod = match change {
            Change::Added(pod) => pod,
            Change::Updated { old, new } if pods::node_of(old) != pods::node_of(new) => new,
            Change::Updated { .. } | Change::Deleted { .. } => return,
        };
        if pods::node_of(pod).is_some() {
            self.bound.add(ObjectKey::of(&**pod));
        }
    }

    async fn work(&self) {
        let monitor = async {
            loop {
                self.monitor().await;
                tokio::time::sleep(PERIOD).await;
            }
        };
        let marking = pods::Bound(self);
        join4(
            worker::run(self, &self.queue, WORKERS),
            worker::run(&marking, &self.bound, WORKERS),
            self.empty_nodes(),
            monitor,
        )
        .await;
    }

    fn api(&self) -> Api<Node> {
        Api::all(self.ctx.client.clone())
    }

    /// Looks at every node once.
    async fn monitor(&self) {
        let nodes = self.nodes.all();
        self.register(&nodes).await;
        let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for node in &nodes {
            let ready = match self.look_at(node).await {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::warn!(node = node.name_any(), %error, "health not updated");
                    continue;
                }
            };
            if !node.labels().contains_key(EXCLUDED) {
                let (up, down) = counts.entry(zone_of(node)).or_default();
                let counter = if ready.as_deref() == Some("True") {
                    up
                } else {
                    down
                };
                *counter += 1;
            }
        }
        let now = (self.ctx.now)();
        let turn = self.state.lock().zones.judge(&counts, now);
        match turn {
            Turn::None => {}
            Turn::EnterMasterDisruption => {
                for node in &nodes {
                    self.mark_reachable(node).await;
                }
            }
            Turn::ExitMasterDisruption => {
                for health in self.state.lock().health.values_mut() {
                    health.probed = now;
                }
            }
        }
        self.zones_changed.notify_one();
    }

    /// Records events of nodes that were added and removed since the last call.
    async fn register(&self, nodes: &[Arc<Node>]) {
        let mut gone = std::mem::take(&mut self.state.lock().known);
        let mut known = BTreeMap::new();
        for node in nodes {
            let (name, uid) = (node.name_any(), node.uid().unwrap_or_default());
            if gone.remove(&name).is_none() {
                let event = format!("Registered Node {name} in Controller");
                self.record_node_event(&name, &uid, "RegisteredNode", &event)
                    .await;
                self.mark_reachable(node).await;
            }
            known.insert(name, uid);
        }
        for (name, uid) in &gone {
            let event = format!("Removing Node {name} from Controller");
            self.record_node_event(name, uid, "RemovingNode", &event)
                .await;
        }
        let mut state = self.state.lock();
        for name in gone.keys() {
            state.health.remove(name);
        }
        state.known = known;
    }

    async fn record_node_event(&self, name: &str, uid: &str, reason: &str, event: &str) {
        let message = format!("Node {name} event: {event}");
        self.publish(name, uid, reason, &message).await;
    }

    async fn publish(&self, name: &str, uid: &str, reason: &str, message: &str) {
        let involved = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        self.recorder
            .publish(&involved, EventType::Normal, reason, message)
            .await;
    }

    /// Looks at one node; returns the status of its condition Ready as it is now.
    async fn look_at(&self, node: &Arc<Node>) -> Result<Option<String>, Error> {
        let name = node.name_any();
        let (observed, current) = self.update_health(node).await?;
        let Some(current) = current else {
            return Ok(None);
        };
        match observed.as_str() {
            "True" => self.mark_reachable(node).await,
            "False" => self.taint_later(node, NOT_READY, UNREACHABLE).await,
            _ => self.taint_later(node, UNREACHABLE, NOT_READY).await,
        }
        let has_failed = current != "True" && observed == "True";
        let is_unmarked = self.state.lock().unmarked.remove(&name).is_some();
        if has_failed {
            let message = format!("Node {name} status is now: NodeNotReady");
            let uid = node.uid().unwrap_or_default();
            self.publish(&name, &uid, "NodeNotReady", &message).await;
        }
        if has_failed || (is_unmarked && observed != "True") {
            let mut pods = self.pods.all();
            pods.retain(|pod| pods::node_of(pod) == Some(&name));
            if let Err(error) = self.mark_not_ready(&pods).await {
                tracing::warn!(node = name, %error, "pods not marked");
                self.state.lock().unmarked.insert(name, ());
            }
        }
        Ok(Some(current))
    }

    /// Writes the conditions of a node that is overdue. Returns the status of its condition Ready
    /// as it came and as it is now.
    async fn update_health(&self, node: &Node) -> Result<(String, Option<String>), Error> {
        let name = node.name_any();
        let mut node = node.clone();
        let mut attempts = 0;
        loop {
            let now = (self.ctx.now)();
            let lease = self.leases.get(LEASE_NAMESPACE, &name);
            let before = self.state.lock().health.get(&name).cloned();
            let seen = health::observe(before.as_ref(), &node, lease.as_deref(), now);
            let mut current = health::ready(&node).cloned();
            let mut health = seen.health;
            if let Some(ready) = seen.overdue.iter().find(|one| one.type_ == "Ready") {
                current = Some(ready.clone());
                health.ready = current.clone();
            }
            attempts += 1;
            let written = self.write_conditions(&node, &seen.overdue).await;
            match written {
                Ok(()) => {
                    self.state.lock().health.insert(name, health);
                    return Ok((seen.observed, current.map(|ready| ready.status)));
                }
                Err(error) if attempts == WRITES_MAX => return Err(error),
                Err(_) => {
                    tokio::time::sleep(WRITE_PAUSE).await;
                    node = self.api().get(&name).await?;
                }
            }
        }
    }

    async fn write_conditions(
        &self,
        node: &Node,
        conditions: &[k8s_openapi::api::core::v1::NodeCondition],
    ) -> Result<(), Error> {
        if conditions.is_empty() {
            return Ok(());
        }
        let patch = Patch::Strategic(json!({
            "metadata": { "resourceVersion": node.resource_version() },
            "status": { "conditions": conditions },
        }));
        let params = PatchParams::default();
        self.api()
            .patch_status(&node.name_any(), &params, &patch)
            .await?;
        Ok(())
    }

    /// Takes the taints away that drive pods from the node.
    async fn mark_reachable(&self, node: &Node) {
        let name = node.name_any();
        self.state.lock().zones.remove(&zone_of(node), &name);
        let both = [UNREACHABLE, NOT_READY];
        if both.iter().any(|key| taints::has(node, key, NO_EXECUTE)) {
            self.swap(&name, NO_EXECUTE, (&[], &both)).await;
        }
    }

    /// Taints a node that has failed with `key` when the turn of its zone comes, and at once if it
    /// has `opposite`.
    async fn taint_later(&self, node: &Node, key: &str, opposite: &str) {
        if taints::has(node, opposite, NO_EXECUTE) {
            self.swap(&node.name_any(), NO_EXECUTE, (&[key], &[opposite]))
                .await;
        } else if !taints::has(node, key, NO_EXECUTE) {
            let zone = zone_of(node);
            self.state.lock().zones.add(&zone, &node.name_any());
        }
    }

    async fn swap(&self, node: &str, effect: &str, change: (&[&str], &[&str])) {
        let now = (self.ctx.now)();
        if let Err(error) = taints::swap(&self.api(), node, effect, change, now).await {
            tracing::warn!(node, %error, "taints not written");
        }
    }

    /// Taints the nodes that have failed, at the pace of their zones. Never returns.
    async fn empty_nodes(&self) {
        loop {
            let now = (self.ctx.now)();
            let (due, next) = self.state.lock().zones.due(now);
            for name in due {
                let Some(node) = self.nodes.get("", &name) else {
                    continue;
                };
                let ready = health::ready(&node).map(|ready| ready.status.as_str());
                match ready {
                    Some("False") => {
                        let change: (&[&str], &[&str]) = (&[NOT_READY], &[UNREACHABLE]);
                        self.swap(&name, NO_EXECUTE, change).await;
                    }
                    Some("Unknown") => {
                        let change: (&[&str], &[&str]) = (&[UNREACHABLE], &[NOT_READY]);
                        self.swap(&name, NO_EXECUTE, change).await;
                    }
                    _ => {}
                }
            }
            let wait = next.map(|next| next.duration_since((self.ctx.now)()).unsigned_abs());
            tokio::select! {
                biased;
                () = self.zones_changed.notified() => {}
                () = sleep_or_never(wait) => {}
            }
        }
    }
}

async fn sleep_or_never(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

impl Reconcile for Controller {
    /// Brings the taints that only keep pods away in line with the node's conditions.
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(node) = self.nodes.get("", &key.name) else {
            return Ok(None);
        };
        let (add, remove) = condition_taints(&node);
        if !add.is_empty() || !remove.is_empty() {
            let now = (self.ctx.now)();
            taints::swap(&self.api(), &key.name, NO_SCHEDULE, (&add, &remove), now).await?;
        }
        let labels = missing_labels(&node);
        if !labels.is_empty() {
            let patch = Patch::Strategic(json!({ "metadata": { "labels": labels } }));
            let params = PatchParams::default();
            self.api().patch(&key.name, &params, &patch).await?;
        }
        Ok(None)
    }
}

/// The keys of the taints that the node's conditions and its cordon call for and that it lacks,
/// and of those that it has without reason.
fn condition_taints(node: &Node) -> (Vec<&'static str>, Vec<&'static str>) {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut wanted: Vec<&'static str> = Vec::new();
    for condition in conditions.flatten() {
        let follows = CONDITION_TAINTS
            .iter()
            .find(|(type_, status, _)| *type_ == condition.type_ && *status == condition.status);
        wanted.extend(follows.map(|(_, _, key)| *key));
    }
    let spec = node.spec.as_ref();
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push(UNSCHEDULABLE);
    }
    let mut add = wanted.clone();
    add.retain(|key| !taints::has(node, key, NO_SCHEDULE));
    let known = CONDITION_TAINTS.iter().map(|(_, _, key)| *key);
    let mut remove: Vec<&'static str> = known.chain([UNSCHEDULABLE]).collect();
    remove.retain(|key| !wanted.contains(key) && taints::has(node, key, NO_SCHEDULE));
    (add, remove)
}

/// Labels to be added under their old names, or to be brought in line with the new ones.
fn missing_labels(node: &Node) -> BTreeMap<&'static str, String> {
    let labels = node.labels();
    let missing = MIRRORED_LABELS.iter().filter_map(|(name, old)| {
        let value = labels.get(*name)?;
        (labels.get(*old) != Some(value)).then(|| (*old, value.clone()))
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::Value;

    use super::*;

    fn node(taints: &Value, ready: &str, cordoned: bool) -> Node {
        from_value(json!({
            "metadata": {"name": "a", "labels": {"kubernetes.io/os": "linux",
                "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64"}},
            "spec": {"taints": taints, "unschedulable": cordoned},
            "status": {"conditions": [{"type": "DiskPressure", "status": "False"},
                {"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    #[test]
    fn taints_that_keep_pods_away_follow_conditions_and_cordon() {
        let none: [&str; 0] = [];
        let (add, remove) = condition_taints(&node(&json!([]), "Unknown", true));
        assert_eq!(add, [UNREACHABLE, UNSCHEDULABLE]);
        assert_eq!(remove, none);
        let taints = json!([{"key": NOT_READY, "effect": "NoSchedule"},
            {"key": UNREACHABLE, "effect": "NoExecute"},
            {"key": "mine", "effect": "NoSchedule"}]);
        let (add, remove) = condition_taints(&node(&taints, "True", false));
        assert_eq!(add, none);
        assert_eq!(remove, [NOT_READY]);
    }

    #[test]
    fn old_names_of_labels_follow_the_new_ones() {
        let labels = missing_labels(&node(&json!([]), "True", false));
        let expected = BTreeMap::from([("beta.kubernetes.io/os", "linux".to_owned())]);
        assert_eq!(labels, expected);
    }
}

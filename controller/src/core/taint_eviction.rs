//! The taint eviction controller: deletes pods that do not tolerate a taint of their node, or whose
//! toleration has expired.

mod schedule;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, ObjectReference, PodSpec, Taint, Toleration};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use kubeproof_runtime::clock::go_seconds;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::taints::{self, NO_EXECUTE};
use kubeproof_runtime::tolerations::tolerates;
use kubeproof_runtime::work_queue::WorkQueue;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::schedule::Schedule;
use crate::core::disruption_target;

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "taint-eviction-controller";

/// The most attempts of an eviction, ...
const EVICTIONS_MAX: usize = 5;
/// ... and the pause between them.
const EVICTION_PAUSE: Duration = Duration::from_millis(10);

/// The object that changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Node(String),
    Pod(ObjectKey),
}

struct Controller {
    ctx: Context,
    recorder: Recorder,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    queue: WorkQueue<Item>,
    /// The NoExecute taints by node.
    tainted: Mutex<BTreeMap<String, Vec<Taint>>>,
    schedule: Mutex<Schedule>,
    rescheduled: Notify,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        pods: Informer::new(),
        nodes: Informer::new(),
        queue: WorkQueue::new(),
        tainted: Mutex::default(),
        schedule: Mutex::default(),
        rescheduled: Notify::new(),
    };
    let informers = Informers::new(&controller.ctx.client)
        .add(&controller.pods, |change| controller.take_in_pod(change))
        .add(&controller.nodes, |change| controller.take_in_node(change));
    join(informers.run(controller.work()), controller.evict_due()).await;
}

impl Controller {
    fn take_in_pod(&self, change: &Change<Pod>) {
        let pod = match change {
            Change::Updated { old, new } => {
                let matters = |pod: &Pod| {
                    let spec = pod.spec.as_ref();
                    spec.map(|spec| (spec.node_name.clone(), spec.tolerations.clone()))
                };
                if matters(old) == matters(new) {
                    return;
                }
                new
            }
            Change::Added(pod) | Change::Deleted { last: pod, .. } => pod,
        };
        self.queue.add(Item::Pod(ObjectKey::of(&**pod)));
    }

    fn take_in_node(&self, change: &Change<Node>) {
        let node = match change {
            Change::Updated { old, new } => {
                if driving(old) == driving(new) {
                    return;
                }
                new
            }
            Change::Added(node) | Change::Deleted { last: node, .. } => node,
        };
        self.queue.add(Item::Node(node.name_any()));
    }

    async fn work(&self) {
        loop {
            let item = self.queue.get().await;
            match &item {
                Item::Node(name) => self.sync_node(name).await,
                Item::Pod(key) => self.sync_pod(key).await,
            }
            self.queue.done(&item);
        }
    }

    async fn sync_node(&self, name: &str) {
        let Some(node) = self.nodes.get("", name) else {
            self.tainted.lock().remove(name);
            return;
        };
        let taints = driving(&node);
        if taints.is_empty() {
            self.tainted.lock().remove(name);
        } else {
            self.tainted.lock().insert(name.to_owned(), taints.clone());
        }
        let now = (self.ctx.now)();
        for pod in self.pods.all() {
            if node_of(&pod) != Some(name) {
                continue;
            }
            let key = ObjectKey::of(&*pod);
            if taints.is_empty() {
                self.cancel(&key).await;
            } else {
                self.judge(&key, &pod, &taints, now).await;
            }
        }
    }

    async fn sync_pod(&self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            self.cancel(key).await;
            return;
        };
        let Some(node) = node_of(&pod) else {
            return;
        };
        let taints = self.tainted.lock().get(node).cloned();
        // Taken away, or its node was deleted: what was scheduled has been cancelled.
        if let Some(taints) = taints {
            self.judge(key, &pod, &taints, (self.ctx.now)()).await;
        }
    }

    /// Decides when the pod has to go, if it does.
    async fn judge(&self, key: &ObjectKey, pod: &Pod, taints: &[Taint], now: Timestamp) {
        let spec = pod.spec.as_ref();
        let tolerations = spec
            .and_then(|spec| spec.tolerations.as_deref())
            .unwrap_or_default();
        match min_toleration_time(taints, tolerations) {
            TolerationTime::None => {
                self.cancel(key).await;
                self.schedule.lock().add(key, now, now);
            }
            TolerationTime::Unlimited => {
                self.cancel(key).await;
                return;
            }
            TolerationTime::For(time) => {
                let due = now.checked_add(time).unwrap_or(Timestamp::MAX);
                if self.schedule.lock().holds_earlier(key, now) {
                    return;
                }
                self.cancel(key).await;
                self.schedule.lock().add(key, now, due);
            }
        }
        self.rescheduled.notify_one();
    }

    async fn cancel(&self, key: &ObjectKey) {
        if self.schedule.lock().cancel(key) {
            let message = format!("Cancelling deletion of Pod {}/{}", key.namespace, key.name);
            self.record_event(key, &message).await;
        }
    }

    async fn record_event(&self, key: &ObjectKey, message: &str) {
        let involved = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            ..ObjectReference::default()
        };
        self.recorder
            .publish(
                &involved,
                EventType::Normal,
                "TaintManagerEviction",
                message,
            )
            .await;
    }

    /// Evicts each pod when its time has come. Never returns.
    async fn evict_due(&self) {
        loop {
            let now = (self.ctx.now)();
            let (due, next) = self.schedule.lock().due(now);
            for key in due {
                self.evict(&key).await;
            }
            let wait = next.map(|next| next.duration_since((self.ctx.now)()).unsigned_abs());
            let timer = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.rescheduled.notified() => {}
                () = timer => {}
            }
        }
    }

    async fn evict(&self, key: &ObjectKey) {
        let message = format!("Marking for deletion Pod {}/{}", key.namespace, key.name);
        self.record_event(key, &message).await;
        for attempt in 1..=EVICTIONS_MAX {
            match self.delete(key).await {
                Ok(()) => return,
                Err(error) if attempt == EVICTIONS_MAX => {
                    tracing::warn!(ns = key.namespace, name = key.name, %error, "pod not evicted");
                    self.schedule.lock().forget(key);
                }
                Err(_) => tokio::time::sleep(EVICTION_PAUSE).await,
            }
        }
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), Error> {
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let pod = api.get(&key.name).await?;
        let disruption = disruption_target::Disruption {
            reason: "DeletionByTaintManager",
            message: "Taint manager: deleting due to NoExecute taint",
        };
        disruption_target::write(&api, &pod, Some(disruption), None, (self.ctx.now)()).await?;
        api.delete(&key.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    let spec: &PodSpec = pod.spec.as_ref()?;
    spec.node_name.as_deref().filter(|node| !node.is_empty())
}

fn driving(node: &Node) -> Vec<Taint> {
    let mut taints = taints::of(node).to_vec();
    taints.retain(|taint| taint.effect == NO_EXECUTE);
    taints
}

/// For how long a pod puts up with taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TolerationTime {
    None,
    For(SignedDuration),
    Unlimited,
}

/// The least time that any toleration used gives; the first that tolerates a taint is used.
fn min_toleration_time(taints: &[Taint], tolerations: &[Toleration]) -> TolerationTime {
    let mut least: Option<i64> = None;
    for taint in taints {
        let used = tolerations
            .iter()
            .find(|toleration| tolerates(toleration, taint));
        let Some(used) = used else {
            return TolerationTime::None;
        };
        if let Some(seconds) = used.toleration_seconds {
            least = Some(least.map_or(seconds, |least| least.min(seconds)));
        }
    }
    // Upstream takes the longest time, and what wraps around to less than none, for no limit.
    match least.filter(|seconds| *seconds < i64::MAX) {
        None => TolerationTime::Unlimited,
        Some(..=0) => TolerationTime::For(SignedDuration::ZERO),
        Some(seconds) => match go_seconds(seconds) {
            time if time.is_negative() => TolerationTime::Unlimited,
            time => TolerationTime::For(time),
        },
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn time_of(tolerations: Value) -> TolerationTime {
        let taints: Vec<Taint> = from_value(json!([
            {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoExecute"}]))
        .unwrap();
        let tolerations: Vec<Toleration> = from_value(tolerations).unwrap();
        min_toleration_time(&taints, &tolerations)
    }

    #[test]
    fn the_least_patient_toleration_that_is_used_decides() {
        let tolerates = |key: &str, seconds: Value| {
            json!({"key": key, "operator": "Exists",
            "tolerationSeconds": seconds})
        };
        let none = Value::Null;
        let table = [
            (json!([]), TolerationTime::None),
            (json!([tolerates("a", json!(5))]), TolerationTime::None),
            (json!([{"operator": "Exists"}]), TolerationTime::Unlimited),
            (
                json!([tolerates("a", none.clone()), tolerates("b", none.clone())]),
                TolerationTime::Unlimited,
            ),
            (
                json!([
                    tolerates("a", json!(30)),
                    tolerates("b", json!(20)),
                    tolerates("c", json!(1))
                ]),
                TolerationTime::For(SignedDuration::from_secs(20)),
            ),
            (
                json!([tolerates("a", json!(-5)), tolerates("b", none)]),
                TolerationTime::For(SignedDuration::ZERO),
            ),
        ];
        for (tolerations, expected) in table {
            assert_eq!(time_of(tolerations.clone()), expected, "{tolerations}");
        }
    }
}

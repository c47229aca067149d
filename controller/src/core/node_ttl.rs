//! The TTL controller: an annotation tells each kubelet how long it may use what it has read of Secrets and
//! ConfigMaps. It is longer on larger clusters.
//!
//! Source: pkg/controller/ttl of Kubernetes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;
use serde_json::json;

/// The controller's name: its user agent.
pub const NAME: &str = "ttl-controller";
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
const WORKERS: usize = 5;

/// A step: the fewest and the most nodes that stay on it, and its TTL in seconds. The steps overlap, so that a node that
/// comes and goes does not change all others.
const STEPS: [(usize, usize, u32); 5] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1_000, 30),
    (900, 2_000, 60),
    (1_800, usize::MAX, 300),
];

/// The number of nodes, and the step that it has led to.
#[derive(Debug, Default)]
struct Size {
    nodes: usize,
    step: usize,
}

impl Size {
    fn grow(&mut self) {
        self.nodes += 1;
        if self.nodes > STEPS[self.step].1 {
            self.step += 1;
        }
    }

    fn shrink(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        if self.nodes < STEPS[self.step].0 {
            self.step -= 1;
        }
    }

    fn ttl(&self) -> u32 {
        STEPS[self.step].2
    }
}

struct Controller {
    ctx: Context,
    queue: WorkQueue<ObjectKey>,
    nodes: Informer<Node>,
    size: Mutex<Size>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        queue: WorkQueue::new(),
        nodes: Informer::new(),
        size: Mutex::default(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.nodes, |change| match change {
            Change::Added(_) => {
                controller.size.lock().grow();
                controller.queue.add(change.key());
            }
            Change::Updated { .. } => controller.queue.add(change.key()),
            Change::Deleted { .. } => controller.size.lock().shrink(),
        })
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(node) = self.nodes.get("", &key.name) else {
            return Ok(None);
        };
        let ttl = self.size.lock().ttl();
        let current = node.annotations().get(ANNOTATION);
        if current.and_then(|text| text.parse().ok()) == Some(ttl) {
            return Ok(None);
        }
        let patch = json!({"metadata": {"annotations": {ANNOTATION: ttl.to_string()}}});
        let api: Api<Node> = Api::all(self.ctx.client.clone());
        api.patch(&key.name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_leaves_a_step_later_than_it_came() {
        let mut size = Size::default();
        let mut ttl_at = |nodes: usize| {
            while size.nodes < nodes {
                size.grow();
            }
            while size.nodes > nodes {
                size.shrink();
            }
            size.ttl()
        };
        let seen = [
            (100, 0),
            (101, 15),
            (90, 15),
            (89, 0),
            (500, 15),
            (501, 30),
            (450, 30),
            (449, 15),
            (2_001, 300),
            (1_800, 300),
            (1_799, 60),
            (0, 0),
        ];
        for (nodes, ttl) in seen {
            assert_eq!(ttl_at(nodes), ttl, "{nodes} nodes");
        }
    }
}

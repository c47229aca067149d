//! The disruption controller: how many of a budget's pods may be evicted right now.

mod expected;
mod stale_target;
mod status;

use std::time::Duration;

use futures::future::join;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use kube::api::PostParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

use self::stale_target::StaleTargets;

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "disruption-controller";
/// How long a recheck that is due waits in the queue.
const RECHECK_PAUSE: Duration = Duration::from_millis(5);

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    /// Pods that are in several budgets, to be reported.
    shared: WorkQueue<Shared>,
    stale_targets: StaleTargets,
}

/// A pod that several budgets select.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shared {
    pod: ObjectKey,
    uid: Option<String>,
    resource_version: Option<String>,
    /// The name of one of the budgets.
    chosen: String,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), "controllermanager"),
        stale_targets: StaleTargets::new(ctx.clone()),
        ctx,
        queue: WorkQueue::new(),
        budgets: Informer::new(),
        pods: Informer::new(),
        shared: WorkQueue::new(),
    };
    let work = async {
        let budgets = worker::run(&controller, &controller.queue, 1);
        let targets = controller.stale_targets.run(&controller.pods);
        join(join(budgets, targets), controller.report_shared()).await;
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.budgets, |change| {
            controller.queue.add(change.key())
        })
        .add(&controller.pods, |change| controller.pod_changed(change))
        .run(work)
        .await;
}

impl Controller {
    /// Enqueues the budgets of the pod as it is now. Upstream enqueues an arbitrary one of several, which is the first one here, and
    /// here the others as well, so that no status depends on chance.
    fn pod_changed(&self, change: &Change<Pod>) {
        let pod = change.object();
        let budgets = self
            .budgets
            .in_namespace(&pod.namespace().unwrap_or_default());
        let mut budgets = budgets.iter().filter(|budget| selects(budget, pod));
        if let Some(first) = budgets.next() {
            self.queue.add(ObjectKey::of(&**first));
            let rest: Vec<_> = budgets.collect();
            if !rest.is_empty() {
                self.shared.add(Shared {
                    pod: ObjectKey::of(&**pod),
                    uid: pod.uid(),
                    resource_version: pod.resource_version(),
                    chosen: first.name_any(),
                });
            }
            for budget in rest {
                self.queue.add(ObjectKey::of(&**budget));
            }
        }
        if !matches!(change, Change::Deleted { .. }) {
            self.stale_targets.see(pod);
        }
    }

    /// Reports pods that are in several budgets. Never returns.
    async fn report_shared(&self) {
        loop {
            let shared = self.shared.get().await;
            let (namespace, name) = (&shared.pod.namespace, &shared.pod.name);
            let involved = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(namespace.clone()),
                name: Some(name.clone()),
                uid: shared.uid.clone(),
                resource_version: shared.resource_version.clone(),
                ..ObjectReference::default()
            };
            let message = format!(
                "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {:?} \
                 arbitrarily.",
                shared.chosen
            );
            let reason = "MultiplePodDisruptionBudgets";
            self.recorder
                .publish(&involved, EventType::Warning, reason, &message)
                .await;
            self.shared.done(&shared);
        }
    }

    /// Brings the status of a budget up to date. Returns when an eviction in it times out.
    async fn try_sync(&self, budget: &PodDisruptionBudget) -> Result<Option<Duration>, Error> {
        let mut pods = self
            .pods
            .in_namespace(&budget.namespace().unwrap_or_default());
        pods.retain(|pod| selects(budget, pod));
        if pods.is_empty() {
            let message = "No matching pods found";
            self.report(budget, EventType::Normal, "NoPods", message)
                .await;
        }
        let protected = match expected::protect(&self.ctx.client, budget, &pods).await {
            Ok(protected) => protected,
            Err(error) => {
                let reason = "CalculateExpectedPodCountFailed";
                let message = format!("Failed to calculate the number of expected pods: {error}");
                self.report(budget, EventType::Warning, reason, &message)
                    .await;
                return Err(error);
            }
        };
        if protected.has_unmanaged {
            let spec = budget.spec.as_ref();
            let selector = spec.and_then(|spec| spec.selector.as_ref());
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {}) were found to be \
                 unmanaged. As a result, the status of the PDB cannot be calculated correctly, \
                 which may result in undefined behavior. To account for these pods please set \
                 \".spec.minAvailable\" field of the PDB to an integer value.",
                kubeproof_runtime::selector::in_go(selector)
            );
            self.report(budget, EventType::Warning, "UnmanagedPods", &message)
                .await;
        }
        let computed = status::compute(budget, &pods, protected, (self.ctx.now)());
        for pod in &computed.overdue {
            self.report_overdue(budget, pod).await;
        }
        self.write(budget, computed.status).await?;
        Ok(computed.recheck)
    }

    /// Allows no disruptions, for the reason of `error`.
    async fn fail_safe(&self, budget: &PodDisruptionBudget, error: &Error) -> Result<(), Error> {
        let status = status::failed(budget, &error.to_string(), (self.ctx.now)());
        self.write(budget, status).await
    }

    async fn report(
        &self,
        budget: &PodDisruptionBudget,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let involved = reference_to("policy/v1", "PodDisruptionBudget", &budget.metadata);
        self.recorder
            .publish(&involved, event_type, reason, message)
            .await;
    }

    /// Reports a pod that was evicted and not deleted. The message has the namespace twice, as upstream's has.
    async fn report_overdue(&self, budget: &PodDisruptionBudget, pod: &Pod) {
        let namespace = budget.namespace().unwrap_or_default();
        let message =
            format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        let involved = reference_to("v1", "Pod", &pod.metadata);
        self.recorder
            .publish(&involved, EventType::Warning, "NotDeleted", &message)
            .await;
    }

    async fn write(
        &self,
        budget: &PodDisruptionBudget,
        status: PodDisruptionBudgetStatus,
    ) -> Result<(), Error> {
        if budget.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut object = budget.clone();
        object.status = Some(status);
        let api: Api<PodDisruptionBudget> = Api::namespaced(
            self.ctx.client.clone(),
            &budget.namespace().unwrap_or_default(),
        );
        let (name, params) = (budget.name_any(), PostParams::default());
        api.replace_status(&name, &params, &object).await?;
        Ok(())
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(budget) = self.budgets.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        match self.try_sync(&budget).await {
            Ok(recheck) => Ok(recheck.map(|after| after + RECHECK_PAUSE)),
            Err(error) if error.is_conflict() => Err(error),
            // Tried again when something changes.
            Err(error) => {
                tracing::info!(namespace = key.namespace, name = key.name, %error, "sync failed");
                self.fail_safe(&budget, &error).await?;
                Ok(None)
            }
        }
    }
}

/// An empty selector selects every pod of the namespace, none selects nothing.
fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector
        .and_then(|selector| Selector::try_from(selector).ok())
        .is_some_and(|selector| selector.matches(pod.labels()))
}

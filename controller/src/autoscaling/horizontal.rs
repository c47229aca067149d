//! The horizontal pod autoscaler: sets the replicas of a target by the metrics of its pods.
//!
//! `decision` decides (pure); this module reads and writes. A watch of pods begins with the first autoscaler.
//!
//! Source: `pkg/controller/podautoscaler` of Kubernetes.

mod behavior;
mod calculator;
mod decision;
mod metrics;
mod proposal;
mod selectors;
mod status;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_machinery::meta::selector::LabelSelector;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::retry::{DEFAULT_RETRY, retry_on_conflict};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};

use behavior::Memory;
use decision::{Decision, Plan, current_replicas};
use metrics::{Metrics, Observation};
use selectors::Selectors;
use status::{ABLE_TO_SCALE, Draft, Event, SCALING_ACTIVE};
use targets::{ScaleApi, Targets};

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "horizontal-pod-autoscaler";
/// The time between two syncs of an autoscaler.
const SYNC_PERIOD: Duration = Duration::from_secs(15);
/// The number of autoscalers synced at once.
const WORKERS: usize = 5;

struct Controller {
    ctx: Context,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    pods: Informer<Pod>,
    /// Whether there has been an autoscaler.
    is_needed: watch::Sender<bool>,
    targets: Targets,
    selectors: Mutex<Selectors>,
    memories: Mutex<BTreeMap<ObjectKey, Memory>>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), NAME),
        ctx,
        queue: WorkQueue::new(),
        autoscalers: Informer::new(),
        pods: Informer::new(),
        is_needed: watch::Sender::new(false),
        targets: Targets::default(),
        selectors: Mutex::default(),
        memories: Mutex::default(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.autoscalers, |change| controller.changed(change))
        .with(controller.watch_pods())
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Controller {
    /// Every autoscaler waits for the sync period, also a new one.
    fn changed(&self, change: &Change<HorizontalPodAutoscaler>) {
        let key = change.key();
        if matches!(change, Change::Deleted { .. }) {
            self.selectors.lock().remove(&key);
        } else {
            self.selectors.lock().register(&key);
            self.is_needed.send_replace(true);
        }
        self.queue.add_after(key, SYNC_PERIOD);
    }

    async fn watch_pods(&self) {
        let mut needed = self.is_needed.subscribe();
        // The sender lives as long as `self`.
        let _ = needed.wait_for(|needed| *needed).await;
        let api = Api::all(self.ctx.client.clone());
        self.pods.run(api, watcher::Config::default(), |_| {}).await;
    }

    async fn sync(&self, hpa: &HorizontalPodAutoscaler) -> Result<(), Error> {
        let mut draft = Draft::of(hpa, (self.ctx.now)());
        let (target, scale) = match self.scale(hpa).await {
            Ok(found) => found,
            Err(error) => {
                draft.warn("FailedGetScale", &*error);
                let message = format!(
                    "the HPA controller was unable to get the target's current scale: {error}"
                );
                draft.set(ABLE_TO_SCALE, false, "FailedGetScale", message);
                self.publish(hpa, std::mem::take(&mut draft.events)).await;
                return self.write_status(hpa, &draft).await;
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        draft.set(ABLE_TO_SCALE, true, "SucceededGetScale", message);
        let current = current_replicas(&scale);
        let key = ObjectKey::of(hpa);
        let mut memory = self.memories.lock().remove(&key).unwrap_or_default();
        memory.begin(current, draft.now);
        let decision = match decision::plan(hpa, current) {
            Plan::Disabled => decision::disabled(&mut draft),
            Plan::Limit { replicas, reason } => decision::limited(replicas, reason),
            Plan::Metrics => match self.observe(hpa, &scale, &mut draft).await {
                Ok((pods, read)) => {
                    let read = (pods.as_slice(), read.as_slice());
                    decision::by_metrics(hpa, &scale, read, &mut memory, &mut draft)
                }
                Err(failure) => decision::failed(failure),
            },
        };
        self.publish(hpa, std::mem::take(&mut draft.events)).await;
        let applied = self.apply(hpa, (&target, scale), decision, draft, &mut memory);
        let applied = applied.await;
        self.memories.lock().insert(key, memory);
        applied
    }

    /// The target's subresource `scale`, and what it says.
    async fn scale(&self, hpa: &HorizontalPodAutoscaler) -> Result<(ScaleApi, Scale), String> {
        let client = &self.ctx.client;
        let target = self.targets.scale_of(client, hpa).await?;
        match target.get().await {
            Ok(scale) => Ok((target, scale)),
            Err(error) => {
                // The kind may have been defined anew.
                self.targets.forget();
                Err(error.to_string())
            }
        }
    }

    /// The pods of the target and what is measured, unless the selector does not tell whose pods they are.
    ///
    /// Upstream: `validateAndParseSelector`, and the reads of `computeReplicasForMetrics`.
    async fn observe(
        &self,
        hpa: &HorizontalPodAutoscaler,
        scale: &Scale,
        draft: &mut Draft,
    ) -> Result<(Vec<Arc<Pod>>, Vec<Observation>), String> {
        let text = scale
            .status
            .as_ref()
            .and_then(|own| own.selector.as_deref());
        let text = text.unwrap_or_default();
        if text.is_empty() {
            let error = "selector is required";
            draft.warn("SelectorRequired", error);
            let message = "the HPA target's scale is missing a selector";
            draft.set(SCALING_ACTIVE, false, "InvalidSelector", message);
            return Err(error.to_owned());
        }
        let selector = match LabelSelector::parse(text) {
            Ok(selector) => selector,
            Err(error) => {
                let error = format!(
                    "couldn't convert selector into a corresponding internal selector object: {error}"
                );
                draft.warn("InvalidSelector", error.as_str());
                draft.set(SCALING_ACTIVE, false, "InvalidSelector", error.as_str());
                return Err(error);
            }
        };
        let namespace = hpa.namespace().unwrap_or_default();
        let mut pods = self.pods.in_namespace(&namespace);
        pods.retain(|pod| selector.matches_map(pod.labels()));
        let selecting = {
            let mut selectors = self.selectors.lock();
            selectors.set(&ObjectKey::of(hpa), selector.clone());
            selectors.selecting(&namespace, &pods)
        };
        if selecting.len() > 1 {
            let names = selecting.join(" ");
            let error =
                format!("pods by selector {text} are controlled by multiple HPAs: [{names}]");
            draft.warn("AmbiguousSelector", error.as_str());
            draft.set(SCALING_ACTIVE, false, "AmbiguousSelector", error.as_str());
            return Err(error);
        }
        let metrics = Metrics {
            client: &self.ctx.client,
            targets: &self.targets,
            custom_version: OnceCell::new(),
        };
        Ok((pods, metrics.read(hpa, &selector).await))
    }

    /// Scales the target, and writes the status and the events.
    async fn apply(
        &self,
        hpa: &HorizontalPodAutoscaler,
        (target, scale): (&ScaleApi, Scale),
        decision: Decision,
        mut draft: Draft,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let current = current_replicas(&scale);
        let metrics = decision.metrics;
        if let Some(failure) = decision.failure {
            draft.finish(current, None, metrics, false);
            let written = self.write_status(hpa, &draft).await;
            draft.warn("FailedComputeMetricsReplicas", failure);
            self.publish(hpa, draft.events).await;
            return written;
        }
        let Some(rescale) = decision.rescale else {
            draft.finish(current, Some(current), metrics, false);
            return self.write_status(hpa, &draft).await;
        };
        let (replicas, reason) = (rescale.replicas, rescale.reason);
        if let Err(error) = self.rescale(target, scale, replicas).await {
            let message = format!("New size: {replicas}; reason: {reason}; error: {error}");
            draft.warn("FailedRescale", message);
            let message =
                format!("the HPA controller was unable to update the target scale: {error}");
            draft.set(ABLE_TO_SCALE, false, "FailedUpdateScale", message);
            draft.finish(current, None, metrics, false);
            self.publish(hpa, std::mem::take(&mut draft.events)).await;
            return self.write_status(hpa, &draft).await;
        }
        let message =
            format!("the HPA controller was able to update the target scale to {replicas}");
        draft.set(ABLE_TO_SCALE, true, "SucceededRescale", message);
        let behavior = hpa.spec.behavior.as_ref();
        memory.note_scale(behavior, (current, replicas), draft.now);
        draft.remove_scaled_to_zero();
        let event = Event {
            event_type: EventType::Normal,
            reason: "SuccessfulRescale",
            message: format!("New size: {replicas}; reason: {reason}"),
        };
        self.publish(hpa, vec![event]).await;
        draft.finish(current, Some(replicas), metrics, true);
        self.write_status(hpa, &draft).await
    }

    /// Sets the replicas of the target, also when others write it at the same time.
    async fn rescale(
        &self,
        target: &ScaleApi,
        mut scale: Scale,
        replicas: i32,
    ) -> Result<(), Error> {
        let mut delays = DEFAULT_RETRY.into_iter();
        loop {
            scale.spec.get_or_insert_with(ScaleSpec::default).replicas = Some(replicas);
            let Err(error) = target.replace(&scale).await else {
                return Ok(());
            };
            if let Ok(latest) = target.get().await {
                scale = latest;
            }
            retry_on_conflict(&mut delays, error).await?;
        }
    }

    async fn publish(&self, hpa: &HorizontalPodAutoscaler, events: Vec<Event>) {
        for event in events {
            let (event_type, reason) = (event.event_type, event.reason);
            self.recorder
                .publish(&reference(hpa), event_type, reason, &event.message)
                .await;
        }
    }

    /// Writes the status if it has changed.
    async fn write_status(
        &self,
        hpa: &HorizontalPodAutoscaler,
        draft: &Draft,
    ) -> Result<(), Error> {
        if hpa.status.clone().unwrap_or_default() == draft.status {
            return Ok(());
        }
        let mut object = hpa.clone();
        object.status = Some(draft.status.clone());
        let namespace = hpa.namespace().unwrap_or_default();
        let api: Api<HorizontalPodAutoscaler> =
            Api::namespaced(self.ctx.client.clone(), &namespace);
        let (name, params) = (hpa.name_any(), PostParams::default());
        if let Err(error) = api.replace_status(&name, &params, &object).await {
            let error = Error::from(error);
            let (kind, reason, message) =
                (EventType::Warning, "FailedUpdateStatus", error.to_string());
            self.recorder
                .publish(&reference(hpa), kind, reason, &message)
                .await;
            return Err(error);
        }
        Ok(())
    }
}

impl Reconcile for Controller {
    /// Syncs an autoscaler, whatever comes of it, once each period.
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(hpa) = self.autoscalers.get(&key.namespace, &key.name) else {
            self.memories.lock().remove(key);
            return Ok(None);
        };
        self.pods.synced().await;
        if let Err(error) = self.sync(&hpa).await {
            tracing::info!(namespace = key.namespace, name = key.name, %error, "autoscaler not synced");
        }
        Ok(Some(SYNC_PERIOD))
    }
}

fn reference(hpa: &HorizontalPodAutoscaler) -> ObjectReference {
    reference_to("autoscaling/v2", "HorizontalPodAutoscaler", &hpa.metadata)
}

//! Binds pods to nodes.

mod binding;
mod claims;
pub(super) mod config;
mod node_cache;
mod preempt;
mod spread_selector;
mod volumes;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim,
    ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Event;
use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::pod::{Pod, reference};
use kubeproof_runtime::recorder::{EventParams, EventType, Recorder};
use kubeproof_runtime::reflector::Watches;
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::store::{self, Change, ObjectKey, Store};
use kubeproof_runtime::sync_error::answered;
use kubeproof_runtime::worker::debounce;

use super::fit::{
    self, Cluster, CompileSelector, Devices, FitError, NoPlan, NodeInfo, Plan, Profile, Storage,
};
use super::status::wire_time;
use config::SchedulerConfig;
use node_cache::NodeCache;
use spread_selector::Sets;

/// The `schedulerName` of pods that state none.
const SCHEDULER_NAME: &str = "default-scheduler";
/// A pass reads the pods that have changed, so more pods are worth no longer wait.
const DEBOUNCED_PODS_MAX: usize = 1_000;
/// The name of the scheduler's machine, in the reporting instance of its events.
const HOST: &str = "kubeproof";

enum Update {
    Pod(Event<Arc<Pod>>),
    Node(Event<Arc<Node>>),
    Namespace(Event<Arc<Namespace>>),
    Budget(Event<Arc<PodDisruptionBudget>>),
    Claim(Event<Arc<PersistentVolumeClaim>>),
    Volume(Event<Arc<PersistentVolume>>),
    Class(Event<Arc<StorageClass>>),
    Driver(Event<Arc<CSIDriver>>),
    Capacity(Event<Arc<CSIStorageCapacity>>),
    CsiNode(Event<Arc<CSINode>>),
    Attachment(Event<Arc<VolumeAttachment>>),
    ResourceClaim(Event<Arc<ResourceClaim>>),
    DeviceClass(Event<Arc<DeviceClass>>),
    ResourceSlice(Event<Arc<ResourceSlice>>),
    Service(Event<Arc<Service>>),
    ReplicationController(Event<Arc<ReplicationController>>),
    ReplicaSet(Event<Arc<ReplicaSet>>),
    StatefulSet(Event<Arc<StatefulSet>>),
}

/// A profile, and the recorder of its events.
struct Scheduling {
    profile: Arc<Profile>,
    recorder: Recorder,
}

/// The place in the queue: by priority, then by arrival.
type Place = (Reverse<i32>, u64);

struct Scheduler {
    ctx: Context,
    /// The profiles by name: pods with another `schedulerName` are ignored.
    profiles: BTreeMap<String, Scheduling>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    namespaces: Store<Namespace>,
    budgets: Store<PodDisruptionBudget>,
    /// Whether volumes are provisioned where their pods run; otherwise as soon as their claims
    /// exist.
    follows_volumes: bool,
    storage: Storage,
    devices: Devices,
    sets: Sets,
    queue: BTreeMap<Place, ObjectKey>,
    /// The places in the queue by pod uid.
    places: BTreeMap<String, Place>,
    arrivals: u64,
    /// The nodes of pods bound by this scheduler that the store does not show as bound yet, by pod
    /// uid.
    assumed: BTreeMap<String, String>,
    cache: NodeCache,
    /// Where the search for a node begins, as an index of the nodes.
    next_start_node: usize,
    /// The last reported reason by pod uid.
    refused: BTreeMap<String, String>,
    /// The nominated node by uid of the pod that waits for its victims there.
    nominated: BTreeMap<String, String>,
    /// The uids of evicted pods, which the store may not show as such yet.
    displaced: BTreeSet<String>,
    failures: u32,
    /// The failed bindings in a row, and the time of the next attempt, by pod uid.
    backoffs: BTreeMap<String, (u32, Timestamp)>,
}

/// Schedules the pods of the profiles for as long as it is polled.
pub(super) async fn run(
    ctx: Context,
    config: SchedulerConfig,
    follows_volumes: bool,
    compile: CompileSelector,
) {
    let mut watches = Watches::new(&ctx.client)
        .watch(Update::Node)
        .watch(Update::Pod)
        .watch(Update::Namespace)
        .watch(Update::Budget);
    if follows_volumes {
        watches = watches
            .watch(Update::Claim)
            .watch(Update::Volume)
            .watch(Update::Class)
            .watch(Update::Driver)
            .watch(Update::Capacity)
            .watch(Update::CsiNode)
            .watch(Update::Attachment);
    }
    watches = watches
        .watch(Update::ResourceClaim)
        .watch(Update::DeviceClass)
        .watch(Update::ResourceSlice)
        .watch(Update::Service)
        .watch(Update::ReplicationController)
        .watch(Update::ReplicaSet)
        .watch(Update::StatefulSet);
    let profiles = config.into_profiles().into_iter().map(|profile| {
        let name = profile.name.clone();
        let recorder = Recorder::new(ctx.clone(), name.clone()).at(format!("{name}-{HOST}"));
        let profile = Arc::new(profile);
        (name, Scheduling { profile, recorder })
    });
    let scheduler = Scheduler {
        profiles: profiles.collect(),
        ctx,
        pods: Store::default(),
        nodes: Store::default(),
        namespaces: Store::default(),
        budgets: Store::default(),
        follows_volumes,
        storage: Storage::default(),
        devices: Devices::new(compile),
        sets: Sets::default(),
        queue: BTreeMap::new(),
        places: BTreeMap::new(),
        arrivals: 0,
        assumed: BTreeMap::new(),
        cache: NodeCache::default(),
        next_start_node: 0,
        refused: BTreeMap::new(),
        nominated: BTreeMap::new(),
        displaced: BTreeSet::new(),
        failures: 0,
        backoffs: BTreeMap::new(),
    };
    let recorders = scheduler.profiles.values().map(|own| own.recorder.clone());
    let recorders: Vec<Recorder> = recorders.collect();
    let series = join_all(recorders.iter().map(Recorder::run_series));
    join(series, follow(scheduler, watches)).await;
}

async fn follow(mut scheduler: Scheduler, mut watches: Watches<Update>) {
    let mut retry: Option<Duration> = None;
    // Whether a pod may fit that did not before.
    let mut is_due = false;
    loop {
        tokio::select! {
            biased;
            batch = watches.next_batch() => {
                for update in batch {
                    is_due |= scheduler.take_in(update) || retry.is_some();
                }
            }
            () = sleep_or_never(retry) => is_due = true,
        }
        if !is_due || !scheduler.is_synced() {
            continue;
        }
        is_due = false;
        if !scheduler.queue.is_empty() {
            // One pass for many new pods looks at what they have in common once.
            debounce(scheduler.pods.len().min(DEBOUNCED_PODS_MAX)).await;
            let mut more = Vec::new();
            watches.drain(&mut more);
            more.into_iter().for_each(|update| {
                scheduler.take_in(update);
            });
        }
        if let Err(error) = scheduler.schedule().await {
            tracing::warn!(%error, "scheduling failed");
            scheduler.failures += 1;
            retry = Some(retry_after(scheduler.failures));
        } else {
            scheduler.failures = 0;
            retry = scheduler.next_attempt();
        }
    }
}

async fn sleep_or_never(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

impl Scheduler {
    fn is_synced(&self) -> bool {
        self.pods.is_synced()
            && self.nodes.is_synced()
            && self.namespaces.is_synced()
            && self.budgets.is_synced()
            && self.sets.are_synced()
            && self.devices.is_synced()
            && (!self.follows_volumes || self.storage.is_synced())
    }

    /// Returns false for an update that changes only where pods are preferred.
    fn take_in(&mut self, update: Update) -> bool {
        match update {
            Update::Service(event) => {
                self.sets.services.apply(event);
                return false;
            }
            Update::ReplicationController(event) => {
                self.sets.controllers.apply(event);
                return false;
            }
            Update::ReplicaSet(event) => {
                self.sets.replica_sets.apply(event);
                return false;
            }
            Update::StatefulSet(event) => {
                self.sets.stateful_sets.apply(event);
                return false;
            }
            Update::Node(event) => {
                for change in self.nodes.apply(event) {
                    self.cache.set_node(&change);
                }
            }
            Update::Namespace(event) => {
                self.namespaces.apply(event);
            }
            Update::Budget(event) => {
                self.budgets.apply(event);
            }
            Update::Claim(event) => {
                self.storage.claims.apply(event);
            }
            Update::Volume(event) => {
                self.storage.volumes.apply(event);
            }
            Update::Class(event) => {
                self.storage.classes.apply(event);
            }
            Update::Driver(event) => {
                self.storage.drivers.apply(event);
            }
            Update::Capacity(event) => {
                self.storage.capacities.apply(event);
            }
            Update::CsiNode(event) => {
                self.storage.csi_nodes.apply(event);
            }
            Update::Attachment(event) => {
                self.storage.attachments.apply(event);
            }
            Update::ResourceClaim(event) => self.devices.apply_claims(event),
            Update::DeviceClass(event) => {
                self.devices.classes.apply(event);
            }
            Update::ResourceSlice(event) => {
                self.devices.slices.apply(event);
            }
            Update::Pod(event) => {
                for change in self.pods.apply_by_uid(event) {
                    self.take_in_pod(change);
                }
            }
        }
        true
    }

    fn take_in_pod(&mut self, change: Change<Pod>) {
        let pod = change.object();
        let uid = store::uid(&**pod);
        for version in change.versions() {
            if let Some(node) = self.node_of(version) {
                self.cache.note(&node, change.key());
            }
        }
        if matches!(change, Change::Deleted { .. }) {
            self.displaced.remove(&uid);
            self.forget(&uid);
            return;
        }
        if !wants_node(pod) || !self.profiles.contains_key(scheduler_name(pod)) {
            self.forget(&uid);
        } else if !self.places.contains_key(&uid) && !self.assumed.contains_key(&uid) {
            self.arrivals += 1;
            let place = (Reverse(fit::priority(pod)), self.arrivals);
            self.places.insert(uid, place);
            self.queue.insert(place, change.key());
        }
    }

    fn forget(&mut self, uid: &str) {
        if let Some(place) = self.places.remove(uid) {
            self.queue.remove(&place);
        }
        self.assumed.remove(uid);
        self.refused.remove(uid);
        self.nominated.remove(uid);
        self.backoffs.remove(uid);
    }

    /// Tries every waiting pod once, in order.
    async fn schedule(&mut self) -> Result<(), kube::Error> {
        if self.queue.is_empty() && !self.cache.is_behind() {
            return Ok(());
        }
        let mut cache = std::mem::take(&mut self.cache);
        cache.refresh(&self.pods, |pod| self.node_of(pod));
        let outcome = self.schedule_all(&mut cache).await;
        self.cache = cache;
        outcome
    }

    async fn schedule_all(&mut self, cache: &mut NodeCache) -> Result<(), kube::Error> {
        for key in self.queue.clone().into_values() {
            let Some(pod) = self.pods.get(&key).cloned() else {
                continue;
            };
            let Some(Scheduling { profile, .. }) = self.profiles.get(scheduler_name(&pod)) else {
                continue;
            };
            let profile = Arc::clone(profile);
            let mut nodes: Vec<NodeInfo<'_>> = cache.nodes().collect();
            let count = nodes.len().max(1);
            nodes.rotate_left(self.next_start_node % count);
            let cluster = Cluster {
                profile: &profile,
                nodes,
                namespace_labels: &|namespace| self.namespace_labels(namespace),
                spread_selector: &|pod| self.sets.spread_selector(pod),
                storage: self.follows_volumes.then_some(&self.storage),
                devices: Some(&self.devices),
            };
            let uid = store::uid(&*pod);
            let nominated = self.nominated.get(&uid).cloned();
            match fit::choose(&pod, &cluster, nominated.as_deref()) {
                _ if self.backs_off(&uid) || self.waits_for_claims(&pod, &profile) => {}
                Ok(choice) => {
                    // All nodes have the same chance of being looked at.
                    self.next_start_node = (self.next_start_node + choice.examined) % count;
                    self.place(&key, &pod, choice, cache).await?;
                }
                // The pod's victims have not ended yet.
                Err(fit_error) if self.waits_for_victims(&pod, &fit_error) => {}
                Err(fit_error) => {
                    let planned = self.plan(&pod, &cluster, &fit_error);
                    self.deallocate(&pod, &profile, &fit_error).await?;
                    self.refuse(&key, &pod, &fit_error, planned).await?;
                }
            }
            // The pod's place on the nominated node is not given to pods of lower priority.
            if let Some(node) = self.nominated.get(&uid) {
                cache.add(node, &pod);
            }
        }
        Ok(())
    }

    fn namespace_labels(&self, name: &str) -> BTreeMap<String, String> {
        let namespace = self.namespaces.get(&ObjectKey {
            namespace: String::new(),
            name: name.to_owned(),
        });
        let labels = namespace.and_then(|namespace| namespace.metadata.labels.clone());
        labels.unwrap_or_default()
    }

    /// The node that a pod takes a place on: the one that it is bound to, also if the cache does not know of that yet.
    fn node_of(&self, pod: &Pod) -> Option<String> {
        if is_terminal(pod) {
            return None;
        }
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        bound.or_else(|| self.assumed.get(&store::uid(pod)).cloned())
    }

    /// Reports once per reason that no node fits, and evicts the victims of a planned preemption. A
    /// change of an object that the scheduler watches brings the next try.
    async fn refuse(
        &mut self,
        key: &ObjectKey,
        pod: &Arc<Pod>,
        fit_error: &FitError,
        planned: Result<Plan, NoPlan>,
    ) -> Result<(), kube::Error> {
        let uid = store::uid(&**pod);
        let refused = planned.as_ref().err();
        let message = fit_error.message(refused.map_or("", |refused| &*refused.message));
        let clears = refused.is_some_and(|refused| refused.clears_nomination);
        let loses_node = clears && self.nominated.remove(&uid).is_some();
        if planned.is_err() && !loses_node && self.refused.get(&uid) == Some(&message) {
            return Ok(());
        }
        if let Ok(plan) = &planned {
            self.preempt(pod, plan).await?;
        }
        let params = EventParams {
            event_type: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            message: &message,
        };
        let involved = reference(pod);
        self.report(pod, (&involved, None), params).await;
        let reason = match fit_error.is_error() {
            true => "SchedulerError",
            false => "Unschedulable",
        };
        let mut patch = json!({
            "metadata": { "uid": uid },
            "status": { "conditions": [{
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "lastProbeTime": null,
                "lastTransitionTime": wire_time(self.since_unscheduled(pod)),
                "observedGeneration": pod.metadata.generation,
            }] },
        });
        if let Ok(Plan { node, .. }) = planned {
            patch["status"]["nominatedNodeName"] = json!(node);
            self.nominated.insert(uid.clone(), node);
        }
        if loses_node {
            patch["status"]["nominatedNodeName"] = Value::Null;
        }
        self.refused.insert(uid, message);
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let params = PatchParams::default();
        match pods
            .patch_status(&key.name, &params, &Patch::Strategic(patch))
            .await
        {
            Err(error) if !answered(&error, 404) && !answered(&error, 409) => Err(error),
            _ => Ok(()),
        }
    }

    /// Records an event of the profile that schedules `pod`, about an object and a related one.
    async fn report(
        &self,
        pod: &Pod,
        (involved, related): (&ObjectReference, Option<ObjectReference>),
        params: EventParams<'_>,
    ) {
        if let Some(scheduling) = self.profiles.get(scheduler_name(pod)) {
            let recorder = &scheduling.recorder;
            recorder.report(involved, related, params).await;
        }
    }

    fn since_unscheduled(&self, pod: &Pod) -> Timestamp {
        let mut conditions = pod
            .status
            .iter()
            .flat_map(|status| &status.conditions)
            .flatten();
        conditions
            .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map_or_else(|| (self.ctx.now)(), |time| time.0)
    }
}

fn wants_node(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    spec.node_name.as_deref().unwrap_or_default().is_empty()
        && spec
            .scheduling_gates
            .as_deref()
            .unwrap_or_default()
            .is_empty()
        && pod.metadata.deletion_timestamp.is_none()
        && !is_terminal(pod)
}

/// Returns the name of the profile that the pod asks for.
fn scheduler_name(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    let name = spec.and_then(|spec| spec.scheduler_name.as_deref());
    name.unwrap_or(SCHEDULER_NAME)
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn only_unbound_pods_want_a_node() {
        for (pod, expected) in [
            (json!({ "spec": { "containers": [] } }), true),
            (
                json!({ "spec": { "containers": [], "nodeName": "node-1" } }),
                false,
            ),
            (
                json!({ "spec": { "containers": [], "schedulingGates": [{ "name": "g" }] } }),
                false,
            ),
            (
                json!({ "spec": { "containers": [] }, "status": { "phase": "Failed" } }),
                false,
            ),
        ] {
            let parsed: Pod = from_value(&pod).unwrap();
            assert_eq!(wants_node(&parsed), expected, "{pod}");
        }
    }
}

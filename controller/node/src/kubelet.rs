//! The kubelets of simulated nodes.
//!
//! One task serves many nodes: it watches pods, their claims and their Namespaces, and syncs each
//! pod of its nodes when an object has changed or a time has come.

mod admission;
mod allocatable;
mod container_events;
mod devices;
mod outages;
mod pacing;
mod pleg;
mod pod_sync;
mod processes;
mod records;
mod steps;
mod view;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim};
use kube::runtime::watcher::Event;
use kubeproof_machinery::json::SmolStr;
use kubeproof_machinery::meta::ResourceVersion;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::reflector::Watches;
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::store::{self, Change, ObjectKey, Store};
use kubeproof_runtime::sync_error::answered;
use kubeproof_runtime::task::{Tasks, parallelism};

use super::container_run::ContainerRuns;
use super::faults::Faults;
use super::hold::Hold;
use super::lifecycle::{Readiness, Stage, Step};
use super::pace::after;
use super::probe::Prober;
use super::{Containers, Timings, identity};
use admission::Rejection;
use outages::Outages;
use pacing::UnderWay;
use processes::{PodLifecycleEvent, PodProcesses, Processes};
use records::Records;
use volumes::Volumes;

enum Update {
    Pod(Event<Arc<Pod>>),
    Claim(Event<Arc<PersistentVolumeClaim>>),
    Namespace(Event<Arc<Namespace>>),
    Node(Event<Arc<Node>>),
}

/// The kubelet's state of one pod.
struct Record {
    key: ObjectKey,
    uid: Arc<str>,
    node: usize,
    stage: Stage,
    started: Timestamp,
    pod_ip: SmolStr,
    container_runs: ContainerRuns,
    /// The containers that could not be created on the last try.
    held: BTreeMap<String, Hold>,
    processes: PodProcesses,
    /// The machine's pending work for the pod.
    under_way: Option<Box<UnderWay>>,
    reported: Readiness,
    /// The pod after the last write of its status; the store may be older.
    written: Option<Arc<Pod>>,
    /// The resourceVersion of the last write.
    written_version: ResourceVersion,
    /// Whether the node was switched off while the pod ran.
    is_powered_off: bool,
    deleted: Option<Timestamp>,
    /// The node's rejection of the pod, until it is reported.
    rejection: Option<Box<Rejection>>,
    wake: Option<Timestamp>,
    failures: u32,
    /// The deleted pod, if its node has not noticed the deletion yet.
    vanished: Option<Arc<Pod>>,
}

impl Record {
    /// Returns the running containers.
    fn alive(&self) -> Vec<String> {
        let runs = self.stage == Stage::Running && !self.is_powered_off;
        let alive = self.container_runs.iter();
        let alive = alive.filter(|(_, container_run)| runs && container_run.exit.is_none());
        alive.map(|(name, _)| name.to_string()).collect()
    }
}

struct Kubelet {
    ctx: Context,
    timings: Timings,
    /// Node indexes by name.
    nodes: Arc<BTreeMap<String, usize>>,
    /// The number of pod addresses that each node has assigned, by index.
    addresses: BTreeMap<usize, usize>,
    pods: Store<Pod>,
    claims: Store<PersistentVolumeClaim>,
    namespaces: Store<Namespace>,
    hosts: Store<Node>,
    recorder: Recorder,
    records: Records,
    processes: Processes,
    faults: Faults,
    outages: Outages,
    dirty: BTreeSet<ObjectKey>,
    /// Nodes that have changed.
    dirty_nodes: BTreeSet<ObjectKey>,
    /// Pods deleted before their containers ended, with those containers.
    gone: Vec<(Arc<Pod>, Vec<String>)>,
}

/// The number of nodes that are worth a task with watches of its own.
const NODES_PER_TASK: usize = 100;

/// Runs the pods bound to the nodes of `containers`, for as long as it is polled; in several tasks if there are many
/// nodes and threads for them.
pub(super) async fn run_all(
    ctx: Context,
    own_tasks: &Tasks,
    containers: Containers,
    (faults, timings): (Faults, Timings),
) {
    let tasks = (containers.nodes() / NODES_PER_TASK).clamp(1, parallelism());
    let volumes = Volumes::default();
    let shares = (0..tasks).map(|share| {
        let nodes = (1..=containers.nodes()).filter(|index| index % tasks == share);
        let nodes = nodes.map(|index| (identity::node_name(index), index));
        own_tasks.beside(run(
            ctx.clone(),
            (containers.clone(), Arc::new(nodes.collect())),
            (faults.clone(), timings),
            volumes.for_others(),
        ))
    });
    join_all(shares).await;
}

/// Runs the pods bound to `nodes`, for as long as it is polled.
async fn run(
    ctx: Context,
    (containers, nodes): (Containers, Arc<BTreeMap<String, usize>>),
    (faults, timings): (Faults, Timings),
    volumes: Volumes,
) {
    let mut failing = faults.subscribe();
    let mut watches = Watches::new(&ctx.client)
        .watch(Update::Pod)
        .watch(Update::Claim)
        .watch(Update::Namespace)
        .watch(Update::Node);
    let mut kubelet = Kubelet {
        timings,
        processes: Processes::new(
            containers,
            Arc::clone(&nodes),
            volumes,
            (timings.pace, ctx.now.clone()),
        ),
        nodes,
        addresses: BTreeMap::new(),
        pods: Store::default(),
        claims: Store::default(),
        namespaces: Store::default(),
        hosts: Store::default(),
        recorder: Recorder::new(ctx.clone(), "kubelet"),
        records: Records::default(),
        outages: Outages::of(faults.all()),
        faults,
        dirty: BTreeSet::new(),
        dirty_nodes: BTreeSet::new(),
        gone: Vec::new(),
        ctx,
    };
    loop {
        let wake = kubelet.next_wake();
        tokio::select! {
            biased;
            batch = watches.next_batch() => {
                for update in batch {
                    kubelet.take_in(update);
                }
            }
            Ok(()) = failing.changed() => kubelet.take_in_faults(),
            (lifecycle_event, prober) = kubelet.processes.next() => {
                kubelet.take_in_lifecycle_event(lifecycle_event, prober).await;
            }
            () = wake => kubelet.mark_due(),
        }
        if kubelet.is_synced() {
            for (pod, names) in std::mem::take(&mut kubelet.gone) {
                kubelet
                    .record_events(&pod, container_events::stopping(&names))
                    .await;
            }
            for key in std::mem::take(&mut kubelet.dirty_nodes) {
                kubelet.report_allocatable(&key).await;
            }
            for key in std::mem::take(&mut kubelet.dirty) {
                kubelet.sync(&key).await;
            }
        }
    }
}

impl Kubelet {
    fn now(&self) -> Timestamp {
        (self.ctx.now)()
    }

    fn is_synced(&self) -> bool {
        self.pods.is_synced()
            && self.claims.is_synced()
            && self.namespaces.is_synced()
            && self.hosts.is_synced()
    }

    fn next_wake(&self) -> impl Future<Output = ()> + use<> {
        let wait = self.records.next_wake().map(|wake| {
            Duration::try_from(wake.duration_since(self.now())).unwrap_or(Duration::ZERO)
        });
        async move {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    fn mark_due(&mut self) {
        let due = self.records.due(self.now());
        self.dirty.extend(due.map(|record| record.key.clone()));
    }

    fn take_in(&mut self, update: Update) {
        match update {
            Update::Pod(event) => {
                for change in self.pods.apply_by_uid(event) {
                    self.take_in_pod(change);
                }
            }
            Update::Claim(event) => {
                for change in self.claims.apply_by_uid(event) {
                    if let Change::Deleted { old, .. } = &change {
                        self.processes.volumes.forget_claim(&store::uid(&**old));
                    }
                    let key = change.key();
                    self.mark_records(|record| record.key.namespace == key.namespace);
                }
            }
            Update::Namespace(event) => {
                for change in self.namespaces.apply_by_uid(event) {
                    let key = change.key();
                    self.mark_records(|record| record.key.namespace == key.name);
                }
            }
            Update::Node(event) => {
                let changes = self.hosts.apply(event);
                self.dirty_nodes.extend(changes.iter().map(Change::key));
            }
        }
    }

    fn take_in_pod(&mut self, change: Change<Pod>) {
        let pod = change.object();
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.as_deref());
        let is_own = node.is_some_and(|node| self.nodes.contains_key(node));
        // The pods of other nodes may be another task's.
        if !is_own && self.records.get(&store::uid(&**pod)).is_none() {
            return;
        }
        match change {
            // The pod was force-deleted or has finished: its containers stop now.
            Change::Deleted { old, .. } => {
                let uid = store::uid(&*old);
                if self.is_unheard(&uid) {
                    if let Some(mut record) = self.records.take(&uid) {
                        record.vanished = Some(old);
                        self.records.put(record);
                    }
                    return;
                }
                self.forget(&uid, Some(old));
            }
            Change::Added(_) | Change::Updated { .. } => {
                self.dirty.insert(change.key());
            }
        }
    }

    /// Stops the containers of a deleted pod.
    fn forget(&mut self, uid: &str, pod: Option<Arc<Pod>>) {
        let record = self.records.take(uid);
        self.processes.forget_pod(uid);
        let alive = record.map(|record| record.alive()).unwrap_or_default();
        if let Some(pod) = pod.filter(|_| !alive.is_empty()) {
            self.gone.push((pod, alive));
        }
    }

    async fn take_in_lifecycle_event(
        &mut self,
        lifecycle_event: PodLifecycleEvent,
        prober: Option<Prober>,
    ) {
        let Some(mut record) = self.records.take(&lifecycle_event.uid) else {
            return;
        };
        record.processes.keep(&lifecycle_event, prober);
        let key = record.key.clone();
        if let Some(pod) = self.pods.get(&key).cloned() {
            self.handle_lifecycle_event(&pod, &mut record, lifecycle_event)
                .await;
        }
        self.records.put(record);
        self.dirty.insert(key);
    }

    fn mark_records(&mut self, concerns: impl Fn(&Record) -> bool) {
        let concerned = self.records.all().filter(|record| concerns(record));
        let keys = concerned.map(|record| record.key.clone());
        self.dirty.extend(keys);
    }

    /// Syncs one pod as far as possible now.
    async fn sync(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key).cloned() else {
            return;
        };
        let uid = store::uid(&*pod);
        let mut record = match self.records.take(&uid) {
            Some(record) => record,
            None => match self.admit(key, &pod) {
                Some(record) => record,
                None => return,
            },
        };
        if !self.outages.is_up(record.node) {
            record.wake = None;
            self.records.put(record);
            return;
        }
        self.processes.forward(&uid, self.forwards(&pod, key));
        Self::heed_readiness(&pod, &mut record);
        let mut resumed = self.resume(&pod, &mut record);
        record.deleted = match pod.metadata.deletion_timestamp {
            Some(_) => record.deleted.or_else(|| Some(self.now())),
            None => None,
        };
        if self.is_rejected(&pod, &mut record).await {
            self.records.put(record);
            return;
        }
        loop {
            let step = match resumed.take() {
                Some(step) => step,
                None => {
                    let step = self.decide(&pod, &record);
                    self.due(&pod, &mut record, step)
                }
            };
            if let Step::Wait(wake) = step {
                record.wake = wake;
                break;
            }
            match self.perform(&pod, &mut record, step).await {
                Ok(None) => record.failures = 0,
                Ok(Some(missing)) => {
                    tracing::warn!(ns = key.namespace, name = key.name, %missing, "pod not started");
                    self.record_missing(&pod, &missing).await;
                    record.failures += 1;
                    let wait = missing.retry_after(&uid, record.failures);
                    record.wake = Some(after(self.now(), wait));
                    break;
                }
                // The pod is gone or was replaced (a patch with its uid is invalid): the watch will report it.
                Err(error) if [404, 409, 422].iter().any(|code| answered(&error, *code)) => {
                    record.wake = None;
                    break;
                }
                Err(error) => {
                    tracing::warn!(ns = key.namespace, name = key.name, %error, "pod not synced");
                    record.failures += 1;
                    let wait = retry_after(record.failures);
                    record.wake = Some(after(self.now(), wait));
                    break;
                }
            }
        }
        self.records.put(record);
    }
}

//! Runs the pods of all simulated nodes.
//!
//! One task serves every node: it mirrors pods, their claims and their Namespaces, and moves each
//! pod on when something changed or a time has come.

mod outages;
mod processes;
mod takeover;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, PodSpec, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::Event;

use super::directives::Directives;
use super::environment::Missing;
use super::faults::Faults;
use super::instance::{Instance, RestartPolicy};
use super::lifecycle::{self, Deletion, Ending, Readiness, Stage, Step, View};
use super::status::{self, Report, unmet_gates};
use super::{Containers, Timings, identity};
use crate::context::Context;
use crate::mirror::{self, Change, Mirror, ObjectKey};
use outages::Outages;
use processes::{Happening, Occurrence, PodProcesses, Processes};

enum Update {
    Pod(Box<Event<Pod>>),
    Claim(Box<Event<PersistentVolumeClaim>>),
    Namespace(Box<Event<Namespace>>),
}

/// What the nodes keep about one pod, by uid.
struct Record {
    key: ObjectKey,
    uid: String,
    node: usize,
    stage: Stage,
    started: Timestamp,
    pod_ip: String,
    instances: BTreeMap<String, Instance>,
    processes: PodProcesses,
    reported: Readiness,
    /// The status as the last write left it; the mirror may lag behind it.
    written: Option<PodStatus>,
    /// The version which that write made.
    written_version: u64,
    /// Its node was switched off while it ran.
    is_powered_off: bool,
    deleted: Option<Timestamp>,
    wake: Option<Timestamp>,
    failures: u32,
}

struct Kubelet {
    ctx: Context,
    timings: Timings,
    /// Node name to index.
    nodes: BTreeMap<String, usize>,
    /// How many pod addresses each node has given out, by index.
    addresses: BTreeMap<usize, usize>,
    pods: Mirror<Pod>,
    claims: Mirror<PersistentVolumeClaim>,
    namespaces: Mirror<Namespace>,
    records: BTreeMap<String, Record>,
    processes: Processes,
    faults: Faults,
    outages: Outages,
    dirty: BTreeSet<ObjectKey>,
}

/// Runs the pods bound to the nodes of `containers`, for as long as it is polled.
pub(super) async fn run(ctx: Context, containers: Containers, faults: Faults, timings: Timings) {
    let mut failing = faults.subscribe();
    let client = ctx.client.clone();
    let mut updates: SelectAll<BoxStream<'static, Update>> = SelectAll::new();
    updates.push(
        mirror::watch(Api::all(client.clone()))
            .map(Update::Pod)
            .boxed(),
    );
    updates.push(
        mirror::watch(Api::all(client.clone()))
            .map(Update::Claim)
            .boxed(),
    );
    updates.push(
        mirror::watch(Api::all(client))
            .map(Update::Namespace)
            .boxed(),
    );
    let mut kubelet = Kubelet {
        timings,
        nodes: (1..=containers.nodes())
            .map(|index| (identity::node_name(index), index))
            .collect(),
        addresses: BTreeMap::new(),
        pods: Mirror::default(),
        claims: Mirror::default(),
        namespaces: Mirror::default(),
        records: BTreeMap::new(),
        processes: Processes::new(containers, ctx.now.clone()),
        outages: Outages::of(faults.all()),
        faults,
        dirty: BTreeSet::new(),
        ctx,
    };
    loop {
        let wake = kubelet.next_wake();
        tokio::select! {
            biased;
            batch = mirror::next_batch(&mut updates) => {
                for update in batch {
                    kubelet.take_in(update);
                }
            }
            Ok(()) = failing.changed() => kubelet.take_in_faults(),
            occurrence = kubelet.processes.next() => kubelet.take_in_occurrence(occurrence),
            () = wake => kubelet.mark_due(),
        }
        if kubelet.is_synced() {
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
        self.pods.is_synced() && self.claims.is_synced() && self.namespaces.is_synced()
    }

    fn next_wake(&self) -> impl Future<Output = ()> + use<> {
        let wake = self.records.values().filter_map(|record| record.wake).min();
        let wait = wake.map(|wake| {
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
        let now = self.now();
        let due = self
            .records
            .values()
            .filter(|record| record.wake.is_some_and(|wake| wake <= now));
        let due: Vec<ObjectKey> = due.map(|record| record.key.clone()).collect();
        self.dirty.extend(due);
    }

    fn take_in(&mut self, update: Update) {
        match update {
            Update::Pod(event) => {
                for change in self.pods.handle(*event) {
                    self.take_in_pod(change);
                }
            }
            Update::Claim(event) => {
                for change in self.claims.handle(*event) {
                    if let (Some(old), None) = (&change.old, &change.new) {
                        self.processes.forget_claim(&mirror::uid(&**old));
                    }
                    self.mark_records(|record| record.key.namespace == change.key.namespace);
                }
            }
            Update::Namespace(event) => {
                for change in self.namespaces.handle(*event) {
                    self.mark_records(|record| record.key.namespace == change.key.name);
                }
            }
        }
    }

    fn take_in_pod(&mut self, change: Change<Pod>) {
        match (change.old, change.new) {
            // Forced away or finished: whatever ran stops now.
            (Some(old), None) => {
                let uid = mirror::uid(&*old);
                if self.is_unheard(&uid) {
                    return;
                }
                self.records.remove(&uid);
                self.processes.forget_pod(&uid);
            }
            _ => {
                self.dirty.insert(change.key);
            }
        }
    }

    fn take_in_occurrence(&mut self, occurrence: Occurrence) {
        let Some(record) = self.records.get_mut(&occurrence.uid) else {
            return;
        };
        let instance = record.instances.get_mut(&occurrence.container);
        let Some(instance) = instance.filter(|own| own.restarts == occurrence.restarts) else {
            return;
        };
        match occurrence.what {
            Happening::Exited(exit) => instance.exit = Some(exit),
            Happening::Probed(ready) => {
                instance.probed = Some(ready);
                self.processes
                    .probe_on(&occurrence, ready, &mut record.processes);
            }
        }
        self.dirty.insert(record.key.clone());
    }

    fn mark_records(&mut self, concerns: impl Fn(&Record) -> bool) {
        let keys = self.records.values().filter(|record| concerns(record));
        let keys: Vec<ObjectKey> = keys.map(|record| record.key.clone()).collect();
        self.dirty.extend(keys);
    }

    /// Moves one pod on as far as it goes now.
    async fn sync(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key).cloned() else {
            return;
        };
        let uid = mirror::uid(&*pod);
        let mut record = match self.records.remove(&uid) {
            Some(record) => record,
            None => match self.admit(key, &pod) {
                Some(record) => record,
                None => return,
            },
        };
        if !self.outages.is_up(record.node) {
            record.wake = None;
            self.records.insert(uid, record);
            return;
        }
        Self::heed_readiness(&pod, &mut record);
        let mut resumed = self.resume(&pod, &mut record);
        record.deleted = match pod.metadata.deletion_timestamp {
            Some(_) => record.deleted.or_else(|| Some(self.now())),
            None => None,
        };
        loop {
            let step = resumed.take().unwrap_or_else(|| self.decide(&pod, &record));
            if let Step::Wait(wake) = step {
                record.wake = wake;
                break;
            }
            match self.perform(&pod, &mut record, step).await {
                Ok(None) => record.failures = 0,
                Ok(Some(missing)) => {
                    tracing::warn!(ns = key.namespace, name = key.name, %missing, "pod not started");
                    record.failures += 1;
                    let wait = mirror::retry_after(record.failures);
                    record.wake = Some(lifecycle::after(self.now(), wait));
                    break;
                }
                // Gone or replaced: the watch will say so.
                Err(error) if mirror::answered(&error, 404) || mirror::answered(&error, 409) => {
                    record.wake = None;
                    break;
                }
                Err(error) => {
                    tracing::warn!(ns = key.namespace, name = key.name, %error, "pod not synced");
                    record.failures += 1;
                    let wait = mirror::retry_after(record.failures);
                    record.wake = Some(lifecycle::after(self.now(), wait));
                    break;
                }
            }
        }
        self.records.insert(uid, record);
    }

    fn decide(&self, pod: &Pod, record: &Record) -> Step {
        let images = pod.spec.as_ref().map(images).unwrap_or_default();
        let view = self.view(pod, record, &images, &record.instances);
        lifecycle::next(record.stage, &view, self.now())
    }

    fn view<'a>(
        &self,
        pod: &Pod,
        record: &'a Record,
        images: &'a BTreeMap<String, String>,
        instances: &'a BTreeMap<String, Instance>,
    ) -> View<'a> {
        let spec = pod.spec.as_ref();
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let deletion = record.deleted.map(|since| Deletion {
            since,
            grace: Duration::from_secs(u64::try_from(grace).unwrap_or(0)),
        });
        View {
            directives: self.directives(pod, &record.key),
            volumes_bound: spec.is_none_or(|spec| self.volumes_bound(&record.key.namespace, spec)),
            gates_met: unmet_gates(pod).is_empty(),
            deletion,
            images,
            restart_policy: RestartPolicy::of(spec.and_then(|spec| spec.restart_policy.as_deref())),
            instances,
            reported: &record.reported,
        }
    }

    fn directives(&self, pod: &Pod, key: &ObjectKey) -> Directives {
        let namespace = self.namespaces.get(&ObjectKey {
            namespace: String::new(),
            name: key.namespace.clone(),
        });
        let annotations = namespace.and_then(|ns| ns.metadata.annotations.as_ref());
        let own = pod.metadata.annotations.as_ref();
        Directives::read(&key.name, own, annotations, &self.timings)
    }

    fn volumes_bound(&self, namespace: &str, spec: &PodSpec) -> bool {
        claim_names(spec).all(|name| {
            let key = ObjectKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            self.claims.get(&key).is_some_and(|claim| {
                let phase = claim
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.as_deref());
                phase == Some("Bound") && claim.metadata.deletion_timestamp.is_none()
            })
        })
    }

    /// Does one step; if something is missing for it, says what.
    async fn perform(
        &mut self,
        pod: &Arc<Pod>,
        record: &mut Record,
        step: Step,
    ) -> Result<Option<Missing>, kube::Error> {
        let now = self.now();
        match step {
            Step::Wait(_) => {}
            Step::ReportCreating => {
                record.started = now;
                let creating = status::Containers::Creating;
                self.write(pod, record, creating, now).await?;
                record.stage = Stage::Creating { since: now };
            }
            Step::Start => {
                if record.pod_ip.is_empty() {
                    record.pod_ip = self.allocate(pod, record.node);
                }
                let images = pod.spec.as_ref().map(images).unwrap_or_default();
                let started = images.into_iter().map(|(name, image)| {
                    let mut instance = Instance::first(image, now);
                    instance.probed = has_readiness_probe(pod, &name).then_some(false);
                    (name, instance)
                });
                return self.start(pod, record, started.collect(), now).await;
            }
            Step::Restart(names) => {
                let images = pod.spec.as_ref().map(images).unwrap_or_default();
                let mut instances = record.instances.clone();
                for name in names {
                    if let (Some(instance), Some(image)) =
                        (instances.get_mut(&name), images.get(&name))
                    {
                        instance.restart(image, now);
                    }
                }
                return self.start(pod, record, instances, now).await;
            }
            Step::Report(readiness) => {
                let instances = record.instances.clone();
                let running = status::Containers::Running {
                    instances: &instances,
                    readiness: &readiness,
                };
                self.write(pod, record, running, now).await?;
                self.processes.take_note(&record.uid, &readiness);
                record.reported = readiness;
            }
            Step::End(ending) => self.end(pod, record, ending, now).await?,
            Step::Release => self.release(pod, record).await?,
        }
        Ok(None)
    }

    /// Reports `instances` as running, ready at once when nothing delays that, and starts those
    /// that are new.
    async fn start(
        &mut self,
        pod: &Arc<Pod>,
        record: &mut Record,
        instances: BTreeMap<String, Instance>,
        now: Timestamp,
    ) -> Result<Option<Missing>, kube::Error> {
        let new: BTreeMap<String, i32> = instances
            .iter()
            .filter(|(name, instance)| {
                let old = record.instances.get(*name);
                old.is_none_or(|old| old.restarts != instance.restarts)
            })
            .map(|(name, instance)| (name.clone(), instance.restarts))
            .collect();
        // Who reads the status must find the log.
        if let Err(missing) = self.prepare(pod, record, &new).await? {
            return Ok(Some(missing));
        }
        let images = pod.spec.as_ref().map(images).unwrap_or_default();
        let view = self.view(pod, record, &images, &instances);
        let (readiness, _) = lifecycle::readiness(&view, now);
        let running = status::Containers::Running {
            instances: &instances,
            readiness: &readiness,
        };
        self.write(pod, record, running, now).await?;
        record.stage = Stage::Running;
        record.instances = instances;
        record.reported = readiness;
        self.processes.launch(&record.uid, &mut record.processes);
        Ok(None)
    }

    async fn end(
        &self,
        pod: &Pod,
        record: &mut Record,
        ending: Ending,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let instances = record.instances.clone();
        let ended = status::Containers::Ended {
            instances: &instances,
            ending,
        };
        self.write(pod, record, ended, now).await?;
        record.stage = Stage::Ended;
        record.processes.stop();
        Ok(())
    }

    async fn release(&self, pod: &Pod, record: &mut Record) -> Result<(), kube::Error> {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &record.key.namespace);
        pods.delete(&record.key.name, &params).await?;
        record.stage = Stage::Released;
        Ok(())
    }

    async fn write(
        &self,
        pod: &Pod,
        record: &mut Record,
        containers: status::Containers<'_>,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let report = Report {
            pod,
            before: record.written.as_ref().or(pod.status.as_ref()),
            containers,
            host_ip: &identity::host_ip(record.node),
            pod_ip: &record.pod_ip,
            started: record.started,
            now,
        };
        let patch = Patch::Strategic(report.patch());
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &record.key.namespace);
        let params = PatchParams::default();
        let written = pods.patch_status(&record.key.name, &params, &patch).await?;
        record.written_version = outages::version(&written);
        record.written = written.status;
        Ok(())
    }

    fn allocate(&mut self, pod: &Pod, node: usize) -> String {
        if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
            return identity::host_ip(node);
        }
        let count = self.addresses.entry(node).or_default();
        *count += 1;
        identity::pod_ip(node, *count)
    }
}

fn has_readiness_probe(pod: &Pod, container: &str) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|own| own.name == container && own.readiness_probe.is_some())
}

fn images(spec: &PodSpec) -> BTreeMap<String, String> {
    let containers = spec.containers.iter();
    containers
        .map(|container| {
            (
                container.name.clone(),
                container.image.clone().unwrap_or_default(),
            )
        })
        .collect()
}

/// The claims a pod's volumes name.
pub(crate) fn claim_names(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref()?;
        Some(claim.claim_name.as_str())
    })
}

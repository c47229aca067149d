//! The steps of the kubelet's sync of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kubeproof_runtime::decode_cache::Decoded;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store;

use super::processes::Made;
use super::{Kubelet, Record, notices};
use crate::environment::Missing;
use crate::hold::Hold;
use crate::hook::HookKind;
use crate::identity;
use crate::instance::{Halt, Hook, Instance};
use crate::lifecycle::{self, Ending, Readiness, Stage, Step};
use crate::part::Part;
use crate::status::{self, DEADLINE_EXCEEDED, Report};

impl Kubelet {
    /// Performs one step. Returns the object that is missing for it, if any.
    pub(super) async fn perform(
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
            Step::Start(names) => {
                if record.pod_ip.is_empty() {
                    record.pod_ip = self.allocate(pod, record.node);
                }
                return self.launch(pod, record, &names, now).await;
            }
            Step::Launch(names) => return self.launch(pod, record, &names, now).await,
            Step::Replace(names, order) => {
                self.tell_all(pod, notices::replaced(pod, record, &names))
                    .await;
                for name in &names {
                    if let Some(instance) = record.instances.get_mut(name) {
                        instance.stopping = Some(order);
                    }
                }
            }
            Step::PreStop(names) => {
                for name in names {
                    if let Some(instance) = record.instances.get_mut(&name) {
                        instance.pre_stop = Some(Hook::Running);
                        let processes = &mut record.processes;
                        self.processes
                            .hook(&record.uid, &name, HookKind::PreStop, processes);
                    }
                }
            }
            Step::Dismiss(names, order) => {
                for name in &names {
                    if let Some(instance) = record.instances.get_mut(name) {
                        instance.dismissed = true;
                        instance.stopping = Some(order);
                    }
                }
                self.tell_all(pod, notices::stopping(&names)).await;
            }
            Step::Signal(names) => Self::signal(record, &names, now),
            Step::Halt(exits) => Self::halt(record, &exits, now),
            Step::Report(readiness) => self.report(pod, record, readiness, now).await?,
            Step::End(ending) => self.end(pod, record, ending, now).await?,
            Step::Release => self.release(pod, record).await?,
        }
        Ok(None)
    }

    /// Starts the containers `names`, for the first time or again. Reports those that could be
    /// created as running, and as ready at once unless a delay is set.
    async fn launch(
        &mut self,
        pod: &Arc<Pod>,
        record: &mut Record,
        names: &[String],
        now: Timestamp,
    ) -> Result<Option<Missing>, kube::Error> {
        let parts = pod.spec.as_ref().map(Part::all).unwrap_or_default();
        let due = parts.iter().filter(|part| names.contains(&part.name));
        let (mut instances, mut held) = (record.instances.clone(), record.held.clone());
        let new: BTreeMap<String, i32> = due
            .clone()
            .map(|part| {
                let before = instances.get(&part.name);
                let run = before.map_or(0, |instance| instance.restarts + 1);
                (part.name.clone(), run)
            })
            .collect();
        // The log exists before the status is written, so that a client that reads the status finds
        // it.
        let Made {
            mut failed,
            unstarted,
        } = match self.prepare(pod, record, &new).await? {
            Ok(made) => made,
            Err(missing) => return Ok(Some(missing)),
        };
        for part in due {
            let name = &part.name;
            let Some(cause) = failed.remove(name) else {
                held.remove(name);
                let instance = instances
                    .entry(name.clone())
                    .and_modify(|instance| instance.restart(part, now))
                    .or_insert_with(|| Instance::first(part, now));
                instance.noticed = self.timings.pace.is_none();
                // The report of the previous run's end does not apply to this run.
                record.reported.halted.remove(name);
                if let Some(message) = unstarted.get(name) {
                    instance.fail_to_start(Arc::clone(message), now);
                }
                continue;
            };
            let hold = Hold::new(held.get(name), &part.image, cause, now);
            held.insert(name.clone(), hold);
            if let Some(instance) = instances.get_mut(name) {
                instance.halt(0, now);
            }
        }
        let view = self.view(pod, record, &parts, &instances, &held);
        let (readiness, _) = lifecycle::readiness(&view, now);
        let running = status::Containers::Running {
            instances: &instances,
            readiness: &readiness,
        };
        self.write(pod, record, running, now).await?;
        let pull = self.timings.pace.map_or(Duration::ZERO, |pace| pace.pull);
        let notices = notices::launched(pod, record, names, &held, &unstarted, pull);
        self.tell_all(pod, notices).await;
        record.stage = Stage::Running;
        (record.instances, record.held) = (instances, held);
        self.processes.take_note(&record.uid, &readiness);
        record.reported = readiness;
        self.processes.launch(&record.uid, &mut record.processes);
        Ok(None)
    }

    /// Sends SIGTERM to containers; a container without a process is recorded as ended.
    fn signal(record: &mut Record, names: &[String], now: Timestamp) {
        for name in names {
            let Some(instance) = record.instances.get_mut(name) else {
                continue;
            };
            instance.signaled = true;
            let is_foreign = instance.stopping.is_some_and(|order| order.is_foreign);
            if !record.processes.signal(name, is_foreign) {
                instance.halt(Ending::Completed.code(), now);
            }
        }
    }

    /// Ends containers that were stopped, with these exit codes; a later step reports them.
    fn halt(record: &mut Record, exits: &[(String, i32)], now: Timestamp) {
        for (name, code) in exits {
            if let Some(instance) = record.instances.get_mut(name) {
                instance.exit = None;
                instance.halt(*code, now);
                record.processes.stop_one(name);
            }
        }
    }

    async fn report(
        &mut self,
        pod: &Pod,
        record: &mut Record,
        readiness: Readiness,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let instances = record.instances.clone();
        let running = status::Containers::Running {
            instances: &instances,
            readiness: &readiness,
        };
        self.write(pod, record, running, now).await?;
        self.processes.take_note(&record.uid, &readiness);
        for (name, halt) in &readiness.halted {
            let told = record.reported.halted.get(name);
            if matches!(halt, Halt::BackOff(_)) && told != Some(halt) {
                self.tell_back_off(pod, name).await;
            }
        }
        for (name, waiting) in &readiness.held {
            let told = record.reported.held.get(name);
            if waiting.is_back_off() && told != Some(waiting) {
                let notices = notices::not_pulled(pod, name, waiting);
                self.tell_all(pod, notices).await;
            }
        }
        record.reported = readiness;
        Ok(())
    }

    async fn end(
        &self,
        pod: &Pod,
        record: &mut Record,
        ending: Ending,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        if ending == Ending::Overdue {
            let (reason, message) = DEADLINE_EXCEEDED;
            self.tell(pod, None, EventType::Normal, reason, message)
                .await;
            self.tell_all(pod, notices::stopping(&record.alive())).await;
        }
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
            same_images: self.processes.same_images(),
            host_ip: &identity::host_ip(record.node),
            pod_ip: &record.pod_ip,
            started: record.started,
            now,
        };
        let patch = Patch::Strategic(report.patch());
        // The response shares its object with the coming watch event.
        let pods: Api<Decoded<Pod>> =
            Api::namespaced(self.ctx.client.clone(), &record.key.namespace);
        let params = PatchParams::default();
        let written = pods.patch_status(&record.key.name, &params, &patch).await?;
        record.written_version = store::resource_version(&written);
        record.written = written.0.status.clone();
        Ok(())
    }

    pub(super) fn allocate(&mut self, pod: &Pod, node: usize) -> String {
        if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
            return identity::host_ip(node);
        }
        let count = self.addresses.entry(node).or_default();
        *count += 1;
        identity::pod_ip(node, *count)
    }
}

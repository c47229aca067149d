//! The steps of the kubelet's sync of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kubeproof_runtime::decode_cache::Decoded;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store;

use super::processes::CreateFailures;
use super::{Kubelet, Record, container_events};
use crate::container_run::{ContainerRun, ContainerRuns, Halt, Hook};
use crate::container_spec::ContainerSpec;
use crate::environment::Missing;
use crate::hold::Hold;
use crate::hook::HookKind;
use crate::identity;
use crate::lifecycle::{self, Ending, Readiness, Stage, Step};
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
                    record.pod_ip = self.allocate(pod, record.node).into();
                }
                return self.launch(pod, record, &names, now).await;
            }
            Step::Launch(names) => return self.launch(pod, record, &names, now).await,
            Step::Replace(names, order) => {
                self.record_events(pod, container_events::replaced(pod, record, &names))
                    .await;
                for name in &names {
                    if let Some(container_run) = record.container_runs.get_mut(name.as_str()) {
                        container_run.stopping = Some(Box::new(order));
                    }
                }
            }
            Step::PreStop(names) => {
                for name in names {
                    if let Some(container_run) = record.container_runs.get_mut(name.as_str()) {
                        container_run.pre_stop = Some(Hook::Running);
                        let processes = &mut record.processes;
                        self.processes
                            .hook(&record.uid, &name, HookKind::PreStop, processes);
                    }
                }
            }
            Step::Dismiss(names, order) => {
                for name in &names {
                    if let Some(container_run) = record.container_runs.get_mut(name.as_str()) {
                        container_run.dismissed = true;
                        container_run.stopping = Some(Box::new(order));
                    }
                }
                self.record_events(pod, container_events::stopping(&names))
                    .await;
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
        let container_specs = pod
            .spec
            .as_deref()
            .map(ContainerSpec::all)
            .unwrap_or_default();
        let due = container_specs
            .iter()
            .filter(|container_spec| names.contains(&container_spec.name));
        let mut held = record.held.clone();
        let mut container_runs = match record.container_runs.is_empty() {
            true => ContainerRuns::with_capacity(container_specs.len()),
            false => record.container_runs.clone(),
        };
        let new: BTreeMap<String, i32> = due
            .clone()
            .map(|container_spec| {
                let before = container_runs.get(container_spec.name.as_str());
                let run = before.map_or(0, |container_run| container_run.restarts + 1);
                (container_spec.name.clone(), run)
            })
            .collect();
        // The log exists before the status is written, so that a client that reads the status finds
        // it.
        let CreateFailures {
            mut failed,
            unstarted,
        } = match self.prepare(pod, record, &new).await? {
            Ok(failures) => failures,
            Err(missing) => return Ok(Some(missing)),
        };
        for container_spec in due {
            let name = &container_spec.name;
            let Some(cause) = failed.remove(name) else {
                held.remove(name);
                let container_run = container_runs
                    .entry(name.as_str().into())
                    .and_modify(|container_run| container_run.restart(container_spec, now))
                    .or_insert_with(|| ContainerRun::first(container_spec, now));
                container_run.noticed = self.timings.pace.is_none();
                // The report of the previous run's end does not apply to this run.
                record.reported.forget_halt(name);
                if let Some(message) = unstarted.get(name) {
                    container_run.fail_to_start(Arc::clone(message), now);
                }
                continue;
            };
            let hold = Hold::new(held.get(name), &container_spec.image, cause, now);
            held.insert(name.clone(), hold);
            if let Some(container_run) = container_runs.get_mut(name.as_str()) {
                container_run.halt(0, now);
            }
        }
        let view = self.view(pod, record, &container_specs, &container_runs, &held);
        let (readiness, _) = lifecycle::readiness(&view, now);
        let running = status::Containers::Running {
            container_runs: &container_runs,
            readiness: &readiness,
        };
        self.write(pod, record, running, now).await?;
        let pull = self.timings.pace.map_or(Duration::ZERO, |pace| pace.pull);
        let events = container_events::launched(pod, record, names, &held, &unstarted, pull);
        self.record_events(pod, events).await;
        record.stage = Stage::Running;
        (record.container_runs, record.held) = (container_runs, held);
        self.processes.take_note(&record.uid, &readiness);
        record.reported = readiness;
        self.processes.launch(&record.uid, &mut record.processes);
        Ok(None)
    }

    /// Sends SIGTERM to containers; a container without a process is recorded as ended.
    fn signal(record: &mut Record, names: &[String], now: Timestamp) {
        for name in names {
            let Some(container_run) = record.container_runs.get_mut(name.as_str()) else {
                continue;
            };
            container_run.signaled = true;
            let is_foreign = container_run.is_stopped_by_another();
            if !record.processes.signal(name, is_foreign) {
                container_run.halt(Ending::Completed.code(), now);
            }
        }
    }

    /// Ends containers that were stopped, with these exit codes; a later step reports them.
    fn halt(record: &mut Record, exits: &[(String, i32)], now: Timestamp) {
        for (name, code) in exits {
            if let Some(container_run) = record.container_runs.get_mut(name.as_str()) {
                container_run.exit = None;
                container_run.halt(*code, now);
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
        let container_runs = record.container_runs.clone();
        let running = status::Containers::Running {
            container_runs: &container_runs,
            readiness: &readiness,
        };
        self.write(pod, record, running, now).await?;
        self.processes.take_note(&record.uid, &readiness);
        for (name, own) in readiness.containers() {
            let reported = record.reported.of(name);
            if matches!(own.halt, Some(Halt::BackOff(_))) && own.halt != reported.halt {
                self.record_back_off(pod, name).await;
            }
        }
        for (name, own) in readiness.containers() {
            let reported = record.reported.of(name);
            let new = own.held.as_ref().filter(|_| own.held != reported.held);
            if let Some(waiting) = new.filter(|waiting| waiting.is_back_off()) {
                let events = container_events::not_pulled(pod, name, waiting);
                self.record_events(pod, events).await;
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
            self.record_event(pod, None, EventType::Normal, reason, message)
                .await;
            self.record_events(pod, container_events::stopping(&record.alive()))
                .await;
        }
        let container_runs = record.container_runs.clone();
        let ended = status::Containers::Ended {
            container_runs: &container_runs,
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
        let written = record.written.as_ref();
        let written = written.and_then(|written| written.status.as_ref());
        let report = Report {
            pod,
            before: written.or(pod.status.as_ref()),
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
        record.written = Some(written.0);
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

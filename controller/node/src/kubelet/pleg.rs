//! The kubelet's reactions to occurrences in containers, and the events it records.

use std::time::Duration;

use kubeproof_runtime::pod::{Pod, reference};
use kubeproof_runtime::recorder::EventType;

use super::processes::{PodLifecycleEvent, PodLifecycleEventType};
use super::view::grace_period;
use super::{Kubelet, Record};
use crate::container_run::{ContainerRun, Hook, Stopping};
use crate::container_spec::{self, ContainerSpec, List, Role};
use crate::environment::Missing;
use crate::hook::HookKind;
use crate::probe::{Outcome, ProbeKind};

impl Kubelet {
    /// Handles an occurrence in the current run of a container.
    pub(super) async fn handle_lifecycle_event(
        &mut self,
        pod: &Pod,
        record: &mut Record,
        what: PodLifecycleEvent,
    ) {
        let name = what.container;
        let container_run = record.container_runs.get_mut(name.as_str());
        let Some(container_run) = container_run.filter(|own| own.restarts == what.restarts) else {
            return;
        };
        match what.what {
            PodLifecycleEventType::Exited(exit) => {
                container_run.exit = Some(exit);
                record.processes.stop_probes(&name);
                self.look_again(record);
            }
            PodLifecycleEventType::Noticed => {
                container_run.noticed = true;
                if container_run.exit.is_none() {
                    let processes = &mut record.processes;
                    self.processes.probe(&record.uid, &name, processes);
                }
                self.look_again(record);
            }
            // The program that has stopped the container records the event itself.
            PodLifecycleEventType::Stopped(grace) => {
                let order = Stopping {
                    is_foreign: true,
                    ..self.stopping_order(pod, grace)
                };
                container_run.stopping.get_or_insert(Box::new(order));
            }
            PodLifecycleEventType::Probed(kind, outcome) => {
                let failure = outcome.failure.clone();
                if let Some(failure) = failure.filter(|_| container_run.exit.is_none()) {
                    let message = format!("{} probe failed: {failure}", kind.name());
                    self.record_event(pod, Some(&name), EventType::Warning, "Unhealthy", &message)
                        .await;
                }
                self.probed(pod, record, &name, (kind, outcome)).await;
            }
            PodLifecycleEventType::Hooked(kind, succeeded) => {
                match kind {
                    HookKind::PostStart => container_run.in_post_start = false,
                    HookKind::PreStop => container_run.pre_stop = Some(Hook::Done(self.now())),
                }
                if !succeeded {
                    let (reason, message) = kind.failure();
                    self.record_event(pod, Some(&name), EventType::Warning, reason, message)
                        .await;
                }
                if kind == HookKind::PostStart {
                    match succeeded {
                        true => self
                            .processes
                            .begun(&record.uid, &name, &mut record.processes),
                        false => {
                            let (reason, _) = kind.failure();
                            self.stop_container(pod, record, &name, reason, None).await;
                        }
                    }
                }
            }
        }
    }

    /// With a pace, a report of the runtime makes containers that could not be created due for a
    /// retry.
    fn look_again(&self, record: &mut Record) {
        if self.timings.pace.is_some() {
            for hold in record.held.values_mut() {
                hold.look_again();
            }
        }
    }

    /// Handles a probe's outcome.
    async fn probed(
        &mut self,
        pod: &Pod,
        record: &mut Record,
        name: &str,
        (kind, outcome): (ProbeKind, Outcome),
    ) {
        let Some(container_run) = record.container_runs.get_mut(name) else {
            return;
        };
        match (kind, outcome.verdict) {
            (_, None) => {}
            (ProbeKind::Readiness, Some(ready)) => container_run.probed = Some(ready),
            (ProbeKind::Startup, Some(true)) => {
                container_run.startup = Some(true);
                self.processes
                    .probe(&record.uid, name, &mut record.processes);
                return;
            }
            (ProbeKind::Liveness, Some(true)) => {}
            (ProbeKind::Liveness | ProbeKind::Startup, Some(false)) => {
                // The probe pauses until the next run.
                record.processes.stop_probe(name, kind);
                let message = death_notice(pod, name, kind);
                self.stop_container(pod, record, name, &message, outcome.grace)
                    .await;
                return;
            }
        }
        self.processes
            .probe_on(&record.uid, name, kind, &mut record.processes);
    }

    /// Stops a container of a pod that stays.
    async fn stop_container(
        &self,
        pod: &Pod,
        record: &mut Record,
        name: &str,
        message: &str,
        grace: Option<Duration>,
    ) {
        let order = self.stopping_order(pod, grace);
        let alive = |container_run: &&mut ContainerRun| container_run.exit.is_none();
        if let Some(container_run) = record.container_runs.get_mut(name).filter(alive) {
            container_run.stopping = Some(Box::new(order));
            self.record_event(pod, Some(name), EventType::Normal, "Killing", message)
                .await;
        }
    }

    fn stopping_order(&self, pod: &Pod, grace: Option<Duration>) -> Stopping {
        Stopping {
            since: self.now(),
            grace: grace.unwrap_or_else(|| grace_period(pod)),
            is_foreign: false,
        }
    }

    /// Records an event about a pod or one of its containers.
    pub(super) async fn record_event(
        &self,
        pod: &Pod,
        container: Option<&str>,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let mut involved = reference(pod);
        involved.field_path = container.map(|name| field_path(pod, name));
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        self.recorder
            .at(node.unwrap_or_default())
            .publish(&involved, event_type, reason, message)
            .await;
    }

    pub(super) async fn record_back_off(&self, pod: &Pod, container: &str) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let message = format!(
            "Back-off restarting failed container {container} in pod {}_{}({})",
            text(&pod.metadata.name),
            text(&pod.metadata.namespace),
            text(&pod.metadata.uid),
        );
        self.record_event(
            pod,
            Some(container),
            EventType::Warning,
            "BackOff",
            &message,
        )
        .await;
    }

    /// Records an event about the missing object that holds back all containers of a pod.
    pub(super) async fn record_missing(&self, pod: &Pod, missing: &Missing) {
        let message = missing.to_string();
        self.record_event(pod, None, EventType::Warning, missing.reason(), &message)
            .await;
    }
}

/// Returns the kubelet's message when a probe kills a container.
fn death_notice(pod: &Pod, name: &str, kind: ProbeKind) -> String {
    let container_specs = pod
        .spec
        .as_deref()
        .map(ContainerSpec::all)
        .unwrap_or_default();
    let container_spec = container_specs
        .iter()
        .find(|container_spec| container_spec.name == name);
    let kind = kind.name().to_lowercase();
    match container_spec {
        Some(container_spec) if container_spec.role != Role::Main => {
            format!("Init container {name} failed {kind} probe")
        }
        Some(container_spec) if container_spec.restarts_when_killed() => {
            format!("Container {name} failed {kind} probe, will be restarted")
        }
        _ => format!("Container {name} failed {kind} probe"),
    }
}

fn field_path(pod: &Pod, container: &str) -> String {
    let list = container_spec::container(pod, container).map_or(List::Main, |(list, _)| list);
    format!("spec.{}{{{container}}}", list.field())
}

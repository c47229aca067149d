//! The pod status that a kubelet writes, as a strategic merge patch.

mod states;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodCondition};
use kubeproof_machinery::json::{Value, json, to_value};
use kubeproof_runtime::pod::{self, Pod, PodStatus};

use super::container_run::{ContainerRun, ContainerRuns, Ended, Halt};
use super::container_spec::{self, ContainerSpec, List};
use super::identity;
use super::image::SameImages;
use super::lifecycle::{ContainerReadiness, Ending, Readiness, is_initialized};
use super::restart_policy::Exit;

/// The reason and message of a pod that failed at its `activeDeadlineSeconds`.
pub(super) const DEADLINE_EXCEEDED: (&str, &str) = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
);

/// The state of a pod's containers.
pub(super) enum Containers<'a> {
    Creating,
    Running {
        container_runs: &'a ContainerRuns,
        readiness: &'a Readiness,
    },
    Ended {
        container_runs: &'a ContainerRuns,
        ending: Ending,
    },
}

/// The input of one status report.
pub(super) struct Report<'a> {
    pub(super) pod: &'a Pod,
    /// The previous status, from which conditions keep their transition times.
    pub(super) before: Option<&'a PodStatus>,
    pub(super) containers: Containers<'a>,
    /// The groups of names under which the node knows one image.
    pub(super) same_images: &'a SameImages,
    pub(super) host_ip: &'a str,
    /// The pod's address; empty until it is assigned.
    pub(super) pod_ip: &'a str,
    pub(super) started: Timestamp,
    pub(super) now: Timestamp,
}

/// Formats a time as metav1.Time: whole seconds, UTC.
pub(super) fn wire_time(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// Returns the readiness gates whose condition is not True, each with the reason.
pub(super) fn unmet_gates(pod: &Pod) -> Vec<String> {
    let conditions: Vec<&PodCondition> = pod::conditions(pod).collect();
    let gates = pod.spec.iter().flat_map(|spec| &spec.readiness_gates);
    gates
        .flatten()
        .filter_map(|gate| {
            let name = &gate.condition_type;
            match conditions.iter().find(|condition| condition.type_ == *name) {
                None => Some(format!(
                    "corresponding condition of pod readiness gate \"{name}\" does not exist."
                )),
                Some(condition) if condition.status == "True" => None,
                Some(condition) => Some(format!(
                    "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                    condition.status
                )),
            }
        })
        .collect()
}

impl Report<'_> {
    /// Returns the patch of the status subresource; the server rejects it if the pod was replaced.
    pub(super) fn patch(&self) -> Value {
        let phase = match &self.containers {
            Containers::Creating => "Pending",
            Containers::Running { .. } if self.is_pending() => "Pending",
            Containers::Running { .. } => "Running",
            Containers::Ended {
                ending: Ending::Completed,
                ..
            } => "Succeeded",
            Containers::Ended { .. } => "Failed",
        };
        let mut status = json!({
            "phase": phase,
            "hostIP": self.host_ip,
            "hostIPs": [{ "ip": self.host_ip }],
            "startTime": wire_time(self.started),
        });
        // Moved in here, because `json!` would copy them.
        status["conditions"] = Value::Array(self.conditions());
        let main = self.container_statuses(self.containers(), List::Main);
        status["containerStatuses"] = Value::Array(main);
        if let Some(generation) = self.pod.metadata.generation {
            status["observedGeneration"] = json!(generation);
        }
        if !self.pod_ip.is_empty() {
            status["podIP"] = json!(self.pod_ip);
            // A list merged by its items would keep an address that the pod has lost.
            status["podIPs"] = match self.before.and_then(|status| status.pod_ip.as_deref()) {
                Some(before) if before != self.pod_ip => {
                    json!([{ "$patch": "replace" }, { "ip": self.pod_ip }])
                }
                _ => json!([{ "ip": self.pod_ip }]),
            };
        }
        if let Some((reason, message)) = self.reason() {
            status["reason"] = json!(reason);
            status["message"] = json!(message);
        }
        let init = self.container_statuses(self.init_containers(), List::Init);
        if !init.is_empty() {
            status["initContainerStatuses"] = Value::Array(init);
        }
        let ephemeral = self.ephemeral_containers();
        if !ephemeral.is_empty() {
            let ephemeral = self.container_statuses(&ephemeral, List::Ephemeral);
            status["ephemeralContainerStatuses"] = Value::Array(ephemeral);
        }
        let mut patch = json!({ "metadata": { "uid": self.pod.metadata.uid } });
        patch["status"] = status;
        patch
    }

    /// Returns whether a main container has yet to run for the first time.
    fn is_pending(&self) -> bool {
        let Containers::Running {
            container_runs,
            readiness,
        } = &self.containers
        else {
            return false;
        };
        self.containers().iter().any(|container| {
            let own = readiness.of(&container.name);
            let hooked = own.hooked || own.kept;
            container_runs
                .get(container.name.as_str())
                .is_none_or(|container_run| hooked && container_run.last.is_none())
        })
    }

    /// Returns the reason and message if the pod itself has failed.
    fn reason(&self) -> Option<(&'static str, &'static str)> {
        match self.containers {
            Containers::Ended {
                ending: Ending::Overdue,
                ..
            } => Some(DEADLINE_EXCEEDED),
            _ => None,
        }
    }

    fn is_initialized(&self) -> bool {
        let container_specs = self
            .pod
            .spec
            .as_deref()
            .map(ContainerSpec::all)
            .unwrap_or_default();
        match &self.containers {
            Containers::Creating => self.init_containers().is_empty(),
            Containers::Running { container_runs, .. } => {
                is_initialized(&container_specs, container_runs)
            }
            Containers::Ended {
                container_runs,
                ending,
            } => {
                is_initialized(&container_specs, container_runs)
                    || container_runs.is_empty()
                        && matches!(ending, Ending::Completed | Ending::Error)
            }
        }
    }

    fn conditions(&self) -> Vec<Value> {
        let succeeded = matches!(
            self.containers,
            Containers::Ended {
                ending: Ending::Completed,
                ..
            }
        );
        let initialized = match self.is_initialized() {
            true if succeeded => Condition {
                reason: "PodCompleted",
                ..Condition::yes()
            },
            true => Condition::yes(),
            false => Condition::no("ContainersNotInitialized", self.incomplete_message()),
        };
        let (sandbox, ready, containers_ready) = match &self.containers {
            Containers::Creating => {
                let unready = Condition::no("ContainersNotReady", self.unready_message(None));
                (Condition::no("", String::new()), unready.clone(), unready)
            }
            Containers::Running { readiness, .. } => {
                let all = readiness.all_ready();
                let containers = if all {
                    Condition::yes()
                } else {
                    Condition::no("ContainersNotReady", self.unready_message(Some(readiness)))
                };
                let pod = match (readiness.pod, all) {
                    (true, _) => Condition::yes(),
                    (false, false) => containers.clone(),
                    (false, true) => {
                        let message = unmet_gates(self.pod).join(", ");
                        Condition::no("ReadinessGatesNotReady", message)
                    }
                };
                (Condition::yes(), pod, containers)
            }
            Containers::Ended { ending, .. } => {
                let reason = match ending {
                    Ending::Completed => "PodCompleted",
                    _ => "PodFailed",
                };
                let ended = Condition::no(reason, String::new());
                (Condition::no("", String::new()), ended.clone(), ended)
            }
        };
        vec![
            self.condition("PodReadyToStartContainers", &sandbox),
            self.condition("Initialized", &initialized),
            self.condition("Ready", &ready),
            self.condition("ContainersReady", &containers_ready),
            self.condition("PodScheduled", &Condition::yes()),
        ]
    }

    fn condition(&self, type_: &str, condition: &Condition) -> Value {
        let status = if condition.holds { "True" } else { "False" };
        let before = self.before.and_then(|status| status.conditions.as_ref());
        let unchanged = before
            .into_iter()
            .flatten()
            .find(|before| before.type_ == type_ && before.status == status)
            .and_then(|before| before.last_transition_time.as_ref());
        let since = unchanged.map_or(self.now, |time| time.0);
        // A merge patch keeps omitted fields; null removes an earlier reason.
        let text = |text: &str| match text {
            "" => Value::Null,
            text => json!(text),
        };
        json!({
            "type": type_,
            "status": status,
            "reason": text(condition.reason),
            "message": text(&condition.message),
            "lastProbeTime": null,
            "lastTransitionTime": wire_time(since),
            "observedGeneration": self.pod.metadata.generation,
        })
    }

    fn containers(&self) -> &[Container] {
        self.pod.spec.as_ref().map_or(&[], |spec| &spec.containers)
    }

    fn init_containers(&self) -> &[Container] {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.init_containers.as_deref())
            .unwrap_or_default()
    }

    fn ephemeral_containers(&self) -> Vec<Container> {
        let spec = self.pod.spec.as_deref().into_iter();
        let all = spec.flat_map(container_spec::containers);
        let ephemeral = all.filter(|(list, _)| *list == List::Ephemeral);
        ephemeral.map(|(_, own)| own.into_owned()).collect()
    }

    /// Returns the last reported status of a container.
    fn last_status(&self, container: &Container) -> Option<Value> {
        let before = self.before?;
        let lists = [&before.container_statuses, &before.init_container_statuses];
        let mut all = lists.into_iter().flatten().flatten();
        let reported = all.find(|status| status.name == container.name)?;
        to_value(reported).ok()
    }

    fn unready_message(&self, readiness: Option<&Readiness>) -> String {
        let sidecars = self
            .init_containers()
            .iter()
            .filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let unready = sidecars.chain(self.containers()).filter(|container| {
            readiness.is_none_or(|readiness| readiness.of(&container.name).ready != Some(true))
        });
        let names: Vec<&str> = unready.map(|container| container.name.as_str()).collect();
        format!("containers with unready status: [{}]", names.join(" "))
    }

    fn incomplete_message(&self) -> String {
        let statuses = self.container_statuses(self.init_containers(), List::Init);
        let containers = self.init_containers().iter().zip(&statuses);
        let incomplete = containers.filter(|(container, status)| {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            let done = if sidecar { "started" } else { "ready" };
            status[done] != true
        });
        let names: Vec<&str> = incomplete.map(|(own, _)| own.name.as_str()).collect();
        format!("containers with incomplete status: [{}]", names.join(" "))
    }

    fn container_statuses(&self, containers: &[Container], list: List) -> Vec<Value> {
        let containers = containers.iter();
        let statuses = containers.map(|container| {
            let mut status = self.container_status(container, list);
            if list == List::Ephemeral {
                // Ephemeral containers have no probes.
                status["ready"] = json!(false);
                status
                    .as_object_mut()
                    .map(|status| status.remove("started"));
            }
            status
        });
        statuses.collect()
    }

    fn container_status(&self, container: &Container, list: List) -> Value {
        match &self.containers {
            Containers::Creating => self.waiting_status(container),
            Containers::Running {
                container_runs,
                readiness,
            } => {
                let own = readiness.of(&container.name);
                if let Some(reported) = self.last_status(container).filter(|_| own.kept) {
                    return reported;
                }
                let status = match container_runs.get(container.name.as_str()) {
                    None => self.waiting_status(container),
                    Some(container_run) => self.running_status(container, container_run, own),
                };
                match &own.held {
                    Some(waiting) => states::held_status(status, waiting),
                    None => status,
                }
            }
            Containers::Ended {
                container_runs,
                ending,
            } => {
                let container_run = container_runs.get(container.name.as_str());
                self.ended_status(container, list, container_run, *ending)
            }
        }
    }

    fn running_status(
        &self,
        container: &Container,
        container_run: &ContainerRun,
        readiness: &ContainerReadiness,
    ) -> Value {
        let completed = container_run.exit.is_some_and(|exit| exit.code == 0);
        // An init container is ready once it has completed.
        let ready = readiness.ready.unwrap_or(completed);
        let mut status = self.started_status(container, Some(container_run), ready, None);
        status["started"] = json!(readiness.started);
        if readiness.hooked {
            // The container runs, but the kubelet does not report it yet.
            let waiting = self.waiting_status(container);
            status["state"] = waiting["state"].clone();
            status["imageID"] = json!("");
            if let Some(status) = status.as_object_mut() {
                status.remove("containerID");
            }
        }
        match readiness.halt {
            Some(Halt::BackOff(wait)) => self.back_off(container, &mut status, wait),
            Some(Halt::Unstarted) => {
                let message = container_run.start_error.as_deref().unwrap_or_default();
                states::wait(&mut status, "RunContainerError", message);
            }
            Some(Halt::Terminated) | None => {}
        }
        status
    }

    fn ended_status(
        &self,
        container: &Container,
        list: List,
        container_run: Option<&ContainerRun>,
        ending: Ending,
    ) -> Value {
        let is_main = list == List::Main;
        let sidecar = list == List::Init && container.restart_policy.as_deref() == Some("Always");
        let forced = match &self.containers {
            Containers::Ended { container_runs, .. } => {
                container_runs.is_empty() && matches!(ending, Ending::Completed | Ending::Error)
            }
            _ => false,
        };
        if container_run.is_none() && !forced {
            // A container that should have run but is not known is reported as lost.
            return match is_main && self.is_initialized() {
                true => states::lost_status(container),
                false => self.waiting_status(container),
            };
        }
        let own = match (is_main, sidecar) {
            (true, _) => ending,
            // A sidecar is stopped after the others have ended, and exits with success.
            (_, true) if ending == Ending::Error => Ending::Completed,
            (_, true) => ending,
            (_, false) if forced => Ending::Completed,
            (_, false) => ending,
        };
        let mut status = self.started_status(container, container_run, false, Some(own));
        if !is_main && !sidecar {
            status["ready"] = json!(status["state"]["terminated"]["exitCode"] == 0);
        }
        status
    }

    fn waiting_status(&self, container: &Container) -> Value {
        states::waiting_status(
            container,
            match self.init_containers().is_empty() {
                true => "ContainerCreating",
                false => "PodInitializing",
            },
        )
    }

    fn started_status(
        &self,
        container: &Container,
        container_run: Option<&ContainerRun>,
        ready: bool,
        ended: Option<Ending>,
    ) -> Value {
        let spec_image = container.image.as_deref().unwrap_or_default();
        let image = container_run.map_or(spec_image, |container_run| container_run.image.as_str());
        let restarts = container_run.map_or(0, |container_run| container_run.restarts);
        let since = container_run.map_or(self.started, |container_run| container_run.since);
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let id = |restarts| identity::container_id(uid, &container.name, restarts);
        let exit = container_run.and_then(|container_run| container_run.exit);
        let exit = exit.or_else(|| {
            ended.map(|ending| Exit {
                code: ending.code(),
                at: self.now,
                killed: true,
            })
        });
        let state = match exit {
            None => json!({ "running": { "startedAt": wire_time(since) } }),
            Some(exit) => {
                let start_error =
                    container_run.and_then(|container_run| container_run.start_error.clone());
                let ended = Ended {
                    since,
                    exit,
                    start_error,
                };
                json!({ "terminated": states::terminated(&ended, &id(restarts)) })
            }
        };
        let last_state = match container_run.and_then(|container_run| container_run.last.as_ref()) {
            Some(last) => json!({ "terminated": states::terminated(last, &id(restarts - 1)) }),
            None => json!({}),
        };
        json!({
            "name": container.name,
            "image": image,
            "imageID": identity::image_id(image, self.same_images),
            "containerID": id(restarts),
            "ready": ready,
            "started": exit.is_none(),
            "restartCount": restarts,
            "state": state,
            "lastState": last_state,
        })
    }
}

impl Report<'_> {
    /// Turns the status of an ended container into that of one in back-off.
    fn back_off(&self, container: &Container, status: &mut Value, wait: Duration) {
        let metadata = &self.pod.metadata;
        let text = |container_spec: &Option<String>| container_spec.clone().unwrap_or_default();
        let message = format!(
            "back-off {} restarting failed container={} pod={}_{}({})",
            states::go_duration(wait),
            container.name,
            text(&metadata.name),
            text(&metadata.namespace),
            text(&metadata.uid),
        );
        states::wait(status, "CrashLoopBackOff", &message);
    }
}

/// Returns the conditions of a pod that failed before any container ran.
pub(super) fn ended_conditions(pod: &Pod, now: Timestamp) -> Vec<Value> {
    let report = Report {
        pod,
        before: pod.status.as_ref(),
        containers: Containers::Creating,
        same_images: &SameImages::default(),
        host_ip: "",
        pod_ip: "",
        started: now,
        now,
    };
    let failed = Condition::no("PodFailed", String::new());
    vec![
        report.condition("Ready", &failed),
        report.condition("ContainersReady", &failed),
    ]
}

#[derive(Clone)]
struct Condition {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn yes() -> Self {
        Self {
            holds: true,
            reason: "",
            message: String::new(),
        }
    }

    fn no(reason: &'static str, message: String) -> Self {
        Self {
            holds: false,
            reason,
            message,
        }
    }
}

#[cfg(test)]
mod tests;

//! The events of the normal lifecycle of containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::EventType;

use super::{Kubelet, Record};
use crate::container_spec::{self, ContainerSpec};
use crate::hold::{Cause, Hold, Waiting};

/// An event about a pod or one of its containers.
pub(super) struct ContainerEvent {
    container: Option<String>,
    event_type: EventType,
    reason: &'static str,
    message: String,
}

impl ContainerEvent {
    fn of(container: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            container: Some(container.to_owned()),
            event_type: EventType::Normal,
            reason,
            message: message.into(),
        }
    }

    fn warning(container: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            event_type: EventType::Warning,
            ..Self::of(container, reason, message)
        }
    }
}

impl Kubelet {
    pub(super) async fn record_events(&self, pod: &Pod, events: Vec<ContainerEvent>) {
        for event in events {
            let container = event.container.as_deref();
            let (reason, message) = (event.reason, &event.message);
            self.record_event(pod, container, event.event_type, reason, message)
                .await;
        }
    }
}

/// The events of the containers `names`, created and started, except for those that are held. The
/// containers in `unstarted` were only created.
pub(super) fn launched(
    pod: &Pod,
    record: &Record,
    names: &[String],
    held: &BTreeMap<String, Hold>,
    unstarted: &BTreeMap<String, Arc<str>>,
    pull: Duration,
) -> Vec<ContainerEvent> {
    let mut events = replaced(pod, record, names);
    for name in names {
        if let Some(hold) = held.get(name) {
            events.extend(failed(pod, name, hold, pull));
            continue;
        }
        events.extend(pulled(pod, name, pull));
        events.push(ContainerEvent::of(name, "Created", "Container created"));
        events.push(match unstarted.get(name) {
            Some(message) => ContainerEvent::warning(name, "Failed", format!("Error: {message}")),
            None => ContainerEvent::of(name, "Started", "Container started"),
        });
    }
    events
}

/// The events of a container that could not be created.
fn failed(pod: &Pod, name: &str, hold: &Hold, pull: Duration) -> Vec<ContainerEvent> {
    let image = hold.image();
    let waiting = hold.cause.waiting(image);
    let (mut events, error) = match &hold.cause {
        Cause::Config(missing) => (pulled(pod, name, pull), missing.to_string()),
        Cause::Pull(error) => {
            let message = format!("Failed to pull image \"{image}\": {error}");
            let events = vec![
                ContainerEvent::of(name, "Pulling", format!("Pulling image \"{image}\"")),
                ContainerEvent::warning(name, "Failed", message),
            ];
            (events, waiting.reason.to_owned())
        }
        Cause::NeverPull => {
            let event = ContainerEvent::warning(name, "ErrImageNeverPull", waiting.message);
            (vec![event], waiting.reason.to_owned())
        }
        Cause::ImageName(_) => {
            let event = ContainerEvent::warning(name, "InspectFailed", waiting.message);
            (vec![event], waiting.reason.to_owned())
        }
    };
    let error = format!("Error: {error}");
    events.push(ContainerEvent::warning(name, "Failed", error));
    events
}

/// The events of a container in image pull back-off.
pub(super) fn not_pulled(pod: &Pod, name: &str, waiting: &Waiting) -> Vec<ContainerEvent> {
    let image = container_spec::container(pod, name).and_then(|(_, own)| own.image.clone());
    let message = format!("Back-off pulling image \"{}\"", image.unwrap_or_default());
    let error = format!("Error: {}", waiting.reason);
    vec![
        ContainerEvent::of(name, "BackOff", message),
        ContainerEvent::warning(name, "Failed", error),
    ]
}

/// The events of a container's image pull; every node has every image that can be pulled.
fn pulled(pod: &Pod, name: &str, pull: Duration) -> Vec<ContainerEvent> {
    let Some((_, container)) = container_spec::container(pod, name) else {
        return Vec::new();
    };
    let image = container.image.as_deref().unwrap_or_default();
    if container.image_pull_policy.as_deref() != Some("Always") {
        let message = format!(
            "Container image \"{image}\" already present on machine and can be accessed by the pod"
        );
        return vec![ContainerEvent::of(name, "Pulled", message)];
    }
    let took = match pull.as_millis() {
        0 => "0s".to_owned(),
        millis if millis < 1000 => format!("{millis}ms"),
        _ => format!("{}s", pull.as_secs_f64()),
    };
    let pulled = format!(
        "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: 0 bytes."
    );
    vec![
        ContainerEvent::of(name, "Pulling", format!("Pulling image \"{image}\"")),
        ContainerEvent::of(name, "Pulled", pulled),
    ]
}

/// The events of the containers `names`, which stop as their pod ends.
pub(super) fn stopping(names: &[String]) -> Vec<ContainerEvent> {
    let events = names
        .iter()
        .map(|name| ContainerEvent::of(name, "Killing", format!("Stopping container {name}")));
    events.collect()
}

/// The events of the containers `names`, which are restarted although their last run has no exit.
pub(super) fn replaced(pod: &Pod, record: &Record, names: &[String]) -> Vec<ContainerEvent> {
    let container_specs = pod
        .spec
        .as_deref()
        .map(ContainerSpec::all)
        .unwrap_or_default();
    let alive = container_specs.iter().filter_map(|container_spec| {
        let container_run = record.container_runs.get(container_spec.name.as_str())?;
        (names.contains(&container_spec.name) && container_run.exit.is_none())
            .then_some((container_spec, container_run))
    });
    let (changed, lost): (Vec<_>, Vec<_>) = alive
        .partition(|(container_spec, container_run)| container_spec.image != container_run.image);
    let changed = changed.iter().map(|(container_spec, _)| {
        let name = &container_spec.name;
        let message = format!("Container {name} definition changed, will be restarted");
        ContainerEvent::of(name, "Killing", message)
    });
    let mut events: Vec<ContainerEvent> = changed.collect();
    if !lost.is_empty() {
        events.push(ContainerEvent {
            container: None,
            event_type: EventType::Normal,
            reason: "SandboxChanged",
            message: "Pod sandbox changed, it will be killed and re-created.".to_owned(),
        });
    }
    events
}

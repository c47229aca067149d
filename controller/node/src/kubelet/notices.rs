//! The events of the normal lifecycle of containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kubeproof_runtime::recorder::EventType;

use super::{Kubelet, Record};
use crate::hold::{Cause, Hold, Waiting};
use crate::part::{self, Part};

/// An event about a pod or one of its containers.
pub(super) struct Notice {
    container: Option<String>,
    event_type: EventType,
    reason: &'static str,
    message: String,
}

impl Notice {
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
    pub(super) async fn tell_all(&self, pod: &Pod, notices: Vec<Notice>) {
        for notice in notices {
            let container = notice.container.as_deref();
            let (reason, message) = (notice.reason, &notice.message);
            self.tell(pod, container, notice.event_type, reason, message)
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
) -> Vec<Notice> {
    let mut notices = replaced(pod, record, names);
    for name in names {
        if let Some(hold) = held.get(name) {
            notices.extend(failed(pod, name, hold, pull));
            continue;
        }
        notices.extend(pulled(pod, name, pull));
        notices.push(Notice::of(name, "Created", "Container created"));
        notices.push(match unstarted.get(name) {
            Some(message) => Notice::warning(name, "Failed", format!("Error: {message}")),
            None => Notice::of(name, "Started", "Container started"),
        });
    }
    notices
}

/// The events of a container that could not be created.
fn failed(pod: &Pod, name: &str, hold: &Hold, pull: Duration) -> Vec<Notice> {
    let image = hold.image();
    let waiting = hold.cause.waiting(image);
    let (mut notices, error) = match &hold.cause {
        Cause::Config(missing) => (pulled(pod, name, pull), missing.to_string()),
        Cause::Pull(error) => {
            let message = format!("Failed to pull image \"{image}\": {error}");
            let notices = vec![
                Notice::of(name, "Pulling", format!("Pulling image \"{image}\"")),
                Notice::warning(name, "Failed", message),
            ];
            (notices, waiting.reason.to_owned())
        }
        Cause::NeverPull => {
            let notice = Notice::warning(name, "ErrImageNeverPull", waiting.message);
            (vec![notice], waiting.reason.to_owned())
        }
        Cause::ImageName(_) => {
            let notice = Notice::warning(name, "InspectFailed", waiting.message);
            (vec![notice], waiting.reason.to_owned())
        }
    };
    let error = format!("Error: {error}");
    notices.push(Notice::warning(name, "Failed", error));
    notices
}

/// The events of a container in image pull back-off.
pub(super) fn not_pulled(pod: &Pod, name: &str, waiting: &Waiting) -> Vec<Notice> {
    let image = part::container(pod, name).and_then(|(_, own)| own.image.clone());
    let message = format!("Back-off pulling image \"{}\"", image.unwrap_or_default());
    let error = format!("Error: {}", waiting.reason);
    vec![
        Notice::of(name, "BackOff", message),
        Notice::warning(name, "Failed", error),
    ]
}

/// The events of a container's image pull; every node has every image that can be pulled.
fn pulled(pod: &Pod, name: &str, pull: Duration) -> Vec<Notice> {
    let Some((_, container)) = part::container(pod, name) else {
        return Vec::new();
    };
    let image = container.image.as_deref().unwrap_or_default();
    if container.image_pull_policy.as_deref() != Some("Always") {
        let message = format!(
            "Container image \"{image}\" already present on machine and can be accessed by the pod"
        );
        return vec![Notice::of(name, "Pulled", message)];
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
        Notice::of(name, "Pulling", format!("Pulling image \"{image}\"")),
        Notice::of(name, "Pulled", pulled),
    ]
}

/// The events of the containers `names`, which stop as their pod ends.
pub(super) fn stopping(names: &[String]) -> Vec<Notice> {
    let notices = names
        .iter()
        .map(|name| Notice::of(name, "Killing", format!("Stopping container {name}")));
    notices.collect()
}

/// The events of the containers `names`, which are restarted although their last run has no exit.
pub(super) fn replaced(pod: &Pod, record: &Record, names: &[String]) -> Vec<Notice> {
    let parts = pod.spec.as_ref().map(Part::all).unwrap_or_default();
    let alive = parts.iter().filter_map(|part| {
        let instance = record.instances.get(&part.name)?;
        (names.contains(&part.name) && instance.exit.is_none()).then_some((part, instance))
    });
    let (changed, lost): (Vec<_>, Vec<_>) =
        alive.partition(|(part, instance)| part.image != instance.image);
    let changed = changed.iter().map(|(part, _)| {
        let name = &part.name;
        let message = format!("Container {name} definition changed, will be restarted");
        Notice::of(name, "Killing", message)
    });
    let mut notices: Vec<Notice> = changed.collect();
    if !lost.is_empty() {
        notices.push(Notice {
            container: None,
            event_type: EventType::Normal,
            reason: "SandboxChanged",
            message: "Pod sandbox changed, it will be killed and re-created.".to_owned(),
        });
    }
    notices
}

//! What the kubelet tells of the ordinary course of containers.

use k8s_openapi::api::core::v1::Pod;

use super::{Kubelet, Record};
use crate::node::part::Part;
use crate::recorder::EventType;

/// A Normal event about a pod, or about one of its containers.
pub(super) struct Notice {
    container: Option<String>,
    reason: &'static str,
    message: String,
}

impl Notice {
    fn of(container: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            container: Some(container.to_owned()),
            reason,
            message: message.into(),
        }
    }
}

impl Kubelet {
    pub(super) async fn tell_all(&self, pod: &Pod, notices: Vec<Notice>) {
        for notice in notices {
            let container = notice.container.as_deref();
            let (reason, message) = (notice.reason, &notice.message);
            self.tell(pod, container, EventType::Normal, reason, message)
                .await;
        }
    }
}

/// The containers `names` were made and started, whatever ran in their place.
pub(super) fn launched(pod: &Pod, record: &Record, names: &[String]) -> Vec<Notice> {
    let mut notices = replaced(pod, record, names);
    for name in names {
        notices.extend(pulled(pod, name));
        notices.push(Notice::of(name, "Created", "Container created"));
        notices.push(Notice::of(name, "Started", "Container started"));
    }
    notices
}

/// Where the image of a container comes from: every machine has every image.
pub(super) fn pulled(pod: &Pod, name: &str) -> Vec<Notice> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let main = spec.map(|spec| &spec.containers);
    let mut all = init.into_iter().chain(main).flatten();
    let Some(container) = all.find(|container| container.name == name) else {
        return Vec::new();
    };
    let image = container.image.as_deref().unwrap_or_default();
    if container.image_pull_policy.as_deref() != Some("Always") {
        let message = format!(
            "Container image \"{image}\" already present on machine and can be accessed by the pod"
        );
        return vec![Notice::of(name, "Pulled", message)];
    }
    let pulled = format!(
        "Successfully pulled image \"{image}\" in 0s (0s including waiting). Image size: 0 bytes."
    );
    vec![
        Notice::of(name, "Pulling", format!("Pulling image \"{image}\"")),
        Notice::of(name, "Pulled", pulled),
    ]
}

/// The containers `names` are told to stop, as their pod ends.
pub(super) fn stopping(names: &[String]) -> Vec<Notice> {
    let notices = names
        .iter()
        .map(|name| Notice::of(name, "Killing", format!("Stopping container {name}")));
    notices.collect()
}

/// Why the containers `names` run anew that still seem to run.
fn replaced(pod: &Pod, record: &Record, names: &[String]) -> Vec<Notice> {
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
            reason: "SandboxChanged",
            message: "Pod sandbox changed, it will be killed and re-created.".to_owned(),
        });
    }
    notices
}

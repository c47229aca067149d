//! Detects the completion of an update in place.

use kube::ResourceExt;
use kubeproof_runtime::pod::{ContainerStatus, Pod};
use serde::{Deserialize, Serialize};

use super::{UpdateState, is_in_grace, update_state};
use crate::kruise::container_hash;

/// The annotation in which the daemon of a node reports a pod's containers.
pub(crate) const RUNTIME_ANNOTATION: &str = "apps.kruise.io/runtime-containers-meta";

/// The containers that the daemon reports.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(crate) struct RuntimeContainers {
    pub(crate) containers: Vec<RuntimeContainer>,
}

/// A running container.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuntimeContainer {
    pub(crate) name: String,
    #[serde(rename = "containerID")]
    pub(crate) container_id: String,
    pub(crate) restart_count: i32,
    pub(crate) hashes: Hashes,
}

/// The hashes of the container's spec as of its start.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hashes {
    pub(crate) plain_hash: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) extracted_env_from_metadata_hash: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Whether the pod is done with its update; the error says what is still to come.
pub(crate) fn check_complete(pod: &Pod) -> Result<(), String> {
    if is_in_grace(pod) {
        return Err("still in grace period of in-place update".to_owned());
    }
    let Some(state) = update_state(pod) else {
        return Ok(());
    };
    let state = state.map_err(|error| error.to_string())?;
    if state.has_next_batch() {
        return Err("existing containers to in-place update in next batches".to_owned());
    }
    are_containers_complete(pod, &state)
}

/// Whether the containers of the batch that was started are those wanted.
pub(crate) fn are_containers_complete(pod: &Pod, state: &UpdateState) -> Result<(), String> {
    let runtime = match pod.annotations().get(RUNTIME_ANNOTATION) {
        Some(text) => {
            let read = serde_json::from_str::<RuntimeContainers>(text);
            Some(read.map_err(|error| error.to_string())?)
        }
        None => None,
    };
    if state.update_env_from_metadata {
        let Some(runtime) = &runtime else {
            return Err(
                "waiting for all containers hash consistent, but runtime-container-meta not found"
                    .to_owned(),
            );
        };
        if !are_consistent(pod, runtime, Hash::MetadataVariables) {
            return Err("waiting for all containers hash consistent".to_owned());
        }
    }
    if runtime.is_some_and(|runtime| are_consistent(pod, &runtime, Hash::Plain)) {
        return Ok(());
    }
    let mut expected = state.last_container_statuses.clone().unwrap_or_default();
    for status in statuses(pod) {
        let Some(last) = expected.remove(&status.name) else {
            continue;
        };
        // The new image may be the old one under another name.
        if last.image_id == status.image_id && image_of(pod, &status.name) != status.image {
            return Err(format!("container {} imageID not changed", status.name));
        }
    }
    if !expected.is_empty() {
        let names: Vec<String> = expected.into_keys().collect();
        return Err(format!("not found statuses of containers {names:?}"));
    }
    Ok(())
}

/// Whether the containers that go first are ready, so that the next ones may follow.
#[must_use]
pub(crate) fn is_ready_for_next(pod: &Pod, state: &UpdateState) -> bool {
    let required = state.pre_check_before_next.iter();
    required
        .flat_map(|check| &check.containers_required_ready)
        .all(|name| statuses(pod).any(|status| status.name == *name && status.ready))
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| &status.container_statuses);
    statuses.flatten()
}

/// The image in the spec, with the tag that it has when it names none.
fn image_of(pod: &Pod, container: &str) -> String {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let found = containers
        .filter(|known| known.name == container)
        .find_map(|known| known.image.clone());
    let image = found.unwrap_or_default();
    match image.contains(':') {
        true => image,
        false => format!("{image}:latest"),
    }
}

#[derive(Clone, Copy)]
enum Hash {
    Plain,
    MetadataVariables,
}

/// Whether the daemon has seen every container as the spec has it.
fn are_consistent(pod: &Pod, runtime: &RuntimeContainers, hash: Hash) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.all(|container| {
        let Some(status) = statuses(pod).find(|status| status.name == container.name) else {
            return false;
        };
        let mut known = runtime.containers.iter();
        let Some(known) = known.find(|known| known.name == container.name) else {
            return false;
        };
        let (expected, found) = match hash {
            Hash::Plain => (container_hash::plain(container), known.hashes.plain_hash),
            Hash::MetadataVariables => (
                container_hash::of_metadata_variables(container, pod),
                known.hashes.extracted_env_from_metadata_hash,
            ),
        };
        status.container_id.as_deref() == Some(&known.container_id) && u64::from(expected) == found
    })
}

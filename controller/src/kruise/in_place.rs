//! Updates of a pod that keep it: the changes that allow that, and the resulting pod.
//!
//! Source: openkruise/kruise pkg/util/inplaceupdate.

mod completion;
mod record;
mod spec;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kubeproof_runtime::pod::{Pod, condition};

use super::launch_priority;

pub(crate) use completion::{
    Hashes, RUNTIME_ANNOTATION, RuntimeContainer, RuntimeContainers, are_containers_complete,
    check_complete, is_ready_for_next,
};
use record::{Batch, ContainerStatus, PreCheck, rfc3339};
pub(crate) use record::{UpdateSpec, UpdateState};
pub(crate) use spec::{CLAIM_HASH_ANNOTATION, update_spec};

/// The readiness gate and the condition of pods that are updated in place.
pub(crate) const READY_CONDITION: &str = "InPlaceUpdateReady";
/// The reason of that condition while an update runs.
pub(crate) const START_REASON: &str = "StartInPlaceUpdate";
/// The annotation with the [`UpdateState`], and its name of old.
const STATE_ANNOTATION: &str = "apps.kruise.io/inplace-update-state";
const OLD_STATE_ANNOTATION: &str = "inplace-update-state";
/// The annotation with the pending [`UpdateSpec`], and its name of old.
const GRACE_ANNOTATION: &str = "apps.kruise.io/inplace-update-grace";
const OLD_GRACE_ANNOTATION: &str = "inplace-update-grace";

fn annotation<'a>(pod: &'a Pod, keys: [&str; 2]) -> Option<&'a str> {
    let annotations = pod.annotations();
    keys.iter()
        .find_map(|key| annotations.get(*key))
        .map(String::as_str)
}

/// The record of the pod's last in-place update; None if it has no record, an error if unreadable.
pub(crate) fn update_state(pod: &Pod) -> Option<Result<UpdateState, serde_json::Error>> {
    annotation(pod, [STATE_ANNOTATION, OLD_STATE_ANNOTATION]).map(serde_json::from_str)
}

/// Whether the pod waits out its grace period.
#[must_use]
pub(crate) fn is_in_grace(pod: &Pod) -> bool {
    grace_text(pod).is_some()
}

/// The update that the pod waits for.
pub(crate) fn grace(pod: &Pod) -> Option<Result<UpdateSpec, serde_json::Error>> {
    grace_text(pod).map(serde_json::from_str)
}

fn grace_text(pod: &Pod) -> Option<&str> {
    annotation(pod, [GRACE_ANNOTATION, OLD_GRACE_ANNOTATION]).filter(|text| !text.is_empty())
}

/// Drops the pending update.
pub(crate) fn remove_grace(pod: &mut Pod) {
    let annotations = pod.annotations_mut();
    for key in [GRACE_ANNOTATION, OLD_GRACE_ANNOTATION] {
        annotations.remove(key);
    }
}

/// Whether the pod has the readiness gate.
#[must_use]
pub(crate) fn has_gate(pod: &Pod) -> bool {
    has_readiness_gate(pod, READY_CONDITION)
}

/// Whether the pod has the readiness gate `name`.
#[must_use]
pub(crate) fn has_readiness_gate(pod: &Pod, name: &str) -> bool {
    let gates = pod.spec.iter().flat_map(|spec| &spec.readiness_gates);
    gates.flatten().any(|gate| gate.condition_type == name)
}

/// Sets a condition unless its status is the same already.
pub(crate) fn set_condition(pod: &mut Pod, condition: PodCondition) {
    let status = pod.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    match conditions
        .iter_mut()
        .find(|known| known.type_ == condition.type_)
    {
        Some(known) if known.status == condition.status => {}
        Some(known) => *known = condition.into(),
        None => conditions.push(condition.into()),
    }
}

/// Lets the condition Ready follow the pod's readiness gates, if its containers are ready.
pub(crate) fn follow_gates(pod: &mut Pod, now: Timestamp) {
    let are_ready = condition(pod, "ContainersReady").is_some_and(|one| one.status == "True");
    if condition(pod, "Ready").is_none() || !are_ready {
        return;
    }
    let gates = pod.spec.iter().flat_map(|spec| &spec.readiness_gates);
    let unready: Vec<String> = gates
        .flatten()
        .filter_map(|gate| {
            let name = &gate.condition_type;
            match condition(pod, name) {
                None => Some(format!(
                    "corresponding condition of pod readiness gate {name:?} does not exist."
                )),
                Some(known) if known.status != "True" => Some(format!(
                    "the status of pod readiness gate {name:?} is not \"True\", but {}",
                    known.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    let is_ready = unready.is_empty();
    let ready = PodCondition {
        type_: "Ready".to_owned(),
        status: if is_ready { "True" } else { "False" }.to_owned(),
        reason: (!is_ready).then(|| "ReadinessGatesNotReady".to_owned()),
        message: (!is_ready).then(|| unready.join(", ")),
        last_transition_time: Some(Time(whole_second(now))),
        ..PodCondition::default()
    };
    set_condition(pod, ready);
}

/// Times on the wire carry no fraction.
pub(crate) fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).expect("a second of a valid timestamp is valid")
}

/// Writes the start of an update into the pod: its state, and either the change or, when there is a
/// grace period, the promise of it. Labels are the caller's.
pub(crate) fn start(pod: &mut Pod, spec: &UpdateSpec, now: Timestamp) {
    let mut state = UpdateState::started(spec, now);
    pod.annotations_mut().remove(OLD_STATE_ANNOTATION);
    if spec.grace_seconds <= 0 {
        apply(pod, spec, &mut state, now);
        remove_grace(pod);
        return;
    }
    write_state(pod, &state);
    let text = serde_json::to_string(spec).expect("a spec is JSON");
    pod.annotations_mut()
        .insert(GRACE_ANNOTATION.to_owned(), text);
}

/// Starts the next batch of containers of an unfinished update.
pub(crate) fn start_next_batch(pod: &mut Pod, mut state: UpdateState, now: Timestamp) {
    let spec = UpdateSpec {
        container_images: std::mem::take(&mut state.next_container_images),
        container_ref_metadata: std::mem::take(&mut state.next_container_ref_metadata),
        ..UpdateSpec::default()
    };
    apply(pod, &spec, &mut state, now);
}

/// Ends the grace period: the pending update is made.
pub(crate) fn finish_grace(
    pod: &mut Pod,
    spec: &UpdateSpec,
    mut state: UpdateState,
    now: Timestamp,
) {
    apply(pod, spec, &mut state, now);
    remove_grace(pod);
}

fn write_state(pod: &mut Pod, state: &UpdateState) {
    let text = serde_json::to_string(state).expect("a state is JSON");
    pod.annotations_mut()
        .insert(STATE_ANNOTATION.to_owned(), text);
}

/// Merges what `spec` says into the pod, for the containers whose turn it is; what is left waits in
/// `state`.
fn apply(pod: &mut Pod, spec: &UpdateSpec, state: &mut UpdateState, now: Timestamp) {
    spec.merge_metadata(pod);
    let chosen = first_batch(pod, spec);
    let mut changed = BTreeSet::new();
    let containers = pod.spec.as_mut().map(|spec| &mut spec.containers);
    for container in containers.into_iter().flatten() {
        let Some(image) = spec.container_images.get(&container.name) else {
            continue;
        };
        if chosen.contains(&container.name) {
            container.image = Some(image.clone());
            changed.insert(container.name.clone());
        } else {
            let next = &mut state.next_container_images;
            next.insert(container.name.clone(), image.clone());
        }
    }
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| &status.container_statuses);
    for status in statuses.flatten() {
        if changed.contains(&status.name) {
            let last = state.last_container_statuses.get_or_insert_default();
            let known = last.entry(status.name.clone());
            known.or_insert_with(|| ContainerStatus {
                image_id: status.image_id.clone(),
            });
        }
    }
    for (container, metadata) in &spec.container_ref_metadata {
        if chosen.contains(container) {
            pod.labels_mut().extend(metadata.labels.clone());
            pod.annotations_mut().extend(metadata.annotations.clone());
        } else {
            let next = &mut state.next_container_ref_metadata;
            next.insert(container.clone(), metadata.clone());
        }
    }
    let chosen: Vec<String> = chosen.into_iter().collect();
    state.pre_check_before_next = state.has_next_batch().then(|| PreCheck {
        containers_required_ready: chosen.clone(),
    });
    state.container_batches_record.push(Batch {
        timestamp: rfc3339(now),
        containers: chosen,
    });
    write_state(pod, state);
}

/// The containers to update first: those without a priority, those of the highest one, and those
/// that read the same metadata.
fn first_batch(pod: &Pod, spec: &UpdateSpec) -> BTreeSet<String> {
    let concerned: Vec<(&str, Option<i64>)> = launch_priority::of_containers(pod)
        .into_iter()
        .filter(|(name, _)| {
            spec.container_images.contains_key(*name)
                || spec.container_ref_metadata.contains_key(*name)
        })
        .collect();
    let highest = concerned.iter().filter_map(|(_, priority)| *priority).max();
    let mut chosen: BTreeSet<String> = concerned
        .iter()
        .filter(|(_, priority)| priority.is_none() || *priority == highest)
        .map(|(name, _)| (*name).to_owned())
        .collect();
    // Whoever shares a key with one that is chosen is chosen too, and so on.
    loop {
        let of_chosen = spec
            .container_ref_metadata
            .iter()
            .filter(|(name, _)| chosen.contains(*name));
        let (mut labels, mut annotations) = (BTreeSet::new(), BTreeSet::new());
        for (_, metadata) in of_chosen {
            labels.extend(metadata.labels.keys());
            annotations.extend(metadata.annotations.keys());
        }
        let shares = |name: &str| {
            let metadata = &spec.container_ref_metadata[name];
            metadata.labels.keys().any(|key| labels.contains(key))
                || metadata
                    .annotations
                    .keys()
                    .any(|key| annotations.contains(key))
        };
        let others = spec
            .container_ref_metadata
            .keys()
            .filter(|name| !chosen.contains(*name));
        let joining: Vec<String> = others.filter(|name| shares(name)).cloned().collect();
        if joining.is_empty() {
            return chosen;
        }
        chosen.extend(joining);
    }
}

#[cfg(test)]
mod tests;

//! Pods found bound to the kubelet's nodes: new ones, or those of an earlier process.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStateTerminated;
use kubeproof_runtime::pod::{ContainerStatus, Pod, PodStatus};

use super::{Kubelet, PodProcesses, Record};
use crate::container_run::{ContainerRun, ContainerRuns, Ended};
use crate::container_spec::{ContainerSpec, Role};
use crate::lifecycle::{ContainerReadiness, Readiness, Stage};
use crate::restart_policy::Exit;
use kubeproof_machinery::meta::ResourceVersion;
use kubeproof_runtime::store::{self, ObjectKey};

impl Kubelet {
    /// Creates the record of a pod bound to one of the nodes, at the stage of its status.
    pub(super) fn admit(&mut self, key: &ObjectKey, pod: &Pod) -> Option<Record> {
        let spec = pod.spec.as_ref()?;
        let node = *self.nodes.get(spec.node_name.as_deref()?)?;
        if !self.outages.is_up(node) {
            return None;
        }
        let status = pod.status.clone().unwrap_or_default();
        let now = self.now();
        let mut record = Record {
            key: key.clone(),
            uid: store::uid(pod).into(),
            node,
            stage: Stage::Bound,
            started: status.start_time.as_ref().map_or(now, |time| time.0),
            pod_ip: status.pod_ip.as_deref().unwrap_or_default().into(),
            container_runs: ContainerRuns::default(),
            held: BTreeMap::new(),
            processes: PodProcesses::default(),
            under_way: None,
            reported: Readiness::default(),
            written: None,
            written_version: ResourceVersion::ZERO,
            is_powered_off: false,
            deleted: None,
            rejection: None,
            wake: None,
            failures: 0,
            vanished: None,
        };
        match status.phase.as_deref() {
            Some("Succeeded" | "Failed") => record.stage = Stage::Ended,
            Some("Running") => {
                record.stage = Stage::Running;
                record.container_runs = running_instances(pod, &status, now);
                record.reported = reported(&status);
                // Addresses that an earlier process assigned are not reused.
                *self.addresses.entry(node).or_default() += 1;
            }
            _ => {
                record.rejection = self.rejection(pod, node).map(Box::new);
            }
        }
        Some(record)
    }
}

/// Returns the runs of the containers that the status reports as started.
fn running_instances(pod: &Pod, status: &PodStatus, now: Timestamp) -> ContainerRuns {
    let container_specs = pod
        .spec
        .as_deref()
        .map(ContainerSpec::all)
        .unwrap_or_default();
    let init = status.init_container_statuses.iter().flatten();
    let ephemeral = status.ephemeral_container_statuses.iter().flatten();
    let statuses: BTreeMap<&str, &ContainerStatus> = init
        .chain(status.container_statuses.iter().flatten())
        .chain(ephemeral)
        .map(|status| (status.name.as_str(), status))
        .collect();
    let known = container_specs.iter().filter_map(|container_spec| {
        let status = statuses.get(container_spec.name.as_str())?;
        Some((
            container_spec.name.as_str().into(),
            container_run(container_spec, status, now)?,
        ))
    });
    let mut container_runs = ContainerRuns::with_capacity(container_specs.len());
    for (name, container_run) in known {
        container_runs.insert(name, container_run);
    }
    container_runs
}

fn container_run(
    container_spec: &ContainerSpec,
    status: &ContainerStatus,
    now: Timestamp,
) -> Option<ContainerRun> {
    let state = status.state.clone().unwrap_or_default();
    let ended = state.terminated.as_ref().map(|state| ended(state, now));
    let runs_once = matches!(container_spec.role, Role::Init | Role::Ephemeral);
    if runs_once && ended.is_none() && state.running.is_none() {
        return None;
    }
    let running = state.running.as_ref();
    let since = running.and_then(|running| running.started_at.as_ref());
    let since = since.map_or(now, |time| time.0);
    let mut container_run = ContainerRun::first(container_spec, since);
    container_run.image = status.image.as_str().into();
    container_run.restarts = status.restart_count;
    // The probes and hooks of an earlier process are lost.
    (container_run.probed, container_run.startup) = (None, None);
    container_run.in_post_start = false;
    if let Some(ended) = ended.filter(|_| runs_once) {
        (container_run.since, container_run.exit) = (ended.since, Some(ended.exit));
        container_run.start_error = ended.start_error;
    }
    let last = status.last_state.as_ref();
    let last = last.and_then(|last| last.terminated.as_ref());
    container_run.last = last.map(|last| Box::new(self::ended(last, now)));
    Some(container_run)
}

fn ended(state: &ContainerStateTerminated, now: Timestamp) -> Ended {
    Ended {
        since: state.started_at.as_ref().map_or(now, |time| time.0),
        exit: Exit {
            code: state.exit_code,
            at: state.finished_at.as_ref().map_or(now, |time| time.0),
            killed: false,
        },
        start_error: (state.reason.as_deref() == Some("StartError"))
            .then(|| state.message.as_deref().unwrap_or_default().into()),
    }
}

fn reported(status: &PodStatus) -> Readiness {
    let mut conditions = status.conditions.iter().flatten();
    let mut readiness = Readiness::default();
    readiness.pod =
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let main = status.container_statuses.iter().flatten();
    let main = main.map(|status| (status, true));
    let init = status.init_container_statuses.iter().flatten().map(|init| {
        let state = init.state.as_ref();
        (init, state.is_some_and(|state| state.running.is_some()))
    });
    for (status, counts) in main.chain(init) {
        let own = ContainerReadiness {
            ready: counts.then_some(status.ready),
            started: status.started == Some(true),
            ..ContainerReadiness::default()
        };
        readiness.set(&status.name, own);
    }
    readiness
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn the_only_run_that_is_found_has_no_room_to_spare() {
        let pod: Pod = from_value(json!({
            "spec": { "containers": [{ "name": "main" }] },
            "status": { "containerStatuses": [{
                "name": "main", "image": "a", "imageID": "", "ready": true, "restartCount": 2,
            }] },
        }))
        .unwrap();
        let status = pod.status.as_ref().unwrap();
        let found = running_instances(&pod, status, Timestamp::UNIX_EPOCH);
        assert_eq!(found.get("main").unwrap().restarts, 2);
        assert_eq!(found.into_tuple_vec().capacity(), 1);
    }
}

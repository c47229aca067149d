//! Pods that the kubelet finds bound to its nodes, new or from before it was started.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::{Kubelet, PodProcesses, Record};
use crate::mirror::{self, ObjectKey};
use crate::node::instance::{Ended, Exit, Instance};
use crate::node::lifecycle::{Readiness, Stage};

impl Kubelet {
    /// Starts to keep a pod that is bound to one of the nodes, where its status says it stands.
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
            uid: mirror::uid(pod),
            node,
            stage: Stage::Bound,
            started: status.start_time.as_ref().map_or(now, |time| time.0),
            pod_ip: status.pod_ip.clone().unwrap_or_default(),
            instances: BTreeMap::new(),
            processes: PodProcesses::default(),
            reported: Readiness::default(),
            written: None,
            written_version: 0,
            is_powered_off: false,
            deleted: None,
            wake: None,
            failures: 0,
        };
        match status.phase.as_deref() {
            Some("Succeeded" | "Failed") => record.stage = Stage::Ended,
            Some("Running") => {
                record.stage = Stage::Running;
                record.instances = running_instances(&status, now);
                record.reported = reported(&status);
                // Addresses of an earlier process are not given out again.
                *self.addresses.entry(node).or_default() += 1;
            }
            _ => {}
        }
        Some(record)
    }
}

fn running_instances(status: &PodStatus, now: Timestamp) -> BTreeMap<String, Instance> {
    let containers = status.container_statuses.iter().flatten();
    containers
        .map(|container| {
            let running = container
                .state
                .as_ref()
                .and_then(|state| state.running.as_ref());
            let since = running.and_then(|running| running.started_at.as_ref());
            let since = since.map_or(now, |time| time.0);
            let mut instance = Instance::first(container.image.clone(), since);
            instance.restarts = container.restart_count;
            let last = container.last_state.as_ref();
            instance.last = last
                .and_then(|last| last.terminated.as_ref())
                .map(|terminated| Ended {
                    since: terminated.started_at.as_ref().map_or(now, |time| time.0),
                    exit: Exit {
                        code: terminated.exit_code,
                        at: terminated.finished_at.as_ref().map_or(now, |time| time.0),
                    },
                });
            (container.name.clone(), instance)
        })
        .collect()
}

fn reported(status: &PodStatus) -> Readiness {
    let containers = status.container_statuses.iter().flatten();
    let mut conditions = status.conditions.iter().flatten();
    Readiness {
        containers: containers
            .map(|status| (status.name.clone(), status.ready))
            .collect(),
        halted: BTreeMap::new(),
        pod: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
    }
}

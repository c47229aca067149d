//! The kubelet during an outage of its node, and after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::store::{self, ObjectKey, resource_version};

use super::{Kubelet, Record, Step};
use crate::container_spec::{ContainerSpec, Role};
use crate::faults::Link;
use crate::lifecycle::{Ending, Readiness, Stage};

/// The node faults that the kubelet has handled.
#[derive(Default)]
pub(super) struct Outages {
    links: BTreeMap<usize, Link>,
}

impl Outages {
    pub(super) fn of(links: BTreeMap<usize, Link>) -> Self {
        Self { links }
    }

    /// Returns whether the node acts on changes of the API server.
    pub(super) fn is_up(&self, node: usize) -> bool {
        self.links.get(&node).copied().unwrap_or_default() == Link::Up
    }
}

impl Kubelet {
    /// Handles changes of the nodes' faults.
    pub(super) fn take_in_faults(&mut self) {
        let links = self.faults.all();
        let before = std::mem::replace(&mut self.outages.links, links.clone());
        for (node, link) in links {
            let before = before.get(&node).copied().unwrap_or_default();
            if before == link {
                continue;
            }
            if link == Link::Down {
                self.power_off(node);
            }
            if link == Link::Up {
                self.reconnect(node);
            }
        }
    }

    fn power_off(&mut self, node: usize) {
        let of_node = self.records.of_node(node);
        let uids: Vec<_> = of_node.map(|record| Arc::clone(&record.uid)).collect();
        for uid in uids {
            if let Some(mut record) = self.records.take(&uid) {
                record.processes.stop();
                record.is_powered_off = true;
                record.wake = None;
                self.records.put(record);
            }
        }
    }

    /// Lets the node catch up on missed changes: containers of deleted pods stop now.
    fn reconnect(&mut self, node: usize) {
        let of_node = self.records.of_node(node);
        let (gone, left): (Vec<_>, Vec<_>) = of_node
            .map(|record| (Arc::clone(&record.uid), record.key.clone()))
            .partition(|(uid, key)| {
                let pod = self.pods.get(key);
                pod.is_none_or(|pod| store::uid(&**pod) != **uid)
            });
        for (uid, _) in gone {
            let record = self.records.get(&uid);
            let pod = record.and_then(|record| record.vanished.clone());
            self.forget(&uid, pod);
        }
        self.dirty.extend(left.into_iter().map(|(_, key)| key));
        let bound = self.pods.iter().filter(|pod| {
            let spec = pod.spec.as_ref();
            let name = spec.and_then(|spec| spec.node_name.as_ref());
            name.and_then(|name| self.nodes.get(name)) == Some(&node)
        });
        let bound: Vec<_> = bound.map(|pod| ObjectKey::of(&**pod)).collect();
        self.dirty.extend(bound);
    }

    /// Returns the first step after a node's power failure: starting the pod's containers again.
    pub(super) fn resume(&mut self, pod: &Pod, record: &mut Record) -> Option<Step> {
        if !std::mem::take(&mut record.is_powered_off) || record.stage != Stage::Running {
            return None;
        }
        record.reported = Readiness::default();
        if pod::is_terminating(pod) {
            // No process is left that could be stopped.
            for (_, container_run) in &mut record.container_runs {
                container_run.dismissed = true;
            }
            return None;
        }
        record.pod_ip = self.allocate(pod, record.node).into();
        let container_specs = pod
            .spec
            .as_deref()
            .map(ContainerSpec::all)
            .unwrap_or_default();
        // An ephemeral container is not restarted.
        let ephemeral = container_specs
            .iter()
            .filter(|container_spec| container_spec.role == Role::Ephemeral);
        for container_spec in ephemeral {
            if let Some(container_run) = record.container_runs.get_mut(container_spec.name.as_str())
            {
                container_run.halt(Ending::Killed.code(), self.now());
            }
        }
        let lost = container_specs.iter().filter(|container_spec| {
            let container_run = record.container_runs.get(container_spec.name.as_str());
            // An init container that has completed is not restarted.
            container_run
                .is_some_and(|own| container_spec.restarts_for_image() || own.exit.is_none())
        });
        Some(Step::Launch(
            lost.map(|container_spec| container_spec.name.clone())
                .collect(),
        ))
    }

    /// Detects that another writer has changed the pod's Ready condition, so that the kubelet
    /// corrects it.
    pub(super) fn heed_readiness(pod: &Pod, record: &mut Record) {
        let said = pod::has_ready_condition(pod);
        if record.stage == Stage::Running
            && resource_version(pod) > record.written_version
            && record.reported.pod != said
        {
            record.reported.pod = said;
            record.written = None;
        }
    }

    /// Returns whether a record of a deleted pod is kept because its node has not noticed the
    /// deletion.
    pub(super) fn is_unheard(&self, uid: &str) -> bool {
        let record = self.records.get(uid);
        record.is_some_and(|record| !self.outages.is_up(record.node))
    }
}

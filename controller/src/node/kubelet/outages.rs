//! What the kubelet does while its node is not heard of, and once it is again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{Kubelet, Record, Step};
use crate::mirror;
use crate::node::faults::Link;
use crate::node::lifecycle::{Ending, Readiness, Stage};
use crate::node::part::{Part, Role};
use crate::pod;

/// How far the kubelet has followed the nodes' faults.
#[derive(Default)]
pub(super) struct Outages {
    links: BTreeMap<usize, Link>,
}

impl Outages {
    pub(super) fn of(links: BTreeMap<usize, Link>) -> Self {
        Self { links }
    }

    /// Whether the node acts on what the API server says.
    pub(super) fn is_up(&self, node: usize) -> bool {
        self.links.get(&node).copied().unwrap_or_default() == Link::Up
    }
}

impl Kubelet {
    /// Follows the faults of the nodes.
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
        let uids: Vec<String> = of_node.map(|record| record.uid.clone()).collect();
        for uid in uids {
            if let Some(mut record) = self.records.take(&uid) {
                record.processes.stop();
                record.is_powered_off = true;
                record.wake = None;
                self.records.put(record);
            }
        }
    }

    /// The node hears of what it has missed: pods that are gone are stopped now.
    fn reconnect(&mut self, node: usize) {
        let of_node = self.records.of_node(node);
        let (gone, left): (Vec<_>, Vec<_>) = of_node
            .map(|record| (record.uid.clone(), record.key.clone()))
            .partition(|(uid, key)| {
                let pod = self.pods.get(key);
                pod.is_none_or(|pod| mirror::uid(&**pod) != *uid)
            });
        for (uid, _) in gone {
            let record = self.records.get(&uid);
            let pod = record.and_then(|record| record.vanished.clone());
            self.forget(&uid, pod);
        }
        self.dirty.extend(left.into_iter().map(|(_, key)| key));
        let bound = self.pods.iter().filter(|(_, pod)| {
            let spec = pod.spec.as_ref();
            let name = spec.and_then(|spec| spec.node_name.as_ref());
            name.and_then(|name| self.nodes.get(name)) == Some(&node)
        });
        let bound: Vec<_> = bound.map(|(key, _)| key.clone()).collect();
        self.dirty.extend(bound);
    }

    /// What a node that is back has to do before anything else: run what its power failure ended.
    pub(super) fn resume(&mut self, pod: &Pod, record: &mut Record) -> Option<Step> {
        if !std::mem::take(&mut record.is_powered_off) || record.stage != Stage::Running {
            return None;
        }
        record.reported = Readiness::default();
        if pod::is_terminating(pod) {
            // Nothing is left that could be told to stop.
            for instance in record.instances.values_mut() {
                instance.dismissed = true;
            }
            return None;
        }
        record.pod_ip = self.allocate(pod, record.node);
        let parts = pod.spec.as_ref().map(Part::all).unwrap_or_default();
        // A container that was added to look into the pod is not run again either.
        let ephemeral = parts.iter().filter(|part| part.role == Role::Ephemeral);
        for part in ephemeral {
            if let Some(instance) = record.instances.get_mut(&part.name) {
                instance.halt(Ending::Killed.code(), self.now());
            }
        }
        let lost = parts.iter().filter(|part| {
            let instance = record.instances.get(&part.name);
            // An init container that has done its work is not run again.
            instance.is_some_and(|own| part.restarts_for_image() || own.exit.is_none())
        });
        Some(Step::Launch(lost.map(|part| part.name.clone()).collect()))
    }

    /// Takes note of what others say about the pod's readiness, so that it is put right.
    pub(super) fn heed_readiness(pod: &Pod, record: &mut Record) {
        let said = pod::has_ready_condition(pod);
        if record.stage == Stage::Running
            && version(pod) > record.written_version
            && record.reported.pod != said
        {
            record.reported.pod = said;
            record.written = None;
        }
    }

    /// Whether a record is kept although the pod is gone: its node does not hear of it.
    pub(super) fn is_unheard(&self, uid: &str) -> bool {
        let record = self.records.get(uid);
        record.is_some_and(|record| !self.outages.is_up(record.node))
    }
}

/// The version of an object; versions of one resource can be compared.
pub(super) fn version(object: &impl ResourceExt) -> u64 {
    object
        .resource_version()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

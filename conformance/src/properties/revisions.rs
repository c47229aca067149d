//! The revisions of a workload, as its ControllerRevisions show them.

use kubeproof_machinery::json::Value;

use super::World;
use super::pods::{controller_of, name, namespace, revision, uid};

const REVISIONS: &str = "controllerrevisions.apps";

/// The revision that a workload is updated to.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpdateRevision<'a> {
    name: &'a str,
    /// Whether the workload is on its way to it from another one.
    is_rollout: bool,
}

impl<'a> UpdateRevision<'a> {
    /// The newest revision of the set. The status names it only at the end of the sync that brings it, after the pods
    /// of this sync; so it counts only for a set without revisions.
    pub(super) fn of(set: &'a Value, world: &'a World) -> Option<Self> {
        let revisions = world.in_namespace(REVISIONS, namespace(set));
        let own =
            revisions.filter(|one| controller_of(one).is_some_and(|own| own["uid"] == *uid(set)));
        let newest = own.max_by_key(|one| one["revision"].as_i64());
        let status = &set["status"];
        let name = newest.map(name).or(status["updateRevision"].as_str())?;
        let current = status["currentRevision"].as_str();
        Some(Self {
            name,
            is_rollout: current.is_some_and(|current| current != name),
        })
    }

    /// Whether the pod is of this revision. Some pods have only the hash of its name.
    pub(super) fn has(self, pod: &Value) -> bool {
        let hash = |name: &str| name.rsplit('-').next().map(str::to_owned);
        revision(pod).is_some_and(|own| own == self.name || hash(own) == hash(self.name))
    }

    /// Whether the pod is of this revision, and others are or were of another.
    pub(super) fn is_new(self, pod: &Value) -> bool {
        self.is_rollout && self.has(pod)
    }
}

//! Journals as tests write them: a set, its pods, and who does what to them.

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan};
use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{EventType, JournalEntry, JournaledObject};
use kubeproof_machinery::json::{Value, json};

use super::{Caches, DeclaredProperties, Observed, violations};

/// A kind of workload with its controller.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) resource: &'static str,
    pub(super) controller: &'static str,
}

impl Owner {
    /// A pod of the set `web`, with these labels.
    pub(super) fn pod(self, name: &str, labels: &Value) -> Value {
        json!({
            "kind": "Pod",
            "metadata": {
                "namespace": "default", "name": name, "uid": name, "labels": labels,
                "ownerReferences": [{
                    "apiVersion": self.api_version, "kind": self.kind, "name": "web", "uid": "set",
                    "controller": true,
                }],
            },
            "spec": {"containers": [{"name": "c", "image": "a"}]},
        })
    }
}

/// Writes of a set and its pods, a second between each two.
pub(super) struct Journal {
    owner: Owner,
    entries: Vec<JournalEntry>,
    time: Timestamp,
    /// Whether time passes.
    passes: bool,
    caches: Caches,
    unanswered: BTreeSet<ResourceVersion>,
}

impl Journal {
    /// A journal that begins with a set.
    pub(super) fn of(owner: Owner, spec: Value, status: Value) -> Self {
        let journal = Self {
            owner,
            entries: Vec::new(),
            time: Timestamp::UNIX_EPOCH,
            passes: true,
            caches: Caches::Current,
            unanswered: BTreeSet::new(),
        };
        journal.set(1, spec, status)
    }

    /// Everything from the last write on happens in one instant.
    pub(super) fn at_once(mut self) -> Self {
        self.passes = false;
        self
    }

    /// Events may reach the controller late.
    pub(super) fn lagging(mut self) -> Self {
        self.caches = Caches::lagging(&[]);
        self
    }

    /// The writer of the last write gets no answer.
    pub(super) fn unanswered(mut self) -> Self {
        self.unanswered
            .extend(self.entries.last().map(|last| last.rv));
        self
    }

    /// The controller makes a revision, or the highest of an old one.
    pub(super) fn revision(mut self, name: &str, number: i64) -> Self {
        let event = match self.last("controllerrevisions", &name.into()) {
            None => EventType::Added,
            Some(_) => EventType::Modified,
        };
        let owner =
            json!({"kind": self.owner.kind, "name": "web", "uid": "set", "controller": true});
        let revision = json!({
            "metadata": {"namespace": "default", "name": name, "uid": name, "ownerReferences": [owner]},
            "revision": number,
        });
        let by = self.owner.controller;
        self.write(("apps", "controllerrevisions"), event, (by, revision));
        self
    }

    /// The set as it is in this generation.
    pub(super) fn set(mut self, generation: i64, spec: Value, status: Value) -> Self {
        let set = json!({
            "metadata": {
                "namespace": "default", "name": "web", "uid": "set", "generation": generation,
            },
            "spec": spec, "status": status,
        });
        let group = self.owner.api_version.split_once('/').unwrap().0;
        let event = match generation {
            1 => EventType::Added,
            _ => EventType::Modified,
        };
        self.write((group, self.owner.resource), event, ("kubectl", set));
        self
    }

    pub(super) fn write(
        &mut self,
        (group, resource): (&str, &str),
        event: EventType,
        (user_agent, object): (&str, Value),
    ) {
        let previous = self.last(resource, &object["metadata"]["name"]);
        let previous = previous.filter(|_| event != EventType::Added).cloned();
        if self.passes {
            self.time += 1.second();
        }
        self.entries.push(JournalEntry {
            rv: ResourceVersion::new(self.entries.len() as u64 + 1),
            time: self.time,
            gvr: GroupVersionResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
            },
            event,
            user_agent: user_agent.into(),
            object: object.into(),
            previous,
        });
    }

    fn last(&self, resource: &str, name: &Value) -> Option<&JournaledObject> {
        let mut entries = self.entries.iter().rev();
        let found = entries.find(|entry| {
            entry.gvr.resource == resource && entry.object["metadata"]["name"] == *name
        });
        found.map(|entry| &entry.object)
    }

    pub(super) fn pod(mut self, event: EventType, user_agent: &str, pod: Value) -> Self {
        self.write(("", "pods"), event, (user_agent, pod));
        self
    }

    pub(super) fn claim(mut self, name: &str) -> Self {
        let claim = json!({"metadata": {"namespace": "default", "name": name, "uid": name}});
        let by = self.owner.controller;
        self.write(
            ("", "persistentvolumeclaims"),
            EventType::Added,
            (by, claim),
        );
        self
    }

    pub(super) fn created(self, name: &str) -> Self {
        self.created_with(name, &json!({}))
    }

    pub(super) fn created_with(self, name: &str, labels: &Value) -> Self {
        let (pod, by) = (self.owner.pod(name, labels), self.owner.controller);
        self.pod(EventType::Added, by, pod)
    }

    /// `user_agent` changes the pod.
    pub(super) fn changed(
        self,
        user_agent: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let pod = self.last("pods", &name.into());
        let mut pod = Value::clone(pod.expect("a pod is created first"));
        change(&mut pod);
        self.pod(EventType::Modified, user_agent, pod)
    }

    pub(super) fn ready(self, name: &str) -> Self {
        self.changed("kubelet", name, |pod| {
            pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        })
    }

    pub(super) fn unready(self, name: &str) -> Self {
        self.changed("kubelet", name, |pod| {
            pod["status"] = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        })
    }

    /// The controller deletes it, and it terminates.
    pub(super) fn deleted(self, name: &str) -> Self {
        let by = self.owner.controller;
        self.changed(by, name, |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        })
    }

    /// The controller gives it another image, and the label of another revision.
    pub(super) fn updated_in_place(self, name: &str, revision: &str) -> Self {
        let by = self.owner.controller;
        self.changed(by, name, |pod| {
            pod["metadata"]["labels"]["controller-revision-hash"] = revision.into();
            pod["spec"]["containers"][0]["image"] = revision.into();
        })
    }

    /// The violations, as `property: what`.
    pub(super) fn violations(&self) -> Vec<String> {
        let observed = Observed {
            journal: &self.entries,
            points: &[],
            given_rv: ResourceVersion::ZERO,
            settled: &[],
            caches: self.caches,
            unanswered: &self.unanswered,
            general: &[],
        };
        let found = violations(observed, &DeclaredProperties::default());
        let lines = found
            .iter()
            .map(|one| format!("{}: {}", one.property, one.what));
        lines.collect()
    }
}

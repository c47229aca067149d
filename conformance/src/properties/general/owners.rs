//! Owner references, and what is left of objects whose owners are gone.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::super::pods::{is_terminating, name, namespace, uid};
use super::super::{Property, World};
use super::{is_by_component, named};

/// An owner reference names an object that exists or existed, by its kind, name and uid, in the namespace of the
/// dependent or in none.
///
/// The owner may be gone already, because a controller decides upon its cache.
///
/// Source: Kubernetes documentation, "Owners and Dependents".
#[derive(Clone, Debug, Default)]
pub struct ValidOwners {
    /// Group, kind, namespace and name, by uid.
    known: BTreeMap<String, [String; 4]>,
}

fn group(object: &Value) -> &str {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    version.split_once('/').map_or("", |(group, _)| group)
}

fn owners(object: &Value) -> &[Value] {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.map_or(&[], Vec::as_slice)
}

impl ValidOwners {
    fn fault(&self, owner: &Value, dependent: &Value) -> Option<&'static str> {
        let Some([group_known, kind, namespace_known, name]) =
            owner["uid"].as_str().and_then(|uid| self.known.get(uid))
        else {
            return Some("which never existed");
        };
        if group(owner) != group_known || owner["kind"] != **kind || owner["name"] != **name {
            return Some("whose uid is that of another object");
        }
        let is_within = namespace_known.is_empty() || namespace_known == namespace(dependent);
        (!is_within).then_some("which is in another namespace")
    }
}

impl Property for ValidOwners {
    fn name(&self) -> &str {
        "owner references are valid"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        let object = &*entry.object;
        if !self.known.contains_key(uid(object)) {
            let kind = object["kind"].as_str().unwrap_or_default();
            let known = [group(object), kind, namespace(object), name(object)];
            let uid = uid(object).to_owned();
            self.known.insert(uid, known.map(str::to_owned));
        }
        if !is_by_component(entry) || entry.event == EventType::Deleted {
            return Vec::new();
        }
        let before = entry.previous.as_deref().map_or(&[][..], owners);
        let added = owners(object).iter();
        let added = added.filter(|owner| !before.contains(owner));
        let faults = added.filter_map(|owner| {
            let fault = self.fault(owner, object)?;
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let (kind, owner) = (text("kind"), text("name"));
            let (resource, name) = (&entry.gvr.resource, name(object));
            Some(format!(
                "{resource} {name} is owned by {kind} {owner}, {fault}"
            ))
        });
        faults.collect()
    }
}

/// In a settled cluster, each object of a controller has an owner that exists, or is being deleted.
///
/// The controller `garbage-collector` deletes what has lost its owners, so it has to run.
///
/// Source: Kubernetes documentation, "Garbage Collection".
#[derive(Clone, Debug, Default)]
pub struct NoOrphans {
    /// The uids of the objects that controllers have created.
    created: BTreeSet<String>,
}

impl Property for NoOrphans {
    fn name(&self) -> &str {
        "no orphan stays"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        let uid = uid(&entry.object);
        match entry.event {
            EventType::Added if is_by_component(entry) => {
                self.created.insert(uid.to_owned());
            }
            EventType::Deleted => {
                self.created.remove(uid);
            }
            EventType::Added | EventType::Modified => {}
        }
        Vec::new()
    }

    fn judge_settled(&mut self, world: &World) -> Vec<String> {
        let there: BTreeSet<&str> = world.objects().map(|(_, object)| uid(object)).collect();
        let orphans = world.objects().filter(|(_, object)| {
            let owners = owners(object);
            self.created.contains(uid(object))
                && !is_terminating(object)
                && !owners.is_empty()
                && owners.iter().all(|owner| !there.contains(uid_of(owner)))
        });
        let violations = orphans.map(|(resource, object)| {
            let owner = &owners(object)[0];
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let named = named(resource, object);
            format!(
                "{named} stays, and its owner {} {} is gone",
                text("kind"),
                text("name")
            )
        });
        violations.collect()
    }
}

fn uid_of(owner: &Value) -> &str {
    owner["uid"].as_str().unwrap_or_default()
}

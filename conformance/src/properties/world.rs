//! The objects of a cluster at one revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::pods::controller_of;
use crate::user_agent;

/// A namespace and a name.
type Key = (String, String);

/// All objects of the server at one revision, by resource, namespace and name.
#[derive(Clone, Debug, Default)]
pub struct World {
    objects: BTreeMap<String, BTreeMap<Key, Arc<Value>>>,
    /// By uid and generation.
    asked: BTreeMap<String, BTreeMap<i64, Arc<Value>>>,
}

impl World {
    /// Applies one write. Writes have to come in the order of their revisions.
    pub fn take(&mut self, entry: &JournalEntry) {
        let resource = resource_text(&entry.gvr);
        let objects = self.objects.entry(resource).or_default();
        let key = key(&entry.object);
        match entry.event {
            EventType::Deleted => objects.remove(&key),
            EventType::Added | EventType::Modified => objects.insert(key, entry.object.shared()),
        };
        let metadata = &entry.object["metadata"];
        let is_workload = entry.gvr.resource.ends_with("sets");
        if is_workload && entry.event != EventType::Deleted {
            let (uid, generation) = (metadata["uid"].as_str(), metadata["generation"].as_i64());
            if let Some((uid, generation)) = uid.zip(generation) {
                let known = self.asked.entry(uid.to_owned()).or_default();
                // The controller has observed this generation: older ones are no longer binding.
                let observed = entry.object["status"]["observedGeneration"].as_i64();
                known.retain(|known, _| *known >= observed.unwrap_or(0));
                known.insert(generation, entry.object.shared());
            }
        }
        if entry.gvr.resource == "controllerrevisions" && entry.event != EventType::Deleted {
            self.learn_revision(entry);
        }
    }

    /// A controller that makes a revision has seen the template that it is of: generations with the template that was
    /// observed before are no longer binding.
    fn learn_revision(&mut self, entry: &JournalEntry) {
        let number = |object: &Value| object["revision"].as_i64();
        let before = entry.previous.as_deref().and_then(number);
        let owner = controller_of(&entry.object).and_then(|owner| owner["uid"].as_str());
        let known = owner.and_then(|uid| self.asked.get_mut(uid));
        let Some(known) = known.filter(|_| before < number(&entry.object)) else {
            return;
        };
        let Some((first, last)) = known.values().next().zip(known.values().next_back()) else {
            return;
        };
        let observed = last["status"]["observedGeneration"].as_i64();
        let is_observed =
            observed.is_some() && observed == first["metadata"]["generation"].as_i64();
        let old = &first["spec"]["template"];
        let newer = known
            .iter()
            .find(|(_, set)| set["spec"]["template"] != *old);
        let newer = newer.map(|(generation, _)| *generation);
        if let Some(newer) =
            newer.filter(|_| is_observed && user_agent::is_component(&entry.user_agent))
        {
            known.retain(|generation, _| *generation >= newer);
        }
    }

    /// Returns the states of the workload of this uid, by generation: the one that its controller has last observed,
    /// and all later ones, from the one with the template of the newest revision on. The controller may act upon any of
    /// these.
    pub fn asked(&self, uid: &str) -> impl Iterator<Item = &Value> {
        let known = self.asked.get(uid).into_iter().flatten();
        known.map(|(_, object)| &**object)
    }

    /// Returns the objects of `resource`, such as `pods` or `statefulsets.apps`, in `namespace`, sorted by name. The
    /// namespace of cluster-scoped objects is empty.
    pub fn in_namespace<'a>(
        &'a self,
        resource: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Value> {
        let objects = self.objects.get(resource).into_iter().flatten();
        let within = objects.filter(move |((own, _), _)| own == namespace);
        within.map(|(_, object)| &**object)
    }

    /// Returns all objects, each with its resource, such as `pods` or `statefulsets.apps`, sorted by resource, namespace
    /// and name.
    pub fn objects(&self) -> impl Iterator<Item = (&str, &Value)> {
        let resources = self.objects.iter();
        resources.flat_map(|(resource, objects)| {
            let objects = objects.values();
            objects.map(move |object| (resource.as_str(), &**object))
        })
    }

    /// Returns one object of `resource`, such as `pods` or `statefulsets.apps`. The namespace of a cluster-scoped object
    /// is empty.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<&Value> {
        let key = (namespace.to_owned(), name.to_owned());
        self.objects
            .get(resource)?
            .get(&key)
            .map(|object| &**object)
    }
}

fn resource_text(gvr: &GroupVersionResource) -> String {
    match gvr.group.as_str() {
        "" => gvr.resource.clone(),
        group => format!("{}.{group}", gvr.resource),
    }
}

fn key(object: &Value) -> Key {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

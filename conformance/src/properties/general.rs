//! Properties that hold for any controller, for [`TestbedBuilder::property_in_rust`].
//!
//! None of them is part of a testbed unless its builder adds it. They judge the writes of controllers, not those of
//! the test.
//!
//! ```
//! use kubeproof::Testbed;
//! use kubeproof::properties::general::{TransitionTimes, ValidOwners};
//!
//! # let mut runtime = tokio::runtime::Builder::new_current_thread();
//! # let runtime = runtime.enable_time().start_paused(true).build()?;
//! # runtime.block_on(async {
//! let builder = Testbed::builder().nodes(1).controllers(["deployment", "replicaset"]);
//! let builder = builder.property_in_rust(TransitionTimes::default);
//! let testbed = builder.property_in_rust(ValidOwners::default).start().await?;
//! # testbed.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TestbedBuilder::property_in_rust`]: crate::testbed::TestbedBuilder::property_in_rust

use std::collections::BTreeMap;

use kubeproof_apiserver::{EventType, JournalEntry};
use serde_json::Value;

use super::pods::{name, namespace, uid};
use super::{Property, World};
use crate::user_agent;

/// Whether a controller or a node wrote it, and not the test.
fn is_by_component(entry: &JournalEntry) -> bool {
    let is_loader = *entry.user_agent == *user_agent::LOADER;
    !is_loader && user_agent::is_component(&entry.user_agent)
}

/// The transition time of a condition changes only with its status.
///
/// Source: API conventions, "Typical status properties".
#[derive(Clone, Copy, Debug, Default)]
pub struct TransitionTimes;

impl Property for TransitionTimes {
    fn name(&self) -> &str {
        "transition times change with the status"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        if !is_by_component(entry) {
            return Vec::new();
        }
        let conditions = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array().cloned();
            conditions.unwrap_or_default()
        };
        let before = entry.previous.as_deref().map(conditions);
        let before = before.unwrap_or_default();
        let after = conditions(&entry.object);
        let moved = after.iter().filter(|after| {
            let old = before.iter().find(|old| old["type"] == after["type"]);
            old.is_some_and(|old| {
                old["status"] == after["status"]
                    && old["lastTransitionTime"] != after["lastTransitionTime"]
            })
        });
        let moved = moved.map(|condition| {
            let (kind, status) = (&condition["type"], &condition["status"]);
            format!(
                "{} {} has another transition time of {}, which stays {}",
                entry.gvr.resource,
                name(&entry.object),
                kind.as_str().unwrap_or_default(),
                status.as_str().unwrap_or_default(),
            )
        });
        moved.collect()
    }
}

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
        let kind = object["kind"].as_str().unwrap_or_default();
        let known = [group(object), kind, namespace(object), name(object)];
        let uid = uid(object).to_owned();
        self.known.insert(uid, known.map(str::to_owned));
        if !is_by_component(entry) || entry.event == EventType::Deleted {
            return Vec::new();
        }
        let owners = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().cloned();
            owners.unwrap_or_default()
        };
        let before = entry.previous.as_deref().map(owners).unwrap_or_default();
        let added = owners(object).into_iter();
        let added = added.filter(|owner| !before.contains(owner));
        let faults = added.filter_map(|owner| {
            let fault = self.fault(&owner, object)?;
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            let (kind, owner) = (text("kind"), text("name"));
            let (resource, name) = (&entry.gvr.resource, name(object));
            Some(format!(
                "{resource} {name} is owned by {kind} {owner}, {fault}"
            ))
        });
        faults.collect()
    }
}

#[cfg(test)]
mod tests;

//! The content of a status, and the time at which it is right.

use std::collections::BTreeSet;

use kubeproof_apiserver::{EventType, JournalEntry};
use serde_json::Value;

use super::super::pods::{is_terminating, name, uid};
use super::super::{Property, World};
use super::{is_by_component, named};

/// The transition time of a condition changes only with its status.
///
/// Source: API conventions, "Typical status properties".
#[derive(Clone, Copy, Debug, Default)]
pub struct TransitionTimes;

fn conditions(object: &Value) -> &[Value] {
    let conditions = object["status"]["conditions"].as_array();
    conditions.map_or(&[], Vec::as_slice)
}

impl Property for TransitionTimes {
    fn name(&self) -> &str {
        "transition times change with the status"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        if !is_by_component(entry) {
            return Vec::new();
        }
        let before = entry.previous.as_deref().map_or(&[][..], conditions);
        let moved = conditions(&entry.object).iter().filter(|after| {
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

/// A status that names a generation names none that is still to come, and once everything has settled the present one.
///
/// It is about objects whose `status.observedGeneration` a controller has written.
///
/// Source: API conventions, "Typical status properties".
#[derive(Clone, Debug, Default)]
pub struct ObservedGenerations {
    /// The uids of these objects.
    written: BTreeSet<String>,
}

/// The generation of an object, and the one that its status is of.
fn generations(object: &Value) -> Option<(i64, i64)> {
    let generation = object["metadata"]["generation"].as_i64()?;
    Some((generation, object["status"]["observedGeneration"].as_i64()?))
}

impl Property for ObservedGenerations {
    fn name(&self) -> &str {
        "the observed generation catches up"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        if !is_by_component(entry) || entry.event == EventType::Deleted {
            return Vec::new();
        }
        let Some((generation, observed)) = generations(&entry.object) else {
            return Vec::new();
        };
        self.written.insert(uid(&entry.object).to_owned());
        let before = entry.previous.as_deref().and_then(generations);
        let is_new = before.is_none_or(|(_, before)| before != observed);
        match is_new && observed > generation {
            true => vec![format!(
                "the status of {} {} is of generation {observed}, and there are {generation}",
                entry.gvr.resource,
                name(&entry.object),
            )],
            false => Vec::new(),
        }
    }

    fn judge_settled(&mut self, world: &World) -> Vec<String> {
        let written = world.objects();
        let written = written.filter(|(_, object)| self.written.contains(uid(object)));
        let behind = written.filter_map(|(resource, object)| {
            let (generation, observed) = generations(object)?;
            let named = named(resource, object);
            (observed < generation && !is_terminating(object)).then(|| {
                format!(
                    "the status of {named} is of generation {observed}, and there are {generation}"
                )
            })
        });
        behind.collect()
    }
}

//! The content of a status, and the time at which it is right.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::super::known::Caches;
use super::super::pods::{is_terminating, name, uid};
use super::super::{Property, World};
use super::{is_by_component, named};

/// For how long a cache may show an earlier state: a replica that lags does so for a minute, and what a watch misses comes
/// sooner.
const LAG_MAX: SignedDuration = SignedDuration::from_secs(60);

/// The transition time of a condition changes only with its status.
///
/// Where faults or real time hold events back, a controller that has changed a status may not know of that yet, and may set
/// the condition once more; that is allowed for a minute, not counting what faults have set the clock forward.
///
/// Source: API conventions, "Typical status properties".
#[derive(Clone, Debug, Default)]
pub struct TransitionTimes {
    caches: Caches,
    /// When a condition has taken its present status, by the uid of its object and its type.
    since: BTreeMap<(String, String), Timestamp>,
}

impl TransitionTimes {
    pub(super) fn new(caches: Caches) -> Self {
        Self {
            caches,
            since: BTreeMap::new(),
        }
    }

    /// Whether the writer may not know yet that the condition has its present status.
    fn may_be_news(&self, key: &(String, String), now: Timestamp) -> bool {
        let Caches::MayLag { ahead } = self.caches else {
            return false;
        };
        let since = self.since.get(key);
        let lag_max = LAG_MAX.saturating_add(ahead);
        since.is_some_and(|since| now.duration_since(*since) <= lag_max)
    }
}

fn conditions(object: &Value) -> &[Value] {
    let conditions = object["status"]["conditions"].as_array();
    conditions.map_or(&[], Vec::as_slice)
}

impl Property for TransitionTimes {
    fn name(&self) -> &str {
        "transition times change with the status"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        let before = entry.previous.as_deref().map_or(&[][..], conditions);
        let mut violations = Vec::new();
        for after in conditions(&entry.object) {
            let kind = after["type"].as_str().unwrap_or_default();
            let key = (uid(&entry.object).to_owned(), kind.to_owned());
            let old = before.iter().find(|old| old["type"] == after["type"]);
            let Some(old) = old.filter(|old| old["status"] == after["status"]) else {
                self.since.insert(key, entry.time);
                continue;
            };
            let is_moved = old["lastTransitionTime"] != after["lastTransitionTime"];
            if is_moved && is_by_component(entry) && !self.may_be_news(&key, entry.time) {
                violations.push(format!(
                    "{} {} has another transition time of {kind}, which stays {}",
                    entry.gvr.resource,
                    name(&entry.object),
                    after["status"].as_str().unwrap_or_default(),
                ));
            }
        }
        violations
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

//! How often events occurred.

use std::collections::BTreeMap;
use std::fmt;

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;
use serde::{Deserialize, Serialize};

use crate::generated::GeneratedNames;
use crate::user_agent::actor;

use super::portable::portable_name;

/// Event sources whose Normal events say nothing about the controllers under test.
const HIDDEN_SOURCES: &[&str] = &[
    "default-scheduler",
    "kubelet",
    "persistentvolume-controller",
    "rancher.io/local-path_local-path-provisioner",
];

/// An event without its message and time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct EventKey {
    /// `Normal` or `Warning`.
    pub(crate) event_type: String,
    /// The reason.
    pub(crate) reason: String,
    /// The kind of the object, in lower case.
    pub(crate) kind: String,
    /// The name of the object; of a generated name only the beginning, and `*`.
    pub(crate) name: String,
    /// The client that writes it: the product in the user agent.
    pub(crate) client: String,
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            event_type,
            reason,
            kind,
            name,
            client,
        } = self;
        write!(f, "{event_type} {reason} {kind}/{name} by {client}")
    }
}

/// How often an event occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occurrences {
    /// In all.
    pub(crate) total: i64,
    /// The most in one instant.
    pub(crate) at_once: i64,
}

/// How often each event occurred in a run, without those that every pod has.
pub(crate) fn reported(journal: &[JournalEntry]) -> BTreeMap<EventKey, Occurrences> {
    let names = GeneratedNames::of(journal);
    let key = |entry: &JournalEntry| {
        let event = &entry.object;
        let regarding = &event["involvedObject"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        EventKey {
            event_type: text(&event["type"]),
            reason: text(&event["reason"]),
            kind: text(&regarding["kind"]).to_lowercase(),
            name: portable_name(&names.mask(&text(&regarding["name"]))),
            client: actor(&entry.user_agent).to_owned(),
        }
    };
    let mut reported: BTreeMap<EventKey, Occurrences> = BTreeMap::new();
    let totals = events(journal.iter(), key).into_iter();
    for (key, total) in totals {
        reported.entry(key).or_default().total = total;
    }
    for instant in journal.chunk_by(|one, other| one.time == other.time) {
        let writes = instant
            .iter()
            .filter(|entry| entry.gvr.resource == "events");
        let mut counts: BTreeMap<EventKey, i64> = BTreeMap::new();
        for entry in writes {
            *counts.entry(key(entry)).or_default() += 1;
        }
        for (key, count) in counts {
            if let Some(known) = reported.get_mut(&key) {
                known.at_once = known.at_once.max(count);
            }
        }
    }
    reported
}

/// Events by `key`, in the order in which each first occurred, with how often each did.
pub(super) fn events<'a, K: PartialEq>(
    journal: impl Iterator<Item = &'a JournalEntry>,
    key: impl Fn(&JournalEntry) -> K,
) -> Vec<(K, i64)> {
    let mut counts: Vec<(K, i64)> = Vec::new();
    let mut known_by_event: BTreeMap<String, (usize, i64)> = BTreeMap::new();
    for entry in journal.filter(|entry| entry.gvr.resource == "events") {
        let event = &entry.object;
        if entry.event == EventType::Deleted || is_hidden(event) {
            continue;
        }
        let key = key(entry);
        let index = match counts.iter().position(|(known, _)| *known == key) {
            Some(index) => index,
            None => {
                counts.push((key, 0));
                counts.len() - 1
            }
        };
        // An event object repeats its count with each write, and may get another message; several
        // objects add up.
        let count = event["series"]["count"].as_i64();
        let count = count.or_else(|| event["count"].as_i64()).unwrap_or(1);
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        let before = known_by_event.insert(name.to_owned(), (index, count));
        if let Some((known, before)) = before {
            counts[known].1 -= before;
        }
        counts[index].1 += count;
    }
    counts.retain(|(_, count)| *count > 0);
    counts
}

fn is_hidden(event: &Value) -> bool {
    event["involvedObject"]["kind"] == "Node"
        || (event["type"] == "Normal" && HIDDEN_SOURCES.contains(&source(event)))
}

fn source(event: &Value) -> &str {
    let source = event["source"]["component"].as_str();
    let source = source.or_else(|| event["reportingComponent"].as_str());
    source.unwrap_or_default()
}

//! Deleted objects that wait for a finalizer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::super::pods::{is_terminating, name, namespace};
use super::super::{Property, World};
use super::{FINALIZERS, is_by_component};
use crate::user_agent::actor;

/// Finalizers that wait for the users of an object, for as long as these please.
const PROTECTING: [&str; 4] = [
    "kubernetes.io/pv-protection",
    "kubernetes.io/pvc-protection",
    "kubernetes.io/vac-protection",
    "resource.kubernetes.io/delete-protection",
];

/// Once everything has settled, no deleted object waits for a finalizer that a controller has added or removed before.
///
/// The finalizers that protect volumes, claims of both kinds and classes of volume attributes in use are exempt.
///
/// Source: Kubernetes documentation, "Finalizers".
#[derive(Clone, Debug, Default)]
pub struct Finalizers(FinalizerJournal);

impl Property for Finalizers {
    fn name(&self) -> &str {
        FINALIZERS
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        self.0.take(entry, is_by_component(entry));
        Vec::new()
    }

    fn judge_settled(&mut self, _world: &World) -> Vec<String> {
        let waiting = self.0.waiting();
        let waiting = waiting.filter(|one| !PROTECTING.contains(&one.finalizer));
        waiting.filter_map(|one| one.describe()).collect()
    }
}

/// The controllers that have put or removed each finalizer, and the objects that are being deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct FinalizerJournal {
    handled: BTreeMap<String, String>,
    /// By resource, namespace and name.
    terminating: BTreeMap<[String; 3], Arc<Value>>,
}

/// A deleted object that has a finalizer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<'a> {
    key: &'a [String; 3],
    /// The finalizer.
    pub(crate) finalizer: &'a str,
    /// The controller that has put or removed it, here or elsewhere.
    handler: Option<&'a str>,
}

impl FinalizerJournal {
    /// Learns from a write by a controller or another client.
    pub(crate) fn take(&mut self, entry: &JournalEntry, is_by_controller: bool) {
        let object = &entry.object;
        let key = [&*entry.gvr.resource, namespace(object), name(object)].map(str::to_owned);
        match is_terminating(object) && entry.event != EventType::Deleted {
            true => self.terminating.insert(key, object.shared()),
            false => self.terminating.remove(&key),
        };
        let agent = actor(&entry.user_agent);
        if is_by_controller {
            let after = finalizers(object);
            let before = entry
                .previous
                .as_deref()
                .map(finalizers)
                .unwrap_or_default();
            for changed in after.symmetric_difference(&before) {
                self.handled.insert((*changed).to_owned(), agent.to_owned());
            }
        }
    }

    /// The finalizers of deleted objects.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting<'_>> {
        let terminating = self.terminating.iter();
        terminating.flat_map(move |(key, object)| {
            finalizers(object)
                .into_iter()
                .map(move |finalizer| Waiting {
                    key,
                    finalizer,
                    handler: self.handled.get(finalizer).map(String::as_str),
                })
        })
    }
}

impl Waiting<'_> {
    /// The description, with the controller that has to remove the finalizer; `None` if none has ever put or removed
    /// it.
    pub(crate) fn describe(&self) -> Option<String> {
        let handler = self.handler?;
        Some(self.describe_with(&format!(
            "{handler} has to remove it once deletionTimestamp is set"
        )))
    }

    /// The description with a remedy.
    pub(crate) fn describe_with(&self, remedy: &str) -> String {
        let [resource, namespace, name] = self.key;
        let scope = match namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let finalizer = self.finalizer;
        format!(
            "{resource} {scope}{name} was deleted but still has finalizer {finalizer}; {remedy}"
        )
    }
}

fn finalizers(object: &Value) -> BTreeSet<&str> {
    let names = object["metadata"]["finalizers"].as_array();
    let names = names.into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

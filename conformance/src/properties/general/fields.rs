//! Fields over which controllers fight.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::super::pods::uid;
use super::super::{Property, World};
use super::{is_by_component, named};
use crate::user_agent::actor;

/// The client that reports for pods and nodes.
const KUBELET: &str = "kubelet";
/// A fight: one manager writes a value, another one overwrites it, and both do so again.
const ROUNDS: usize = 4;

/// No two controllers write a field by turns, each its own value.
///
/// The managers in `metadata.managedFields` name the writer of each field: when one manager takes a field from another,
/// gives it back its value of before, and loses it again to the same value, the two will never rest. A controller that
/// removes a field of another one takes it, too. Writes of the test begin anew. The kubelet reports the state
/// of its node, so its writes are no fight.
///
/// Source: Kubernetes documentation, "Server-Side Apply" (conflicts).
#[derive(Clone, Debug, Default)]
pub struct UncontestedFields {
    /// By uid.
    objects: BTreeMap<String, Fields>,
    /// The client that writes as each manager.
    clients: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
struct Fields {
    /// The managers of each field.
    managers: BTreeMap<Path, BTreeSet<String>>,
    /// The managers that had the field in turn, each with its value.
    turns: BTreeMap<Path, Vec<(String, Value)>>,
}

/// The elements of a path as `managedFields` has them: `f:spec`, `k:{"type":"Ready"}`.
type Path = Vec<String>;

impl Property for UncontestedFields {
    fn name(&self) -> &str {
        "no two controllers fight over a field"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        let uid = uid(&entry.object);
        if entry.event == EventType::Deleted {
            self.objects.remove(uid);
            return Vec::new();
        }
        let after = managers(&entry.object);
        let fields = self.objects.entry(uid.to_owned()).or_default();
        let before = std::mem::replace(&mut fields.managers, after);
        let agent = actor(&entry.user_agent);
        for (path, managers) in &fields.managers {
            let is_gained = |manager: &&String| {
                let before = before.get(path);
                before.is_none_or(|before| !before.contains(*manager))
            };
            for manager in managers.iter().filter(is_gained) {
                self.clients.insert(manager.clone(), agent.to_owned());
            }
        }
        let Some(previous) = entry.previous.as_deref() else {
            return Vec::new();
        };
        let mut violations = Vec::new();
        let paths: BTreeSet<&Path> = before.keys().chain(fields.managers.keys()).collect();
        for path in paths {
            let (old, new) = (before.get(path), fields.managers.get(path));
            let stays = old.zip(new).is_some_and(|(old, new)| !old.is_disjoint(new));
            if stays {
                continue;
            }
            if !is_by_component(entry) {
                fields.turns.remove(path);
                continue;
            }
            let by_agent = agent.to_owned();
            let loser = old.and_then(BTreeSet::first);
            let winner = match (new.and_then(BTreeSet::first), loser) {
                (Some(winner), _) => winner,
                // A manager may remove its own field.
                (None, Some(loser)) if self.clients.get(loser) == Some(&by_agent) => continue,
                (None, _) => &by_agent,
            };
            if agent == KUBELET
                || loser.is_some_and(|loser| {
                    self.clients
                        .get(loser)
                        .is_some_and(|client| client == KUBELET)
                })
            {
                continue;
            }
            let last = fields.turns.get(path).and_then(|turns| turns.last());
            let held = match loser {
                Some(loser) => (loser.clone(), value_at(previous, path)),
                // The field was not there; a controller may have removed it.
                None => match last {
                    Some(last) if last.1.is_null() => last.clone(),
                    _ => continue,
                },
            };
            let turns = fields.turns.entry(path.clone()).or_default();
            if turns.last() != Some(&held) {
                *turns = vec![held];
            }
            turns.push((winner.clone(), value_at(&entry.object, path)));
            if let Some(fight) = fight(turns) {
                let [(one, its), (other, others)] = fight;
                violations.push(format!(
                    "{} of {} goes back and forth between {its} by {one} and {others} by {other}",
                    in_words(path),
                    named(&entry.gvr.resource, &entry.object)
                ));
                turns.clear();
            }
        }
        violations
    }
}

/// The two sides of a fight, if the last turns are one.
fn fight(turns: &[(String, Value)]) -> Option<[&(String, Value); 2]> {
    let [one, other, again, back] = turns.last_chunk::<ROUNDS>()?;
    (one == again && other == back && one.0 != other.0).then_some([one, other])
}

/// The managers of each field that has no fields below it.
fn managers(object: &Value) -> BTreeMap<Path, BTreeSet<String>> {
    let mut managers = BTreeMap::new();
    let entries = object["metadata"]["managedFields"].as_array();
    for entry in entries.into_iter().flatten() {
        let manager = entry["manager"].as_str().unwrap_or_default();
        collect(&entry["fieldsV1"], &mut Vec::new(), manager, &mut managers);
    }
    managers
}

fn collect(
    fields: &Value,
    path: &mut Path,
    manager: &str,
    managers: &mut BTreeMap<Path, BTreeSet<String>>,
) {
    let below = fields.as_object().into_iter().flatten();
    let mut below = below.filter(|(element, _)| *element != ".").peekable();
    if below.peek().is_none() && !path.is_empty() {
        let managers = managers.entry(path.clone()).or_default();
        managers.insert(manager.to_owned());
    }
    for (element, fields) in below {
        path.push(element.to_string());
        collect(fields, path, manager, managers);
        path.pop();
    }
}

/// The value of a field; null if the object lacks it.
fn value_at(object: &Value, path: &[String]) -> Value {
    let mut value = object;
    for element in path {
        let Some((kind, rest)) = element.split_once(':') else {
            return Value::Null;
        };
        let items = || value.as_array().into_iter().flatten();
        let found = match kind {
            "f" => value.get(rest),
            "i" => rest
                .parse::<usize>()
                .ok()
                .and_then(|index| value.get(index)),
            "v" => items()
                .find(|item| serde_json::from_str::<Value>(rest).is_ok_and(|own| own == **item)),
            "k" => {
                let keys: Value = serde_json::from_str(rest).unwrap_or_default();
                let keys = keys.as_object();
                items().find(|item| {
                    keys.is_some_and(|keys| keys.iter().all(|(key, own)| item[key] == *own))
                })
            }
            _ => None,
        };
        match found {
            Some(found) => value = found,
            None => return Value::Null,
        }
    }
    value.clone()
}

/// `spec.replicas`, `status.conditions[type=Ready].status`
fn in_words(path: &[String]) -> String {
    let mut words = String::new();
    for element in path {
        let (kind, rest) = element.split_once(':').unwrap_or(("", element));
        match kind {
            "f" if words.is_empty() => words.push_str(rest),
            "f" => words.extend([".", rest]),
            "k" => {
                let keys: Value = serde_json::from_str(rest).unwrap_or_default();
                let keys = keys.as_object().into_iter().flatten();
                let keys = keys.map(|(key, own)| match own {
                    Value::String(own) => format!("{key}={own}"),
                    own => format!("{key}={own}"),
                });
                words.extend(["[", &keys.collect::<Vec<_>>().join(","), "]"]);
            }
            _ => words.extend(["[", rest, "]"]),
        }
    }
    words
}

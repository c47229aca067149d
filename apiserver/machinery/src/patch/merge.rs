//! JSON merge patch (RFC 7396).

use serde_json::{Map, Value};

use super::discard_nulls;
use super::document::{self, Members, Node, Slot};

/// Applies `patch` to the document `current`; `None` if it is not a patch.
///
/// A list is not a patch either, but upstream returns it as the result.
pub(super) fn apply(patch: &str, current: &str) -> Option<String> {
    let outcome = match document::members(patch) {
        Some(patch) => {
            let mut members = document::members(current)?;
            merge(&mut members, patch);
            Node::Object(members)
        }
        None => {
            let mut items = Node::Array(document::items(patch)?);
            items.prune_nulls();
            items
        }
    };
    let mut text = String::new();
    outcome.write(&mut text);
    Some(text)
}

/// Merges `patch` into the fields of an object, with the outcome of [`apply`].
pub(super) fn merge_fields(fields: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, mut value) in patch {
        if value.is_null() {
            fields.remove(&name);
            continue;
        }
        match (fields.get_mut(&name), &mut value) {
            (Some(Value::Object(held)), Value::Object(patch)) => {
                merge_fields(held, std::mem::take(patch));
            }
            (Some(held @ Value::Object(_)), _) => *held = value,
            _ => {
                discard_nulls(&mut value);
                fields.insert(name, value);
            }
        }
    }
}

fn merge(members: &mut Members, patch: Members) {
    for (name, value) in patch {
        let Some(value) = value else {
            members.remove(&name);
            continue;
        };
        let held = members.entry(name).or_default();
        merge_value(held, value);
    }
}

fn merge_value(held: &mut Slot, mut patch: Node) {
    let Some(members) = held.as_mut().and_then(Node::object) else {
        patch.prune_nulls();
        *held = Some(patch);
        return;
    };
    // A list that replaces an object keeps its nulls, one that replaces anything else does not, as
    // far as objects in it have them.
    match patch.object() {
        Some(patch) => merge(members, std::mem::take(patch)),
        None => *held = Some(patch),
    }
}

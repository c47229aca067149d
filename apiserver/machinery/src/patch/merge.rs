//! JSON merge patch (RFC 7396).

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

//! An applied configuration merged into the live object.

use std::collections::{BTreeMap, BTreeSet};

use super::path::PathElement;
use super::typed::{List, Shape, entries, items};
use crate::json::{Map, Value};

/// `live` with the fields that `applied` sets; nothing is removed.
///
/// `None` for a map or list without a thing left in it.
pub(super) fn merge(shape: Shape<'_>, live: &Value, applied: &Value) -> Option<Value> {
    let shape = match shape.deduced(applied) {
        // With a deduced shape, an applied map replaces a live value that is not a map.
        Shape::Map(_) if matches!(shape, Shape::Deduced) && !live.is_object() => Shape::Leaf,
        shape => shape,
    };
    match shape {
        Shape::Leaf | Shape::Deduced => Some(applied.clone()),
        Shape::Struct(_) | Shape::Map(_) => match (entries(Some(live)), entries(Some(applied))) {
            (None, _) => Some(applied.clone()),
            (Some(_), None) => Some(live.clone()),
            (Some(live), Some(applied)) => merge_entries(shape, live, applied),
        },
        Shape::List(list) => match (items(Some(live)), items(Some(applied))) {
            ([], _) => Some(applied.clone()),
            (_, []) => Some(live.clone()),
            (live, applied) => Some(Value::Array(merge_items(list, live, applied))),
        },
    }
}

fn merge_entries(shape: Shape<'_>, live: &Map, applied: &Map) -> Option<Value> {
    // Each value is copied once: a copy of all of `live` would be thrown away for the fields that are applied.
    let kept = live.iter().filter(|(name, _)| !applied.contains_key(name));
    let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
    let outcomes = applied.iter().filter_map(|(name, value)| {
        let outcome = match live.get(name) {
            Some(live) => merge(shape.field(name), live, value)?,
            None => value.clone(),
        };
        Some((name.clone(), outcome))
    });
    let merged: Map = kept.chain(outcomes).collect();
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// Items of both lists: those of `applied` in its order, and each item that only `live` has
/// where it was, next to the items that both have.
fn merge_items(list: List<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let with_elements = |items: &[Value]| -> Vec<PathElement> {
        let elements = items.iter().map(|item| list.element(item));
        elements.filter_map(Result::ok).collect()
    };
    let (live_elements, applied_elements) = (with_elements(live), with_elements(applied));
    if live_elements.len() != live.len() || applied_elements.len() != applied.len() {
        return applied.to_vec();
    }
    // An item that is in the live list more than once is replaced, not merged.
    let mut live_items: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (element, item) in live_elements.iter().zip(live) {
        let known = live_items.entry(element);
        known.and_modify(|same| *same = None).or_insert(Some(item));
    }
    let is_applied: BTreeSet<&PathElement> = applied_elements.iter().collect();
    let merged = |index: usize| {
        let item: &Value = &applied[index];
        match live_items.get(&applied_elements[index]) {
            Some(Some(live)) => merge(list.item(), live, item),
            _ => Some(item.clone()),
        }
    };
    let mut shared = applied_elements
        .iter()
        .filter(|element| live_items.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut at_live, mut at_applied) = (0, 0);
    while at_live < live.len() || at_applied < applied.len() {
        if at_live < live.len() && at_applied < applied.len() {
            let element = &live_elements[at_live];
            if *element == applied_elements[at_applied] {
                done.insert(element);
                out.extend(merged(at_applied));
                at_live += 1;
                at_applied += 1;
                next_shared = shared.next();
                continue;
            }
            if is_applied.contains(element) && next_shared.is_some_and(|next| next != element) {
                // Shared, but its turn comes later, in the order of the applied list.
                at_live += 1;
                continue;
            }
        }
        if at_live < live.len() {
            let element = &live_elements[at_live];
            if !is_applied.contains(element) {
                out.push(live[at_live].clone());
                at_live += 1;
                continue;
            }
            if done.contains(element) {
                at_live += 1;
            }
        }
        if at_applied < applied.len() {
            let element = &applied_elements[at_applied];
            done.insert(element);
            out.extend(merged(at_applied));
            at_applied += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    out
}

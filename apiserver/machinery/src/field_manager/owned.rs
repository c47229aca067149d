//! The fields that an object sets: what its applier owns.

use std::collections::BTreeMap;

use super::path::PathElement;
use super::set::{FieldSet, Node};
use super::typed::{Shape, entries, items};
use crate::json::Value;

/// The fields that `value` sets: its leaves, the keys of its maps, the items of its lists.
pub(super) fn field_set(shape: Shape<'_>, value: &Value) -> FieldSet {
    node(shape, value).children
}

fn node(shape: Shape<'_>, value: &Value) -> Node {
    let shape = shape.deduced(value);
    let mut found = Node::default();
    match shape {
        Shape::Leaf | Shape::Deduced => found.member = true,
        Shape::Struct(_) | Shape::Map(_) => {
            for (name, value) in entries(Some(value)).into_iter().flatten() {
                let mut child = node(shape.field(name), value);
                let is_empty =
                    value.is_null() || value.as_object().is_some_and(|map| map.is_empty());
                child.member |= is_empty || !shape.declares(name);
                found.children.graft(PathElement::field(name), child);
            }
        }
        Shape::List(list) => {
            let mut items_by_element: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
            for item in items(Some(value)) {
                if let Ok(element) = list.element(item) {
                    items_by_element.entry(element).or_default().push(item);
                }
            }
            for (element, items) in items_by_element {
                let mut child = match items.as_slice() {
                    [item] => node(list.item(), item),
                    // The fields of items with equal keys cannot be distinguished.
                    _ => Node::default(),
                };
                child.member = true;
                found.children.graft(element, child);
            }
        }
    }
    found
}

/// The set with the declared fields on the way to its paths, but not the maps and items there.
pub(super) fn with_named_fields(shape: Shape<'_>, set: &FieldSet) -> FieldSet {
    let mut named = FieldSet::default();
    for (element, node) in set.iter() {
        let declared = matches!(element, PathElement::Field(name) if shape.declares(name));
        let node = Node {
            member: node.member || (declared && !node.children.is_empty()),
            children: with_named_fields(shape.child(element), &node.children),
        };
        named.graft(element.clone(), node);
    }
    named
}

/// `value` without the fields of `removed`; a map or list that nothing is left of becomes null.
pub(super) fn without(shape: Shape<'_>, value: &Value, removed: &FieldSet) -> Value {
    let shape = shape.deduced(value);
    match (shape, value) {
        (Shape::Struct(_) | Shape::Map(_), Value::Object(entries)) => {
            let kept = entries.iter().filter_map(|(name, value)| {
                let element = PathElement::field(name);
                let value = match removed.node(&element) {
                    Some(node) if node.member => return None,
                    Some(node) => without(shape.field(name), value, &node.children),
                    None => value.clone(),
                };
                Some((name.clone(), value))
            });
            let kept: crate::json::Map = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            let kept = items.iter().filter_map(|item| {
                let node = list
                    .element(item)
                    .ok()
                    .and_then(|element| removed.node(&element));
                match node {
                    Some(node) if node.member => None,
                    Some(node) => Some(without(list.item(), item, &node.children)),
                    None => Some(item.clone()),
                }
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        (_, Value::Object(_) | Value::Array(_)) => Value::Null,
        (_, scalar) => scalar.clone(),
    }
}

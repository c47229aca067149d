//! What differs between two objects, as sets of fields.

use serde_json::Value;

use super::path::PathElement;
use super::set::{FieldSet, Node};
use super::typed::{List, Shape, entries, items};

/// The fields in which a new object differs from an old one; each is in one set at most.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    /// Compares two objects, `metadata.managedFields` aside.
    pub(super) fn of(shape: Shape<'_>, old: &Value, new: &Value) -> Self {
        let mut walk = Walk {
            path: Vec::new(),
            comparison: Self::default(),
        };
        walk.value(shape, Some(old), Some(new));
        walk.comparison
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Forgets the fields of `reset` with everything below them.
    pub(super) fn exclude(&mut self, reset: &FieldSet) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            set.exclude(reset);
        }
    }

    /// The fields that the new object sets, and those that it lacks.
    pub(super) fn into_set_and_removed(self) -> (FieldSet, FieldSet) {
        (self.added.union(&self.modified), self.removed)
    }
}

struct Walk {
    path: Vec<PathElement>,
    comparison: Comparison,
}

impl Walk {
    fn value(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(added)) => {
                let node = whole(shape, added);
                return self.comparison.added.insert_node(&self.path, node);
            }
            (Some(removed), None) => {
                let node = whole(shape, removed);
                return self.comparison.removed.insert_node(&self.path, node);
            }
            (old, new) if old == new => return,
            _ => {}
        }
        let shapes = [old, new].map(|value| value.map(|value| shape.deduced(value)));
        match shapes {
            // A value that turned from a leaf into a map, or back: each side in its own way.
            [Some(Shape::Leaf), Some(other)] | [Some(other), Some(Shape::Leaf)]
                if !matches!(other, Shape::Leaf) =>
            {
                self.children(other, old, new);
                self.leaf(old, new);
            }
            [_, Some(shape)] => self.children(shape, old, new),
            [_, None] => {}
        }
    }

    /// Compares what is inside of values that differ.
    fn children(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        match shape {
            Shape::Leaf | Shape::Deduced => self.leaf(old, new),
            Shape::Struct(_) | Shape::Map(_) => {
                let (old_entries, new_entries) = (entries(old), entries(new));
                // Empty or null on both sides is a leaf, so that the two can be told apart.
                if old_entries.is_none() && new_entries.is_none() {
                    return self.leaf(old, new);
                }
                for (name, value) in old_entries.into_iter().flatten() {
                    let other = new_entries.and_then(|entries| entries.get(name));
                    self.field(shape, name, Some(value), other);
                }
                for (name, value) in new_entries.into_iter().flatten() {
                    if !old_entries.is_some_and(|entries| entries.contains_key(name)) {
                        self.field(shape, name, None, Some(value));
                    }
                }
            }
            Shape::List(list) => {
                if items(old).is_empty() && items(new).is_empty() {
                    return self.leaf(old, new);
                }
                self.items(list, items(old), items(new));
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        let set = match (old, new) {
            (None, _) => &mut self.comparison.added,
            (_, None) => &mut self.comparison.removed,
            _ => &mut self.comparison.modified,
        };
        set.insert(&self.path);
    }

    fn field(&mut self, shape: Shape<'_>, name: &str, old: Option<&Value>, new: Option<&Value>) {
        if old == new || (name == "managedFields" && self.path.len() == 1) {
            return;
        }
        self.path.push(PathElement::field(name));
        self.value(shape.field(name), old, new);
        self.path.pop();
    }

    fn items(&mut self, list: List<'_>, old: &[Value], new: &[Value]) {
        let old = by_element(list, old);
        let new = by_element(list, new);
        let added = new
            .iter()
            .filter(|(element, _)| find(&old, element).is_empty());
        for (element, before) in old.iter().chain(added.clone()) {
            let is_old = !find(&old, element).is_empty();
            let (before, after) = match is_old {
                true => (before.as_slice(), find(&new, element)),
                false => (&[][..], before.as_slice()),
            };
            self.path.push(element.clone());
            match (before, after) {
                (before @ ([] | [_]), after @ ([] | [_])) => {
                    self.value(list.item(), before.first().copied(), after.first().copied());
                }
                // Items that share their keys are compared as one value.
                ([_, _, ..], [_, _, ..]) => {
                    if before != after {
                        self.comparison.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], after) => {
                    if let [item] = after {
                        self.value(list.item(), None, Some(item));
                    }
                    self.comparison.removed.insert(&self.path);
                }
                (before, _) => {
                    if let [item] = before {
                        self.value(list.item(), Some(item), None);
                    }
                    self.comparison.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}

/// All of a value that is on one side only.
fn whole(shape: Shape<'_>, value: &Value) -> Node {
    let mut node = Node {
        member: true,
        children: FieldSet::default(),
    };
    match shape.deduced(value) {
        Shape::Leaf | Shape::Deduced => {}
        shape @ (Shape::Struct(_) | Shape::Map(_)) => {
            for (name, value) in entries(Some(value)).into_iter().flatten() {
                let child = whole(shape.field(name), value);
                node.children.graft(PathElement::field(name), child);
            }
        }
        Shape::List(list) => {
            for (element, items) in by_element(list, items(Some(value))) {
                let child = match items.as_slice() {
                    [item] => whole(list.item(), item),
                    // Items that share their keys are one value.
                    _ => Node {
                        member: true,
                        children: FieldSet::default(),
                    },
                };
                node.children.graft(element, child);
            }
        }
    }
    node
}

type Items<'v> = Vec<(PathElement, Vec<&'v Value>)>;

/// The items by their path element, in the order of the list.
fn by_element<'v>(list: List<'_>, items: &'v [Value]) -> Items<'v> {
    let mut found: Items<'v> = Vec::new();
    for item in items {
        let Ok(element) = list.element(item) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == element) {
            Some((_, same)) => same.push(item),
            None => found.push((element, vec![item])),
        }
    }
    found
}

fn find<'i, 'v>(items: &'i Items<'v>, element: &PathElement) -> &'i [&'v Value] {
    let found = items.iter().find(|(known, _)| known == element);
    found.map(|(_, items)| items.as_slice()).unwrap_or_default()
}

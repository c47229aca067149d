//! What differs between two objects, as sets of fields.

use serde_json::Value;

use super::path::PathElement;
use super::set::FieldSet;
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

    /// The fields that the new object sets.
    pub(super) fn set_fields(&self) -> FieldSet {
        self.added.clone().union(&self.modified)
    }
}

struct Walk {
    path: Vec<PathElement>,
    comparison: Comparison,
}

impl Walk {
    fn value(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        let shapes = [old, new].map(|value| value.map(|value| shape.deduced(value)));
        let is_leaf = match shapes {
            // A value that turned from a leaf into a map, or back: each side in its own way.
            [Some(Shape::Leaf), Some(other)] | [Some(other), Some(Shape::Leaf)]
                if !matches!(other, Shape::Leaf) =>
            {
                self.children(other, old, new);
                self.leaf(old, new);
                true
            }
            [_, Some(shape)] | [Some(shape), None] => self.children(shape, old, new),
            [None, None] => true,
        };
        if !is_leaf {
            match (old, new) {
                (None, _) => self.comparison.added.insert(&self.path),
                (_, None) => self.comparison.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares what is inside of values that differ; whether they were a leaf after all.
    fn children(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        match shape {
            Shape::Leaf | Shape::Deduced => self.leaf(old, new),
            Shape::Struct(_) | Shape::Map(_) => {
                let (old_entries, new_entries) = (entries(old), entries(new));
                // Empty or null on both sides is a leaf, so that the two can be told apart.
                if old_entries.is_none() && new_entries.is_none() {
                    self.leaf(old, new);
                    return true;
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
                return false;
            }
            Shape::List(list) => {
                if items(old).is_empty() && items(new).is_empty() {
                    self.leaf(old, new);
                    return true;
                }
                self.items(list, items(old), items(new));
                return false;
            }
        }
        true
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

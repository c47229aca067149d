//! Differences between two objects, as sets of fields.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::path::PathElement;
use super::set::{FieldSet, Node};
use super::typed::{List, Shape, entries, items};
use crate::json::{Map, Value};

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
        // The root of the object has no owner.
        // Most objects differ, and each of their fields is compared anyway.
        let root = Difference::of_unequal(shape, 0, Some(old), Some(new));
        Self {
            added: root.added.children,
            modified: root.modified.children,
            removed: root.removed.children,
        }
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
        (self.added.union(self.modified), self.removed)
    }
}

/// The differences at and below one place.
#[derive(Debug, Default)]
struct Difference {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Difference {
    /// Compares two values at `depth`, which is how many steps they are below the object.
    fn of(shape: Shape<'_>, depth: usize, old: Option<&Value>, new: Option<&Value>) -> Self {
        match old == new {
            true => Self::default(),
            false => Self::of_unequal(shape, depth, old, new),
        }
    }

    /// Compares two values that are known to differ, like [`Difference::of`].
    fn of_unequal(
        shape: Shape<'_>,
        depth: usize,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Self {
        match (old, new) {
            (None, Some(added)) => {
                return Self {
                    added: whole(shape, added),
                    ..Self::default()
                };
            }
            (Some(removed), None) => {
                return Self {
                    removed: whole(shape, removed),
                    ..Self::default()
                };
            }
            _ => {}
        }
        let shapes = [old, new].map(|value| value.map(|value| shape.deduced(value)));
        match shapes {
            // A value that turned from a leaf into a map, or back: each side in its own way.
            [Some(Shape::Leaf), Some(other)] | [Some(other), Some(Shape::Leaf)]
                if !matches!(other, Shape::Leaf) =>
            {
                let mut difference = Self::inside(other, depth, old, new);
                difference.leaf(old, new);
                difference
            }
            [_, Some(shape)] => Self::inside(shape, depth, old, new),
            [_, None] => Self::default(),
        }
    }

    /// Compares the contents of values that differ.
    fn inside(shape: Shape<'_>, depth: usize, old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut difference = Self::default();
        match shape {
            Shape::Leaf | Shape::Deduced => difference.leaf(old, new),
            Shape::Struct(_) | Shape::Map(_) => {
                let (old_entries, new_entries) = (entries(old), entries(new));
                // A value that is empty or null on both sides is a leaf, so that the two can be
                // distinguished.
                if old_entries.is_none() && new_entries.is_none() {
                    difference.leaf(old, new);
                    return difference;
                }
                for (name, old, new) in pairs(old_entries, new_entries) {
                    if old == new || (name == "managedFields" && depth == 1) {
                        continue;
                    }
                    let below = Self::of_unequal(shape.field(name), depth + 1, old, new);
                    if !below.is_empty() {
                        difference.graft(PathElement::field(name), below);
                    }
                }
            }
            Shape::List(list) => {
                if items(old).is_empty() && items(new).is_empty() {
                    difference.leaf(old, new);
                } else {
                    difference.items(list, depth, items(old), items(new));
                }
            }
        }
        difference
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The values differ as a whole.
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        let node = match (old, new) {
            (None, _) => &mut self.added,
            (_, None) => &mut self.removed,
            _ => &mut self.modified,
        };
        node.member = true;
    }

    /// Takes over what differs below `element`.
    fn graft(&mut self, element: PathElement, below: Self) {
        let parts = [
            (&mut self.added, below.added),
            (&mut self.modified, below.modified),
            (&mut self.removed, below.removed),
        ];
        let mut parts = parts.into_iter().filter(|(_, below)| !below.is_empty());
        // The element of the one part that most differences have is not copied.
        let Some((first, first_below)) = parts.next() else {
            return;
        };
        for (node, below) in parts {
            node.children.graft(element.clone(), below);
        }
        first.children.graft(element, first_below);
    }

    fn items(&mut self, list: List<'_>, depth: usize, old: &[Value], new: &[Value]) {
        let old = by_element(list, old);
        let new = by_element(list, new);
        let item =
            |old: Option<&Value>, new: Option<&Value>| Self::of(list.item(), depth + 1, old, new);
        for (element, before, after) in item_pairs(old, new) {
            let below = match (before.as_slice(), after.as_slice()) {
                (before @ ([] | [_]), after @ ([] | [_])) => {
                    item(before.first().copied(), after.first().copied())
                }
                // Items that share their keys are compared as one value.
                ([_, _, ..], [_, _, ..]) => {
                    let mut below = Self::default();
                    below.modified.member = before != after;
                    below
                }
                ([_, _, ..], after) => {
                    let below = after.first().map(|after| item(None, Some(after)));
                    let mut below = below.unwrap_or_default();
                    below.removed.member = true;
                    below
                }
                (before, _) => {
                    let below = before.first().map(|before| item(Some(before), None));
                    let mut below = below.unwrap_or_default();
                    below.added.member = true;
                    below
                }
            };
            self.graft(element, below);
        }
    }
}

type Pair<'v> = (&'v str, Option<&'v Value>, Option<&'v Value>);

/// The entries of two maps by their names, in order.
fn pairs<'v>(old: Option<&'v Map>, new: Option<&'v Map>) -> impl Iterator<Item = Pair<'v>> {
    let mut old = old.into_iter().flatten().peekable();
    let mut new = new.into_iter().flatten().peekable();
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let before = old.next_if(|_| order.is_le());
        let after = new.next_if(|_| order.is_ge());
        let (name, _) = before.or(after)?;
        let value = |entry: Option<(_, &'v Value)>| entry.map(|(_, value)| value);
        Some((name.as_str(), value(before), value(after)))
    })
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

/// Items by their path element: usually one.
type Items<'v> = BTreeMap<PathElement, Vec<&'v Value>>;

fn by_element<'v>(list: List<'_>, items: &'v [Value]) -> Items<'v> {
    let mut found = Items::new();
    for item in items {
        if let Ok(element) = list.element(item) {
            found.entry(element).or_default().push(item);
        }
    }
    found
}

type ItemPair<'v> = (PathElement, Vec<&'v Value>, Vec<&'v Value>);

/// The items of two lists by their elements, in order.
fn item_pairs<'v>(old: Items<'v>, new: Items<'v>) -> impl Iterator<Item = ItemPair<'v>> {
    let mut old = old.into_iter().peekable();
    let mut new = new.into_iter().peekable();
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let before = old.next_if(|_| order.is_le());
        let after = new.next_if(|_| order.is_ge());
        match (before, after) {
            (Some((element, before)), after) => Some((
                element,
                before,
                after.map(|(_, after)| after).unwrap_or_default(),
            )),
            (None, after) => after.map(|(element, after)| (element, Vec::new(), after)),
        }
    })
}

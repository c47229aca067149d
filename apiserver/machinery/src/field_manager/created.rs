//! The owned fields of a new object, written at once: most creations need nothing else of sets.
//!
//! The outcome is that of [`Comparison`](super::compare::Comparison) with the object before its
//! creation, whose fields are null or empty; anything else is left to it.

use super::path::{PathElement, write_string};
use super::set::{FieldSet, Node, write_field};
use super::typed::{List, Shape, entries, items};
use crate::json::Value;

/// Returns the `FieldsV1` of what `new` sets, as text: all that is not in `nothing`, except the fields in
/// `reset` with everything below them, and the fields in `unowned`. `None` if it has to be determined by
/// comparing.
pub(super) fn created_fields(
    shape: Shape<'_>,
    (nothing, new): (&Value, &Value),
    (reset, unowned): (&FieldSet, &FieldSet),
) -> Option<String> {
    let mut json = String::with_capacity(4096);
    let place = Place {
        depth: 0,
        reset: Some(reset),
        unowned: Some(unowned),
    };
    write_changed(&mut json, shape, place, nothing, new)?;
    Some(json)
}

/// Where a value is: how many steps below the object, and the parts of both sets there.
#[derive(Clone, Copy)]
struct Place<'s> {
    depth: usize,
    reset: Option<&'s FieldSet>,
    unowned: Option<&'s FieldSet>,
}

impl<'s> Place<'s> {
    /// The place of the field `name`, and whether it has no owner; `None` if it is reset.
    fn field(self, name: &str) -> Option<(Self, bool)> {
        let find = |set: &'s FieldSet| -> Option<&'s Node> {
            let is_own =
                |element: &PathElement| matches!(element, PathElement::Field(own) if own == name);
            set.iter()
                .find(|(own, _)| is_own(own))
                .map(|(_, node)| node)
        };
        let reset = self.reset.and_then(find);
        let unowned = self.unowned.and_then(find);
        let place = Self {
            depth: self.depth + 1,
            reset: reset.map(|node| &node.children),
            unowned: unowned.map(|node| &node.children),
        };
        let is_kept = !reset.is_some_and(|node| node.member);
        is_kept.then(|| (place, unowned.is_some_and(|node| node.member)))
    }
}

/// Whether a value has owned fields.
enum Written {
    /// The value has none, and is left out.
    Nothing,
    Something,
}

/// Writes the fields in a value that the object had before, too.
fn write_changed(
    json: &mut String,
    shape: Shape<'_>,
    place: Place<'_>,
    old: &Value,
    new: &Value,
) -> Option<Written> {
    match shape {
        Shape::Struct(_) | Shape::Map(_) => {}
        Shape::List(list) if items(Some(old)).is_empty() && !items(Some(new)).is_empty() => {
            json.push('{');
            write_items(json, list, items(Some(new)))?;
            return Some(close(json));
        }
        _ => return None,
    }
    // A value that is empty before and after is a leaf.
    let new = entries(Some(new))?;
    json.push('{');
    for (name, new) in new {
        let old = old.get(name);
        if old == Some(new) || (name == "managedFields" && place.depth == 1) {
            continue;
        }
        let Some((place, is_unowned)) = place.field(name) else {
            continue;
        };
        let shape = shape.field(name);
        let before = json.len();
        write_field(json, name);
        let written = match (shape.deduced(new), old) {
            (Shape::Leaf, _) if is_unowned => Written::Nothing,
            (Shape::Leaf, _) if !matches!(shape, Shape::Deduced) => {
                json.push_str("{}");
                Written::Something
            }
            (_, Some(old)) => write_changed(json, shape, place, old, new)?,
            (_, None) if is_unowned || place.reset.is_some() => return None,
            (_, None) => {
                write_whole(json, shape, new)?;
                Written::Something
            }
        };
        match written {
            Written::Something => json.push(','),
            Written::Nothing => json.truncate(before),
        }
    }
    Some(close(json))
}

/// Writes the fields of a value that is new, whose path is one of them.
fn write_whole(json: &mut String, shape: Shape<'_>, value: &Value) -> Option<()> {
    let start = json.len();
    json.push('{');
    let shape = shape.deduced(value);
    match shape {
        Shape::Leaf | Shape::Deduced => {}
        Shape::Struct(_) | Shape::Map(_) => {
            for (name, value) in entries(Some(value)).into_iter().flatten() {
                write_itself(json, start);
                write_field(json, name);
                write_whole(json, shape.field(name), value)?;
                json.push(',');
            }
        }
        Shape::List(list) => {
            let items = items(Some(value));
            if !items.is_empty() {
                write_itself(json, start);
            }
            write_items(json, list, items)?;
        }
    }
    close(json);
    Some(())
}

/// Writes, as the first entry since `start`, that a path with others below is one of the set.
fn write_itself(json: &mut String, start: usize) {
    if json.len() == start + 1 {
        json.push_str("\".\":{},");
    }
}

/// Writes the items of a list, each with a comma; `None` if two share their keys, or one has none.
fn write_items(json: &mut String, list: List<'_>, items: &[Value]) -> Option<()> {
    let mut sorted = Vec::with_capacity(items.len());
    for item in items {
        let element = list.element(item).ok()?;
        let is_exact = |value: &Value| !value.is_f64();
        let is_exact = match &element {
            PathElement::Key(keys) => keys.iter().all(|(_, value)| is_exact(value)),
            PathElement::Value(value) => is_exact(value),
            PathElement::Field(_) | PathElement::Index(_) => false,
        };
        // Numbers may be equal and be written in two ways.
        sorted.push((is_exact.then(|| element.serialize())?, item));
    }
    sorted.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    if !sorted.is_sorted_by(|(left, _), (right, _)| left < right) {
        return None;
    }
    for (key, item) in sorted {
        write_string(json, &key);
        json.push(':');
        write_whole(json, list.item(), item)?;
        json.push(',');
    }
    Some(())
}

/// Ends an object, in place of a comma.
fn close(json: &mut String) -> Written {
    let written = match json.as_bytes().last() {
        Some(b',') => {
            json.pop();
            Written::Something
        }
        _ => Written::Nothing,
    };
    json.push('}');
    written
}

//! JSON patch (RFC 6902), in the dialect of the library that upstream uses.
//!
//! It is laxer than the standard, which the `json-patch` crate follows: `replace` adds a member
//! that is missing, `test` finds a missing member equal to null, a negative index counts from the
//! end of a list, and what stands before the first `/` of a path does not matter.

use super::document::{self, Members, Node, Slot};
use super::unprocessable;
use crate::status::ApiError;

const OPERATIONS_MAX: usize = 10_000;
/// What all `copy` operations of one patch may add.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How deep a path may lead; no document is read any deeper, but copies of one into itself are.
const DEPTH_MAX: usize = 500;

/// The patch does not apply; upstream keeps the reason to itself.
struct Refused;

/// Applies `operations` to the document `current`.
pub(super) fn apply(operations: Vec<Members>, current: &str) -> Result<String, ApiError> {
    if operations.len() > OPERATIONS_MAX {
        return Err(ApiError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let members = document::members(current).unwrap_or_default();
    let mut document = Node::Object(members);
    let mut copied_bytes = 0;
    for operation in operations {
        run(&mut document, operation, &mut copied_bytes).map_err(|Refused| unprocessable())?;
    }
    let mut text = String::new();
    document.write(&mut text);
    Ok(text)
}

/// The operations of a patch; null is a patch without any.
///
/// # Errors
/// Go's text for why it is none, without a syntax error.
pub(super) fn operations(patch: &str) -> Result<Vec<Members>, String> {
    let refuse = |json: &str, target: &str| {
        let found = super::json_type(json);
        Err(format!(
            "json: cannot unmarshal {found} into Go value of type jsonpatch.{target}"
        ))
    };
    if patch.trim() == "null" {
        return Ok(Vec::new());
    }
    let Some(items) = document::items(patch) else {
        return refuse(patch, "Patch");
    };
    let mut operations = Vec::with_capacity(items.len());
    for item in items {
        let Some(mut item) = item else {
            operations.push(Members::new());
            continue;
        };
        match item.object() {
            Some(members) => operations.push(std::mem::take(members)),
            None => return refuse(item.to_raw().get(), "Operation"),
        }
    }
    Ok(operations)
}

fn run(
    document: &mut Node,
    mut operation: Members,
    copied_bytes: &mut usize,
) -> Result<(), Refused> {
    let value = operation.remove("value");
    let text = |key: &str| {
        let value = operation.get(key).and_then(Option::as_ref);
        value.and_then(Node::string).ok_or(Refused)
    };
    let kind = text("op")?;
    match kind.as_str() {
        "add" => find(document, &text("path")?)?.add(value.flatten()),
        "remove" => find(document, &text("path")?)?.remove().map(drop),
        "replace" => match text("path")?.as_str() {
            "" => {
                let mut value = value.flatten().ok_or(Refused)?;
                if value.object().is_none() && value.array().is_none() {
                    return Err(Refused);
                }
                *document = value;
                Ok(())
            }
            path => find(document, path)?.replace(value.flatten()),
        },
        "move" => {
            let value = find(document, &text("from")?)?.remove()?;
            find(document, &text("path")?)?.add(value)
        }
        "copy" => {
            let held = find(document, &text("from")?)?.get()?;
            let copy = held.map(|held| held.to_raw());
            *copied_bytes += copy.as_ref().map_or(0, |copy| copy.get().len());
            let place = find(document, &text("path")?)?;
            if *copied_bytes > COPIED_BYTES_MAX {
                return Err(Refused);
            }
            place.add(copy.map(Node::Raw))
        }
        "test" => {
            let path = text("path")?;
            let is_equal = match (path.as_str(), value) {
                ("", Some(Some(mut value))) => document.equals(&mut value),
                ("", _) => false,
                (path, value) => match (find(document, path)?.get()?, value.flatten()) {
                    (None, None) => true,
                    (Some(held), Some(mut value)) => held.equals(&mut value),
                    _ => false,
                },
            };
            is_equal.then_some(()).ok_or(Refused)
        }
        _ => Err(Refused),
    }
}

/// The list or object that a path ends in, and its last segment.
enum Place<'d> {
    Member(&'d mut Members, String),
    Item(&'d mut Vec<Slot>, String),
}

fn find<'d>(document: &'d mut Node, path: &str) -> Result<Place<'d>, Refused> {
    let mut segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = segments.pop().ok_or(Refused)?;
    if segments.len() > DEPTH_MAX {
        return Err(Refused);
    }
    let mut node = document;
    for segment in segments {
        node = open(node, segment)?.get()?.ok_or(Refused)?;
    }
    open(node, last)
}

fn open(node: &mut Node, key: String) -> Result<Place<'_>, Refused> {
    if node.array().is_some() {
        return node
            .array()
            .map(|items| Place::Item(items, key))
            .ok_or(Refused);
    }
    let members = node.object().ok_or(Refused)?;
    Ok(Place::Member(members, key))
}

impl<'d> Place<'d> {
    /// What is there; a missing member reads as null, a missing item not.
    fn get(self) -> Result<Option<&'d mut Node>, Refused> {
        Ok(match self {
            Self::Member(members, key) => members.get_mut(&key).and_then(Option::as_mut),
            Self::Item(items, key) => {
                let index = position(&key, items.len())?;
                items[index].as_mut()
            }
        })
    }

    fn add(self, value: Slot) -> Result<(), Refused> {
        match self {
            Self::Member(members, key) => {
                members.insert(key, value);
            }
            Self::Item(items, key) if key == "-" => items.push(value),
            Self::Item(items, key) => items.insert(position(&key, items.len() + 1)?, value),
        }
        Ok(())
    }

    fn replace(self, value: Slot) -> Result<(), Refused> {
        match self {
            Self::Member(members, key) => {
                members.insert(key, value);
            }
            Self::Item(items, key) => {
                let index = position(&key, items.len())?;
                items[index] = value;
            }
        }
        Ok(())
    }

    fn remove(self) -> Result<Slot, Refused> {
        match self {
            Self::Member(members, key) => members.remove(&key).ok_or(Refused),
            Self::Item(items, key) => {
                let index = position(&key, items.len())?;
                Ok(items.remove(index))
            }
        }
    }
}

/// The position that `key` means in a list of `length`.
fn position(key: &str, length: usize) -> Result<usize, Refused> {
    let index: i64 = key.parse().map_err(|_| Refused)?;
    let length = i64::try_from(length).map_err(|_| Refused)?;
    let index = if index < 0 { index + length } else { index };
    match usize::try_from(index) {
        Ok(position) if index < length => Ok(position),
        _ => Err(Refused),
    }
}

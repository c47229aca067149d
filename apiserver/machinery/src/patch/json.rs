//! JSON patch (RFC 6902), in the dialect of the library that upstream uses.
//!
//! The dialect is laxer than the standard, which the `json-patch` crate follows: `replace` adds a
//! missing member, `test` treats a missing member as null, a negative index counts from the end of
//! a list, and text before the first `/` of a path is ignored.

use super::document::{self, Members, Node, Slot};
use super::unprocessable;
use crate::cancellation;
use crate::nesting;
use crate::status::{ApiError, quoted};

const OPERATIONS_MAX: usize = 10_000;
/// The most bytes that all `copy` operations of one patch may add.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How deep a path may lead on an ordinary stack. No document is read any deeper there, but copies
/// of one into itself are.
const SHALLOW_MAX: usize = 500;

/// Why an operation does not apply, in the library's words.
type Fault = String;

const MISSING: &str = "missing value";

/// Applies `operations` to the document `current`, as a request's patch. Upstream keeps the fault
/// of an operation to itself.
///
/// # Errors
/// `TooLarge` for too many operations, and a refusal without a reason for one that does not apply.
pub(super) fn apply(operations: Vec<Members>, current: &str) -> Result<String, ApiError> {
    if operations.len() > OPERATIONS_MAX {
        return Err(ApiError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    applied(operations, current).map_err(|_| unprocessable())
}

/// Applies `operations` to the document `current`.
///
/// # Errors
/// The fault of the first operation that does not apply.
pub(super) fn applied(operations: Vec<Members>, current: &str) -> Result<String, Fault> {
    let members = document::members(current).unwrap_or_default();
    let mut document = Node::Object(members);
    let mut copied_bytes = 0;
    for operation in operations {
        if cancellation::is_requested() {
            break;
        }
        run(&mut document, operation, &mut copied_bytes)?;
    }
    let mut text = String::new();
    document.write(&mut text);
    Ok(text)
}

/// The operations of a patch; null is a patch without any.
///
/// # Errors
/// Go's error text for a document of the wrong shape. The caller has checked the syntax.
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

fn run(document: &mut Node, mut operation: Members, copied_bytes: &mut usize) -> Result<(), Fault> {
    let value = operation.remove("value");
    let kind = text(&operation, "op", "").unwrap_or_else(|_| "unknown".to_owned());
    let path = || text(&operation, "path", "operation missing path field");
    let from = || {
        let from = text(&operation, "from", "operation, missing from field");
        from.map_err(|fault| format!("{kind} operation failed to decode from: {fault}"))
    };
    match kind.as_str() {
        "add" | "remove" => {
            let path = path();
            let path =
                path.map_err(|_| format!("{kind} operation failed to decode path: {MISSING}"))?;
            let place = find(document, &path).ok_or_else(|| {
                format!(
                    "{kind} operation does not apply: doc is missing path: \"{path}\": {MISSING}"
                )
            })?;
            let done = match kind.as_str() {
                "add" => place.add(value.flatten()),
                _ => place.remove().map(drop),
            };
            done.map_err(|fault| format!("error in {kind} for path: '{path}': {fault}"))
        }
        "replace" => {
            let path = path();
            let path =
                path.map_err(|fault| format!("replace operation failed to decode path: {fault}"))?;
            replace(document, &path, value.flatten())
        }
        "move" => {
            let from = from()?;
            let place = find(document, &from).ok_or_else(|| {
                format!(
                    "move operation does not apply: doc is missing from path: {from}: {MISSING}"
                )
            })?;
            let key = place.key().to_owned();
            let value = place.remove();
            let value =
                value.map_err(|fault| format!("error in move for path: '{key}': {fault}"))?;
            let path = path();
            let path =
                path.map_err(|fault| format!("move operation failed to decode path: {fault}"))?;
            let place = find(document, &path).ok_or_else(|| {
                format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            let added = place.add(value);
            added.map_err(|fault| format!("error in move for path: '{path}': {fault}"))
        }
        "copy" => {
            let from = from()?;
            let place = find(document, &from).ok_or_else(|| {
                format!(
                    "copy operation does not apply: doc is missing from path: {from}: {MISSING}"
                )
            })?;
            let held = place.get();
            let held =
                held.map_err(|fault| format!("error in copy for from: '{from}': {fault}"))?;
            let copy = held.map(|held| held.to_raw());
            *copied_bytes += copy.as_ref().map_or(0, |copy| copy.get().len());
            let path = path();
            let path =
                path.map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
            let place = find(document, &path).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            if *copied_bytes > COPIED_BYTES_MAX {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is \
                     {copied_bytes}, exceeding the limit {COPIED_BYTES_MAX}"
                ));
            }
            let added = place.add(copy.map(Node::Raw));
            added.map_err(|fault| format!("error while adding value during copy: {fault}"))
        }
        "test" => {
            let path = path();
            let path =
                path.map_err(|fault| format!("test operation failed to decode path: {fault}"))?;
            test(document, &path, value)
        }
        kind => Err(format!("Unexpected kind: {kind}")),
    }
}

/// Reads a text of an operation.
fn text(operation: &Members, key: &str, absent: &str) -> Result<String, Fault> {
    let value = operation.get(key).and_then(Option::as_ref);
    let value = value.ok_or_else(|| format!("{absent}: {MISSING}"))?;
    value.string().ok_or_else(|| {
        let found = super::json_type(value.to_raw().get());
        format!("json: cannot unmarshal {found} into Go value of type string")
    })
}

fn replace(document: &mut Node, path: &str, value: Slot) -> Result<(), Fault> {
    if path.is_empty() {
        let mut value =
            value.filter(|value| !matches!(super::json_type(value.to_raw().get()), "null"));
        let is_whole = |value: &mut Node| value.object().is_some() || value.array().is_some();
        if !value.as_mut().is_some_and(is_whole) {
            return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
        }
        *document = value.expect("it is an object or array");
        return Ok(());
    }
    let missing = |what: &str| {
        format!("replace operation does not apply: doc is missing {what}: {path}: {MISSING}")
    };
    let place = find(document, path).ok_or_else(|| missing("path"))?;
    place.replace(value).map_err(|_| missing("key"))
}

fn test(document: &mut Node, path: &str, value: Option<Slot>) -> Result<(), Fault> {
    let is_equal = match (path, value) {
        ("", Some(Some(mut value))) => document.equals(&mut value),
        ("", _) => false,
        (path, value) => {
            let place = find(document, path).ok_or_else(|| {
                format!("test operation does not apply: is missing path: {path}: {MISSING}")
            })?;
            let held = place.get();
            let held =
                held.map_err(|fault| format!("error in test for path: '{path}': {fault}"))?;
            match (held, value.flatten()) {
                (None, None) => true,
                (Some(held), Some(mut value)) => held.equals(&mut value),
                _ => false,
            }
        }
    };
    match is_equal {
        true => Ok(()),
        false => Err(format!("testing value {path} failed: test failed")),
    }
}

/// The list or object that a path ends in, and its last segment.
enum Place<'d> {
    Member(&'d mut Members, String),
    Item(&'d mut Vec<Slot>, String),
}

/// Returns the place at a path, if everything on the way there is.
fn find<'d>(document: &'d mut Node, path: &str) -> Option<Place<'d>> {
    let mut segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = segments.pop()?;
    let deepest = match nesting::has_room() {
        true => nesting::DEPTH_MAX,
        false => SHALLOW_MAX,
    };
    if segments.len() > deepest {
        return None;
    }
    let mut node = document;
    for segment in segments {
        node = open(node, segment)?.get().ok()??;
    }
    open(node, last)
}

fn open(node: &mut Node, key: String) -> Option<Place<'_>> {
    if node.array().is_some() {
        return node.array().map(|items| Place::Item(items, key));
    }
    node.object().map(|members| Place::Member(members, key))
}

impl<'d> Place<'d> {
    fn key(&self) -> &str {
        match self {
            Self::Member(_, key) | Self::Item(_, key) => key,
        }
    }

    /// Returns the value at the place; a missing member reads as null, a missing item is an error.
    fn get(self) -> Result<Option<&'d mut Node>, Fault> {
        Ok(match self {
            Self::Member(members, key) => members.get_mut(&key).and_then(Option::as_mut),
            Self::Item(items, key) => {
                let index = position(&key, items.len())?;
                items[index].as_mut()
            }
        })
    }

    fn add(self, value: Slot) -> Result<(), Fault> {
        match self {
            Self::Member(members, key) => {
                members.insert(key, value);
            }
            Self::Item(items, key) if key == "-" => items.push(value),
            Self::Item(items, key) => {
                let position = position(&key, items.len() + 1);
                let index = position.map_err(|fault| match key.parse::<i64>() {
                    Ok(_) => fault,
                    Err(_) => format!("value was not a proper array index: '{key}': {fault}"),
                })?;
                items.insert(index, value);
            }
        }
        Ok(())
    }

    fn replace(self, value: Slot) -> Result<(), Fault> {
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

    fn remove(self) -> Result<Slot, Fault> {
        match self {
            Self::Member(members, key) => members
                .remove(&key)
                .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
            Self::Item(items, key) => {
                let index = position(&key, items.len())?;
                Ok(items.remove(index))
            }
        }
    }
}

/// The position that `key` means in a list of `length`.
fn position(key: &str, length: usize) -> Result<usize, Fault> {
    let Ok(index) = key.parse::<i64>() else {
        let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let why = match is_number {
            true => "value out of range",
            false => "invalid syntax",
        };
        return Err(format!("strconv.Atoi: parsing {}: {why}", quoted(key)));
    };
    let from_end = i64::try_from(length).map_or(index, |length| match index {
        ..0 => index + length,
        _ => index,
    });
    let position = usize::try_from(from_end)
        .ok()
        .filter(|index| *index < length);
    position
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

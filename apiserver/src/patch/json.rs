//! JSON patch (RFC 6902), in the dialect of the library that upstream uses.
//!
//! It is laxer than the standard, which the `json-patch` crate follows: `replace` adds a member
//! that is missing, `test` finds a missing member equal to null, a negative index counts from the
//! end of a list, and what stands before the first `/` of a path does not matter.

use serde_json::{Map, Value};

use super::{in_decoding, json_type, unprocessable};
use crate::status::ApiError;

const OPERATIONS_MAX: usize = 10_000;
/// What all `copy` operations of one patch may add.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The patch does not apply; upstream keeps the reason to itself.
struct Refused;

/// Applies `patch` to `current`; a null patch has no operations.
pub(super) fn apply(patch: Value, current: &Value) -> Result<Value, ApiError> {
    let operations = operations(patch).map_err(in_decoding)?;
    if operations.len() > OPERATIONS_MAX {
        return Err(ApiError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut document = current.clone();
    let mut copied_bytes = 0;
    for operation in &operations {
        run(&mut document, operation, &mut copied_bytes).map_err(|Refused| unprocessable())?;
    }
    Ok(document)
}

fn operations(patch: Value) -> Result<Vec<Map<String, Value>>, String> {
    let refuse = |value: &Value, target: &str| {
        let found = json_type(value);
        Err(format!("json: cannot unmarshal {found} into Go {target}"))
    };
    let items = match patch {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => return refuse(&other, "value of type []handlers.jsonPatchOp"),
    };
    let mut operations = Vec::with_capacity(items.len());
    for item in items {
        let operation = match item {
            Value::Object(operation) => operation,
            Value::Null => Map::new(),
            other => return refuse(&other, "value of type handlers.jsonPatchOp"),
        };
        for key in ["op", "path", "from"] {
            match operation.get(key) {
                None | Some(Value::Null | Value::String(_)) => {}
                Some(other) => {
                    let target = format!("struct field jsonPatchOp.{key} of type string");
                    return refuse(other, &target);
                }
            }
        }
        operations.push(operation);
    }
    Ok(operations)
}

fn run(
    document: &mut Value,
    operation: &Map<String, Value>,
    copied_bytes: &mut usize,
) -> Result<(), Refused> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str).ok_or(Refused);
    let value = operation.get("value");
    let path = text("path")?;
    match text("op")? {
        "add" => {
            let (container, key) = find(document, path)?;
            add(container, &key, value.cloned().unwrap_or_default())
        }
        "remove" => {
            let (container, key) = find(document, path)?;
            remove(container, &key).map(drop)
        }
        "replace" if path.is_empty() => {
            *document = value
                .filter(|value| is_container(value))
                .ok_or(Refused)?
                .clone();
            Ok(())
        }
        "replace" => {
            let (container, key) = find(document, path)?;
            let value = value.cloned().unwrap_or_default();
            match container {
                Value::Array(items) => *item(items, &key)? = value,
                _ => return add(container, &key, value),
            }
            Ok(())
        }
        "move" => {
            let (container, key) = find(document, text("from")?)?;
            let value = remove(container, &key)?;
            let (container, key) = find(document, path)?;
            add(container, &key, value)
        }
        "copy" => {
            let (container, key) = find(document, text("from")?)?;
            let value = get(container, &key)?.clone();
            *copied_bytes += value.to_string().len();
            if *copied_bytes > COPIED_BYTES_MAX {
                return Err(Refused);
            }
            let (container, key) = find(document, path)?;
            add(container, &key, value)
        }
        "test" if path.is_empty() => (Some(&*document) == value).then_some(()).ok_or(Refused),
        "test" => {
            let (container, key) = find(document, path)?;
            let found = get(container, &key)?;
            (found == value.unwrap_or(&Value::Null))
                .then_some(())
                .ok_or(Refused)
        }
        _ => Err(Refused),
    }
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// The list or object that `path` ends in, and the last segment.
fn find<'v>(document: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), Refused> {
    let mut segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = segments.pop().ok_or(Refused)?;
    let mut container = document;
    for segment in segments {
        container = match container {
            Value::Array(items) => item(items, &segment)?,
            Value::Object(members) => members.get_mut(&segment).ok_or(Refused)?,
            _ => return Err(Refused),
        };
    }
    if is_container(container) {
        Ok((container, last))
    } else {
        Err(Refused)
    }
}

/// The position that `key` means in a list of `length`; the end itself only where `end` allows.
fn position(key: &str, length: usize) -> Result<usize, Refused> {
    let index: i64 = key.parse().map_err(|_| Refused)?;
    let length = i64::try_from(length).map_err(|_| Refused)?;
    let index = if index < 0 { index + length } else { index };
    if (0..length).contains(&index) {
        usize::try_from(index).map_err(|_| Refused)
    } else {
        Err(Refused)
    }
}

fn item<'v>(items: &'v mut [Value], key: &str) -> Result<&'v mut Value, Refused> {
    let index = position(key, items.len())?;
    Ok(&mut items[index])
}

/// A missing member reads as null, a missing item not.
fn get<'v>(container: &'v mut Value, key: &str) -> Result<&'v Value, Refused> {
    const NULL: &Value = &Value::Null;
    match container {
        Value::Array(items) => Ok(item(items, key)?),
        other => Ok(other.get(key).unwrap_or(NULL)),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), Refused> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => items.insert(position(key, items.len() + 1)?, value),
        Value::Object(members) => {
            members.insert(key.to_owned(), value);
        }
        _ => return Err(Refused),
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, Refused> {
    match container {
        Value::Array(items) => {
            let index = position(key, items.len())?;
            Ok(items.remove(index))
        }
        Value::Object(members) => members.remove(key).ok_or(Refused),
        _ => Err(Refused),
    }
}

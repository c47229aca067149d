//! Strategic merge patch: a merge led by the patch strategies of the kind's fields, and by
//! directives in the patch.
//!
//! Fields are merged in the order of their names, where upstream's order is random.

mod fields;
mod lists;
mod text;

use std::mem;

use super::{discard_nulls, unprocessable};
use crate::json::{Map, SmolStr, Value};
use crate::schema::Object;
use crate::status::ApiError;
use fields::{Field, Type};
use lists::{in_order, merge_list, validate_order};
use text::{bad_arg_type, bad_patch_type, show_map};

/// `replace`, `delete` or, where it makes no sense, `merge`.
const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// A patch as upstream's errors show it.
pub(super) fn shown(patch: &Map) -> String {
    show_map(patch)
}

/// Applies `patch` to `current`, an object of the type `schema`.
pub(super) fn apply(patch: Map, current: Value, schema: &Object) -> Result<Value, ApiError> {
    let original = match current {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    merge_map(original, patch, Type::Struct(schema)).map(Value::Object)
}

fn merge_map(mut original: Map, mut patch: Map, of: Type<'_>) -> Result<Map, ApiError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(bad_patch_type(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    let ordered: Vec<SmolStr> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for key in ordered {
        merge_ordered_list(&mut original, &mut patch, &key, of)?;
    }
    for (key, value) in patch {
        merge_field(&mut original, key, value, of)?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Map,
    key: SmolStr,
    value: Value,
    of: Type<'_>,
) -> Result<(), ApiError> {
    let deletes = key.starts_with(DELETE_FROM_PRIMITIVE_LIST);
    let key = match deletes {
        true => list_name(&key, DELETE_FROM_PRIMITIVE_LIST)?.to_owned(),
        false => key.to_string(),
    };
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    match (original.get_mut(&key), value) {
        (Some(Value::Object(held)), Value::Object(patch)) => {
            let field = of.field(&key)?;
            *held = match field.replace {
                true => patch,
                false => merge_map(mem::take(held), patch, field.of)?,
            };
        }
        (Some(Value::Array(held)), Value::Array(patch)) => {
            let field = of.list_field(&key)?;
            *held = merge_list_field(mem::take(held), patch, &field, deletes)?;
        }
        _ if deletes => {}
        (_, mut value) => {
            discard_nulls(&mut value);
            match without_directives(value) {
                Some(value) => original.insert(key, value),
                None => original.remove(&key),
            };
        }
    }
    Ok(())
}

fn merge_list_field(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: &Field<'_>,
    deletes: bool,
) -> Result<Vec<Value>, ApiError> {
    if field.merge || deletes {
        merge_list(original, patch, field, deletes)
    } else {
        Ok(patch)
    }
}

/// Keeps only those fields that the patch lists, which must be all it sets.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), ApiError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let malformed = || ApiError::BadRequest("invalid patch format of retainKeys".to_owned());
    let retained = directive.as_array().ok_or_else(malformed)?;
    let is_retained = |key: &str| retained.iter().any(|name| name.as_str() == Some(key));
    let sets = |(key, value): &(&SmolStr, &Value)| {
        !value.is_null()
            && !key.starts_with(DELETE_FROM_PRIMITIVE_LIST)
            && !key.starts_with(SET_ELEMENT_ORDER)
    };
    if !patch.iter().filter(sets).all(|(key, _)| is_retained(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

/// Merges the list that the `$setElementOrder` of `key` names, taking both out of the patch.
fn merge_ordered_list(
    original: &mut Map,
    patch: &mut Map,
    key: &str,
    of: Type<'_>,
) -> Result<(), ApiError> {
    let order = match patch.remove(key) {
        Some(Value::Array(order)) => order,
        other => return Err(bad_arg_type("[]interface {}", &other.unwrap_or_default())),
    };
    let name = list_name(key, SET_ELEMENT_ORDER)?;
    let list = |members: &mut Map| match members.remove(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(bad_arg_type("[]interface {}", &other)),
    };
    let (held, patched) = (list(original)?, list(patch)?);
    let field = of.list_field(name)?;
    let nothing = Vec::new();
    let live = held.as_ref().unwrap_or(&nothing);
    let of_patch = patched.as_ref().unwrap_or(&nothing);
    validate_order(of_patch, &order, field.merge_key)?;
    let has_one_kind = lists::item_kind(&[live, of_patch]);
    let live = lists::outline(live, field.merge_key);
    let merged = match (held, patched) {
        (None, None) => return Ok(()),
        (Some(held), None) => held,
        (None, Some(patched)) => patched.into_iter().filter_map(without_directives).collect(),
        (Some(held), Some(patched)) => merge_list_field(held, patched, &field, false)?,
    };
    has_one_kind?;
    let merged = in_order(merged, &order, &live, field.merge_key)?;
    original.insert(name.to_owned(), Value::Array(merged));
    Ok(())
}

/// The name behind `prefix` and a slash.
fn list_name<'k>(key: &'k str, prefix: &str) -> Result<&'k str, ApiError> {
    let name = key
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('/'));
    name.ok_or_else(|| {
        let what = match prefix {
            DELETE_FROM_PRIMITIVE_LIST => "primitive list",
            _ => "setElementOrder list",
        };
        ApiError::BadRequest(format!("invalid patch format of {what}"))
    })
}

/// Removes directives from a part of the patch without a counterpart in the object; `None` for a
/// directive.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(PATCH) => None,
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            let kept = items.into_iter().filter_map(without_directives);
            Some(Value::Array(kept.collect()))
        }
        other => Some(other),
    }
}

/// A fault that upstream has no reason for.
fn unknown(message: String) -> ApiError {
    ApiError::Unknown(message)
}

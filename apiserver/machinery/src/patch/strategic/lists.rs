//! Merging of lists: items find each other by a merge key, scalars by their value.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{self, Discriminant};

use super::fields::Field;
use super::text::{bad_arg_type, bad_patch_type, no_merge_key, show_list};
use super::{PATCH, SET_ELEMENT_ORDER, merge_map, unknown, unprocessable};
use crate::json::{Map, Value};
use crate::meta::order::Ordered;
use crate::status::ApiError;

type Items = Vec<Value>;

/// Merges `patch` into `original`, or takes it out of it where it `deletes` scalars.
pub(super) fn merge_list(
    original: Items,
    patch: Items,
    field: &Field<'_>,
    deletes: bool,
) -> Result<Items, ApiError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if item_kind(&[&original, &patch])? != mem::discriminant(&Value::Object(Map::new())) {
        if deletes {
            let gone: BTreeSet<_> = patch.iter().map(Ordered).collect();
            let keep = |item: &Value| !gone.contains(&Ordered(item));
            return Ok(original.into_iter().filter(keep).collect());
        }
        let mut seen = BTreeSet::new();
        let all = original.iter().chain(&patch);
        let merged: Items = all
            .filter(|item| seen.insert(Ordered(item)))
            .cloned()
            .collect();
        return in_order(merged, &patch, &original, None);
    }
    let Some(merge_key) = field.merge_key else {
        let message = "cannot merge lists without merge key for struct";
        return Err(unknown(message.to_owned()));
    };
    let (live, patch) = follow_directives(original, patch, merge_key)?;
    let [before, order] = [&live, &patch].map(|items| outline(items, Some(merge_key)));
    let merged = merge_items(live, patch, merge_key, field)?;
    in_order(merged, &order, &before, Some(merge_key))
}

/// Reduces `items` to the parts that identify them: the merge key if an item has it, or the whole
/// item.
pub(super) fn outline(items: &[Value], merge_key: Option<&str>) -> Items {
    let of_item = |item: &Value| match merge_key.map(|key| (key, item.get(key))) {
        Some((key, Some(value))) => {
            Value::Object(Map::from_iter([(key.to_owned(), value.clone())]))
        }
        _ => item.clone(),
    };
    items.iter().map(of_item).collect()
}

/// Returns the JSON type of all items; lists of lists and mixtures cannot be merged.
pub(super) fn item_kind(lists: &[&Items]) -> Result<Discriminant<Value>, ApiError> {
    let mut kind = None;
    for item in lists.iter().copied().flatten() {
        let found = mem::discriminant(item);
        match kind {
            None if item.is_array() => return Err(unprocessable()),
            None => kind = Some(found),
            Some(kind) if kind == found => {}
            Some(_) => {
                let lists: Vec<String> = lists.iter().map(|list| show_list(list)).collect();
                let lists = lists.join(" ");
                return Err(unknown(format!(
                    "list element types are not identical: [{lists}]"
                )));
            }
        }
    }
    kind.ok_or_else(|| unknown("no elements in any of the given slices".to_owned()))
}

/// Handles items with a `$patch`: what remains of the list, and the other items of the patch.
fn follow_directives(
    mut original: Items,
    patch: Items,
    merge_key: &str,
) -> Result<(Items, Items), ApiError> {
    let mut plain = Vec::new();
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        let map = item.as_object().expect("all items are objects");
        let Some(directive) = map.get(PATCH) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = map
                    .get(merge_key)
                    .ok_or_else(|| no_merge_key(map, merge_key))?;
                deleted.push(value.clone());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(unknown(message.to_owned()));
            }
            _ => return Err(bad_patch_type(directive, map)),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !deleted.is_empty() {
        let deleted: BTreeSet<_> = deleted.iter().map(Ordered).collect();
        let is_deleted = |held: &Value| {
            held.get(merge_key)
                .is_some_and(|own| deleted.contains(&Ordered(own)))
        };
        original.retain(|held| !is_deleted(held));
    }
    Ok((original, plain))
}

fn merge_items(
    mut items: Items,
    patch: Items,
    merge_key: &str,
    field: &Field<'_>,
) -> Result<Items, ApiError> {
    // The first of several items with equal keys is merged.
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        if let Some(value) = item.get(merge_key) {
            places.entry(identity_text(value)).or_insert(place);
        }
    }
    for item in patch {
        let map = match item {
            Value::Object(map) => map,
            item => return Err(bad_arg_type("map[string]interface {}", &item)),
        };
        let value = map
            .get(merge_key)
            .ok_or_else(|| no_merge_key(&map, merge_key))?;
        let key = identity_text(value);
        let place = *places.entry(key.clone()).or_insert(items.len());
        match items.get_mut(place) {
            Some(Value::Object(held)) => {
                *held = merge_map(mem::take(held), map, field.of)?;
                if !held.contains_key(merge_key) {
                    places.remove(&key);
                }
            }
            _ => items.push(Value::Object(map)),
        }
    }
    Ok(items)
}

/// A text that only equal values of a merge key have.
fn identity_text(value: &Value) -> String {
    match value {
        // No other value begins like that.
        Value::String(text) => ["\"", text].concat(),
        other => other.to_string(),
    }
}

/// Puts the items named in `order` into that order, all others into the order of `live`, and
/// interleaves the two: an item only in `live` precedes the first item that followed it there.
pub(super) fn in_order(
    items: Items,
    order: &[Value],
    live: &[Value],
    merge_key: Option<&str>,
) -> Result<Items, ApiError> {
    if let Some(key) = merge_key {
        for item in items.iter().chain(order).chain(live) {
            let Value::Object(map) = item else {
                return Err(bad_arg_type("map[string]interface {}", item));
            };
            if !map.contains_key(key) {
                return Err(no_merge_key(map, key));
            }
        }
    }
    let [order, live] = [order, live].map(|list| ranks(list, merge_key));
    let rank = |ranks: &BTreeMap<_, usize>, item: &Value| {
        let own = identity(item, merge_key).map(Ordered);
        ranks.get(&own).copied()
    };
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let in_live = rank(&live, &item);
        match rank(&order, &item) {
            Some(place) => named.push((place, in_live, item)),
            None => others.push((in_live, item)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(in_live, _)| in_live.unwrap_or(usize::MAX));

    let mut merged = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    while let (Some((_, of_order, _)), Some((other, _))) = (named.peek(), others.peek()) {
        let stands_before = match (other, of_order) {
            (Some(other), Some(of_order)) => other < of_order,
            _ => false,
        };
        if stands_before {
            merged.extend(others.next().map(|(_, item)| item));
        } else {
            merged.extend(named.next().map(|(.., item)| item));
        }
    }
    merged.extend(named.map(|(.., item)| item));
    merged.extend(others.map(|(_, item)| item));
    Ok(merged)
}

/// The first place of each item, by the item's identity.
fn ranks<'v>(list: &'v [Value], merge_key: Option<&str>) -> BTreeMap<Option<Ordered<'v>>, usize> {
    let items = list.iter().enumerate().rev();
    items
        .map(|(place, item)| (identity(item, merge_key).map(Ordered), place))
        .collect()
}

fn identity<'v>(item: &'v Value, merge_key: Option<&str>) -> Option<&'v Value> {
    match merge_key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

/// The items of `patch` must stand in `order`, in the same relative order.
pub(super) fn validate_order(
    patch: &[Value],
    order: &[Value],
    merge_key: Option<&str>,
) -> Result<(), ApiError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let identify = |item: &Value| match (merge_key, item) {
        (None, item) => Ok(item.clone()),
        (Some(key), Value::Object(map)) => {
            let value = map.get(key).cloned();
            value.ok_or_else(|| no_merge_key(map, key))
        }
        (Some(_), item) => Err(bad_arg_type("map[string]interface {}", item)),
    };
    let mut places = order.iter();
    for item in patch {
        if item.get(PATCH).is_some() {
            continue;
        }
        let value = identify(item)?;
        let mut found = false;
        for place in places.by_ref() {
            found = identify(place)? == value;
            if found {
                break;
            }
        }
        if !found {
            return Err(unknown(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
                show_list(patch),
                show_list(order)
            )));
        }
    }
    Ok(())
}

//! Functions on lists.

use std::cmp::Ordering;

use crate::{
    error::{EvalError, failed},
    value::{Evaluated, List, Value},
};

pub(super) fn call(function: &str, overload: &str, args: &[Value], room: u64) -> Option<Evaluated> {
    Some(match (function, args) {
        ("isSorted", [Value::List(list)]) => {
            Ok(Value::Bool(list.items.windows(2).all(|pair| {
                pair[0].compare(&pair[1]) != Some(Ordering::Greater)
            })))
        }
        ("sum", [Value::List(list)]) => sum(list, overload),
        ("min", [Value::List(list)]) => extreme(list, function, Ordering::Greater),
        ("max", [Value::List(list)]) => extreme(list, function, Ordering::Less),
        ("indexOf", [Value::List(list), item]) => {
            position(list.items.iter().position(|own| own.equals(item)))
        }
        ("lastIndexOf", [Value::List(list), item]) => {
            position(list.items.iter().rposition(|own| own.equals(item)))
        }
        ("slice", [Value::List(list), Value::Int(start), Value::Int(end)]) => {
            slice(list, *start, *end)
        }
        ("flatten", [Value::List(list)]) => flatten(list, 1),
        ("flatten", [Value::List(list), Value::Int(depth)]) => flatten(list, *depth),
        ("lists.range", [Value::Int(count)]) => {
            // Each number costs one, so the remaining budget limits their number.
            if u64::try_from(*count).unwrap_or_default() > room {
                return Some(Err(EvalError::CostLimit));
            }
            Ok(Value::list((0..*count).map(Value::Int).collect()))
        }
        ("reverse", [Value::List(list)]) => {
            Ok(Value::list(list.items.iter().rev().cloned().collect()))
        }
        ("distinct", [Value::List(list)]) => {
            // Comparing each with each costs twice the square.
            let count = list.items.len() as u64;
            if count.saturating_mul(count).saturating_mul(2) > room {
                return Some(Err(EvalError::CostLimit));
            }
            let mut unique: Vec<Value> = Vec::new();
            for item in list.items.iter() {
                if !unique.iter().any(|known| known.equals(item)) {
                    unique.push(item.clone());
                }
            }
            Ok(Value::list(unique))
        }
        ("sort", [Value::List(list)]) => sort(list, list),
        ("@sortByAssociatedKeys", [Value::List(list), Value::List(keys)]) => sort(list, keys),
        ("sets.contains", [Value::List(a), Value::List(b)]) => within_budget(a, b, room)
            .map(|()| Value::Bool(b.items.iter().all(|item| a.contains(item)))),
        ("sets.equivalent", [Value::List(a), Value::List(b)]) => {
            within_budget(a, b, room / 2).map(|()| {
                let both = |a: &List, b: &List| b.items.iter().all(|item| a.contains(item));
                Value::Bool(both(a, b) && both(b, a))
            })
        }
        ("sets.intersects", [Value::List(a), Value::List(b)]) => within_budget(a, b, room)
            .map(|()| Value::Bool(a.items.iter().any(|item| b.contains(item)))),
        _ => return None,
    })
}

/// Comparing each of `a` with each of `b` costs their product.
fn within_budget(a: &List, b: &List, room: u64) -> Result<(), EvalError> {
    let pairs = (a.items.len() as u64).saturating_mul(b.items.len() as u64);
    if pairs > room {
        Err(EvalError::CostLimit)
    } else {
        Ok(())
    }
}

fn position(found: Option<usize>) -> Evaluated {
    Ok(Value::Int(
        found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)),
    ))
}

fn sum(list: &List, overload: &str) -> Evaluated {
    let zero = match overload {
        "list_uint_sum_uint" => Value::Uint(0),
        "list_double_sum_double" => Value::Double(0.0),
        "list_duration_sum_duration" => Value::Duration(0),
        _ => Value::Int(0),
    };
    let mut items = list.items.iter().cloned();
    let first = items.next().unwrap_or(zero);
    items.try_fold(first, super::add)
}

fn extreme(list: &List, function: &str, replaced: Ordering) -> Evaluated {
    let mut items = list.items.iter();
    let Some(mut found) = items.next() else {
        return failed(format!("{function} called on empty list"));
    };
    for item in items {
        if found.compare(item) == Some(replaced) {
            found = item;
        }
    }
    Ok(found.clone())
}

fn slice(list: &List, start: i64, end: i64) -> Evaluated {
    let count = i64::try_from(list.items.len()).unwrap_or(i64::MAX);
    let call = format!("cannot slice({start}, {end})");
    if start < 0 || end < 0 {
        return failed(format!("{call}, negative indexes not supported"));
    }
    if start > end {
        return failed(format!(
            "{call}, start index must be less than or equal to end index"
        ));
    }
    if count < end {
        return failed(format!("{call}, list is length {count}"));
    }
    let range =
        usize::try_from(start).unwrap_or_default()..usize::try_from(end).unwrap_or_default();
    Ok(Value::list(list.items[range].to_vec()))
}

fn flatten(list: &List, depth: i64) -> Evaluated {
    if depth < 0 {
        return failed("level must be non-negative");
    }
    let mut flat = Vec::new();
    spread(list, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn spread(list: &List, depth: i64, into: &mut Vec<Value>) -> Result<(), EvalError> {
    for item in list.items.iter() {
        match item {
            Value::List(inner) if depth > 0 => spread(inner, depth - 1, into)?,
            item => into.push(item.clone()),
        }
        if into.len() > super::RESULT_SIZE_MAX {
            return Err(EvalError::CostLimit);
        }
    }
    Ok(())
}

fn sort(list: &List, keys: &List) -> Evaluated {
    if list.items.len() != keys.items.len() {
        return failed(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys \
             list, but got {} and {} elements respectively",
            list.items.len(),
            keys.items.len()
        ));
    }
    if let Some(first) = keys.items.first() {
        if first.compare(first).is_none() {
            return failed("list elements must be comparable");
        }
        if keys
            .items
            .iter()
            .any(|key| key.type_name() != first.type_name())
        {
            return failed("list elements must have the same type");
        }
    }
    let mut order: Vec<usize> = (0..list.items.len()).collect();
    order.sort_by(|a, b| {
        keys.items[*a]
            .compare(&keys.items[*b])
            .unwrap_or(Ordering::Equal)
    });
    Ok(Value::list(
        order.into_iter().map(|at| list.items[at].clone()).collect(),
    ))
}

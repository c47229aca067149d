//! The functions of CEL and of the Kubernetes libraries.

pub(super) mod format;
mod lists;
mod objects;
pub(super) mod regex;
mod strings;
mod times;

use std::{cmp::Ordering, sync::Arc};

use super::{
    error::{EvalError, failed},
    numbers,
    value::{Evaluated, Key, ListKind, Map, Value},
};

/// The most bytes or items that one call may make.
pub(super) const RESULT_SIZE_MAX: usize = 1 << 24;

/// Calls `function`; `overload` is the matching overload if there is only one. `room` is the
/// remaining budget.
pub(super) fn call(function: &str, overload: &str, args: &[Value], room: u64) -> Evaluated {
    if let Some(Value::Invalid(message)) = args.iter().find(|arg| matches!(arg, Value::Invalid(_)))
    {
        return failed(&**message);
    }
    operator(function, args)
        .or_else(|| conversion(function, args))
        .or_else(|| times::part(function, args))
        .or_else(|| strings::call(function, args, room))
        .or_else(|| lists::call(function, overload, args, room))
        .or_else(|| regex::call(function, args))
        .or_else(|| optional(function, args))
        .or_else(|| objects::call(function, args))
        .unwrap_or_else(|| no_such_overload(function, args))
}

fn no_such_overload(function: &str, args: &[Value]) -> Evaluated {
    let sortable = |value: &Value| {
        matches!(
            value,
            Value::Bool(_)
                | Value::Int(_)
                | Value::Uint(_)
                | Value::Double(_)
                | Value::String(_)
                | Value::Bytes(_)
                | Value::Duration(_)
                | Value::Timestamp(_)
        )
    };
    // Errors of operators, and of functions that check only their first operand, do not name types.
    let first_fits = match function {
        "_<_" | "_<=_" | "_>_" | "_>=_" => args.first().is_some_and(sortable),
        "_+_" => args.first().is_some_and(|a| {
            sortable(a) && !matches!(a, Value::Bool(_)) || matches!(a, Value::List(_))
        }),
        "_-_" | "_*_" | "_/_" | "_%_" => args
            .first()
            .is_some_and(|a| matches!(a, Value::Int(_) | Value::Uint(_) | Value::Double(_))),
        "!_" | "contains" | "startsWith" | "endsWith" | "matches" | "@in" => true,
        "-_" | "size" => false,
        _ => {
            let types: Vec<&str> = args.iter().map(Value::type_name).collect();
            return failed(format!(
                "no such overload: {function}({})",
                types.join(", ")
            ));
        }
    };
    failed(if first_fits {
        "no such overload".to_owned()
    } else {
        format!("no such overload: {function}")
    })
}

fn operator(function: &str, args: &[Value]) -> Option<Evaluated> {
    let compared = |holds: fn(Ordering) -> bool| match args {
        [a, b] => match a.compare(b) {
            Some(order) => Some(Ok(Value::Bool(holds(order)))),
            None if is_nan(a) || is_nan(b) => Some(failed("NaN values cannot be ordered")),
            None => None,
        },
        _ => None,
    };
    match function {
        "_==_" => Some(Ok(Value::Bool(args[0].equals(&args[1])))),
        "_!=_" => Some(Ok(Value::Bool(!args[0].equals(&args[1])))),
        "_<_" => compared(Ordering::is_lt),
        "_<=_" => compared(Ordering::is_le),
        "_>_" => compared(Ordering::is_gt),
        "_>=_" => compared(Ordering::is_ge),
        "!_" => match args {
            [Value::Bool(flag)] => Some(Ok(Value::Bool(!flag))),
            _ => None,
        },
        "-_" => numbers::negate(&args[0]),
        "_+_" => sum(&args[0], &args[1]),
        "_-_" | "_*_" | "_/_" | "_%_" => numbers::arithmetic(function, &args[0], &args[1])
            .or_else(|| times::arithmetic(function, &args[0], &args[1])),
        "@in" => match args {
            [wanted, Value::List(list)] => Some(Ok(Value::Bool(list.contains(wanted)))),
            [wanted, Value::Map(map)] => {
                let key = Key::lookup(wanted);
                Some(Ok(Value::Bool(
                    key.is_some_and(|key| map.entries.contains_key(&key)),
                )))
            }
            _ => None,
        },
        "size" => match args {
            [Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)] => {
                let size = args[0].size().unwrap_or_default();
                Some(Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Double(number) if number.is_nan())
}

fn sum(a: &Value, b: &Value) -> Option<Evaluated> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => {
            if a.len() + b.len() > RESULT_SIZE_MAX {
                return Some(Err(EvalError::CostLimit));
            }
            Some(Ok(Value::string(&format!("{a}{b}"))))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            if a.len() + b.len() > RESULT_SIZE_MAX {
                return Some(Err(EvalError::CostLimit));
            }
            Some(Ok(Value::Bytes([&**a, &**b].concat().into())))
        }
        (Value::List(a), Value::List(b)) => {
            if a.items.len() + b.items.len() > RESULT_SIZE_MAX {
                return Some(Err(EvalError::CostLimit));
            }
            Some(Ok(Value::List(a.concat(b))))
        }
        _ => numbers::arithmetic("_+_", a, b).or_else(|| times::arithmetic("_+_", a, b)),
    }
}

/// The sum of two values of which the first is used up, so that a list grows in place.
pub(super) fn add(a: Value, b: Value) -> Evaluated {
    match (a, b) {
        (Value::List(mut list), Value::List(more)) if matches!(list.kind, ListKind::Atomic) => {
            Arc::make_mut(&mut list.items).extend(more.items.iter().cloned());
            Ok(Value::List(list))
        }
        (a, b) => sum(&a, &b).unwrap_or_else(|| no_such_overload("_+_", &[a, b])),
    }
}

/// Adds a key and its value, or the entries of a second map, to a map that is used up.
pub(super) fn insert(args: Vec<Value>) -> Evaluated {
    let mut args = args.into_iter();
    let (Some(Value::Map(mut map)), Some(second)) = (args.next(), args.next()) else {
        return failed("no such overload: cel.@mapInsert");
    };
    let added = match (second, args.next()) {
        (Value::Map(more), None) => more
            .entries
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        (key, Some(value)) => match Key::new(&key) {
            Some(key) => vec![(key, value)],
            None => return failed(format!("unsupported key type: {}", key.type_name())),
        },
        _ => return failed("no such overload: cel.@mapInsert"),
    };
    let entries = Arc::make_mut(&mut map.entries);
    for (key, value) in added {
        if entries.contains_key(&key) {
            return failed(format!("insert failed: key {} already exists", key.value()));
        }
        entries.insert(key, value);
    }
    let size = entries.len();
    Ok(Value::Map(Map { size, ..map }))
}

fn conversion(function: &str, args: &[Value]) -> Option<Evaluated> {
    let [value] = args else { return None };
    match function {
        "bool" => numbers::to_bool(value),
        "bytes" => numbers::to_bytes(value),
        "double" => numbers::to_double(value),
        "duration" => numbers::to_duration(value),
        "int" => numbers::to_int(value),
        "string" => numbers::to_string(value),
        "timestamp" => numbers::to_timestamp(value),
        "uint" => numbers::to_uint(value),
        "dyn" => Some(Ok(value.clone())),
        "type" => Some(Ok(Value::Type(value.type_name().into()))),
        _ => None,
    }
}

fn optional(function: &str, args: &[Value]) -> Option<Evaluated> {
    Some(Ok(match (function, args) {
        ("optional.of", [value]) => Value::some(value.clone()),
        ("optional.none", []) => Value::Optional(None),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Value::Optional(None),
        ("optional.ofNonZeroValue", [value]) => Value::some(value.clone()),
        ("hasValue", [Value::Optional(value)]) => Value::Bool(value.is_some()),
        ("value", [Value::Optional(Some(value))]) => Value::clone(value),
        ("value", [Value::Optional(None)]) => {
            return Some(failed("optional.none() dereference"));
        }
        ("first", [Value::List(list)]) => {
            Value::Optional(list.items.first().cloned().map(Arc::new))
        }
        ("last", [Value::List(list)]) => Value::Optional(list.items.last().cloned().map(Arc::new)),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let mut values = Vec::new();
            for item in list.items.iter() {
                match item {
                    Value::Optional(value) => {
                        values.extend(value.as_ref().map(|value| Value::clone(value)));
                    }
                    other => return Some(failed(format!("value {other} is not optional"))),
                }
            }
            Value::list(values)
        }
        _ => return None,
    }))
}

//! The functions that every template has.

use std::cmp::Ordering;

use kubeproof_machinery::json::{Map, Value};

/// Calls a function. Returns `None` if it does not exist.
pub(super) fn call(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    let result = match (name, arguments) {
        ("and", [_, ..]) => pick(arguments, |value| !is_true(value)),
        ("or", [_, ..]) => pick(arguments, is_true),
        ("not", [value]) => Value::Bool(!is_true(value)),
        ("eq", [first, rest @ ..]) => Value::Bool(rest.contains(first)),
        ("ne", [one, other]) => Value::Bool(one != other),
        ("lt" | "le" | "gt" | "ge", [one, other]) => match order(one, other) {
            Some(order) => Value::Bool(match name {
                "lt" => order == Ordering::Less,
                "le" => order != Ordering::Greater,
                "gt" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }),
            None => return Some(Err(format!("{name} of {one} and {other}"))),
        },
        ("len", [value]) => Value::from(length(value)),
        ("index", [value, path @ ..]) => index(value, path),
        ("print", _) => arguments.iter().map(shown).collect(),
        ("printf", [Value::String(format), rest @ ..]) => Value::from(printf(format, rest)),
        ("default", [fallback, value]) => match is_true(value) {
            true => value.clone(),
            false => fallback.clone(),
        },
        ("add", numbers) => Value::from(numbers.iter().filter_map(Value::as_i64).sum::<i64>()),
        ("add1", [number]) => Value::from(number.as_i64().unwrap_or(0) + 1),
        ("sub", [one, other]) => {
            Value::from(one.as_i64().unwrap_or(0) - other.as_i64().unwrap_or(0))
        }
        ("dict", pairs) => dict(pairs),
        ("list", items) => Value::Array(items.to_vec()),
        ("Quote", [value]) => Value::from(quoted(value)),
        // Flow style is valid YAML at any indentation.
        ("YAML", [value, ..]) => Value::from(format!("  {value}")),
        (
            "and" | "or" | "not" | "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "len" | "index"
            | "printf" | "default" | "add1" | "sub" | "Quote" | "YAML",
            _,
        ) => return Some(Err(format!("wrong number of arguments for {name}"))),
        _ => return None,
    };
    Some(Ok(result))
}

/// Returns whether Go treats a value as true: anything but zero values.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Formats a value as a template does.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// Returns the first value for which `decides` is true, else the last.
fn pick(values: &[Value], decides: impl Fn(&Value) -> bool) -> Value {
    let found = values.iter().find(|value| decides(value));
    found.or(values.last()).cloned().unwrap_or_default()
}

fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

fn index(value: &Value, path: &[Value]) -> Value {
    let mut value = value;
    for key in path {
        let found = match key {
            Value::String(name) => value.get(name),
            key => key
                .as_u64()
                .and_then(|at| value.get(usize::try_from(at).ok()?)),
        };
        value = found.unwrap_or(&Value::Null);
    }
    value.clone()
}

fn dict(pairs: &[Value]) -> Value {
    let pairs = pairs.chunks(2);
    let fields: Map = pairs
        .map(|pair| {
            let value = pair.get(1).cloned().unwrap_or_default();
            (pair.first().map(shown).unwrap_or_default(), value)
        })
        .collect();
    Value::Object(fields)
}

/// Formats arguments: `%s`, `%d` and `%v` as a template does, `%q` quoted.
fn printf(format: &str, arguments: &[Value]) -> String {
    let mut arguments = arguments.iter();
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('%') | None => out.push('%'),
            Some('q') => out.push_str(&arguments.next().map(quoted).unwrap_or_default()),
            Some(_) => out.push_str(&arguments.next().map(shown).unwrap_or_default()),
        }
    }
    out
}

/// Quotes a string, or any other value as JSON.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(_) => value.to_string(),
        other => Value::from(other.to_string()).to_string(),
    }
}
